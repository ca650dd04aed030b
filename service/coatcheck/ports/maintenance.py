"""Removal of what is no longer needed, and the lease that keeps replicas from doing it twice."""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import ClassVar, Final, Protocol

from msgspec import Struct
from typing_extensions import override

from coatcheck.core.artifact import Blob, Placement
from coatcheck.core.policies.quota import QuotaLimits
from coatcheck.core.retention.audit import SCHEDULE, By
from coatcheck.ports.decisions import (
    ROW_BYTES,
    BatchChange,
    CatalogChange,
    Commits,
    NamespaceBatchChange,
    NamespaceChange,
)


class EvictArtifacts(NamespaceBatchChange["EvictionResult"], frozen=True, kw_only=True):
    """Evicts the least recently read artifacts of a namespace, expired ones first, as tombstones.

    Pinned and held artifacts are never evicted. It removes no more artifacts than are needed at this moment, and at
    most `limit`; if even removing all candidates would not suffice, it removes nothing. Returns `EvictionResult`.
    """

    alone: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    now: datetime
    room: QuotaLimits
    bytes: int = 0
    """Stored bytes to make room for, in addition to what exists and is reserved."""
    artifacts: int = 0
    """Number of artifacts to make room for."""
    tombstone_until: datetime
    """When the tombstones are deleted."""
    by: By = SCHEDULE


class EvictionResult(Struct, frozen=True):
    """The result of an eviction."""

    artifacts: int
    """0: not enough can be evicted, or nothing needs to be."""
    enough: bool
    """Whether the requested room is now available."""


class ExpireArtifacts(BatchChange[int], frozen=True, kw_only=True):
    """Turns up to `limit` artifacts that expired by `now` into tombstones. Returns how many. Held ones stay."""

    deletes: ClassVar[bool] = True

    now: datetime
    tombstone_until: datetime
    """When the tombstones are deleted, in namespaces without their own duration."""
    tombstone_lives: Mapping[str, timedelta] = {}
    """How long the tombstones of certain namespaces last, from `now`; for others, the field above applies."""
    by: By = SCHEDULE


class ReapUploads(BatchChange[int], frozen=True, kw_only=True):
    """Turns up to `limit` uploads whose lease ended before `now` into dead blobs. Returns how many.

    From then on the writer's commit is fenced; the sweep removes what it wrote.
    """

    now: datetime
    """Leases that ended before it are over."""


class ForgetBlobs(CatalogChange[None], frozen=True, kw_only=True):
    """Deletes the rows of dead blobs (and their inline bytes). Their files are already removed.

    Missing rows are no error.
    """

    blobs: tuple[tuple[str, str], ...]
    """Namespace, blob ID."""

    @property
    @override
    def weight(self) -> int:
        return (1 + len(self.blobs)) * ROW_BYTES


class MarkBlobCorrupt(NamespaceChange[bool], frozen=True, kw_only=True):
    """Marks a live blob whose bytes are missing or damaged. What points at it stays; nothing new will.

    Returns whether this change did it: false if the blob is already corrupt, dead or unknown.
    """

    blob_id: str
    now: datetime


MAX_EVENTS: Final = 100_000
"""Default number of events that are kept."""


class PurgeRecords(BatchChange[int], frozen=True, kw_only=True):
    """Deletes up to `limit` tombstones that have ended, and as many idempotency keys, accounts, events and audit lines.

    Returns the total number.
    """

    now: datetime
    audit_life: timedelta | None = None
    """How long audit lines are kept; None: forever."""
    most_events: int = MAX_EVENTS
    """Number of events to keep, the latest of all namespaces."""


class TakeLease(CatalogChange[bool], frozen=True, kw_only=True):
    """Takes or renews the lease on a piece of upkeep. Returns whether the holder has it now.

    It is granted if it is free, has ended, or is the holder's already. It saves work but protects nothing: what it
    guards must be harmless if two do it. Taking it for 0 seconds releases it.
    """

    name: str
    """The piece of upkeep, or the word that is kept."""
    holder: str
    """Who takes it; only the holder can renew or release it before it ends."""
    seconds: float
    """From `now`; 0 releases it."""
    now: datetime
    """Ignored if the database has a clock that all replicas share."""


class DeadBlob(Struct, frozen=True):
    """A blob that nothing points at, or ever will again."""

    namespace: str
    id: str
    placement: Placement
    """Which store has the bytes: another than the present one after a switch."""
    dead_at: datetime
    """The grace period for readers counts from it."""
    stored_size: int = 0
    """Stored bytes; 0 if unknown."""


class Upkeep(Commits, Protocol):
    """The catalogue for the schedule: across namespaces, in small batches, each in its own transaction."""

    async def empty_log(self) -> bool:
        """Erases what was deleted from the log that the catalogue keeps of its changes, if that log is in our files.

        Returns False if a reader still needs it; try again later.
        """
        ...

    async def lease_holder(self, name: str) -> str | None:
        """Returns the last holder of a lease, even if it has ended; None if there never was one."""
        ...

    async def dead_blobs(self, before: datetime, limit: int, after: DeadBlob | None = None) -> list[DeadBlob]:
        """Returns blobs that died before a moment, by moment and ID, starting after `after`."""
        ...

    async def find_known_blobs(self, names: list[tuple[str, str]]) -> set[tuple[str, str]]:
        """Returns which of these (namespace, blob ID) have a row: live, dead, or an open upload.

        An empty namespace means any: a store's names need not include it.
        """
        ...

    def all_blobs(self) -> AsyncIterator[tuple[str, Blob]]:
        """Yields every live blob with its namespace, for checks; not inline bytes."""
        ...
