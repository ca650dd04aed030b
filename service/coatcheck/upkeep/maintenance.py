"""Runs rounds of maintenance: write recorded reads, expire artifacts, reap uploads, sweep blobs, purge old records.

Every step is a small transaction that is harmless to repeat. So any number of processes may run rounds at the same
time, and a crash between two steps loses nothing. The bytes of a blob are removed before its row: the next round finds
a row without bytes and deletes it, but nothing would find bytes without a row.

`CountBacklog` counts the work that maintenance has not done yet, for the metrics, at most once every few seconds. A
request for metrics waits only briefly for a new count, so a slow or silent catalogue does not block the metrics.
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
"""Maximum rows of one transaction.

With the pauses between transactions, PostgreSQL expires over a thousand artifacts a second. A transaction is still
short enough that an ingest waits little for the processor, the disk or SQLite's only writer.
"""

_MAX_PAUSE_SECONDS = 1.0
"""Maximum seconds between two batches. A pause lasts as long as the batch before it, which a silent catalogue may have
made very long."""

_ROUND_SECONDS = 5.0
"""Seconds that a round with little to do is expected to take at most; chosen, not measured. During a longer round the
leader lease may end, which does no harm."""

_ALL = frozenset({"expire", "reap", "sweep", "purge"})

FORGOTTEN_ROWS = 100
"""Blob rows deleted in one transaction: few, because up to 32 KiB of inline bytes in each are overwritten with
zeros."""


class MaintenanceRound(Struct, frozen=True):
    """How much one round of maintenance removed."""

    expired: int = 0
    """Artifacts that got a tombstone because they had expired."""
    reaped: int = 0
    """Abandoned uploads that were removed."""
    removed: int = 0
    """Dead blobs whose bytes and rows were deleted."""
    purged: int = 0
    """Tombstones, idempotency keys, accounts, events and audit lines that were deleted."""


class MaintenanceJobResult(Struct, frozen=True):
    """How much a maintenance job removed, in all or in one round."""

    items: int = 0
    """Number of removed rows or blobs."""
    bytes: int = 0
    """Stored bytes of the removed blobs."""
    detail: str = ""


REPLICA_READ_DELAY = timedelta(seconds=5)
"""How long another replica may take to write its reads. An artifact gets a tombstone only this long after it expired,
because an unwritten read may have extended its life."""


@dataclass(frozen=True)
class LeaderLease:
    """Lets one of several processes do some work, to save the others the effort. It is harmless if two do the work."""

    upkeep: Upkeep
    clock: Clock
    name: str
    """Name of the work, by which processes compete for the lease."""
    holder: str
    """A name that is unique to this process."""
    seconds: float
    """Seconds that the lease lasts unless its holder renews it; a process that crashes or hangs loses the lease
    then."""

    async def lead(self) -> bool:
        """Takes or renews the lease; returns whether this process now holds the lease.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        return await self._take(self.seconds)

    async def leave(self) -> None:
        """Releases the lease at a clean stop, so that another process can take over at once. Raises nothing."""
        try:
            await self._take(0)
        except CoatcheckError as error:
            log.info("the lease of %s was not released and will expire: %s", self.name, error.detail)

    async def _take(self, seconds: float) -> bool:
        lease = TakeLease(name=self.name, holder=self.holder, seconds=seconds, now=self.clock.now())
        return await self.upkeep.commit(lease)


def maintenance_lease(upkeep: Upkeep, clock: Clock, holder: str, pause: float) -> LeaderLease:
    """Returns the leader lease for maintenance that pauses `pause` seconds between rounds; it outlasts two rounds."""
    return LeaderLease(upkeep, clock, "tidy", holder, 2 * pause + _ROUND_SECONDS)


