"""Limits the time of one evaluation."""

from collections.abc import Callable
from typing import Final

_STEPS: Final = 512
"""Steps between two checks of the time."""


class OutOfEffortError(Exception):
    """The allowed steps or time are used up."""


class Effort:
    """How much time an evaluation may take: `spend` is called for each node that is visited."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        """Starts now."""
        self._clock = clock
        self._until = clock() + seconds
        self._left = _STEPS

    def at_most(self, seconds: float) -> None:
        """Limits the remaining time to `seconds`."""
        self._until = min(self._until, self._clock() + seconds)

    def spend(self, steps: int = 1) -> None:
        """Counts steps.

        Raises:
            OutOfEffortError: when time is up, which is checked now and then.
        """
        self._left -= steps
        if self._left <= 0:
            self._left = _STEPS
            if self._clock() > self._until:
                raise OutOfEffortError
