"""When a request is sent again, and after how long. Pure except for randomness.

What can safely be sent twice is sent again: requests that only read, and puts, which have an idempotency key. A request
that the service refused for its content is not sent again.
"""

import random
from email.utils import parsedate_to_datetime
from typing import Final

from msgspec import Struct

AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses after which the same request may succeed (RFC 9110 section 15, RFC 6585 section 4)."""
FIRST_DELAY: Final = 0.2
LONGEST_DELAY: Final = 5.0
_dice: Final = random.SystemRandom()


class Retries(Struct, frozen=True, kw_only=True):
    """How patient a client is."""

    attempts: int = 4
    """Maximum number of times that a request is sent; 1 never sends it again."""
    patience: float = 20.0
    """Seconds after which no further attempt begins. A Retry-After beyond it ends the attempts at once."""


def delay(done: int, retry_after: float | None) -> float:
    """Returns the seconds until the next attempt, after `done` of them: doubled each time, half of it random.

    Randomness keeps callers that failed together from coming back together. The service's Retry-After is the minimum.
    """
    grown = min(FIRST_DELAY * 2 ** (done - 1), LONGEST_DELAY)
    spread = grown * (0.5 + _dice.random() / 2)
    return spread if retry_after is None else retry_after + spread / 2


def seconds(value: str | None, date: str | None) -> float | None:
    """Returns the seconds in a Retry-After (RFC 9110 section 10.2.3), which may be a date. None if it is invalid.

    Args:
        value: the field's value.
        date: the answer's own Date, relative to which a date is read: clocks of two machines differ.
    """
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - parsedate_to_datetime(date or "")).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
