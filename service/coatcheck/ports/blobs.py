"""Stored bytes, and where they are."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from coatcheck.core.artifact import Placement
from coatcheck.ports.health import CheckedStore


class StoredName(Struct, frozen=True):
    """A blob as the store knows it. `namespace` is empty if the store's names do not include it."""

    namespace: str
    id: str
    size: int
    modified_at: datetime


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
