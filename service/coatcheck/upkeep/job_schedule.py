"""Keeps the job schedule as data: which jobs are due or paused, their intervals, and their last results.

Every process reads the schedule from the catalogue every few seconds. The schedule runs no job itself. Administrators
change it, and the audit log records each change.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.retention.audit import SCHEDULE, By
from coatcheck.core.retention.jobs import JobState
from coatcheck.ports.retention import MarkJob, Retention, SetJob
from coatcheck.ports.telemetry import Clock

log = logging.getLogger(__name__)

SCHEDULED: Final = ("expire", "reap", "sweep", "purge", "index")
"""Jobs of the schedule, in this order: remove expired artifacts, abandoned uploads, dead blobs and old records; build
the full-text index. Interrupted retention runs are not among them: they are always resumed, and cannot be paused."""
DELETIONS: Final = "deletions"
"""Name under which everything that deletes by time is paused: all jobs except `index`, evictions, and retention runs.
Deletions are paused while the clock may be wrong, and when an administrator pauses them."""
MIN_INTERVAL: Final = 1
"""Shortest interval of a job, in seconds."""
MAX_INTERVAL: Final = 24 * 3600
"""Longest interval of a job, in seconds: a day. An administrator who wants a job to run less often can pause it."""
_CACHE_SECONDS: Final = 5.0
"""Seconds for which this process reuses the schedule before it reads the schedule again."""
_MARK_EVERY: Final = timedelta(minutes=1)
"""Shortest time between two records of the same result of a job, so that an idle store is rarely written to."""


class JobSchedule:
    """Decides which jobs are due in this process, and records how they went."""

    def __init__(
        self,
        retention: Retention,
        clock: Clock,
        *,
        default: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`default` is the interval, in seconds, of a job without its own interval; `monotonic` returns seconds."""
        self._retention = retention
        self._clock = clock
        self._default = default
        self._monotonic = monotonic
        self._states: dict[str, JobState] = {}
        self._read_at: float | None = None
        self._last: dict[str, float] = {}
        self._marked: dict[str, tuple[datetime, str]] = {}
        self._unwritten: dict[str, MarkJob] = {}
        """Last results of jobs that could not be written to the catalogue, by job."""

    async def due(self) -> frozenset[str]:
        """Returns the jobs that are due. A job is returned once per interval.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        await self._read()
        now = self._monotonic()
        due_jobs: set[str] = set()
        for name in SCHEDULED:
            state = self._states.get(name)
            if state is not None and state.paused:
                continue
            interval = self._default if state is None or state.interval is None else float(state.interval)
            last = self._last.get(name)
            # A job also counts as due slightly early: otherwise it would wait for the whole next round.
            if last is None or now - last >= interval - min(0.5, interval / 10):
                self._last[name] = now
                due_jobs.add(name)
        return frozenset(due_jobs)

    async def runs(self, name: str) -> bool:
        """Returns whether a job is not paused. Ask this for a job that decides itself when it is due.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        await self._read()
        state = self._states.get(name)
        return state is None or not state.paused

    async def deletions(self) -> JobState:
        """Returns the state of `deletions`, the job that stands for everything that deletes by time.

        The state is a few seconds old at most.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        await self._read()
        return self.last_deletions

    @property
    def last_deletions(self) -> JobState:
        """Returns the state of `deletions` as it was last read, without a query."""
        return self._states.get(DELETIONS) or JobState.make_unchanged(DELETIONS)

    async def pause_deletions(self, reason: str) -> None:
        """Pauses everything that deletes by time, on every process.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        failed = MarkJob(name=DELETIONS, now=self._clock.now(), outcome="failed", detail=reason)
        await self._retention.commit(failed)  # committed first, so that whoever sees the pause also sees its reason
        await self.change(DELETIONS, paused=True, interval=None, by=SCHEDULE)

    def pause(self) -> float:
        """Returns the shortest interval of any job, in seconds: callers wait this long before they ask for due jobs."""
        intervals = [float(state.interval) for state in self._states.values() if state.interval is not None]
        return min([self._default, *intervals])

    async def record_result(self, name: str, error: CoatcheckError | None = None) -> None:
        """Records a job's result, unless the same result was recorded within the last minute.

        Raises nothing: a result that cannot be written is kept in this process and logged.

        Args:
            name: the job.
            error: why the job failed; None: it succeeded.
        """
        outcome = "done" if error is None else "failed"
        now = self._clock.now()
        previous = self._marked.get(name)
        if previous is not None and previous[1] == outcome and now - previous[0] < _MARK_EVERY:
            return
        self._marked[name] = (now, outcome)
        mark = MarkJob(name=name, now=now, outcome=outcome, detail="" if error is None else error.detail)
        try:
            await self._retention.commit(mark)
            self._unwritten.pop(name, None)
        except CoatcheckError as refused:
            self._unwritten[name] = mark
            log.info("the result of the job %s was not recorded: %s", name, refused.detail)

    async def states(self) -> list[JobState]:
        """Returns every job with its settings and last result, including results that this process could not write.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        states_by_name = {state.name: state for state in await self._retention.list_jobs()}
        return [
            self._with_unwritten_result(states_by_name.get(name) or JobState.make_unchanged(name))
            for name in (*SCHEDULED, DELETIONS)
        ]

    def _with_unwritten_result(self, state: JobState) -> JobState:
        """Returns a job's state, with this process's unwritten result if that result is newer."""
        mark = self._unwritten.get(state.name)
        if mark is None or (state.last_at is not None and state.last_at >= mark.now):
            return state
        return replace(state, last_at=mark.now, last_outcome=mark.outcome, last_detail=mark.detail)

    async def change(self, name: str, *, paused: bool | None, interval: int | None, by: By) -> JobState:
        """Pauses or resumes a job, or changes its interval; returns the job's new state.

        Args:
            name: the job, or `deletions`.
            paused: whether the job is paused from now on; None: as before.
            interval: the new interval in seconds, `MIN_INTERVAL` to `MAX_INTERVAL`; 0: the interval of the settings;
                None: as before.
            by: who makes the change, for the audit log.

        Raises:
            CoatcheckError: `invalid_request` for an unknown job, an interval out of bounds, or an interval for a job
                that has none; `storage_unavailable`.
        """
        if name not in {*SCHEDULED, DELETIONS}:
            raise CoatcheckError(
                Code.INVALID_REQUEST,
                f"There is no job {name[:40]!r} on the schedule. The jobs are {', '.join(SCHEDULED)} and {DELETIONS}.",
                parameter="name",
            )
        if interval is not None and interval and not MIN_INTERVAL <= interval <= MAX_INTERVAL:
            raise CoatcheckError(
                Code.INVALID_REQUEST,
                f"An interval must be {MIN_INTERVAL} to {MAX_INTERVAL} seconds, or null for the one in the settings.",
                parameter="interval",
            )
        # The index job runs whenever artifacts arrive, and `deletions` stands for several jobs: neither has an
        # interval.
        if interval and name in {"index", DELETIONS}:
            raise CoatcheckError(
                Code.INVALID_REQUEST, f"{name} has no interval; it can only be paused.", parameter="interval"
            )
        change = SetJob(name=name, now=self._clock.now(), by=by, paused=paused, interval=interval)
        state = await self._retention.commit(change)
        self._states = {**self._states, name: state}
        if name == DELETIONS and paused is False:  # the recorded reason of the pause no longer applies
            await self._retention.commit(MarkJob(name=DELETIONS, now=self._clock.now(), outcome="done"))
        # Another process may have changed a job meanwhile, so the next call reads the whole schedule again.
        self._read_at = None
        return state

    async def _read(self) -> None:
        now = self._monotonic()
        if self._read_at is None or now - self._read_at >= _CACHE_SECONDS:
            self._states = {state.name: state for state in await self._retention.list_jobs()}
            self._read_at = now
