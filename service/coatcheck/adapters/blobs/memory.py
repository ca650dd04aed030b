"""Blobs in this process's memory, for tests and for trying the service. Nothing survives the process.

A blob store together with earlier ones, for an installation that has switched from files to S3.

New blobs go to the present store, which answers all calls; older ones are found through `others`, by the placement in
their row. Nothing is moved.
"""

from collections.abc import AsyncIterator
from datetime import datetime

from coatcheck.adapters.blobs.filesystem import missing, too_short
from coatcheck.core.artifact import Placement
from coatcheck.core.encoding.frames import is_blob_id
from coatcheck.ports.blobs import BlobStore, BlobWriter, StoredName
from coatcheck.ports.telemetry import Clock


class _Blob:
    """A blob's bytes, and when it last changed."""

    def __init__(self, now: datetime) -> None:
        self.data = bytearray()
        self.modified_at = now


class MemoryBlobStore:
    """A BlobStore in a dict, with the placement `file`, for which it stands in."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._blobs: dict[str, _Blob] = {}

    @property
    def placement(self) -> Placement:
        """Is always `file`."""
        return "file"

    @property
    def others(self) -> tuple[BlobStore, ...]:
        """Empty: there is only one store."""
        return ()

    async def check_reads(self) -> None:
        """Returns: memory is there."""

    async def check_writes(self, *, room: bool = False) -> None:
        """Returns, as above."""

    async def create(self, namespace: str, blob_id: str) -> "MemoryWriter":  # noqa: ARG002 - names carry no namespace
        """Starts a blob. Raises FileExistsError if the name is taken."""
        if not is_blob_id(blob_id):
            raise ValueError("not a blob's name")
        if blob_id in self._blobs:
            raise FileExistsError(blob_id)
        self._blobs[blob_id] = _Blob(self._clock.now())
        return MemoryWriter(self._clock, self._blobs, blob_id)

    async def read(
        self,
        namespace: str,  # noqa: ARG002 - as above
        blob_id: str,
        start: int,
        length: int,
        *,
        fresh: bool = False,  # noqa: ARG002 - there is no cache
    ) -> bytes:
        """Returns exactly `length` bytes from `start`."""
        blob = self._blobs.get(blob_id)
        if blob is None:
            raise missing(blob_id)
        data = bytes(blob.data[start : start + length])
        if len(data) != length:
            raise too_short(blob_id, start + length, start + len(data))
        return data

    async def size(self, namespace: str, blob_id: str) -> int | None:  # noqa: ARG002 - as above
        """Returns the size of a blob; None if there is none."""
        blob = self._blobs.get(blob_id)
        return None if blob is None else len(blob.data)

    async def remove(self, namespace: str, blob_id: str) -> bool:  # noqa: ARG002 - as above
        """Removes a blob. Returns False if it did not exist."""
        return self._blobs.pop(blob_id, None) is not None

    async def names(self) -> AsyncIterator[StoredName]:
        """Yields all names, including unfinished blobs."""
        for blob_id, blob in list(self._blobs.items()):
            yield StoredName(namespace="", id=blob_id, size=len(blob.data), modified_at=blob.modified_at)


class MemoryWriter:
    """BlobWriter of a MemoryBlobStore."""

    def __init__(self, clock: Clock, blobs: dict[str, _Blob], blob_id: str) -> None:
        self._clock = clock
        self._blobs = blobs
        self._id = blob_id
        self._ended = False

    async def write(self, data: bytes) -> None:
        """Appends bytes to the blob."""
        if self._ended:
            raise ValueError("this writer has ended")
        blob = self._blobs[self._id]
        blob.data += data
        blob.modified_at = self._clock.now()

    async def finish(self) -> None:
        """Does nothing: memory is as durable as it can get."""
        if self._ended:
            raise ValueError("this writer has ended")
        self._ended = True

    async def abort(self) -> None:
        """Removes what was written."""
        self._ended = True
        self._blobs.pop(self._id, None)


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
