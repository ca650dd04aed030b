"""Memory for bodies that must be held whole: one budget for all requests of the process.

What does not fit is refused with `overloaded` as it arrives; nobody waits holding what they have, so nothing can lock
up. Bytes count when they have come: an announcement costs its sender nothing and takes nothing from others.
"""

from collections.abc import Generator
from contextlib import contextmanager

from coatcheck.core.errors import CoatcheckError, Code


class MemoryBudget:
    """So many bytes, for everybody. Used on one event loop."""

    def __init__(self, size: int) -> None:
        self._left = size

    @property
    def left(self) -> int:
        """Bytes that nobody holds."""
        return self._left

    @contextmanager
    def room(self) -> Generator["MemoryReservation"]:
        """Room for one request; given back on leaving."""
        room = MemoryReservation(self)
        try:
            yield room
        finally:
            self._left += room.taken

    def take(self, size: int) -> None:
        """Take bytes out of the budget.

        Raises:
            CoatcheckError: `overloaded`.
        """
        if size > self._left:
            raise CoatcheckError(
                Code.OVERLOADED,
                "Too many large JSON bodies are being read at this moment. Retry in a moment, or send the payload to "
                "/v1/artifacts/raw, which streams it.",
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
