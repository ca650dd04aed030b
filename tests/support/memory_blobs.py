"""A blob store in this process's memory. Nothing survives the process."""

from collections.abc import AsyncIterator
from datetime import datetime

from coatcheck.adapters.blobs.filesystem import missing, too_short
from coatcheck.core.artifact import Placement
from coatcheck.core.encoding.frames import is_blob_id
from coatcheck.ports.blobs import BlobStore, StoredName
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
        self.others: tuple[BlobStore, ...] = ()
        """Stores that were used before this one, and still have blobs."""

    @property
    def placement(self) -> Placement:
        """Is always `file`."""
        return "file"

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
