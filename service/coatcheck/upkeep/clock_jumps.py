"""Stops deletions while the clock may be wrong, because an artifact that a wrong clock deletes cannot be restored.

The guard compares two clocks. The authoritative clock is the database's, if the database has a clock. The steady clock
cannot be set, and keeps running while the machine sleeps. If the two have drifted more than a day apart, somebody has
set the authoritative clock, and this process stops deleting by time. It also pauses the job `deletions` of the
schedule, so that every other process stops too, including processes that start after the jump. Deletions resume when
the two clocks agree again, or when an administrator resumes the job and thereby confirms the time. A process that was
suspended for weeks sees no jump, because both clocks kept running. While deletions are paused, reads still treat
artifacts as expired by the authoritative clock, because reading deletes nothing.

This process also stops deleting while the catalogue is known to be damaged, because a damaged catalogue may call a live
artifact dead.

The steady clock of a virtual machine may stop while the host pauses the machine. Deletions are then paused until an
administrator confirms the time.
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
"""Drift beyond which the clock counts as set: far more than a clock drifts in years without NTP, and far less than a
usual TTL."""
CHECK_SECONDS: Final = 1.0
"""Seconds between two checks of the clocks; each deletion also compares the clocks of its own process."""
_RESUME: Final = "coatcheck retention job deletions --resume"


class ClockJumpGuard:
    """Implements DeletionClock. Callers await `check` once before the first deletion, and then at regular intervals."""

    def __init__(
        self,
        clock: Clock,
        job_schedule: JobSchedule,
        steady_seconds: Callable[[], float],
        refresh: Callable[[], Awaitable[None]] | None = None,
        damage: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Takes the authoritative clock for right at this moment; every drift is measured from here.

        Args:
            clock: the authoritative clock.
            job_schedule: says whether deletions are paused.
            steady_seconds: the steady clock, in seconds.
            refresh: makes `clock` ask its source (such as the database) for the time again; None if `clock` caches
                nothing.
            damage: returns a description of the catalogue's known damage, which also stops deletions; None if the
                catalogue is not known to be damaged.
        """
        self._clock = clock
        self._schedule = job_schedule
        self._steady = steady_seconds
        self._refresh = refresh
        self._damage = damage
        self._origin = clock.now(), steady_seconds()
        """Readings of the authoritative and the steady clock at one moment, at which the authoritative clock was
        right."""
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
        """Compares the clocks, and pauses or resumes deletions for all processes if that is necessary.

        Also reads whether an administrator or another process has paused or resumed deletions.

        Raises:
            CoatcheckError: `storage_unavailable`. Even then, this process stops deleting if its clocks differ too much.
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
        """Takes the clock for right, because somebody has resumed deletions since the last check."""
        if self._refresh is not None:  # the cached time may be from before the clock was set
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
