"""Rate limits as token buckets. A bucket fills steadily, and holds at most the amount of one minute.

Pure: the time is an argument, in seconds of a monotonic clock. Nothing waits: a bucket states how many seconds a caller
who exceeds the limit must wait.
"""

from typing import Final

from msgspec import Struct

WINDOW: Final = 60.0
"""Seconds in which an empty bucket fills."""


MAX_LIMIT: Final = 10**15
"""Largest number that a limit may be."""


class Rates(Struct, frozen=True, kw_only=True):
    """Maximum requests and bytes of a caller per minute. None: as in the settings; 0: unlimited."""

    requests: int | None = None
    bytes: int | None = None


class TokenBucket:
    """The amount that is left for one caller. A bucket begins full, so that a minute's amount may be taken at once."""

    def __init__(self, quota: int, now: float) -> None:
        """`quota`, above 0, is the amount that is added per minute, and also the maximum that the bucket holds."""
        self.quota = quota
        self._left = float(quota)
        self._at = now

    def count_left(self, now: float) -> int:
        """Returns the amount that may be taken now, in whole units."""
        self._fill(now)
        return int(self._left)

    def full(self, now: float) -> bool:
        """Returns whether the bucket is full, so that it need not be kept."""
        self._fill(now)
        return self._left >= self.quota

    def take(self, amount: int, now: float) -> bool:
        """Takes `amount` and returns True; returns False, and takes nothing, if less is left."""
        self._fill(now)
        if amount > self._left:
            return False
        self._left -= amount
        return True

    def give_back(self, amount: int, now: float) -> None:
        """Puts an amount that was taken back into the bucket, which never holds more than its maximum."""
        self._fill(now)
        self._left = min(self._left + amount, self.quota)

    def seconds_until(self, amount: int, now: float) -> float:
        """Returns the seconds until `amount` may be taken. An amount above the quota counts as the quota."""
        self._fill(now)
        return max(0.0, (min(amount, self.quota) - self._left) * WINDOW / self.quota)

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._left = min(float(self.quota), self._left + (now - self._at) * self.quota / WINDOW)
            self._at = now
