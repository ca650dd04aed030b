"""Memory for bodies that must be held whole: one budget for all requests of the process.

A body that does not fit is refused with `overloaded` as it arrives. No request waits while it holds memory, so there is
no deadlock. Bytes count once they have arrived: announcing them takes nothing from other requests.
"""

from collections.abc import Generator
from contextlib import contextmanager

from coatcheck.core.errors import CoatcheckError, Code


class MemoryBudget:
    """A number of bytes shared by all requests. Use it on a single event loop."""

    def __init__(self, size: int) -> None:
        self._left = size

    @property
    def left(self) -> int:
        """Number of free bytes."""
        return self._left

    @contextmanager
    def reserve(self) -> Generator["MemoryReservation"]:
        """Yields a reservation for one request; its bytes are released on exit."""
        reservation = MemoryReservation(self)
        try:
            yield reservation
        finally:
            self._left += reservation.taken

    def take(self, size: int) -> None:
        """Takes bytes from the budget.

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
    """The part of the budget that one request holds."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.taken = 0

    def take(self, size: int) -> None:
        """Reserves `size` more bytes. Raises `overloaded`."""
        self._budget.take(size)
        self.taken += size
