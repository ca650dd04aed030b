"""Limits of the HTTP layer, and the memory budget for request bodies. The bootstrap sets the limits from the settings.

All requests of the process share one memory budget for bodies that must be in memory as a whole.

A body that does not fit into the budget is refused with `overloaded` while it arrives, unless other requests give way:
those whose senders have been silent for STALL_SECONDS. No request waits for memory while it holds some, so there is no
deadlock. Bytes count once they have arrived, so that an announced length takes no memory from other requests.
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
"""Host names under which a caller on this machine reaches the service."""


class RequestLimits(Struct, frozen=True, kw_only=True):
    """The limits of one application."""

    payload: int = GIB
    """Maximum bytes of a decoded payload. The use case enforces it, and the HTTP layer refuses early where it can."""
    json_body: int = 32 * MIB
    """Maximum bytes of a decoded JSON body. Larger payloads must be sent to the raw route or in a form."""
    buffered: int = 128 * MIB
    """Maximum bytes of JSON bodies that all requests together may have in memory."""
    stall_seconds: float = 60
    """Maximum seconds of one pause in a body."""
    least_rate: int = KIB
    """Bytes per second that a body must reach on average once its pauses add up to `stall_seconds`."""
    batch_at_once: int = 16
    """Maximum items of one batch that are ingested concurrently."""
    field: int = 64 * KIB
    """Maximum bytes of a form field other than the payload."""
    fields: int = 64
    """Maximum number of parts in a multipart form."""
    codings: int = 2
    """Maximum number of content codings applied to one body."""
    ratio: int = 1000
    """Maximum decoded bytes per encoded byte, above which a body is considered a decompression bomb. Gzip cannot exceed
    1,032; real logs stay below 200."""
    ratio_free: int = 128 * MIB
    """Decoded bytes up to which `ratio` does not apply."""
    decoded: int = 16 * GIB
    """Maximum decoded bytes of one body, even if only its two ends are kept."""
    zstd_window: int = 8 * MIB
    """Maximum window of a Zstandard frame, in bytes (RFC 9659 section 3)."""
    metrics_open: bool = False
    """Whether `/metrics` answers anybody who can reach it, under any host name and without a key."""
    allowed_hosts: tuple[str, ...] | None = LOOPBACK
    """Host names under which the service answers, in lower case and without a port. None: every host and origin is
    allowed, which is safe only if keys are required."""


_MAX_TURNS: Final = 10
"""Maximum turns of the event loop to wait until requests that give way have released their memory. They need three."""


class MemoryBudget:
    """A number of bytes that all requests share. Use it on a single event loop."""

    def __init__(self, size: int) -> None:
        self._free_bytes = size
        """Bytes that no request has taken."""
        self._reservations: set[MemoryReservation] = set()
        """Reservations of all requests in progress. Those with a silent sender can give way."""

    @contextmanager
    def reserve(self) -> Generator["MemoryReservation"]:
        """Yields a reservation for one request; its bytes are released on exit."""
        reservation = MemoryReservation(self)
        self._reservations.add(reservation)
        try:
            yield reservation
        finally:
            # The bytes come back here however the request ends, even if it is cancelled.
            self._reservations.discard(reservation)
            self._free_bytes += reservation.taken

    async def take(self, size: int) -> None:
        """Takes `size` bytes from the budget.

        Raises:
            CoatcheckError: `overloaded` if too few bytes are free, even after other requests have given way.
        """
        if size > self._free_bytes:
            await self._reclaim(size)
        if size > self._free_bytes:
            raise CoatcheckError(
                Code.OVERLOADED,
                "Too many large JSON bodies are being read right now. Retry in a moment, or send the "
                "payload to /v1/artifacts/raw, which streams it.",
            )
        self._free_bytes -= size

    async def _reclaim(self, size: int) -> None:
        """Makes requests with silent senders give way, the largest first, and waits until their memory is free."""
        now, free = asyncio.get_running_loop().time(), self._free_bytes
        # Begin with the largest, so that as few requests as possible are lost.
        for each in sorted(self._reservations, key=lambda each: -each.taken):
            sender = each.sender
            if free < size and sender is not None and sender.is_awaited and sender.silence(now) >= STALL_SECONDS:
                sender.give_way(stall_error(STALL_SECONDS))
                free += each.taken
        # `give_way` only ends the wait of a request. Its bytes come back when its task has left its `with` block.
        for _ in range(_MAX_TURNS):
            if free < size or size <= self._free_bytes:
                return
            await asyncio.sleep(0)


class MemoryReservation:
    """The part of the memory budget that one request has taken."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.taken = 0
        """Bytes that the request has taken. They come back when it ends."""
        self.sender: Sender | None = None
        """The sender of the body; None: the request has not begun to read its body."""

    async def take(self, size: int) -> None:
        """Takes `size` more bytes. See `MemoryBudget.take`."""
        await self._budget.take(size)
        self.taken += size
