"""Time."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The time that decides."""

    def now(self) -> datetime:
        """The moment, aware, in UTC, to the microsecond."""
        ...
