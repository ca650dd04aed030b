"""Time."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The authoritative time."""

    def now(self) -> datetime:
        """Returns the time, aware, in UTC, to the microsecond."""
        ...
