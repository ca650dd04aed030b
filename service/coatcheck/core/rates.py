"""How much a caller may do in a minute: a token bucket, which fills steadily and holds one minute's worth.

Pure: the moment is an argument, in seconds of a clock that never steps back. Nothing here waits; who has too little is
told how long it takes until there is enough.
"""

from typing import Final

from msgspec import Struct

WINDOW: Final = 60.0
"""Seconds in which an empty bucket fills."""


MOST: Final = 10**15
"""The largest limit."""


class Rates(Struct, frozen=True, kw_only=True):
    """What a caller may do in a minute; None: as the settings say, 0: as much as it likes."""

    requests: int | None = None
    bytes: int | None = None


class TokenBucket:
    """What is left for one caller. Begins full, so that a minute's worth may come at once."""

    def __init__(self, quota: int, now: float) -> None:
        """`quota` is what a minute brings, above 0, and the most that the bucket holds."""
        self.quota = quota
        self._left = float(quota)
        self._at = now

    def left(self, now: float) -> int:
        """What may be taken at this moment, in whole units."""
        self._fill(now)
        return int(self._left)

    def full(self, now: float) -> bool:
        """Whether it is as if it had never been used."""
        self._fill(now)
        return self._left >= self.quota

    def take(self, amount: int, now: float) -> bool:
        """Take so much, or nothing when there is less."""
        self._fill(now)
        if amount > self._left:
            return False
        self._left -= amount
        return True

    def give_back(self, amount: int, now: float) -> None:
        """Undo a taking. Never more than the bucket holds."""
        self._fill(now)
        self._left = min(self._left + amount, self.quota)

    def seconds_until(self, amount: int, now: float) -> float:
        """How long until so much may be taken; of more than the bucket holds, until it is full."""
        self._fill(now)
        return max(0.0, (min(amount, self.quota) - self._left) * WINDOW / self.quota)

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._left = min(float(self.quota), self._left + (now - self._at) * self.quota / WINDOW)
            self._at = now
