"""What removes what nobody needs any more, and the lease that saves replicas from doing it twice."""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import ClassVar, Final, Protocol

from msgspec import Struct
from typing_extensions import override

from coatcheck.core.artifact import Blob, Placement
from coatcheck.core.policies.quota import QuotaLimits
from coatcheck.core.retention.audit import SCHEDULE, By
from coatcheck.ports.change import ROW_BYTES, CatalogChange, Commits, NamespaceChange


class EvictArtifacts(NamespaceChange["EvictionResult"], frozen=True, kw_only=True):
    """Make room in a namespace: turn what was read longest ago into tombstones, expired artifacts first.

    Never what is pinned or held. It removes no more artifacts than are needed at this moment, and at most `limit`;
    where even all that may go would not be enough, it removes nothing. Answers `EvictionResult`.
    """

    alone: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    now: datetime
    room: QuotaLimits
    bytes: int = 0
    """Stored bytes to have room for, beside what is there and reserved."""
    artifacts: int = 0
    """Artifacts to have room for."""
    tombstone_until: datetime
    limit: int
    by: By = SCHEDULE

    @property
    @override
    def weight(self) -> int:
        return (1 + self.limit) * ROW_BYTES


class EvictionResult(Struct, frozen=True):
    """What an eviction did."""

    artifacts: int
    """0: not enough can go, or nothing has to."""
    enough: bool
    """Whether there is now as much room as was asked for."""


class ExpireArtifacts(CatalogChange[int], frozen=True, kw_only=True):
    """Turn up to `limit` artifacts that expired by `now` into tombstones. Answers how many. Held ones stay."""

    deletes: ClassVar[bool] = True

    now: datetime
    tombstone_until: datetime
    limit: int
    tombstone_lives: Mapping[str, timedelta] = {}
    """How long the tombstones of some namespaces last, counted from `now`; of others they last until the above."""
    by: By = SCHEDULE

    @property
    @override
    def weight(self) -> int:
        return (1 + self.limit) * ROW_BYTES


class ReapUploads(CatalogChange[int], frozen=True, kw_only=True):
    """Turn up to `limit` uploads whose lease passed before `now` into dead blobs. Answers how many.

    From that moment the writer's commit is fenced; the sweep removes what it wrote.
    """

    now: datetime
    limit: int

    @property
    @override
    def weight(self) -> int:
        return (1 + self.limit) * ROW_BYTES


class ForgetBlobs(CatalogChange[None], frozen=True, kw_only=True):
    """Drop the rows of dead blobs (and their inline bytes). Their files have been removed already. Absent is fine."""

    blobs: tuple[tuple[str, str], ...]
    """Namespace, blob ID."""

    @property
    @override
    def weight(self) -> int:
        return (1 + len(self.blobs)) * ROW_BYTES


class MarkBlobCorrupt(NamespaceChange[bool], frozen=True, kw_only=True):
    """Mark a live blob whose bytes were found missing or damaged. What points at it stays; nothing new will.

    Answers whether this very change did it: false for a blob that is condemned already, dead or unknown.
    """

    blob_id: str
    now: datetime


MOST_EVENTS: Final = 100_000
"""Events that are kept where nobody says otherwise."""


class PurgeRecords(CatalogChange[int], frozen=True, kw_only=True):
    """Drop up to `limit` tombstones whose time is over, as many idempotency keys, accounts, events and audit lines.

    Answers how many in all.
    """

    now: datetime
    limit: int
    audit_life: timedelta | None = None
    """How long audit lines are kept; None keeps them."""
    most_events: int = MOST_EVENTS
    """Events that are kept, the latest of all namespaces."""

    @property
    @override
    def weight(self) -> int:
        return (1 + self.limit) * ROW_BYTES


class TakeLease(CatalogChange[bool], frozen=True, kw_only=True):
    """Become or stay the one who does a piece of upkeep. Answers whether the holder has the lease now.

    It is given when it is free, over, or the holder's already. It saves work and protects nothing: what it guards
    must be harmless when two do it. Taking it for 0 seconds gives it back.
    """

    name: str
    holder: str
    seconds: float
    now: datetime
    """Ignored where the database has a clock of its own that all replicas share."""


class DeadBlob(Struct, frozen=True):
    """A blob that nothing points at and that nothing ever will again."""

    namespace: str
    id: str
    placement: Placement
    dead_at: datetime
    stored_size: int = 0
    """Its bytes as they are stored; 0 where nobody wrote it down."""


class Upkeep(Commits, Protocol):
    """The catalogue as the schedule sees it: across namespaces, in small batches, each its own transaction."""

    async def empty_log(self) -> bool:
        """Have what was deleted leave the log that the catalogue keeps of its changes, where it keeps one in our files.

        False: somebody still reads from it, ask again later.
        """
        ...

    async def lease_holder(self, name: str) -> str | None:
        """Who took a lease last, whether or not it is over; None when nobody ever did."""
        ...

    async def dead_blobs(self, before: datetime, limit: int, after: DeadBlob | None = None) -> list[DeadBlob]:
        """Blobs that died before a moment, by moment and ID; `after` continues behind one that was answered."""
        ...

    async def known_blobs(self, names: list[tuple[str, str]]) -> set[tuple[str, str]]:
        """Of these (namespace, blob ID), the ones that a row knows: live, dead, or an open upload.

        An empty namespace asks for the ID in any: a store's names need not carry it.
        """
        ...

    def all_blobs(self) -> AsyncIterator[tuple[str, Blob]]:
        """Every live blob with its namespace, for checks; not inline bytes."""
        ...
