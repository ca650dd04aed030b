"""Stored bytes, and where they are."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from coatcheck.core.artifact import Placement


class StoredName(Struct, frozen=True):
    """A blob as the store sees it. `namespace` is empty where the store's names do not carry it."""

    namespace: str
    id: str
    size: int
    modified_at: datetime


class BlobWriter(Protocol):
    """One blob being written. Exactly one of `finish` and `abort` ends it."""

    async def write(self, data: bytes) -> None:
        """Append. Raises `storage_full` or `storage_unavailable`; after that only `abort` may follow."""
        ...

    async def finish(self) -> None:
        """Make every byte and the name durable. When this returns, a power loss loses nothing."""
        ...

    async def abort(self) -> None:
        """Remove what was written. Never raises for what is already gone. Safe after a failed `finish`."""
        ...


class BlobStore(Protocol):
    """Bytes under names that the server makes and uses once."""

    @property
    def placement(self) -> Placement:
        """What a Blob kept here has as its placement."""
        ...

    @property
    def others(self) -> "tuple[BlobStore, ...]":
        """Where blobs were put before, each with a placement of its own: to be read and removed, never written."""
        ...

    async def create(self, namespace: str, blob_id: str) -> BlobWriter:
        """Start a blob. A name is written once: FileExistsError if it is taken, here or by the writer's own calls."""
        ...

    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        """Exactly `length` stored bytes from `start`; with `fresh` past every cache that can be passed.

        Raises CoatcheckError `integrity` when the blob is missing or shorter than that.
        """
        ...

    async def size(self, namespace: str, blob_id: str) -> int | None:
        """Stored bytes of a blob; None when there is no such blob. Says nothing of what they are."""
        ...

    async def remove(self, namespace: str, blob_id: str) -> bool:
        """Remove a blob durably. False when it was not there, which is no error."""
        ...

    def names(self) -> AsyncIterator[StoredName]:
        """Everything in the store, in any order, also what no row knows."""
        ...


class BlobLocation(Protocol):
    """Where a blob store is, as something that belongs to one database: it bears a mark that says to which.

    The mark is no blob: `names` does not list it.
    """

    @property
    def where(self) -> str:
        """Which place it is, in words for an operator, without secrets."""
        ...

    @property
    def placement(self) -> Placement:
        """As of a BlobStore."""
        ...

    async def mark(self) -> str | None:
        """What the mark says; None where there is none. At most its first 256 bytes."""
        ...

    async def put_mark(self, text: str) -> str:
        """Set the mark durably unless there is one; answers what it says then. Of several at once one sets it."""
        ...

    def names(self) -> AsyncIterator[StoredName]:
        """As of a BlobStore."""
        ...
