"""One round of maintenance: write reads, expire, reap, sweep, purge.

Every step is a small transaction that is harmless to repeat, so any number of processes may run rounds at once, and a
crash between two steps loses nothing. Bytes are removed before rows: a row without bytes is found and finished by the
next round; the reverse order would leak.

`CountBacklog` counts for metrics what is still to do, at most once every few seconds. A request waits only briefly for
a new count: a slow or silent catalogue must not block the metrics.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError
from coatcheck.core.retention.audit import SCHEDULE, By
from coatcheck.core.retention.jobs import hourly_run, make_scheduled_round
from coatcheck.ports.blobs import BlobStore
from coatcheck.ports.maintenance import (
    MAX_EVENTS,
    DeadBlob,
    ExpireArtifacts,
    ForgetBlobs,
    PurgeRecords,
    ReapUploads,
    TakeLease,
    Upkeep,
)
from coatcheck.ports.retention import ForgetRemoved, NoteRound, Retention
from coatcheck.ports.telemetry import Accounts, Clock, DeletionClock, Overdue
from coatcheck.storing.blob_routing import not_opened, store_of
from coatcheck.storing.ledger import NoteReads, ReadLog
from coatcheck.upkeep.job_schedule import JobSchedule

log = logging.getLogger(__name__)

BATCH = 200
"""Rows of one transaction: with the pauses between them over a thousand expiries a second on PostgreSQL, and few enough
that storing waits little for processor, disk or, on SQLite, the writer."""

_MAX_PAUSE_SECONDS = 1.0
"""Maximum pause between two batches: it must end although a silent catalogue made the last one long."""

_ROUND_SECONDS = 5.0
"""Longest expected round while there is little to do; chosen, not measured. A round that takes longer may lose the
lease, which does no harm."""

_ALL = frozenset({"expire", "reap", "sweep", "purge"})

FORGOTTEN_ROWS = 100
"""Blob rows deleted in one transaction: their inline bytes, 32 KiB each, are overwritten with zeros."""


class MaintenanceRound(Struct, frozen=True):
    """The result of one round of maintenance."""

    expired: int = 0
    reaped: int = 0
    removed: int = 0
    """Dead blobs whose bytes and rows are gone."""
    purged: int = 0
    """Tombstones, idempotency keys, accounts and audit lines that were deleted."""


class MaintenanceJobResult(Struct, frozen=True):
    """The result of a job, or a round of one, that removes no artifacts."""

    items: int = 0
    bytes: int = 0
    """Stored bytes."""
    detail: str = ""


REPLICA_READ_DELAY = timedelta(seconds=5)
"""How long reads on another replica may take to be written; until then, expired artifacts get no tombstone."""


@dataclass(frozen=True)
class LeaderLease:
    """Lets one of several processes do some work, to save the others the effort. Two at once do no harm."""

    upkeep: Upkeep
    clock: Clock
    name: str
    """That of the work."""
    holder: str
    """A name that is unique to this process."""
    seconds: float
    """How long the lease lasts unless it is renewed: a process that stops or hangs loses it by then."""

    async def lead(self) -> bool:
        """Takes or renews the lease; returns whether this process has it.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        return await self._take(self.seconds)

    async def leave(self) -> None:
        """Releases the lease, so that another process takes over at once; for a clean stop. Raises nothing."""
        try:
            await self._take(0)
        except CoatcheckError as error:
            log.info("the lease of %s was not released and will expire: %s", self.name, error.detail)

    async def _take(self, seconds: float) -> bool:
        lease = TakeLease(name=self.name, holder=self.holder, seconds=seconds, now=self.clock.now())
        return await self.upkeep.commit(lease)


def maintenance_lease(upkeep: Upkeep, clock: Clock, holder: str, pause: float) -> LeaderLease:
    """Returns the lease of maintenance that runs every `pause` seconds; it outlasts two rounds."""
    return LeaderLease(upkeep, clock, "tidy", holder, 2 * pause + _ROUND_SECONDS)


