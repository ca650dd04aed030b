"""Changes and queries with which maintenance removes rows and blobs, and the lease that makes one replica do it."""

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
    """Evicts artifacts of a namespace, and leaves their tombstones. Returns `EvictionResult`.

    Expired artifacts go first, then the least recently read ones; pinned and held artifacts are never evicted. The
    change removes no more artifacts than are needed at this moment, and at most `limit`. If the removal of all
    candidates would not make enough room, it removes nothing.
    """

    alone: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    now: datetime
    room: QuotaLimits
    bytes: int = 0
    """Stored bytes to make room for, in addition to existing and reserved bytes."""
    artifacts: int = 0
    """Number of artifacts to make room for."""
    tombstone_until: datetime
    """When the tombstones are deleted."""
    by: By = SCHEDULE


class EvictionResult(Struct, frozen=True):
    """The result of an eviction."""

    artifacts: int
    """Number of evicted artifacts. It is 0 if the eviction of all candidates would not suffice, or none is needed."""
    enough: bool
    """Whether the requested room is available now."""


class ExpireArtifacts(BatchChange[int], frozen=True, kw_only=True):
    """Turns up to `limit` artifacts that expired by `now` into tombstones, except held ones. Returns their number."""

    deletes: ClassVar[bool] = True

    now: datetime
    tombstone_until: datetime
    """When the tombstones are deleted, in namespaces that are not in `tombstone_lives`."""
    tombstone_lives: Mapping[str, timedelta] = {}
    """By namespace, how long its tombstones last, from `now`."""
    by: By = SCHEDULE


class ReapUploads(BatchChange[int], frozen=True, kw_only=True):
    """Turns up to `limit` uploads whose lease ended before `now` into dead blobs. Returns their number.

    From then on the writer's commit is fenced, and the sweep removes the bytes that the writer wrote.
    """

    now: datetime
    """The present moment. An upload whose lease ended before it is reaped."""


class ForgetBlobs(CatalogChange[None], frozen=True, kw_only=True):
    """Deletes the rows of dead blobs, and with them their inline bytes. Missing rows are no error.

    The caller has already removed the files of the blobs.
    """

    blobs: tuple[tuple[str, str], ...]
    """Namespace and ID of each blob."""

    @property
    @override
    def weight(self) -> int:
        return (1 + len(self.blobs)) * ROW_BYTES


class MarkBlobCorrupt(NamespaceChange[bool], frozen=True, kw_only=True):
    """Marks a live blob as corrupt, because its bytes are missing or damaged.

    Artifacts and views that point at the blob stay, but no new one will point at it. Returns whether this change set
    the mark: false if the blob is already corrupt, dead or unknown.
    """

    blob_id: str
    now: datetime


MAX_EVENTS: Final = 100_000
"""Default number of events that are kept."""


class PurgeRecords(BatchChange[int], frozen=True, kw_only=True):
    """Deletes tombstones, idempotency keys, accounts, events and audit lines whose time is over.

    Deletes up to `limit` rows of each of these sorts, and returns the total number of deleted rows.
    """

    now: datetime
    audit_life: timedelta | None = None
    """How long audit lines are kept; None: forever."""
    most_events: int = MAX_EVENTS
    """Maximum number of events to keep: the latest events of all namespaces."""


class TakeLease(CatalogChange[bool], frozen=True, kw_only=True):
    """Takes or renews a lease, usually on a piece of maintenance. Returns whether the holder has the lease now.

    The lease is granted if it is free, has ended, or is the holder's already. A lease only saves work, and is no lock:
    it must do no harm if two processes do the same work at once.
    """

    name: str
    """Name of the lease: the piece of maintenance. `write_once` uses a lease that never ends to keep a value: the name
    of the value is then the name of the lease."""
    holder: str
    """Who takes the lease; only the holder can renew or release it before it ends. For `write_once`, the value."""
    seconds: float
    """Duration of the lease from `now`; 0 releases it."""
    now: datetime
    """Ignored if the database has a clock that all replicas share."""


class DeadBlob(Struct, frozen=True):
    """A blob at which no row points, and at which no row will ever point again."""

    namespace: str
    id: str
    placement: Placement
    """The kind of store that has the bytes. After a switch to another store, this may differ from the present one."""
    dead_at: datetime
    """When the blob died. The grace period for readers begins at this moment."""
    stored_size: int = 0
    """Stored bytes; 0 if unknown."""


class Upkeep(Commits, Protocol):
    """The catalogue for maintenance, which works across namespaces in small batches, each in its own transaction."""

    async def empty_log(self) -> bool:
        """Empties the database's log of changes, so that no deleted bytes remain in the log's file.

        Returns False if a reader still needs the log; then try again later. If the database manages its log itself,
        does nothing and returns True.
        """
        ...

    async def lease_holder(self, name: str) -> str | None:
        """Returns the last holder of a lease, even if the lease has ended; None if it never had a holder."""
        ...

    async def dead_blobs(self, before: datetime, limit: int, after: DeadBlob | None = None) -> list[DeadBlob]:
        """Returns up to `limit` blobs that died before `before`, in order of death and ID, starting after `after`."""
        ...

    async def find_known_blobs(self, names: list[tuple[str, str]]) -> set[tuple[str, str]]:
        """Returns which of the given names, each a namespace and a blob ID, have a row.

        The row may be that of a live blob, of a dead blob or of an open upload. An empty namespace matches any
        namespace, because the names in a store need not include it.
        """
        ...

    def all_blobs(self) -> AsyncIterator[tuple[str, Blob]]:
        """Yields the namespace and the row of every live blob, without inline bytes, for checks."""
        ...
