"""The ports for stored bytes: blob stores and their locations, uploads in progress, and files of waiting payloads.

A file of waiting payloads passes the payloads that storage refused on to the next process.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import ClassVar, Protocol

from msgspec import Struct

from coatcheck.core.artifact import Placement
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits
from coatcheck.ports.catalog import CheckedStore
from coatcheck.ports.decisions import NamespaceChange


class StoredName(Struct, frozen=True):
    """A blob as the store lists it. `namespace` is empty if names in this store do not include the namespace."""

    namespace: str
    id: str
    size: int
    modified_at: datetime
    """Time of the last write. A blob without a row is not removed at once, because its row may not be committed yet."""


class BlobWriter(Protocol):
    """Writes one blob. The caller ends the writer with exactly one of `finish` and `abort`."""

    async def write(self, data: bytes) -> None:
        """Appends bytes. Raises `storage_full` or `storage_unavailable`; after that, only `abort` may follow."""
        ...

    async def finish(self) -> None:
        """Makes every byte and the name durable. Once this returns, a power loss loses nothing."""
        ...

    async def abort(self) -> None:
        """Removes the written bytes; does not raise if they are already gone. May be called after a failed `finish`."""
        ...


class BlobStore(CheckedStore, Protocol):
    """Keeps bytes under names that the server generates; each name is used once."""

    @property
    def placement(self) -> Placement:
        """The placement of blobs that are kept here."""
        ...

    @property
    def others(self) -> "tuple[BlobStore, ...]":
        """The stores of earlier placements, one for each. Their blobs are read and removed, but none is written."""
        ...

    async def create(self, namespace: str, blob_id: str) -> BlobWriter:
        """Starts to write a blob.

        A name is written once: if it is taken, this call or a later call of the writer raises FileExistsError.
        """
        ...

    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        """Returns exactly `length` stored bytes from `start` on; with `fresh`, bypasses caches where possible.

        Raises CoatcheckError `integrity` if the blob is missing or too short.
        """
        ...

    async def size(self, namespace: str, blob_id: str) -> int | None:
        """Returns the number of stored bytes of a blob; None if there is no such blob. The bytes are not verified."""
        ...

    async def remove(self, namespace: str, blob_id: str) -> bool:
        """Removes a blob durably. Returns False if there was no such blob, which is not an error."""
        ...

    def names(self) -> AsyncIterator[StoredName]:
        """Yields every blob in the store, in any order, including blobs without a row in the catalogue."""
        ...


class BlobLocation(Protocol):
    """The location of a blob store. A mark, which is stored in it, binds the location to one database.

    The mark is not a blob: `names` does not list it.
    """

    @property
    def where(self) -> str:
        """Describes the location for an operator, without secrets."""
        ...

    @property
    def placement(self) -> Placement:
        """The placement of the blobs in this location, as in BlobStore."""
        ...

    async def mark(self) -> str | None:
        """Returns the mark's text, at most its first 256 bytes; None if there is no mark."""
        ...

    async def put_mark(self, text: str) -> str:
        """Sets the mark durably, unless the location has a mark already; returns the mark that is now in force.

        Of several concurrent calls, only one sets the mark.
        """
        ...

    def names(self) -> AsyncIterator[StoredName]:
        """Yields the names of all blobs, as BlobStore does."""
        ...


class BeginUpload(NamespaceChange[QuotaExceeded | None], frozen=True, kw_only=True):
    """Records the intent to write a blob, before its first byte is written.

    Returns None; or `QuotaExceeded`, with nothing recorded, if the reservation exceeds the limits in `room`.
    """

    takes_room: ClassVar[bool] = True

    blob_id: str
    placement: Placement
    lease_until: datetime
    """End of the upload's lease: afterwards the upload is reaped, unless the lease has been renewed."""
    reserve: int = 0
    """Stored bytes to reserve. The reservation ends with the intent, whether the upload succeeds or fails."""
    room: QuotaLimits | None = None
    """The limits of the namespace; None: unlimited."""


class ReserveMore(NamespaceChange[bool | QuotaExceeded], frozen=True, kw_only=True):
    """Raises the reservation of an open upload to `reserve` bytes.

    Returns true; false if the upload was reaped, so that the writer must stop; or `QuotaExceeded`.
    """

    takes_room: ClassVar[bool] = True

    blob_id: str
    reserve: int
    """The new reservation in stored bytes, which includes the previous one."""
    room: QuotaLimits | None
    """The limits of the namespace; None: unlimited."""


class RenewUpload(NamespaceChange[bool], frozen=True, kw_only=True):
    """Extends the lease of an open upload. Returns false if the upload was reaped, so that the writer must stop."""

    blob_id: str
    lease_until: datetime


class AbandonUpload(NamespaceChange[None], frozen=True, kw_only=True):
    """Deletes the intent of an upload whose file the writer has already removed. A missing intent is no error."""

    blob_id: str


class WaitingFiles(Protocol):
    """Files of records. Before a process ends, it writes a file, which a later process reads. All methods block."""

    def save(self, records: Sequence[bytes], limit: int) -> int:
        """Writes records durably to a new file, and returns their number.

        If there is no room for all records, only the newest ones are written.

        Args:
            records: the records, oldest first.
            limit: bytes that all files together may take.
        """
        ...

    def open_next(self) -> list[int]:
        """Opens a file that no process has open; returns the positions of the records that still wait in it.

        An empty list means that there is no such file. Unreadable records are reported, and their file is set aside
        once every other record is finished.
        """
        ...

    def read(self, position: int) -> bytes:
        """Returns the record at a position of the open file.

        Raises:
            OSError: the file cannot be read now.
        """
        ...

    def finish(self, position: int, *, durably: bool) -> None:
        """Marks a record as finished, so that no process reads it again; `durably`: not even after a power loss."""
        ...

    def set_aside(self) -> None:
        """Notes that a record of the open file cannot be decoded: `close` will rename the file, not remove it."""
        ...

    def close(self, *, is_complete: bool) -> None:
        """Closes the open file; `is_complete`: every record is finished, so the file is also removed."""
        ...
