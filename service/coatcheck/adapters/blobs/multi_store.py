"""A blob store together with earlier ones, for an installation that has switched from files to S3.

New blobs go to the present store, which answers all calls; older ones are found through `others`, by the placement in
their row. Nothing is moved.
"""

from collections.abc import AsyncIterator

from coatcheck.core.artifact import Placement
from coatcheck.ports.blobs import BlobStore, BlobWriter, StoredName


class SwitchedBlobStore:
    """A BlobStore that is the present one, and knows earlier ones."""

    def __init__(self, present: BlobStore, *others: BlobStore) -> None:
        """Combines stores; each has a different placement."""
        self._present = present
        self._others = others

    @property
    def placement(self) -> Placement:
        """That of the present store."""
        return self._present.placement

    @property
    def others(self) -> tuple[BlobStore, ...]:
        """The earlier stores."""
        return self._others

    async def check_reads(self) -> None:
        """Returns if all stores can be read."""
        for store in (self._present, *self._others):
            await store.check_reads()

    async def check_writes(self, *, room: bool = False) -> None:
        """Returns if the present store accepts a write."""
        await self._present.check_writes(room=room)

    async def create(self, namespace: str, blob_id: str) -> BlobWriter:
        """Starts a blob in the present store."""
        return await self._present.create(namespace, blob_id)

    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        """Returns exactly `length` stored bytes of a blob in the present store."""
        return await self._present.read(namespace, blob_id, start, length, fresh=fresh)

    async def size(self, namespace: str, blob_id: str) -> int | None:
        """Returns the number of stored bytes of a blob in the present store."""
        return await self._present.size(namespace, blob_id)

    async def remove(self, namespace: str, blob_id: str) -> bool:
        """Removes a blob from the present store."""
        return await self._present.remove(namespace, blob_id)

    def names(self) -> AsyncIterator[StoredName]:
        """Yields all names in the present store."""
        return self._present.names()
