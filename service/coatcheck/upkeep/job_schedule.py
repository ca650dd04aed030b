"""The schedule as data: which jobs are due or paused, their intervals, and their last results.

Every process reads it again every few seconds. It runs nothing itself; changes are made by administrators, and audited.
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
"""Jobs of the schedule: expired artifacts, abandoned uploads, dead bytes, old records, the full-text index. Interrupted
runs are always resumed; the schedule cannot stop them."""
DELETIONS: Final = "deletions"
"""Stands for everything that deletes by time: all jobs but the index, evictions, and runs of retention. It is paused
while the clock may be wrong, or by an administrator."""
MIN_INTERVAL: Final = 1
"""In seconds."""
MAX_INTERVAL: Final = 24 * 3600
"""In seconds: a day. Whoever wants a job less often can pause it."""
_CACHE_SECONDS: Final = 5.0
"""Seconds for which the schedule is reused once read."""
_MARK_EVERY: Final = timedelta(minutes=1)
"""How often a successful job is recorded, so that an idle store is not written to all the time."""


class JobSchedule:
    """The schedule of this process."""

    def __init__(
        self,
        retention: Retention,
        clock: Clock,
        *,
        default: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`default` is the interval in seconds of jobs without their own."""
        self._retention = retention
        self._clock = clock
        self._default = default
        self._monotonic = monotonic
        self._states: dict[str, JobState] = {}
        self._read_at: float | None = None
        self._last: dict[str, float] = {}
        self._marked: dict[str, tuple[datetime, str]] = {}
        self._unwritten: dict[str, MarkJob] = {}
        """Last results that could not be written."""

    async def due(self) -> frozenset[str]:
        """Returns the jobs that are due. Each is returned once per interval.

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
            # A round that starts slightly early would otherwise wait for one more.
            if last is None or now - last >= interval - min(0.5, interval / 10):
                self._last[name] = now
                due_jobs.add(name)
        return frozenset(due_jobs)

    async def runs(self, name: str) -> bool:
        """Returns whether a job that has a pace of its own may run.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        await self._read()
        state = self._states.get(name)
        return state is None or not state.paused

    async def deletions(self) -> JobState:
        """Returns the state of everything that deletes by time, at most a few seconds old.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        await self._read()
        return self.last_deletions

    @property
    def last_deletions(self) -> JobState:
        """Returns that state as it was read last."""
        return self._states.get(DELETIONS) or JobState.make_unchanged(DELETIONS)

    async def pause_deletions(self, reason: str) -> None:
        """Pauses everything that deletes by time, on every process.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        failed = MarkJob(name=DELETIONS, now=self._clock.now(), outcome="failed", detail=reason)
        await self._retention.commit(failed)  # first: whoever sees the pause sees the reason
        await self.change(DELETIONS, paused=True, interval=None, by=SCHEDULE)

    def pause(self) -> float:
        """Returns the seconds until a job may be due."""
        intervals = [float(state.interval) for state in self._states.values() if state.interval is not None]
        return min([self._default, *intervals])

    async def record_result(self, name: str, error: CoatcheckError | None = None) -> None:
        """Records a job's result, unless the same one was recorded a moment ago. Raises nothing."""
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
        """Returns every job with its settings and last result, including results that only this process knows."""
        states_by_name = {state.name: state for state in await self._retention.list_jobs()}
        return [
            self._as_it_went(states_by_name.get(name) or JobState.make_unchanged(name))
            for name in (*SCHEDULED, DELETIONS)
        ]

    def _as_it_went(self, state: JobState) -> JobState:
        """Returns the state, updated by an unwritten result if that is newer."""
        mark = self._unwritten.get(state.name)
        if mark is None or (state.last_at is not None and state.last_at >= mark.now):
            return state
        return replace(state, last_at=mark.now, last_outcome=mark.outcome, last_detail=mark.detail)

    async def change(self, name: str, *, paused: bool | None, interval: int | None, by: By) -> JobState:
        """Pauses or resumes a job, or changes its interval; 0 restores that of the settings.

        Raises:
            CoatcheckError: `invalid_request`; `storage_unavailable`.
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
                f"An interval must be {MIN_INTERVAL} to {MAX_INTERVAL} seconds, or 0 for the one in the settings.",
                parameter="interval",
            )
        # The index follows what arrives, and deletions stand for several jobs.
        if interval and name in {"index", DELETIONS}:
            raise CoatcheckError(
                Code.INVALID_REQUEST, f"{name} has no interval; it can only be paused.", parameter="interval"
            )
        change = SetJob(name=name, now=self._clock.now(), by=by, paused=paused, interval=interval)
        state = await self._retention.commit(change)
        self._states = {**self._states, name: state}
        if name == DELETIONS and paused is False:  # what was wrong is over
            await self._retention.commit(MarkJob(name=DELETIONS, now=self._clock.now(), outcome="done"))
        # Another change may have been made in between: the next look reads all of them again.
        self._read_at = None
        return state

    async def _read(self) -> None:
        now = self._monotonic()
        if self._read_at is None or now - self._read_at >= _CACHE_SECONDS:
            self._states = {state.name: state for state in await self._retention.list_jobs()}
            self._read_at = now
