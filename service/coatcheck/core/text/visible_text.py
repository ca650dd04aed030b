r"""The visible text of some bytes: without escape sequences and overwritten text, with escapes decoded.

A progress bar writes frame after frame over the same line, separated by `\r`; only the text after the last `\r` stayed
visible (a `\r` before LF ends the line). Notes of the service's replace the overwritten text. Every shown character can
be traced to its byte, so that ranges stay exact; the stored bytes never change.

A model searches for text as it was shown: the message of a line in JSON (`Gr\u00f6\u00dfe`, `\"`), of a cell of CSV, of
a page (`&quot;`), a word that is partly coloured. `plain_lines` therefore returns lines in decoded form in which every
line keeps its position and size: a search finds the same lines in the payload. `decode_in_place` also keeps words near
their positions within a line: a file inside JSON is one line, however long it is.
"""

import html
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, TypeVar, final

from coatcheck.core.text.count import plural
from coatcheck.core.views.window import decode, raw_length

T = TypeVar("T", str, bytes)
Hidden = tuple[int, int, bytes]
"""A range of bytes that are not shown, half-open, and the bytes that are shown in their place."""
ESCAPES: Final = re.compile(
    rb"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|[\]PX^_][^\x07\x1b\r\n]{0,4000}(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[=>78cDEHMNOZ])"
)
"""Matches escape sequences that terminals understand: colours, cursor movements, titles, links, character sets."""
_SEQUENCE_BYTES: Final = 4_100
"""Maximum bytes of an escape sequence."""
_FRAMES: Final = re.compile(rb"^[^\n]*\r(?=[^\r\n])|\r+(?=\r\n)|\r+\Z", re.MULTILINE)
"""Matches the frames of a line that later frames overwrote, and carriage returns that end nothing."""


def overwritten(count: int) -> str:
    """Returns the note that replaces `count` overwritten bytes."""
    return f"[… {plural(count, 'byte')} overwritten …]"


def has_hidden(data: bytes) -> bool:
    """Returns whether `data` may contain anything that a person did not see: escape sequences or overwritten text."""
    return b"\x1b" in data or data.count(b"\r") > data.count(b"\r\n")


def frame_start(line: bytes) -> int:
    r"""Returns where the last frame of a line begins; a `\r` at the end of the line separates no frames."""
    return line.rstrip(b"\r\n").rfind(b"\r") + 1


def without_escapes(data: bytes) -> bytes:
    """Returns `data` without escape sequences."""
    return ESCAPES.sub(b"", data) if b"\x1b" in data else data


def measure_shown_bytes(data: bytes, width: int, hidden: Sequence[Hidden] = ()) -> int:
    """Returns how many bytes from the beginning of `data` have to be shown to get `width` visible bytes."""
    if not hidden and b"\x1b" not in data[:width]:
        return min(width, len(data))
    end = skipped = 0
    for start, stop in sorted([*(part[:2] for part in hidden), *(match.span() for match in ESCAPES.finditer(data))]):
        if start - skipped >= width:
            break
        skipped += max(0, stop - max(start, end))
        end = max(end, stop)
    return min(width + skipped, len(data))


def show_parts(data: bytes, hidden: Sequence[Hidden], base: int = 0) -> bytes:
    """Returns `data` with each hidden range replaced by what is shown in its place.

    `hidden` is in order and disjoint, and its positions count from `base` bytes before `data`.
    """
    if not hidden:
        return data
    out: list[bytes] = []
    at = 0
    for number in range(bisect_right(hidden, base, key=lambda part: part[1]), len(hidden)):
        start, end, replacement = hidden[number]
        if start - base >= len(data):
            break
        out += (data[at : max(at, start - base)], replacement if start >= base else b"")
        at = max(at, end - base)
    return b"".join([*out, data[at:]])


def find_written_positions(hidden: Sequence[Hidden], positions: Iterable[int], *, inside: bool = False) -> list[int]:
    """Returns the positions in the written bytes that correspond to positions in the result of `show_parts`.

    A position inside a replacement corresponds to the start of the hidden range or, if `inside`, to a position as far
    behind that start. `hidden` is in order and disjoint, and `positions` are in order.
    """
    out: list[int] = []
    number = skipped = 0
    for place in positions:
        while number < len(hidden) and hidden[number][0] - skipped + len(hidden[number][2]) <= place:
            start, end, replacement = hidden[number]
            skipped += end - start - len(replacement)
            number += 1
        is_before = inside or number == len(hidden)
        out.append(place + skipped if is_before else min(place + skipped, hidden[number][0]))
    return out


