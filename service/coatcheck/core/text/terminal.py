r"""What a person saw of output that was written to a terminal: no control sequences, and nothing that was overwritten.

A `\r` that does not end a line returns to the line's beginning, so only what follows the last one stays visible. The
stored bytes never change.
"""

import re
from typing import Final

from coatcheck.core.text.visible_text import ESCAPES, in_order

_OVERWRITTEN: Final = re.compile(rb"^[^\r\n]*+\r(?:[^\n]*\r)?(?=[^\r\n])", re.MULTILINE)
"""Matches a line up to its last carriage return that text follows."""
_CONTROLS: Final = bytes([*range(9), *range(11, 32), 127])
_BACKSPACES: Final = re.compile(rb"[^\n\x08]\x08")


def has_controls(data: bytes) -> bool:
    """Returns whether bytes are shown as something else, or not at all; tabs and line feeds are not meant."""
    return len(data.translate(None, _CONTROLS)) < len(data)


def visible(data: bytes) -> bytes:
    """Returns `data` as a terminal leaves it, with the same number of line feeds.

    Linear in `data`: whole lines, or a piece of one. Plain text without escapes and carriage returns is returned as the
    same object.
    """
    if b"\x1b" in data:
        data = ESCAPES.sub(b"", data)
    if b"\x08" in data:
        data = _BACKSPACES.sub(b"", data)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        if b"\r" in data:
            data = _OVERWRITTEN.sub(b"", data).replace(b"\r", b"")
    return data


def hidden_ranges(data: bytes) -> list[tuple[int, int]]:
    """Returns the disjoint half-open byte ranges of `data` that were never visible, in order."""
    hidden_parts = [(*match.span(), b"") for match in ESCAPES.finditer(data)] if b"\x1b" in data else []
    if data.count(b"\r") > data.count(b"\r\n"):
        hidden_parts += [(*match.span(), b"") for match in _OVERWRITTEN.finditer(data)]
    return [(start, end) for start, end, _ in in_order(hidden_parts)]


def blank_hidden(data: bytes) -> bytes:
    """Returns `data` with blanks in place of what was never visible, so that all positions stay the same."""
    hidden = hidden_ranges(data)
    if not hidden:
        return data
    out = bytearray(data)
    for start, end in hidden:
        out[start:end] = b" " * (end - start)
    return bytes(out)
