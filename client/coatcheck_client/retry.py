"""When a request is sent again, and after how long. Pure but for chance.

Sent again is what can be sent twice without doing it twice: requests that only read, and puts, which carry an
idempotency key. Nothing is sent again that the service refused for what it is.
"""

import random
from email.utils import parsedate_to_datetime
from typing import Final

from msgspec import Struct

AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses after which the very same request may succeed (RFC 9110 section 15, RFC 6585 section 4)."""
FIRST_DELAY: Final = 0.2
LONGEST_DELAY: Final = 5.0
_dice: Final = random.SystemRandom()


class Retries(Struct, frozen=True, kw_only=True):
    """How patient a client is."""

    attempts: int = 4
    """Times that a request is sent at most; 1 never sends it again."""
    patience: float = 20.0
    """Seconds after which no further attempt begins. A Retry-After beyond it ends the attempts at once."""


def delay(done: int, retry_after: float | None) -> float:
    """Seconds until the next attempt, after `done` of them: doubled each time, half of it by chance.

    The chance keeps callers who failed together from coming back together. What the service asks for is the least.
    """
    grown = min(FIRST_DELAY * 2 ** (done - 1), LONGEST_DELAY)
    spread = grown * (0.5 + _dice.random() / 2)
    return spread if retry_after is None else retry_after + spread / 2


def seconds(value: str | None, date: str | None) -> float | None:
    """What a Retry-After says (RFC 9110 section 10.2.3): seconds, or a date. None where it says nothing.

    Args:
        value: the field's value.
        date: the answer's own Date, by which a date is compared: clocks of two machines differ.
    """
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - parsedate_to_datetime(date or "")).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
