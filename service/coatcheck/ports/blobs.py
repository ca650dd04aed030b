"""Stored bytes and where they are; uploads in progress; files of payloads that wait for storage between processes."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import ClassVar, Protocol

from msgspec import Struct

from coatcheck.core.artifact import Placement
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits
from coatcheck.ports.catalog import CheckedStore
from coatcheck.ports.decisions import NamespaceChange


class StoredName(Struct, frozen=True):
    """A blob as the store knows it. `namespace` is empty if the store's names do not include it."""

    namespace: str
    id: str
    size: int
    modified_at: datetime
    """An orphan is removed only after some time: its row may be about to come."""


class BlobWriter(Protocol):
    """Writes one blob. Exactly one of `finish` and `abort` ends it."""

    async def write(self, data: bytes) -> None:
        """Appends bytes. Raises `storage_full` or `storage_unavailable`; after that, only `abort` may follow."""
        ...

    async def finish(self) -> None:
        """Makes every byte and the name durable. Once this returns, a power loss loses nothing."""
        ...

    async def abort(self) -> None:
        """Removes what was written. Never raises if it is already gone. Safe after a failed `finish`."""
        ...


class BlobStore(CheckedStore, Protocol):
    """Bytes under names that the server generates and uses once."""

    @property
    def placement(self) -> Placement:
        """The placement of blobs that are kept here."""
        ...

    @property
    def others(self) -> "tuple[BlobStore, ...]":
        """Stores of earlier placements, each different: they are read and removed from, never written."""
        ...

    async def create(self, namespace: str, blob_id: str) -> BlobWriter:
        """Starts a blob.

        A name is written once: raises FileExistsError if it is taken, here or by the writer's own calls.
        """
        ...

    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        """Returns exactly `length` stored bytes from `start`; with `fresh`, bypasses every cache that it can.

        Raises CoatcheckError `integrity` if the blob is missing or too short.
        """
        ...

    async def size(self, namespace: str, blob_id: str) -> int | None:
        """Returns the number of stored bytes of a blob; None if there is no such blob. The bytes are not verified."""
        ...

    async def remove(self, namespace: str, blob_id: str) -> bool:
        """Removes a blob durably. Returns False if it did not exist, which is not an error."""
        ...

    def names(self) -> AsyncIterator[StoredName]:
        """Yields everything in the store, in any order, including what no row knows."""
        ...


class BlobLocation(Protocol):
    """The location of a blob store, bound to one database by a mark.

    The mark is not a blob: `names` does not list it.
    """

    @property
    def where(self) -> str:
        """Describes the location for an operator, without secrets."""
        ...

    @property
    def placement(self) -> Placement:
        """The placement, as of BlobStore."""
        ...

    async def mark(self) -> str | None:
        """Returns the mark's text, at most its first 256 bytes; None if there is no mark."""
        ...

    async def put_mark(self, text: str) -> str:
        """Sets the mark durably unless there is one; returns the mark in force.

        Of several concurrent calls, one sets it.
        """
        ...

    def names(self) -> AsyncIterator[StoredName]:
        """Yields the names of all blobs, as BlobStore does."""
        ...


class BeginUpload(NamespaceChange[QuotaExceeded | None], frozen=True, kw_only=True):
    """Records the intent to write a blob, before its first byte is written.

    Returns `QuotaExceeded` if its reservation does not fit into `room`; then nothing is recorded.
    """

    takes_room: ClassVar[bool] = True

    blob_id: str
    placement: Placement
    lease_until: datetime
    """When the upload is reaped unless it is renewed."""
    reserve: int = 0
    """Stored bytes to reserve. They are released with the intent, however it ends."""
    room: QuotaLimits | None = None
    """The limits of the namespace; None: unlimited."""


class ReserveMore(NamespaceChange[bool | QuotaExceeded], frozen=True, kw_only=True):
    """Raises the reservation of an open upload to `reserve` bytes. Returns like RenewUpload, or `QuotaExceeded`."""

    takes_room: ClassVar[bool] = True

    blob_id: str
    reserve: int
    """Stored bytes in total, not in addition."""
    room: QuotaLimits | None


class RenewUpload(NamespaceChange[bool], frozen=True, kw_only=True):
    """Extends the lease of an open upload. Returns whether it was still ours (false: reaped, stop writing)."""

    blob_id: str
    lease_until: datetime


class AbandonUpload(NamespaceChange[None], frozen=True, kw_only=True):
    """Deletes an intent whose file its writer has already removed. A missing one is no error."""

    blob_id: str


class WaitingFiles(Protocol):
    """Files of records, each written whole at the end of a process and read by the next one. All methods block."""

    def save(self, records: Sequence[bytes], limit: int) -> int:
        """Makes records durable in a new file, the last ones if not all have room; returns how many.

        Args:
            records: oldest first.
            limit: bytes that all files together may take.
        """
        ...

    def open_next(self) -> list[int]:
        """Opens a file that no process has open; returns the positions of its records that are not settled.

        Empty: there is none. What cannot be read is reported, and its file set aside when the rest is settled.
        """
        ...

    def read(self, position: int) -> bytes:
        """Returns a record of the open file."""
        ...

    def finish(self, position: int, *, durably: bool) -> None:
        """Marks a record: no process will read it again. `durably`: not even after a power loss."""
        ...

    def set_aside(self) -> None:
        """Keeps the open file, under another name, when it is closed: a record makes no sense."""
        ...

    def close(self, *, is_complete: bool) -> None:
        """Closes the open file and, if all of it is `is_complete`, removes it."""
        ...
