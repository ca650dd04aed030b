"""What of the events is remembered until it is written down."""

import pytest

from coatcheck.core.artifact import Caller
from coatcheck.core.event import DETAIL_CHARS
from coatcheck.storing.ledger import Ledger


def test_events_have_numbers_of_their_own_even_when_the_clock_stands_still() -> None:
    ledger = Ledger(lambda: 1_800_000_000_000_000_000)
    for tokens in range(5):
        ledger.log(Caller(), "s", "search", tokens, details={"pattern": "x" * 2 * DETAIL_CHARS, "literal": False})
    events = ledger.drain_events()
    assert [event.tokens for event in events] == list(range(5))
    assert sorted({event.number for event in events}) == [event.number for event in events]
    assert all(event.details == {"pattern": f"{'x' * (DETAIL_CHARS - 1)}…"} for event in events)
    assert ledger.drain_events() == []


def test_more_than_can_be_kept_at_once_are_counted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger()
    for _ in range(Ledger.EVENTS + 3):
        ledger.log(Caller(), "s", "read", 1, details={})
    assert len(ledger.drain_events()) == Ledger.EVENTS
    assert "3 events were not logged" in caplog.text
    ledger.log(Caller(), "s", "read", 1, details={})
    assert len(ledger.drain_events()) == 1


def test_nothing_is_logged_where_that_is_off_or_where_nobody_could_ask_for_it() -> None:
    off, on = Ledger(logs=False), Ledger()
    off.log(Caller(), "s", "read", 1, details={})
    on.log(Caller(), None, "compaction", 1, details={})
    assert off.drain_events() == on.drain_events() == []