def find_shown_position(hidden: Sequence[Hidden], place: int) -> int:
    """Returns the position for which `find_written_positions` with `inside` returns `place`.

    If there is none, because a hidden range is longer than its replacement, returns the end of that replacement.
    """
    skipped = 0
    for start, end, replacement in hidden:
        if place <= start:
            break
        skipped += end - start - len(replacement) if end <= place else max(0, place - start - len(replacement))
    return place - skipped


def complete_length(data: bytes) -> int:
    """Returns how many bytes from the beginning of `data` can be shown while more may follow.

    They do not include an incomplete escape sequence at the end.
    """
    at = data.rfind(b"\x1b", max(0, len(data) - _SEQUENCE_BYTES))
    return at if at > 0 and ESCAPES.match(data, at) is None else len(data)


@final
class VisibleText:
    """Bytes as a person saw them.

    Attributes:
        text: the visible text, with notes of the service's where something was overwritten.
    """

    def __init__(self, data: bytes, apart: Iterable[tuple[int, int, str]] = ()) -> None:
        """Prepares `data`. The ranges in `apart` are hidden too, each replaced by its text."""
        self._data = data
        self._starts: list[int] = [0]
        """Where each part begins in `data`: verbatim and hidden parts in turn, first a verbatim one, which may be
        empty."""
        self._chars: list[int] = [0]
        """Where each part begins in `text`."""
        out: list[str] = []
        for start, end, replacement in in_order([*_unseen(data), *apart]):
            out += (decode(data[self._starts[-1] : start]), replacement)
            self._starts += (start, end)
            self._chars += (self._chars[-1] + len(out[-2]), self._chars[-1] + len(out[-2]) + len(replacement))
        out.append(decode(data[self._starts[-1] :]))
        self.text = "".join(out)

    def at(self, byte: int) -> int:
        """Returns the index of the character that shows a byte; for a hidden byte, that of its replacement."""
        part = bisect_right(self._starts, byte) - 1
        verbatim = b"" if part % 2 else self._data[self._starts[part] : byte]
        return self._chars[part] + len(decode(verbatim))

    def cut(self, keep: int) -> tuple[int, str]:
        """Returns the number of bytes that the first `keep` characters, or fewer, represent, and these bytes' text.

        Notes of the service's are not split. Hidden bytes belong to the text after them, except those at the very
        beginning.
        """
        if keep >= len(self.text):
            return len(self._data), self.text
        part = bisect_right(self._chars, keep) - 1
        while part % 2 or (part and self._chars[part] == keep and self._starts[part] > 0):
            part -= 1
            keep = min(keep, self._chars[part + 1])
        start, stop = self._starts[part], self._starts[part + 1] if part + 1 < len(self._starts) else len(self._data)
        end = start + raw_length(self._data[start:stop], self._text(part), keep - self._chars[part])
        return end, self.text[: self._chars[part]] + decode(self._data[start:end])

    def _text(self, part: int) -> str:
        end = self._chars[part + 1] if part + 1 < len(self._chars) else len(self.text)
        return self.text[self._chars[part] : end]


def in_order(parts: Iterable[tuple[int, int, T]]) -> list[tuple[int, int, T]]:
    """Returns parts in order, without overlaps: of parts that overlap, the first and longest is kept."""
    out: list[tuple[int, int, T]] = []
    for part in sorted(parts, key=lambda part: (part[0], -part[1])):
        if not out or part[0] >= out[-1][1]:
            out.append(part)
    return out


def _unseen(data: bytes) -> list[tuple[int, int, str]]:
    """Returns the parts that were not visible, in order, each with its replacement."""
    out: list[tuple[int, int, str]] = []
    at = 0
    for match in _FRAMES.finditer(data) if b"\r" in data else ():
        out += [(m.start(), m.end(), "") for m in ESCAPES.finditer(data, at, match.start())]
        blank = not without_escapes(match[0]).strip(b"\r")
        out.append((match.start(), match.end(), "" if blank else overwritten(len(match[0]))))
        at = match.end()
    return [*out, *((m.start(), m.end(), "") for m in ESCAPES.finditer(data, at))]


