"""Finds secrets inside Base64: decodes every run in a text in one go and searches the result as a text of its own.

Only one layer is decoded. A match masks the whole run of Base64, because part of it would give away part of the secret.
"""

import binascii
from bisect import bisect_right
from typing import Final

from msgspec import Struct

from coatcheck.core.redact.engine import Expression
from coatcheck.core.redact.filler import SecretRange

_RUN: Final = Expression(r"[A-Za-z0-9+/]{28,}={0,2}|[A-Za-z0-9_-]{28,}={0,2}", groups=False)
"""28 characters encode 21 bytes; the shortest secrets that are recognisable by themselves have 20."""
_LOWER: Final = b"abcdefghijklmnopqrstuvwxyz_-"
_UPPER: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ_-/"
_DULL: Final = (b"0123456789abcdef-", b"0123456789ABCDEF-", _LOWER + b"/", _UPPER, _LOWER + _UPPER)
"""Checksums, names and paths, which never decode to text."""
LONGEST: Final = 64 * 1024
"""Longest run that is decoded, in bytes; a longer one is a file, not a secret."""
_PRINTED: Final = 0.9
"""Share of the decoded bytes that must be printable."""
_TEXT: Final = bytes([0x09, 0x0A, 0x0D, *range(0x20, 0x7F)])
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


class DecodedSecrets(Struct, frozen=True):
    """The decoded runs, one per line, and where each stood in the text."""

    data: bytes
    starts: list[int]
    """Where each run begins in `data`, in order."""
    extents: list[tuple[int, int]]
    """Where each run stands in the text."""


def decoded(data: bytes) -> DecodedSecrets:
    """Returns every run that decodes to text."""
    pieces: list[bytes] = []
    starts: list[int] = []
    extents: list[tuple[int, int]] = []
    at = 0
    for start, end in _RUN.each(data):
        run = data[start:end]
        piece = _decoded(run[:LONGEST]) if all(run.translate(None, dull) for dull in _DULL) else None
        if piece is not None:
            pieces.append(piece)
            starts.append(at)
            extents.append((start, end))
            at += len(piece) + 1
    return DecodedSecrets(b"\n".join(pieces), starts, extents)


def places(hidden: DecodedSecrets, found: list[SecretRange]) -> list[SecretRange]:
    """Maps matches in `hidden.data` back to their places in the text."""
    out: list[SecretRange] = []
    for each in found:
        first = bisect_right(hidden.starts, each.start) - 1
        last = bisect_right(hidden.starts, each.end - 1) - 1
        out += [SecretRange(*extent, each.rule) for extent in hidden.extents[first : last + 1]]
    return out


def _decoded(run: bytes) -> bytes | None:
    run = run.rstrip(b"=").translate(_URL_SAFE)
    run = run[: len(run) - (len(run) % 4 == 1)]
    try:
        piece = binascii.a2b_base64(run + b"=" * (-len(run) % 4))
    except (binascii.Error, ValueError):
        return None
    printed = len(piece) - len(piece.translate(None, _TEXT))
    return piece if printed >= _PRINTED * len(piece) else None
