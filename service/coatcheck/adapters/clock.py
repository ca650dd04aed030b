"""The system's clock. The only place that asks what time it is."""

from datetime import UTC, datetime


class SystemClock:
    """Wall-clock time in UTC."""

    def now(self) -> datetime:
        """The moment, aware, in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this is the Clock
