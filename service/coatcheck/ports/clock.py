"""Time."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The authoritative time."""

    def now(self) -> datetime:
        """Returns the time, aware, in UTC, to the microsecond."""
        ...


class DeletionClock(Clock, Protocol):
    """The authoritative time, and whether it may be wrong: what is deleted by a wrong clock does not come back."""

    @property
    def pause_reason(self) -> str | None:
        """Returns why nothing may be deleted by time now, and what to do, for administrators; None if it may be."""
        ...

    def deletion_time(self) -> datetime:
        """Returns the time by which things may be deleted, which is `now`.

        Raises:
            CoatcheckError: `deletions_paused` while there is a `pause_reason`.
        """
        ...
