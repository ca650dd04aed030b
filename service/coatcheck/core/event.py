"""Events of artifacts and sessions, and the token accounts of sessions. People read them; no decision depends on them.

All numbers of tokens are counted with the service's own tokenizer.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from msgspec import Struct

Action = Literal["read", "outline", "search", "passages", "json", "web_search", "compaction"]
"""How an artifact was read, or which other operation was requested in a session."""

DETAIL_CHARS: Final = 500
"""Maximum characters of a string in an event's details; longer strings are cut, and end with `…`."""
CHANGES: Final = 50
"""Maximum changes of a compaction that are listed; further changes are only counted."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PROCESS_BITS: Final = 8
"""Low bits of an event's number, which distinguish processes. The other bits are the time, and last until 3111."""
_MAX_NUMBER: Final = 2**63 - 1
"""Largest number of an event, because the catalogue has a signed 64-bit column for it."""


class Event(Struct, frozen=True, kw_only=True):
    """An entry of the event log."""

    number: int
    """The number of the event, which is unique in the store and increases with time: see `event_number`."""
    namespace: str
    session: str | None
    artifact: int | None
    """Number of the artifact concerned; None: the event concerns the session."""
    action: Action
    key_id: str | None
    """ID of the caller's key; None: no key was needed."""
    tokens: int
    """Tokens of the answer; for a compaction, of the compacted request."""
    tokens_before: int | None = None
    """For a compaction, tokens of the original request; for a web search, of the whole response."""
    details: dict[str, Any] = {}
    """Details of the request, as JSON: a pattern, a query, a path, a range, or the changes of a compaction."""

    @property
    def at(self) -> datetime:
        """The time of the event, by the clock of the process that answered."""
        return _EPOCH + timedelta(microseconds=self.number >> _PROCESS_BITS)


def event_number(microseconds: int, process: int) -> int:
    """Returns the number of an event.

    Args:
        microseconds: the time of the event, in microseconds since 1970.
        process: a number that distinguishes processes with events at the same time.
    """
    return microseconds << _PROCESS_BITS | process % (1 << _PROCESS_BITS)


def first_number(moment: datetime) -> int:
    """Returns the lowest possible number of an event at or after a moment.

    For a moment that is too late to have a number, it is the largest number.
    """
    return min(_MAX_NUMBER, event_number((moment - _EPOCH) // timedelta(microseconds=1), 0))


def shorten_details(details: dict[str, Any]) -> dict[str, Any]:
    """Returns details without values that are None or false, and with strings cut to DETAIL_CHARS characters."""
    return {
        name: f"{value[: DETAIL_CHARS - 1]}…" if isinstance(value, str) and len(value) > DETAIL_CHARS else value
        for name, value in details.items()
        if value is not None and value is not False
    }


GAUGES: Final = ("persisted_tokens", "transient_tokens", "window_tokens", "search_tokens", "search_cap")
"""Fields of UsageDelta that describe the context at its last measurement. A later measurement replaces all of them."""


class UsageDelta(Struct, kw_only=True):
    """Numbers that are added to a session's account. The gauges (GAUGES) are not added, but replaced as a whole."""

    artifacts: int = 0
    """Number of ingested payloads. Each counts once, however often it is posted."""
    raw_tokens: int = 0
    """Tokens of the ingested payloads."""
    given_tokens: int = 0
    """Tokens of the texts that were returned in place of the payloads: cards, markers, small payloads themselves,
    budgeted search results."""
    reads: int = 0
    read_tokens: int = 0
    """Tokens of answers that read from artifacts."""
    compactions: int = 0
    unsent_tokens: int = 0
    """Tokens by which compacted requests were smaller, summed over all requests."""
    persisted_tokens: int | None = None
    """Baseline and persisted tokens of the context that was last compacted or measured; None: no context was."""
    transient_tokens: int | None = None
    """Tokens of tool payloads in the measured context that later requests will not contain; None: no measurement."""
    window_tokens: int | None = None
    """Usable tokens of the model's window at that measurement; None: unknown."""
    search_tokens: int | None = None
    """Tokens of the texts of web searches in the measured turn; None: unknown."""
    search_cap: int | None = None
    """Maximum tokens of the texts of web searches in a turn; None: unknown."""

    def add(self, other: "UsageDelta") -> None:
        """Adds the numbers of later operations to these, and takes over the gauges of a later measurement."""
        for name in self.__struct_fields__:
            if name not in GAUGES:
                setattr(self, name, getattr(self, name) + getattr(other, name))
            elif other.persisted_tokens is not None:
                setattr(self, name, getattr(other, name))


class SessionUsage(Struct, frozen=True, kw_only=True):
    """A session's account."""

    spent: UsageDelta
    since: datetime | None
    """Time of the first entry; None: nothing was counted yet."""
    at: datetime | None
    """Time of the last entry; None: nothing was counted yet."""