@dataclass(eq=False)
class Maintenance:
    """Runs one round of maintenance: expire, reap, sweep, purge."""

    upkeep: Upkeep
    blobs: BlobStore
    clock: DeletionClock
    reads: ReadLog
    note: NoteReads
    """Shared by everything that writes reads."""
    _: KW_ONLY
    tombstone_life: timedelta
    lives: Callable[[timedelta], tuple[timedelta, Mapping[str, timedelta]]] = lambda life: (life, {})
    """Returns how long tombstones last according to policies: by default, and by namespace."""
    grace: timedelta
    audit_life: timedelta | None = None
    """How long audit lines are kept; None keeps them all."""
    most_events: int = MAX_EVENTS
    """Events that are kept, the latest."""
    leader: LeaderLease | None = None
    """None: this process owns the store."""
    job_schedule: JobSchedule | None = None
    """None: everything is due."""
    retention: Retention | None = None
    """None: no runs are recorded, and nothing is deleted that an undo would need."""
    _stuck: frozenset[str] = field(default=frozenset(), init=False)
    _traces: bool = field(default=False, init=False)
    """Whether the catalogue's log may still contain what was deleted."""

    async def __call__(self) -> MaintenanceRound:
        """Does everything that is due, in batches, and returns what was done: nothing while the clock may be wrong."""
        if self.clock.pause_reason is not None:
            return MaintenanceRound()
        # Expire only up to the moment for which all reads are written: a row that a read keeps alive must stay.
        until = self.reads.horizon(self.clock.deletion_time())
        await self.note()
        if self.leader is not None:
            if not await self.leader.lead():
                return MaintenanceRound()
            until -= REPLICA_READ_DELAY
        due = _ALL if self.job_schedule is None else await self.job_schedule.due()
        maintenance_round = MaintenanceRound(
            expired=await self._do("expire", due, lambda: _drain(lambda: self._expire(until))),
            reaped=await self._do("reap", due, lambda: _drain(self._reap)),
            removed=await self._do("sweep", due, self.sweep),
            purged=await self._do("purge", due, self.purge),
        )
        if maintenance_round.removed or maintenance_round.purged:
            # SQLite's log holds old pages until it is truncated: what was deleted must not stay readable there.
            self._traces = True
        if self._traces:
            self._traces = not await self.upkeep.empty_log()
        return maintenance_round

    async def flush_reads(self) -> datetime:
        """Returns a moment up to which every read is written, so what had expired by then stays expired.

        Raises:
            CoatcheckError: `storage_unavailable`; `deletions_paused`, because such a moment decides what is deleted.
        """
        until = self.reads.horizon(self.clock.deletion_time())
        await self.note()
        return until if self.leader is None else until - REPLICA_READ_DELAY

    async def purge(self) -> MaintenanceJobResult:
        """Deletes records that are older than their time limits.

        Raises:
            CoatcheckError: `storage_unavailable`, `deletions_paused`.
        """
        return await _drain(self._purge)

    async def _do(self, job: str, due: Collection[str], step: Callable[[], Awaitable[MaintenanceJobResult]]) -> int:
        """Runs a job if it is due, and records it if there was anything to do."""
        if job not in due:
            return 0
        began = time.monotonic()
        try:
            job_result = await step()
        except CoatcheckError as error:
            if self.job_schedule is not None:
                await self.job_schedule.record_result(job, error)
            raise
        if self.job_schedule is not None:
            await self.job_schedule.record_result(job)
        if job_result.items and self.retention is not None:
            # Expired artifacts were counted by the transactions that made their tombstones.
            items = 0 if job == "expire" else job_result.items
            took = time.monotonic() - began
            noted = make_scheduled_round(job, self.clock.now(), items=items, bytes=job_result.bytes, busy_seconds=took)
            await self.retention.commit(NoteRound(run=noted))
        return job_result.items

    async def leave(self) -> None:
        """Lets another process take over at once; for a clean stop. Raises nothing."""
        if self.leader is not None:
            await self.leader.leave()

    async def _expire(self, now: datetime) -> int:
        life, own = self.lives(self.tombstone_life)
        by = SCHEDULE if self.retention is None else By(SCHEDULE.actor, run_id=hourly_run("expire", now))
        return await self.upkeep.commit(
            ExpireArtifacts(now=now, tombstone_until=now + life, limit=BATCH, tombstone_lives=own, by=by)
        )

    async def _reap(self) -> int:
        return await self.upkeep.commit(ReapUploads(now=self.clock.deletion_time(), limit=BATCH))

    async def sweep(self) -> MaintenanceJobResult:
        """Removes blobs that have been dead for the grace period; returns their number and stored bytes.

        Blobs that cannot be removed are skipped.

        Raises:
            CoatcheckError: `storage_unavailable`, `deletions_paused`.
        """
        now = self.clock.deletion_time()
        before = now - self.grace
        if self.retention is not None:
            # First: while a removal can be undone, its bytes must exist.
            forget = ForgetRemoved(before=before, now=now, limit=BATCH)
            retention = self.retention
            if (await _drain(lambda: retention.commit(forget))).items:
                self._traces = True
        removed = size = 0
        stuck: dict[str, str] = {}
        last: DeadBlob | None = None
        # Bytes go before rows: a row without bytes is found by the next round, bytes without a row would leak.
        while batch := await self.upkeep.dead_blobs(before, BATCH, last):
            last = batch[-1]
            removed_blobs = [blob for blob in batch if await self._remove(blob, stuck)]
            for start in range(0, len(removed_blobs), FORGOTTEN_ROWS):
                part = tuple((blob.namespace, blob.id) for blob in removed_blobs[start : start + FORGOTTEN_ROWS])
                await self.upkeep.commit(ForgetBlobs(blobs=part))
            removed += len(removed_blobs)
            size += sum(blob.stored_size for blob in removed_blobs)
        self._tell(stuck)
        return MaintenanceJobResult(removed, size)

    async def _remove(self, blob: DeadBlob, stuck: dict[str, str]) -> bool:
        """Returns whether a blob's bytes are gone, so that its row may be deleted, with any inline bytes."""
        if blob.placement == "inline":
            return True
        try:
            store = store_of(self.blobs, blob.placement)
            if store is None:
                raise not_opened(self.blobs, blob.placement)
            await store.remove(blob.namespace, blob.id)
        except CoatcheckError as error:
            stuck[blob.id] = error.detail
            return False
        return True

    def _tell(self, stuck: dict[str, str]) -> None:
        """Logs which blobs cannot be removed, if they differ from those of the last round."""
        if stuck.keys() == self._stuck:
            return
        self._stuck = frozenset(stuck)
        if stuck:
            log.warning(
                "%d dead blobs could not be removed, will try again each round; the first is %s: %s",
                len(stuck),
                *next(iter(stuck.items())),
            )
        else:
            log.info("the dead blobs that could not be removed are gone")

    async def _purge(self) -> int:
        purge = PurgeRecords(
            now=self.clock.deletion_time(), limit=BATCH, audit_life=self.audit_life, most_events=self.most_events
        )
        return await self.upkeep.commit(purge)


