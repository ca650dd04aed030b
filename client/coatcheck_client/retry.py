"""When a request is sent again, and after how long. Pure except for randomness.

Every request may be sent again, except for a streamed payload after a part of it was read, and for one that makes a key
or a hold, which would then exist twice if only the answer was lost. A put has an idempotency key, so that it stores
nothing twice. A request that the service refused for its content is not sent again.
"""

import random
from email.utils import parsedate_to_datetime
from typing import Final

from msgspec import Struct

AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses after which the same request may succeed (RFC 9110 section 15, RFC 6585 section 4)."""
FIRST_DELAY: Final = 0.2
"""Seconds between the first attempt and the second; half of this time is random."""
LONGEST_DELAY: Final = 5.0
"""Maximum seconds between two attempts, if the service sends no Retry-After."""
_dice: Final = random.SystemRandom()


class Retries(Struct, frozen=True, kw_only=True):
    """How often and for how long a client tries."""

    attempts: int = 4
    """Maximum number of times that a request is sent; 1: it is never sent again."""
    patience: float = 20.0
    """Seconds after which no further attempt begins. If Retry-After ends later, no further attempt is made."""


def delay(done: int, retry_after: float | None) -> float:
    """Returns the seconds until the next attempt, after `done` attempts. The service's Retry-After is the minimum.

    The seconds double with each attempt, and half of them are random. Randomness keeps callers that failed together
    from coming back together.
    """
    grown = min(FIRST_DELAY * 2 ** min(done - 1, 16), LONGEST_DELAY)  # 2**1024 is no float
    spread = grown * (0.5 + _dice.random() / 2)
    return spread if retry_after is None else retry_after + spread / 2


def seconds(value: str | None, date: str | None) -> float | None:
    """Returns the seconds in a Retry-After field (RFC 9110 section 10.2.3); None if it is missing or invalid.

    Args:
        value: the field's value: a number of seconds, or a date.
        date: the Date field of the same answer. A date is relative to it, because the clocks of two machines differ.
    """
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - parsedate_to_datetime(date or "")).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
