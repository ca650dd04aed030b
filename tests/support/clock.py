"""Time that tests decide."""

from datetime import UTC, datetime, timedelta

START = datetime(2024, 3, 1, 12, tzinfo=UTC)
"""In the past of every clock: a sweep believes no moment that its database has not reached."""
INSTANT = timedelta(microseconds=1)


class HandClock:
    """A clock that stands until it is moved."""

    def __init__(self, moment: datetime = START) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def forward(self, by: timedelta = timedelta(), **of: float) -> None:
        """Move by a span, or by `days`, `hours`, `seconds`."""
        self.moment += by + timedelta(**of)

    def seconds(self) -> float:
        return self.moment.timestamp()

    @property
    def pause_reason(self) -> str | None:
        """Never: the test decides what time it is."""
        return None

    def deletion_time(self) -> datetime:
        return self.moment
