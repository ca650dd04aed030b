"""The time that one evaluation may take."""

from collections.abc import Callable
from typing import Final

_STEPS: Final = 512
"""Steps between two looks at the clock."""


class OutOfEffortError(Exception):
    """The budget of steps or time is spent."""


class Effort:
    """How much time an evaluation may take: `spend` is called for each node that is looked at."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        """Begin now."""
        self._clock = clock
        self._until = clock() + seconds
        self._left = _STEPS

    def at_most(self, seconds: float) -> None:
        """Leave no more than that."""
        self._until = min(self._until, self._clock() + seconds)

    def spend(self, steps: int = 1) -> None:
        """Note steps.

        Raises:
            OutOfEffortError: when time is over, which is looked at once in a while.
        """
        self._left -= steps
        if self._left <= 0:
            self._left = _STEPS
            if self._clock() > self._until:
                raise OutOfEffortError