@dataclass(eq=False)
class Maintenance:
    """Runs one round of maintenance: expire, reap, sweep, purge."""

    upkeep: Upkeep
    blobs: BlobStore
    clock: DeletionClock
    reads: ReadLog
    note: NoteReads
    """Writes recorded reads to the catalogue; the process has only one instance."""
    _: KW_ONLY
    tombstone_life: timedelta
    lives: Callable[[timedelta], tuple[timedelta, Mapping[str, timedelta]]] = lambda life: (life, {})
    """Applies policies to the default life of a tombstone; returns the life in general, and the life by namespace."""
    grace: timedelta
    """How long the bytes of a dead blob are kept before the sweep removes them."""
    audit_life: timedelta | None = None
    """How long audit lines are kept; None: for ever."""
    most_events: int = MAX_EVENTS
    """Maximum number of events that are kept; the oldest are deleted first."""
    leader: LeaderLease | None = None
    """The leader lease that a round needs; None: no other process does maintenance on this store."""
    job_schedule: JobSchedule | None = None
    """Says which jobs are due; None: every job is due in every round."""
    retention: Retention | None = None
    """Records runs, and deletes the records of removals that can no longer be undone. None: no runs are recorded, and
    the records of removals stay."""
    _stuck: frozenset[str] = field(default=frozenset(), init=False)
    _log_has_deleted: bool = field(default=False, init=False)
    """Whether the catalogue's log of changes may still contain deleted data."""

    async def __call__(self) -> MaintenanceRound:
        """Runs every job that is due, in batches, and returns how much was removed.

        Nothing is removed while deletions are paused, for instance because the clock may be wrong, or while another
        process holds the leader lease.

        Raises:
            CoatcheckError: `storage_unavailable`, `deletions_paused`.
        """
        if self.clock.pause_reason is not None:
            return MaintenanceRound()
        # Artifacts expire only up to a moment before which all reads are written: a read may keep an artifact alive.
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
            # SQLite's log holds old pages until it is truncated, and deleted data must not stay readable in it.
            self._log_has_deleted = True
        if self._log_has_deleted:
            self._log_has_deleted = not await self.upkeep.empty_log()
        return maintenance_round

    async def flush_reads(self) -> datetime:
        """Writes the recorded reads; returns a moment up to which every read is written.

        An artifact that has expired by that moment stays expired, because no unwritten read can extend its life.

        Raises:
            CoatcheckError: `storage_unavailable`; `deletions_paused`, because callers delete by the returned moment.
        """
        until = self.reads.horizon(self.clock.deletion_time())
        await self.note()
        return until if self.leader is None else until - REPLICA_READ_DELAY

    async def purge(self) -> MaintenanceJobResult:
        """Deletes tombstones, idempotency keys, accounts and audit lines that are too old, and excess events.

        Raises:
            CoatcheckError: `storage_unavailable`, `deletions_paused`.
        """
        return await _drain(self._purge)

    async def _do(self, job: str, due: Collection[str], step: Callable[[], Awaitable[MaintenanceJobResult]]) -> int:
        """Runs a job if it is due, and records its result; returns how many items it removed.

        A round that removed something is also recorded as a run.
        """
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
            # The transactions that made the tombstones have already counted the expired artifacts.
            items = 0 if job == "expire" else job_result.items
            took = time.monotonic() - began
            noted = make_scheduled_round(job, self.clock.now(), items=items, bytes=job_result.bytes, busy_seconds=took)
            await self.retention.commit(NoteRound(run=noted))
        return job_result.items

    async def leave(self) -> None:
        """Releases the leader lease at a clean stop, so that another process can take over at once. Raises nothing."""
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
        """Removes blobs that have been dead for the grace period; returns how many, and their stored bytes.

        A blob that cannot be removed is skipped, and logged.

        Raises:
            CoatcheckError: `storage_unavailable`, `deletions_paused`.
        """
        now = self.clock.deletion_time()
        before = now - self.grace
        if self.retention is not None:
            # The records of old removals are deleted before any blob is removed: as long as a removal can be undone,
            # the bytes of its artifacts must exist.
            forget = ForgetRemoved(before=before, now=now, limit=BATCH)
            retention = self.retention
            if (await _drain(lambda: retention.commit(forget))).items:
                self._log_has_deleted = True
        removed = size = 0
        stuck: dict[str, str] = {}
        last: DeadBlob | None = None
        # Bytes go before rows: the next round finds a row without bytes, but nothing would find bytes without a row.
        while batch := await self.upkeep.dead_blobs(before, BATCH, last):
            last = batch[-1]
            removed_blobs = [blob for blob in batch if await self._remove(blob, stuck)]
            for start in range(0, len(removed_blobs), FORGOTTEN_ROWS):
                part = tuple((blob.namespace, blob.id) for blob in removed_blobs[start : start + FORGOTTEN_ROWS])
                await self.upkeep.commit(ForgetBlobs(blobs=part))
            removed += len(removed_blobs)
            size += sum(blob.stored_size for blob in removed_blobs)
        self._log_stuck(stuck)
        return MaintenanceJobResult(removed, size)

    async def _remove(self, blob: DeadBlob, stuck: dict[str, str]) -> bool:
        """Removes a blob's bytes from its store; returns whether its row may be deleted.

        Inline bytes are in the row and go with it. A failure is added to `stuck`.
        """
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

    def _log_stuck(self, stuck: dict[str, str]) -> None:
        """Logs which blobs cannot be removed, if the set of these blobs has changed since the last round."""
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
    """Repeats a step until it handles less than a full batch; returns the number of items it handled in all.

    Each pause lasts as long as the batch before it, so the catalogue is free for half of the time.
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
"""Maximum rows counted of each kind; a larger backlog is reported as this number."""
COUNT_SECONDS: Final = 5.0
"""Seconds for which a count of the backlog is reused."""
_COUNT_WAIT_SECONDS: Final = 1.0
"""Maximum seconds that a request for metrics waits for a new count."""


class Backlog(Struct, frozen=True):
    """The last count of the backlog, and its age."""

    overdue: Overdue
    overdue_seconds: float
    """Seconds for which the oldest overdue item had been waiting when the count was taken; 0 if nothing was overdue."""
    age: float
    """Seconds since the count was taken."""


class CountBacklog:
    """Counts the work that maintenance has not done yet, at most once every few seconds."""

    def __init__(self, accounts: Accounts, clock: Clock, ticks: Callable[[], float] = time.monotonic) -> None:
        """`ticks` is a monotonic clock, in seconds."""
        self._accounts = accounts
        self._clock = clock
        self._ticks = ticks
        self._last: Overdue | None = None
        self._overdue = 0.0
        self._began = float("-inf")
        self._true_at = float("-inf")
        self._counting: asyncio.Task[None] | None = None
        self.failures = 0
        """Number of counts that failed because the catalogue raised an error."""

    @property
    def last_backlog(self) -> Backlog | None:
        """Returns the last count; None before the first count."""
        if self._last is None:
            return None
        return Backlog(self._last, self._overdue, self._ticks() - self._true_at)

    async def __call__(self) -> None:
        """Takes a new count if the last one is old; waits at most a second for the catalogue. Raises nothing."""
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
