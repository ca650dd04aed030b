r"""Lines as a reader takes them: without what no reader sees, and with escapes as the characters that they stand for.

A model asks for what it was shown: the message of a line in JSON (`Gr\u00f6\u00dfe`, `\"`), of a cell of CSV, of a page
(`&quot;`), a word that is coloured in part. Every line keeps its place and its size, so that a search finds the same
lines in the payload.
"""

import html
import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from coatcheck.core.text.terminal import hidden_ranges
from coatcheck.core.text.visible_text import Hidden, in_order

_SIGNS: Final = tuple(
    (mark, re.compile(pattern))
    for mark, pattern in (
        (b"\\", rb"(?:\\+u[0-9a-fA-F]{4})+|\\+[\"'/\\bfnrt]"),
        (b"&", rb"&(?:quot|apos|lt|gt|amp|nbsp|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});"),
        (b'""', rb'""'),
        (b"\x08", rb"[^\n]\x08"),
        (b"\xe2", rb"\xe2(?:\x80[\x8b-\x8f\xaa-\xae]|\x81[\xa0-\xa9])"),
        (b"\xef\xbb\xbf", rb"\xef\xbb\xbf"),
        (b"\xc2\xad", rb"\xc2\xad"),
    )
)
"""Signs that a reader takes for something else, each with bytes that stand in every one of its kind."""
_CONTROL: Final = {b"b": b"", b"f": b"", b"n": b" ", b"r": b"", b"t": b"\t"}
_FILLER: Final = b"\r"
"""Fills a line up to its size: `$` in a pattern passes over it."""


def find_parts(data: bytes, fields: Iterable[Hidden] = ()) -> list[Hidden]:
    """Returns what a reader takes otherwise than it is written, in order, and how; `fields` is not shown either."""
    hidden: list[Hidden] = [(*span, b"") for span in hidden_ranges(data)]
    signs = [sign for mark, pattern in _SIGNS if mark in data for sign in pattern.finditer(data)]
    return in_order([*fields, *hidden, *((*sign.span(), _read(sign[0])) for sign in signs)])


def plain_lines(data: bytes, parts: list[Hidden]) -> bytes:
    """Returns lines as they are read, each filled up to its size."""
    if not parts:
        return data
    out: list[bytes] = []
    at = number = 0
    for line in data.split(b"\n"):
        end, line_start = at + len(line), len(out)
        while number < len(parts) and parts[number][0] < end:
            start, after, replacement = parts[number]
            out += (data[at:start], replacement)
            at = after
            number += 1
        if len(out) > line_start:
            replacement = b"".join([*out[line_start:], data[at:end]])
            del out[line_start:]
            line = replacement[: len(line)].ljust(len(line), _FILLER)  # noqa: PLW2901 - as it is read
        out.append(line)
        at = end + 1
    return b"\n".join(out)


def find_written_position(parts: list[Hidden], line: int, place: int) -> int:
    """Returns where a byte of a plain line is written; `line` is where the line begins, and `place` the byte there."""
    hidden = 0
    for start, end, replacement in parts[bisect_right(parts, line, key=lambda part: part[1]) :]:
        if place < start - hidden:
            break
        if place < start - hidden + len(replacement):
            return start
        hidden += end - start - len(replacement)
    return place + hidden


@lru_cache(1_024)
def _read(sign: bytes) -> bytes:
    """Returns what a sign stands for, at any number of backslashes, as of a string in a string."""
    if sign.startswith(b"&"):
        return html.unescape(sign.decode()).replace("\n", " ").encode("utf-8", "replace")
    if not sign.startswith(b"\\"):
        return b'"' if sign == b'""' else b""
    escape = sign.lstrip(b"\\")
    if escape.startswith(b"u"):
        text: str = json.loads(b'"' + re.sub(rb"\\+", rb"\\", sign) + b'"')
        return text.replace("\n", " ").encode("utf-8", "replace")
    if escape in _CONTROL and (len(sign) - 1) % 2 == 0:
        return b"\\" + escape  # a backslash, as in a path
    return _CONTROL.get(escape, escape or b"\\")
