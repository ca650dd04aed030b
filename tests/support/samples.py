"""Payloads that are made, and payloads that come in pieces."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable


async def stream(payload: bytes, size: int = 65536) -> AsyncIterator[bytes]:
    """A payload in pieces, as a socket gives them."""
    for start in range(0, len(payload), size):
        yield payload[start : start + size]
        await asyncio.sleep(0)


async def given(pieces: Iterable[bytes | Callable[[], None]]) -> AsyncIterator[bytes]:
    """Pieces, and what happens between them."""
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
        else:
            piece()


def noise(size: int, seed: int = 1) -> bytes:
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(size)


def lines(size: int, seed: int = 1) -> bytes:
    """Text lines of words, cut to exactly this size, that compress to about a third."""
    rng = random.Random(seed)
    words = [f"word{rng.randrange(10**6)}" for _ in range(500)]
    out = bytearray()
    while len(out) < size:
        out += " ".join(rng.choices(words, k=9)).encode() + b"\n"
    return bytes(out[:size])
