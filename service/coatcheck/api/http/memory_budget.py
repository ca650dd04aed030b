"""Memory for bodies that must be held whole: one budget for all requests of the process.

A body that does not fit is refused with `overloaded` as it arrives, unless others give way to it: those whose senders
have been silent for STALL_SECONDS. No request waits while it holds memory, so there is no deadlock. Bytes count once
they have arrived: announcing them takes nothing from other requests.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.runtime.concurrency_limiter import STALL_SECONDS, Sender, stall_error

_TURNS: Final = 10
"""Turns of the event loop in which those that give way release their memory; they need three."""


class MemoryBudget:
    """A number of bytes shared by all requests. Use it on a single event loop."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._reservations: set[MemoryReservation] = set()

    @property
    def free_bytes(self) -> int:
        """Number of free bytes."""
        return self._left

    @contextmanager
    def reserve(self) -> Generator["MemoryReservation"]:
        """Yields a reservation for one request; its bytes are released on exit."""
        reservation = MemoryReservation(self)
        self._reservations.add(reservation)
        try:
            yield reservation
        finally:
            self._reservations.discard(reservation)
            self._left += reservation.taken

    async def take(self, size: int) -> None:
        """Takes bytes from the budget.

        Raises:
            CoatcheckError: `overloaded`.
        """
        if size > self._left:
            await self._reclaim(size)
        if size > self._left:
            raise CoatcheckError(
                Code.OVERLOADED,
                "Too many large JSON bodies are being read right now. Retry in a moment, or send the "
                "payload to /v1/artifacts/raw, which streams it.",
            )
        self._left -= size

    async def _reclaim(self, size: int) -> None:
        """Lets silent senders give way, those that hold most first, and waits until their memory is free."""
        now, free = asyncio.get_running_loop().time(), self._left
        for each in sorted(self._reservations, key=lambda each: -each.taken):
            sender = each.sender
            if free < size and sender is not None and sender.is_awaited and sender.silence(now) >= STALL_SECONDS:
                sender.give_way(stall_error(STALL_SECONDS))
                free += each.taken
        for _ in range(_TURNS):
            if free < size or size <= self._left:
                return
            await asyncio.sleep(0)


class MemoryReservation:
    """The part of the budget that one request holds."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.taken = 0
        self.sender: Sender | None = None
        """Who sends what is held; None: nobody does yet."""

    async def take(self, size: int) -> None:
        """Reserves `size` more bytes. Raises `overloaded`."""
        await self._budget.take(size)
        self.taken += size
