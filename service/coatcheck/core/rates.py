"""Rate limits as token buckets: each fills steadily and holds one minute's worth.

Pure: the time is an argument, in seconds of a monotonic clock. Nothing waits; a caller over its limit is told how long
it takes until there is enough.
"""

from typing import Final

from msgspec import Struct

WINDOW: Final = 60.0
"""Seconds in which an empty bucket fills."""


MAX_LIMIT: Final = 10**15
"""The largest limit."""


class Rates(Struct, frozen=True, kw_only=True):
    """What a caller may do in a minute; None: as in the settings, 0: unlimited."""

    requests: int | None = None
    bytes: int | None = None


class TokenBucket:
    """What is left for one caller. It begins full, so that a minute's worth may come at once."""

    def __init__(self, quota: int, now: float) -> None:
        """`quota` is the amount added per minute, above 0, and the maximum that the bucket holds."""
        self.quota = quota
        self._left = float(quota)
        self._at = now

    def count_left(self, now: float) -> int:
        """Returns what may be taken now, in whole units."""
        self._fill(now)
        return int(self._left)

    def full(self, now: float) -> bool:
        """Returns whether it is as if it had never been used."""
        self._fill(now)
        return self._left >= self.quota

    def take(self, amount: int, now: float) -> bool:
        """Takes `amount`, or nothing if there is less."""
        self._fill(now)
        if amount > self._left:
            return False
        self._left -= amount
        return True

    def give_back(self, amount: int, now: float) -> None:
        """Undoes a taking. The bucket never holds more than its maximum."""
        self._fill(now)
        self._left = min(self._left + amount, self.quota)

    def seconds_until(self, amount: int, now: float) -> float:
        """Returns the seconds until `amount` may be taken; if it exceeds the maximum, until the bucket is full."""
        self._fill(now)
        return max(0.0, (min(amount, self.quota) - self._left) * WINDOW / self.quota)

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._left = min(float(self.quota), self._left + (now - self._at) * self.quota / WINDOW)
            self._at = now
