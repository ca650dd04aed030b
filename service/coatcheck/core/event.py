"""Events of artifacts and sessions, and sessions' token accounts. For people to read; no decision depends on them.

Every count is in tokens of the service's own tokenizer.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from msgspec import Struct

Action = Literal["read", "outline", "search", "passages", "json", "web_search", "compaction"]
"""How an artifact was read, or what else was requested in a session."""

DETAIL_CHARS: Final = 500
"""Maximum characters of a string in an event's details; longer ones are cut, with `…`."""
CHANGES: Final = 50
"""Maximum number of a compaction's changes that are listed; the others are counted."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PROCESS_BITS: Final = 8
"""Low bits of an event's number that tell processes apart: the rest lasts until the year 3111."""
_MAX_NUMBER: Final = 2**63 - 1
"""Largest number of an event: what a signed 64-bit column of the catalogue holds."""


class Event(Struct, frozen=True, kw_only=True):
    """An entry of the event log."""

    number: int
    """Increases with time, unique in the store: see `event_number`."""
    namespace: str
    session: str | None
    artifact: int | None
    """The artifact concerned; None: it concerns the session."""
    action: Action
    key_id: str | None
    """That of the caller; None: no key was needed."""
    tokens: int
    """Tokens of the answer; for a compaction, of the compacted request."""
    tokens_before: int | None = None
    """For a compaction, tokens of the original request; for a web search, of the whole response."""
    details: dict[str, Any] = {}
    """What was requested, as JSON: a pattern, a query, a path, a range; what a compaction changed."""

    @property
    def at(self) -> datetime:
        """When it happened, by the clock of the process that answered."""
        return _EPOCH + timedelta(microseconds=self.number >> _PROCESS_BITS)


def event_number(microseconds: int, process: int) -> int:
    """Returns the number of an event at a moment since 1970.

    `process` distinguishes processes with an event at the same moment.
    """
    return microseconds << _PROCESS_BITS | process % (1 << _PROCESS_BITS)


def first_number(moment: datetime) -> int:
    """Returns the lowest possible number of an event at or after a moment.

    The highest of all for moments out of range.
    """
    return min(_MAX_NUMBER, event_number((moment - _EPOCH) // timedelta(microseconds=1), 0))


def shorten_details(details: dict[str, Any]) -> dict[str, Any]:
    """Returns details without absent values, and with long strings cut."""
    return {
        name: f"{value[: DETAIL_CHARS - 1]}…" if isinstance(value, str) and len(value) > DETAIL_CHARS else value
        for name, value in details.items()
        if value is not None and value is not False
    }


GAUGES: Final = ("persisted_tokens", "transient_tokens", "window_tokens", "search_tokens", "search_cap")
"""Fields of the context that was last measured; they replace earlier ones together."""


class UsageDelta(Struct, kw_only=True):
    """What is added to a session's account; the gauges are replaced, all of them, by a later measurement."""

    artifacts: int = 0
    """Payloads that were ingested, each counted once however often it is posted."""
    raw_tokens: int = 0
    """Tokens of those payloads."""
    given_tokens: int = 0
    """Tokens of what was returned instead: cards, markers, small payloads themselves, budgeted search results."""
    reads: int = 0
    read_tokens: int = 0
    """Tokens of answers that read from artifacts."""
    compactions: int = 0
    unsent_tokens: int = 0
    """Tokens by which compacted requests were smaller, summed over all requests."""
    persisted_tokens: int | None = None
    """Baseline and persisted tokens of the context that was last compacted or measured; None: there was none."""
    transient_tokens: int | None = None
    """Tokens of that turn's tool payload that will not stay."""
    window_tokens: int | None = None
    """The usable window of that measurement; None: it was not known."""
    search_tokens: int | None = None
    """Tokens of the texts of web searches in that turn."""
    search_cap: int | None = None
    """Maximum tokens of these texts."""

    def add(self, other: "UsageDelta") -> None:
        """Adds what happened later."""
        for name in self.__struct_fields__:
            if name not in GAUGES:
                setattr(self, name, getattr(self, name) + getattr(other, name))
            elif other.persisted_tokens is not None:
                setattr(self, name, getattr(other, name))


class SessionUsage(Struct, frozen=True, kw_only=True):
    """A session's account."""

    spent: UsageDelta
    since: datetime | None
    """When it was first written to; None: nothing was counted."""
    at: datetime | None
    """When it was last written to."""