async def _drain(step: Callable[[], Awaitable[int]]) -> MaintenanceJobResult:
    """Repeats a step until it finds less than a full batch.

    It pauses between batches for as long as the last one took, so the catalogue is free for half of the time.
    """
    total = 0
    while True:
        began = time.monotonic()
        count = await step()
        total += count
        if count < BATCH:
            return MaintenanceJobResult(total)
        await asyncio.sleep(min(time.monotonic() - began, _MAX_PAUSE_SECONDS))


COUNTED_ROWS: Final = 10_000
"""Maximum rows counted of each sort; beyond that the number makes no difference."""
COUNT_SECONDS: Final = 5.0
"""Seconds for which a count is reused."""
_COUNT_WAIT_SECONDS: Final = 1.0
"""Seconds that a request waits for a new count."""


class Backlog(Struct, frozen=True):
    """The last count of the backlog, and when it was taken."""

    overdue: Overdue
    overdue_seconds: float
    age: float
    """Seconds since it was taken."""


class CountBacklog:
    """Counts what maintenance still has to do, at most once every few seconds."""

    def __init__(self, accounts: Accounts, clock: Clock, ticks: Callable[[], float] = time.monotonic) -> None:
        """`ticks` is monotonic, in seconds."""
        self._accounts = accounts
        self._clock = clock
        self._ticks = ticks
        self._last: Overdue | None = None
        self._overdue = 0.0
        self._began = float("-inf")
        self._true_at = float("-inf")
        self._counting: asyncio.Task[None] | None = None
        self.failures = 0
        """Counts that the catalogue refused."""

    @property
    def last_backlog(self) -> Backlog | None:
        """Returns the last count; None before the first one."""
        if self._last is None:
            return None
        return Backlog(self._last, self._overdue, self._ticks() - self._true_at)

    async def __call__(self) -> None:
        """Refreshes the count if it is old and the catalogue responds in time. Raises nothing."""
        if self._counting is None and self._ticks() - self._began >= COUNT_SECONDS:
            self._began = self._ticks()
            self._counting = asyncio.create_task(self._count(), name="backlog")
        if self._counting is not None:
            await asyncio.wait([self._counting], timeout=_COUNT_WAIT_SECONDS)

    async def stop(self) -> None:
        """Cancels a count in progress."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait([self._counting])

    async def _count(self) -> None:
        try:
            now = self._clock.now()
            backlog = await self._accounts.overdue(now, COUNTED_ROWS)
            self._overdue = 0.0 if backlog.oldest is None else max(0.0, (now - backlog.oldest).total_seconds())
            self._last, self._true_at = backlog, self._ticks()
        except CoatcheckError:
            self.failures += 1
        finally:
            self._counting = None
