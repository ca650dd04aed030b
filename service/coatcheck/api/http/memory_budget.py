"""Memory for bodies that must be held whole: one budget for all requests of the process.

What does not fit is refused with `overloaded` as it arrives; nobody waits holding what they have, so nothing can lock
up. Bytes count when they have come: an announcement costs its sender nothing and takes nothing from others.
"""

from collections.abc import Generator
from contextlib import contextmanager

from coatcheck.core.errors import CoatcheckError, Code


class MemoryBudget:
    """A number of bytes shared by all requests. Used on one event loop."""

    def __init__(self, size: int) -> None:
        self._left = size

    @property
    def left(self) -> int:
        """Bytes of memory that are free now."""
        return self._left

    @contextmanager
    def reserve(self) -> Generator["MemoryReservation"]:
        """Memory for one request; given back on leaving."""
        reservation = MemoryReservation(self)
        try:
            yield reservation
        finally:
            self._left += reservation.taken

    def take(self, size: int) -> None:
        """Take bytes out of the budget.

        Raises:
            CoatcheckError: `overloaded`.
        """
        if size > self._left:
            raise CoatcheckError(
                Code.OVERLOADED,
                "Too many large JSON bodies are being read right now. Retry in a moment, or send the "
                "payload to /v1/artifacts/raw, which streams it.",
            )
        self._left -= size


class MemoryReservation:
    """What one request holds of the budget."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.taken = 0

    def take(self, size: int) -> None:
        """Hold so many bytes more. Raises `overloaded`."""
        self._budget.take(size)
        self.taken += size
