"""What was done with what a session holds: reads, searches, compactions. For people; nothing is decided by it."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from msgspec import Struct

Action = Literal["read", "outline", "search", "passages", "json", "web_search", "compaction"]
"""How an artifact was read, or what else was asked of a session."""

DETAIL_CHARS: Final = 500
"""Characters of a string among an event's details; longer ones are cut, with `…`."""
CHANGES: Final = 50
"""Changes of a compaction that are listed; the others are counted."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PROCESS_BITS: Final = 8
_HIGHEST: Final = 2**63 - 1


class Event(Struct, frozen=True, kw_only=True):
    """One thing that was done."""

    number: int
    """Grows with time, unique in the store: see `event_number`."""
    namespace: str
    session: str | None
    artifact: int | None
    """The artifact that it is about; None: it is about the session."""
    action: Action
    key_id: str | None
    """Of the caller; None: no key was needed."""
    tokens: int
    """Of the answer; of a compaction, of the request as it is sent."""
    tokens_before: int | None = None
    """Of a compaction, of the request as it came; of a web search, of the whole response."""
    details: dict[str, Any] = {}
    """What was asked, as JSON: a pattern, a query, a path, a range; what a compaction changed."""

    @property
    def at(self) -> datetime:
        """When it happened, by the clock of the process that answered."""
        return _EPOCH + timedelta(microseconds=self.number >> _PROCESS_BITS)


def event_number(microseconds: int, process: int) -> int:
    """Returns the number of the event at a moment since 1970; `process` tells processes apart that share a moment."""
    return microseconds << _PROCESS_BITS | process % (1 << _PROCESS_BITS)


def first_number(moment: datetime) -> int:
    """Returns the lowest number that an event at or after a moment can have; the highest of all for far moments."""
    return min(_HIGHEST, event_number((moment - _EPOCH) // timedelta(microseconds=1), 0))


def shortened(details: dict[str, Any]) -> dict[str, Any]:
    """Returns details without what was not given, and with long strings cut."""
    return {
        name: f"{value[: DETAIL_CHARS - 1]}…" if isinstance(value, str) and len(value) > DETAIL_CHARS else value
        for name, value in details.items()
        if value is not None and value is not False
    }
