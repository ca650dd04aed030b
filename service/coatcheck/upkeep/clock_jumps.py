"""Stops deletions while the clock may be wrong, because what a wrong clock deletes does not come back.

The authoritative clock, which is the database's if it has one, is compared with a steady clock, which nobody sets and
which goes on while the machine sleeps. If they have drifted more than a day apart, the authoritative one was set, and
this process deletes nothing by time. It also pauses the job `deletions` of the schedule, so that all processes agree,
those too that started after the jump. Deletions go on when the clocks agree again, or when an administrator resumes
that job, and thereby says that the clock is right. A process that was stopped, or that did not run for weeks, sees no
jump: both clocks went on. What is read expires by the authoritative clock all the while, which deletes nothing.

Deletions also stop, in this process, while the catalogue is known to be damaged: what it says is dead may be alive.

A virtual machine that is paused by its host may have no clock that goes on; then an administrator confirms the time.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.retention.audit import SCHEDULE
from coatcheck.ports.telemetry import Clock
from coatcheck.upkeep.job_schedule import DELETIONS, JobSchedule

log = logging.getLogger(__name__)

MAX_DRIFT: Final = timedelta(days=1)
"""Far more than a clock loses that is kept by NTP, or by nobody for years; far less than a TTL of usual length."""
CHECK_SECONDS: Final = 1.0
"""Seconds between two rounds of comparing; each deletion compares the clocks of its process as well."""
_RESUME: Final = "coatcheck retention job deletions --resume"


class ClockJumpGuard:
    """Implements DeletionClock. `check` once before the first deletion, then repeatedly."""

    def __init__(
        self,
        clock: Clock,
        job_schedule: JobSchedule,
        steady_seconds: Callable[[], float],
        refresh: Callable[[], Awaitable[None]] | None = None,
        damage: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Compares from now on.

        Args:
            clock: the authoritative clock.
            job_schedule: says whether deletions are paused.
            steady_seconds: the steady clock.
            refresh: makes `clock` ask whoever else has the time, if it does so only now and then.
            damage: returns what is known of damage of the catalogue, by which nothing is deleted either.
        """
        self._clock = clock
        self._schedule = job_schedule
        self._steady = steady_seconds
        self._refresh = refresh
        self._damage = damage
        self._origin = clock.now(), steady_seconds()
        """The wall clock and the time since boot at one moment, when the wall clock was right."""
        self._changed_at: datetime | None = None
        self._is_checked = self._has_jumped = False

    def now(self) -> datetime:
        """See DeletionClock."""
        return self._clock.now()

    @property
    def drift(self) -> timedelta:
        """Returns how far the authoritative clock is ahead of the steady one."""
        return self._drift(self._clock.now())

    @property
    def pause_reason(self) -> str | None:
        """See DeletionClock."""
        return self._find_pause_reason(self._clock.now())

    def deletion_time(self) -> datetime:
        """See DeletionClock."""
        now = self._clock.now()
        reason = self._find_pause_reason(now)
        if reason is not None:
            raise CoatcheckError(Code.DELETIONS_PAUSED, reason)
        return now

    async def check(self) -> None:
        """Compares the clocks, pauses or resumes deletions for all processes, and learns what others decided.

        Raises:
            CoatcheckError: `storage_unavailable`; this process stops deleting all the same.
        """
        state = await self._schedule.deletions()
        if self._is_checked and state.changed_at != self._changed_at and not state.paused:
            await self._accept()
        self._changed_at, self._is_checked = state.changed_at, True
        drift = self.drift
        if abs(drift) > MAX_DRIFT:
            self._has_jumped = True
            if not state.paused:
                log.error("%s", _describe_jump(drift))
                await self._schedule.pause_deletions(_describe_jump(drift))
        elif self._has_jumped and state.paused and state.changed_by == SCHEDULE.actor:
            log.warning("the clock agrees with the time that has passed again: deletions go on")
            await self._schedule.change(DELETIONS, paused=False, interval=None, by=SCHEDULE)

    async def _accept(self) -> None:
        """Takes the clock for right, because deletions were resumed since the last check."""
        if self._refresh is not None:  # what it knows may be from before the clock was set
            await self._refresh()
        self._origin = self._clock.now(), self._steady()
        self._has_jumped = False

    def _drift(self, now: datetime) -> timedelta:
        moment, seconds = self._origin
        return now - moment - timedelta(seconds=self._steady() - seconds)

    def _find_pause_reason(self, now: datetime) -> str | None:
        damage = self._damage()
        if damage is not None:
            return damage
        drift = self._drift(now)
        if abs(drift) > MAX_DRIFT:
            return _describe_jump(drift)
        state = self._schedule.last_deletions
        if not state.paused:
            return None
        if state.changed_by == SCHEDULE.actor and state.last_detail:
            return state.last_detail
        return f"Deletions by time are paused by {state.changed_by}. To resume them: {_RESUME}"


def _describe_jump(drift: timedelta) -> str:
    days, direction = abs(drift) / timedelta(days=1), "ahead" if drift > timedelta() else "back"
    return (
        f"The clock has jumped {direction} by {days:,.1f} days, so nothing is deleted by time until it is right again. "
        f"Correct it; if it is right now, confirm that: {_RESUME}"
    )
