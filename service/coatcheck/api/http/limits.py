"""Limits of the HTTP layer: what it accepts before it calls a use case. Values only; bootstrap fills them in.

Memory for bodies that must be held whole: one budget for all requests of the process.

A body that does not fit is refused with `overloaded` as it arrives, unless others give way to it: those whose senders
have been silent for STALL_SECONDS. No request waits while it holds memory, so there is no deadlock. Bytes count once
they have arrived: announcing them takes nothing from other requests.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.runtime.concurrency_limiter import STALL_SECONDS, Sender, stall_error

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names under which a caller on this machine reaches the service."""


class RequestLimits(Struct, frozen=True, kw_only=True):
    """The limits of one application."""

    payload: int = GIB
    """Maximum size of a payload after decoding; the use case enforces it, and HTTP refuses early where it can."""
    json_body: int = 32 * MIB
    """Maximum size of a JSON body after decoding. Larger payloads use the raw or the multipart route."""
    buffered: int = 128 * MIB
    """Bytes of JSON bodies that all requests together may hold in memory."""
    stall_seconds: float = 60
    """Seconds that a body may pause ..."""
    least_rate: int = KIB
    """... and the average bytes per second that it must reach once the service has waited that long for it in total."""
    batch_at_once: int = 16
    """Items of one batch that are ingested concurrently."""
    field: int = 64 * KIB
    """Maximum size of a form field other than the payload."""
    fields: int = 64
    """Maximum number of parts in a multipart form."""
    codings: int = 2
    """Maximum number of content codings on top of each other."""
    ratio: int = 1000
    """Decoded bytes per encoded byte beyond which a stream is considered a decompression bomb ..."""
    ratio_free: int = 128 * MIB
    """... once it has produced this many bytes. Gzip cannot exceed 1,032; real logs stay below 200."""
    decoded: int = 16 * GIB
    """Bytes that one request may decode to, even if only its two ends are kept."""
    zstd_window: int = 8 * MIB
    """Maximum window of a Zstandard frame (RFC 9659 section 3)."""
    metrics_open: bool = False
    """Whether `/metrics` answers anybody who can reach it, under any host name and without a key."""
    allowed_hosts: tuple[str, ...] | None = LOOPBACK
    """Host names that are served, without port, in lower case. None allows every host and origin; use it only with
    keys."""


_TURNS: Final = 10
"""Turns of the event loop in which those that give way release their memory; they need three."""


class MemoryBudget:
    """A number of bytes shared by all requests. Use it on a single event loop."""

    def __init__(self, size: int) -> None:
        self._left = size
        """Bytes that nobody holds."""
        self._reservations: set[MemoryReservation] = set()
        """Requests that hold bytes or may take some; the silent ones among them can give way."""

    @contextmanager
    def reserve(self) -> Generator["MemoryReservation"]:
        """Yields a reservation for one request; its bytes are released on exit."""
        reservation = MemoryReservation(self)
        self._reservations.add(reservation)
        try:
            yield reservation
        finally:
            # Whatever ends the request, a cancellation included, its bytes come back here.
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
        # The largest come first, so that as few requests as possible are lost.
        for each in sorted(self._reservations, key=lambda each: -each.taken):
            sender = each.sender
            if free < size and sender is not None and sender.is_awaited and sender.silence(now) >= STALL_SECONDS:
                sender.give_way(stall_error(STALL_SECONDS))
                free += each.taken
        # To give way only ends a wait. The bytes come back when the sender's task has left its `with` block.
        for _ in range(_TURNS):
            if free < size or size <= self._left:
                return
            await asyncio.sleep(0)


class MemoryReservation:
    """The part of the budget that one request holds."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.taken = 0
        """Bytes that count against the budget until the request ends."""
        self.sender: Sender | None = None
        """Who sends what is held; None: nobody does yet."""

    async def take(self, size: int) -> None:
        """Reserves `size` more bytes. Raises `overloaded`."""
        await self._budget.take(size)
        self.taken += size
