"""Runs of Base64 in a text, found in one pass."""

from typing import Final

from coatcheck.core.redact.engine import Expression

_RUN: Final = Expression(r"[A-Za-z0-9+/]{28,}={0,2}|[A-Za-z0-9_-]{28,}={0,2}", groups=False)
"""28 characters are 21 bytes: the shortest secrets that are known by their own letters have 20."""
_HEX: Final = (b"0123456789abcdef-", b"0123456789ABCDEF-")
_LOWER: Final = b"abcdefghijklmnopqrstuvwxyz_-"
_UPPER: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ_-/"
_DULL: Final = (*_HEX, _LOWER + b"/", _UPPER, _LOWER + _UPPER)
"""Checksums, names and paths, of which no text comes."""


def runs(data: bytes) -> list[tuple[int, int]]:
    """Where they are."""
    return [(begin, end) for begin, end in _RUN.each(data) if _telling(data[begin:end])]


def _telling(run: bytes) -> bool:
    return all(run.translate(None, dull) for dull in _DULL)
