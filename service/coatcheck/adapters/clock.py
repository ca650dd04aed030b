"""The system's clock. The only place that reads the time."""

from datetime import UTC, datetime


class SystemClock:
    """Wall-clock time in UTC."""

    def now(self) -> datetime:
        """Returns the time, aware, in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this is the Clock
