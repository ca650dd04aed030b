"""A blob store with those that were in use before it: an installation that changed from files to S3.

New blobs go to the present one, which answers everything; what was put elsewhere is found through `others`, by the
placement that its row has. It moves nothing.
"""

from collections.abc import AsyncIterator

from coatcheck.core.artifact import Placement
from coatcheck.ports.blobs import BlobStore, BlobWriter, StoredName


class SwitchedBlobStore:
    """BlobStore that is the present one, and knows the others."""

    def __init__(self, present: BlobStore, *others: BlobStore) -> None:
        """Put them together; each has a placement of its own."""
        self._present = present
        self._others = others

    @property
    def placement(self) -> Placement:
        """The present one's."""
        return self._present.placement

    @property
    def others(self) -> tuple[BlobStore, ...]:
        """Those that were in use before."""
        return self._others

    async def create(self, namespace: str, blob_id: str) -> BlobWriter:
        """Start a blob in the present one."""
        return await self._present.create(namespace, blob_id)

    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        """Exactly `length` stored bytes of a blob of the present one."""
        return await self._present.read(namespace, blob_id, start, length, fresh=fresh)

    async def size(self, namespace: str, blob_id: str) -> int | None:
        """Stored bytes of a blob of the present one."""
        return await self._present.size(namespace, blob_id)

    async def remove(self, namespace: str, blob_id: str) -> bool:
        """Remove a blob of the present one."""
        return await self._present.remove(namespace, blob_id)

    def names(self) -> AsyncIterator[StoredName]:
        """What is in the present one."""
        return self._present.names()