_OVERWRITTEN: Final = re.compile(rb"^[^\r\n]*+\r(?:[^\n]*\r)?(?=[^\r\n])", re.MULTILINE)
"""Matches a line up to its last carriage return with text after it."""
_CONTROLS: Final = bytes([*range(9), *range(11, 32), 127])
_BACKSPACES: Final = re.compile(rb"[^\n\x08]\x08")


def has_controls(data: bytes) -> bool:
    """Returns whether `data` has control characters besides tabs and line feeds: these are never shown as they are."""
    return len(data.translate(None, _CONTROLS)) < len(data)


def visible(data: bytes) -> bytes:
    """Returns `data` as a terminal would show it in the end, with the same number of line feeds.

    `data` is whole lines, or a piece of one. Takes time linear in `data`. Plain text without escapes, backspaces and
    carriage returns is returned as the same object.
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
    """Returns the half-open byte ranges of `data` that were never visible, disjoint and in order."""
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
"""Kinds of signs that stand for another text: bytes that occur in every sign of the kind, and its pattern."""
_CONTROL: Final = {b"b": b"", b"f": b"", b"n": b" ", b"r": b"", b"t": b"\t"}
_FILLER: Final = b"\r"
"""Byte that fills a line up to its original size: `$` in a pattern ignores it."""
_WORD_END: Final = re.compile(rb"[\s\"'`,;<>|(){}\[\]]")
"""Matches bytes that end a word. The signs inside identifiers, paths and numbers do not."""


def find_parts(data: bytes, fields: Iterable[Hidden] = ()) -> list[Hidden]:
    """Returns the ranges that are hidden or stand for another text, in order, each with that text.

    `fields` are further hidden ranges. With its parts replaced, no line is longer than it is written: in a line that
    would be longer, parts with longer texts are left out.
    """
    hidden: list[Hidden] = [(*span, b"") for span in hidden_ranges(data)]
    signs = [sign for mark, pattern in _SIGNS if mark in data for sign in pattern.finditer(data)]
    parts = in_order([*fields, *hidden, *((*sign.span(), _read(sign[0])) for sign in signs)])
    if all(_growth(part) <= 0 for part in parts):
        return parts
    # A field's value may be shown with the name of its column, which may be longer than the hidden fields.
    ends = [match.start() for match in re.finditer(b"\n", data)]
    lines = (list(line) for _, line in groupby(parts, lambda part: bisect_left(ends, part[0])))
    return [part for line in lines for part in line if _growth(part) <= 0 or sum(map(_growth, line)) <= 0]


def _growth(part: Hidden) -> int:
    """Returns by how many bytes the text of a part is longer than the part."""
    start, end, replacement = part
    return len(replacement) - (end - start)


def plain_lines(data: bytes, parts: list[Hidden]) -> bytes:
    """Returns lines with each of `parts` replaced, each line filled up to its original size.

    `parts` are as `find_parts` returns them. A line that they make longer is cut.
    """
    if not parts:
        return data
    out: list[bytes] = []
    at = number = 0
    for line in data.split(b"\n"):
        end, line_start = at + len(line), len(out)
        while number < len(parts) and parts[number][0] <= end:
            start, after, replacement = parts[number]
            out += (data[at:start], replacement)
            at = after
            number += 1
        if len(out) > line_start:
            replacement = b"".join([*out[line_start:], data[at:end]])
            del out[line_start:]
            line = replacement[: len(line)].ljust(len(line), _FILLER)  # noqa: PLW2901 - the decoded line
        out.append(line)
        at = end + 1
    return b"\n".join(out)


def decode_in_place(data: bytes, parts: Iterable[Hidden]) -> bytes:
    """Returns `data` with each of `parts` replaced, each word near its original position.

    Blanks make up for what a replacement is shorter: they come before the next byte that ends a word, so that no word
    is divided, and each line keeps its position and size. No replacement is longer than its part.
    """
    out: list[bytes] = []
    at = missing_bytes = 0
    for start, end, replacement in [*parts, (len(data), len(data), b"")]:
        for piece, shorter in ((data[at:start], 0), (replacement, end - start - len(replacement))):
            missing_bytes += shorter
            gap = _WORD_END.search(piece) if missing_bytes else None
            if gap is None:
                out.append(piece)
            else:
                out += (piece[: gap.start()], b" " * missing_bytes, piece[gap.start() :])
                missing_bytes = 0
        at = end
    return b"".join([*out, b" " * missing_bytes])


@lru_cache(1_024)
def _read(sign: bytes) -> bytes:
    """Returns the text that a sign stands for. It may have several backslashes, as in a string inside a string."""
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
