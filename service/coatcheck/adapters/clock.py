"""The system's clocks. The only place that reads the time."""

import time
from datetime import UTC, datetime
from typing import Final

STEADY_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that nobody sets, and that goes on while the machine sleeps. Linux's CLOCK_MONOTONIC stops then; elsewhere it
is the best there is."""


class SystemClock:
    """Wall-clock time in UTC."""

    def now(self) -> datetime:
        """Returns the time, aware, in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this is the Clock


def steady_seconds() -> float:
    """Returns the seconds of the steady clock, since some moment before the process began."""
    return time.clock_gettime(STEADY_CLOCK)
