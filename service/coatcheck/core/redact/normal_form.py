r"""Reads bytes as a person or a program would, so that secrets are found in whatever notation they are written.

Nobody sees escape sequences of terminals, characters that were typed over, invisible characters, the NULs of UTF-16,
soft line breaks, or marks of differences and highlighting in the middle of words: these are left out. Escapes of JSON,
HTML, URLs and mail, and Base64, stand for something else: these are decoded, one layer at a time. As one notation may
hide another, the step is repeated. All of these are called signs. Only the bytes around signs are returned; a text
without any sign costs one search.
"""

import html
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from msgspec import Struct

from coatcheck.core.redact.filler import SecretRange
from coatcheck.core.redact.rules import Expression
from coatcheck.core.text.visible_text import Hidden, in_order
from coatcheck_client.contract.blobs import decode, find_blobs, rest_of
from coatcheck_client.contract.inert import HIDDEN_SET

_LEVELS: Final = 6
"""Maximum number of layers of notation that are undone one after the other."""
_BEFORE: Final = 128
"""Bytes before a sign that are searched with it: more than a name and its separator take."""
_BEHIND: Final = 768
"""Bytes after a sign that are searched with it: more than any secret that follows a name."""
_BETWEEN: Final = b"\n\xa7\n"
"""Separates the pieces that are searched; no match extends across it."""


def _utf8(members: str) -> str:
    """Returns an expression, in Latin-1, that matches the UTF-8 bytes of the members of a character class."""
    ends: dict[bytes, set[int]] = {}
    for low, high in re.findall(r"(?s)(.)(?:-(.))?", members):
        for code in range(ord(low), ord(high or low) + 1):
            encoded = chr(code).encode("utf-8", "surrogatepass")
            ends.setdefault(encoded[:-1], set()).add(encoded[-1])
    return "|".join(f"{_codes(lead)}[{_codes(sorted(last))}]" for lead, last in ends.items())


def _codes(values: Iterable[int]) -> str:
    return "".join(rf"\x{value:02x}" for value in values)


_ESCAPE: Final = 0x1B
"""Code of the escape character, with which sequences for terminals begin."""
_EQUALS: Final = 0x3D
"""Code of `=`, with which escapes of quoted-printable begin (RFC 2045, section 6.7)."""
_ESC: Final = r"(?:\x1b|\^\[|\xe2\x90\x9b)"
"""Matches the escape character, also as `cat -v` and this service print it."""
_STRING: Final = r"[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\xc2\x9c)"
_ESCAPES: Final = (
    rf"(?:{_ESC}\[|\xc2\x9b)[0-?]*[ -/]*[@-~]",  # control sequences: colours, the cursor
    rf"(?:{_ESC}[\]PX^_]|\xc2[\x90\x98\x9d-\x9f]){_STRING}",  # strings for the terminal: links, titles
    r"\x1b[ -/]*[0-Z\\^-~]",  # character sets, shifts
)
_UNSEEN: Final = (
    r"[0-9A-Za-z]\x08_",  # typed over, as man pages do
    *(rf"[^\x08\n]{{{count}}}\x08{{{count}}}" for count in range(8, 0, -1)),
    r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]",
    _utf8("\x80-\x9f\xad\u0300-\u036f\ufeff\ufffd\ud800-\udfff" + HIDDEN_SET),
    r"[\xc0\xc1\xf5-\xff]",  # never part of UTF-8
)
_WRITTEN: Final = (
    r"\\+(?:u00[0-7][0-9a-fA-F]|x[0-7][0-9a-fA-F]|033|e\[)",
    (
        r"\\+u(?:00[89aA][0-9a-fA-F]|03[0-6][0-9a-fA-F]|20[0-6][0-9a-fA-F]|[fF][eE][0fF][0-9a-fA-F]|[fF]{3}[0-9a-dA-D]"
        r"|180[b-fB-F]|061[cC]|115[fF]|1160|17[bB][45]|3164|[fF]{2}[aA]0|[dD][89a-fA-F][0-9a-fA-F]{2})"
    ),
    r"\\+[/_]",
    r"&(?:quot|apos|lt|gt|amp|nbsp|shy|zwnj|zwj|ZeroWidthSpace|lowbar|#[0-9]{1,5}|#[xX][0-9a-fA-F]{1,4});",
    r"%[2-7][0-9a-fA-F]",
    "=3D",
)
_PART: Final = r"[\w+/=.-]"
_INLINE: Final = (
    rf"[\w+/.~%-]=\r?\n{_PART}",  # a soft line break of mail
    rf"{_PART}\[-[^\n\]]{{1,200}}-\]\{{\+{_PART}",
    (
        rf"{_PART}(?:\[-|-\]|\{{\+|\+\}}|\*\*|~~|</?(?:b|i|u|s|em|strong|mark|span|wbr|code|font|del|ins|tt|kbd|a)"
        rf"(?:[ \t\n][^<>]{{0,200}})?/?>|<!--[^<>]{{0,200}}-->)+{_PART}"
    ),
)
"""Matches markup inside a word: it does not end a secret."""
_SIGN: Final = Expression("|".join((*_ESCAPES, *_UNSEEN, *_WRITTEN, *_INLINE)), groups=False)
_MARKED_WORD: Final = re.compile(rb"[\w+/=.~%-][\[\]{+}*~<=-]+.*[\w+/=.~-]\Z", re.DOTALL)
_QUOTED: Final = Expression(r"=[2-7][0-9A-F]", groups=False)
"""Matches escapes of quoted-printable (RFC 2045, section 6.7), if a text has soft line breaks or an escaped `=`."""
_WIDE: Final = Expression(r"(?:[\x07-~]\x00\x00\x00){8,}|(?:[\x07-~]\x00){8,}", groups=False)
"""Matches ASCII text in UTF-16 or UTF-32."""
_RETURN: Final = re.compile(rb"\r(?!\n)")
"""Matches a carriage return that begins a new frame on the same line, as in progress bars. Each frame is searched as it
stands, and so is the text without the carriage returns."""
_VARIABLE: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*=")
"""Matches the beginning of a variable: in the dump of a process environment, NULs separate variables."""
_RUN: Final = Expression(
    r"(?:^|[^\w+/-]|\\[nrt])(?:(?:[A-DH-Za-f][\w+/-]{3}){7}|(?:[/_]{2}[4-7]|[/_]v8|77u)[\w+/-]{25})", groups=False
)
"""Matches the beginning of Base64 that encodes text.

No byte of ASCII has its highest bit set, so the first of four letters is one of these; a text may also begin with a
byte order mark. 28 characters encode 21 bytes; the shortest secrets that are recognisable by themselves have 20.
"""
_WHOLE_RUN: Final = re.compile(rb"(?:\\[nrt]|[^\w+/-])?([A-Za-z0-9+/]{28,}={0,2}|[A-Za-z0-9_-]{28,}={0,2})", re.ASCII)
_NEXT_LINE: Final = re.compile(rb"(?:(?:\\+r)?\\+n|\r?\n)[ \t>|]{0,16}([A-Za-z0-9+/]{2,76}={0,2})(?![A-Za-z0-9+/=])")
_FULL_LINE: Final = 56
"""Minimum characters of a line of Base64 that may continue in the next line."""
_LOWER: Final = b"abcdefghijklmnopqrstuvwxyz_-"
_UPPER: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ_-/"
_DULL: Final = (b"0123456789abcdef-", b"0123456789ABCDEF-", _LOWER + b"/", _UPPER, _LOWER + _UPPER)
"""Alphabets of checksums, names and paths: a run that uses only one of these is not decoded."""
_MIN_RUN: Final = 28
"""Minimum characters of a run that is decoded: as many as `_RUN` matches."""
_PRINTED: Final = 0.9
"""Minimum share of printable ASCII in decoded bytes that are taken for text."""
_TEXT: Final = bytes([0x09, 0x0A, 0x0D, 0x1B, *range(0x20, 0x7F)])
_HEAD_BYTES: Final = 4096
"""Characters of a longer run that are decoded first, to find out whether it is text; an image is decoded no further."""
_ENDS: Final = 6
"""Maximum bytes of incomplete characters at the two ends of a piece of UTF-8."""
_CONTROLS: Final = bytes([*range(7), *range(14, 27), *range(28, 32), 127])
_SAMPLE_BYTES: Final = 4096
"""Size in bytes of an evenly spread sample that shows whether control characters are rare."""
_MAX_CONTROLS: Final = 8
"""Number of control characters in this sample that any text may have."""
_SCATTERED: Final = 50
"""In data that is not binary, at most one byte in this many is a control character."""
_WIDE_UNITS: Final = 8
"""Minimum characters of a sign that is taken for text in wide code units, each of which stands for one character."""


class NormalForm(Struct, frozen=True):
    """The bytes around all signs of a text, with each sign replaced by what it stands for."""

    data: bytes
    starts: list[int]
    """Where each piece begins in `data`. Text and signs alternate; the first piece is text."""
    raw: list[int]
    """Where each piece begins in the original text, and at last the end of that text."""

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Returns the range of the original text that a range of `data` stands for, with all signs in it."""
        return self._at(start)[0], self._at(end - 1)[1]

    def _at(self, byte: int) -> tuple[int, int]:
        """Returns the range of the original text that one byte of `data` stands for."""
        number = bisect_right(self.starts, byte) - 1
        low = self.raw[number]
        if number % 2:
            high, size = self.raw[number + 1], self.starts[number + 1] - self.starts[number]
            step = (high - low) // size if size >= _WIDE_UNITS and (high - low) % size == 0 else 0
            if step <= 1:
                return low, high
            low += (byte - self.starts[number]) * step
            return low, low + 1
        return low + byte - self.starts[number], low + byte - self.starts[number] + 1


def normal_forms(data: bytes) -> Iterator[tuple[bytes, tuple[NormalForm, ...]]]:
    """Yields a text after undoing one layer of notation, two layers, and so on, each with the steps that lead to it.

    Decoded Base64 comes last, because a run of Base64 may be a secret as it stands.
    """
    forms = [(data, ()), *_undone(data, ())]
    yield from forms[1:]
    for text, steps in forms[:1] if len(forms) == 1 else (forms[0], forms[-1]):
        runs = _runs(text)
        if runs:
            decoded = _read(text, runs)
            yield decoded.data, (*steps, decoded)
            yield from _undone(decoded.data, (*steps, decoded))


def _undone(data: bytes, steps: tuple[NormalForm, ...]) -> Iterator[tuple[bytes, tuple[NormalForm, ...]]]:
    for _ in range(_LEVELS):
        signs = _signs(data)
        if not signs:
            return
        steps = (*steps, _read(data, in_order(signs)))
        data = steps[-1].data
        yield data, steps


def map_secrets(secrets: list[SecretRange], steps: tuple[NormalForm, ...]) -> list[SecretRange]:
    """Maps secrets found after some steps to their positions in the original text."""
    out: list[SecretRange] = []
    for each in secrets:
        start, end = each.start, each.end
        for step in reversed(steps):
            start, end = step.place(start, end)
        out.append(SecretRange(start, end, each.rule))
    return out


def _read(data: bytes, signs: list[Hidden]) -> NormalForm:
    """Returns the bytes around signs, with each sign replaced by what it stands for."""
    pieces: list[bytes] = []
    raw: list[int] = []
    at = 0
    for begin, end, reading in [*signs, (len(data), len(data), b"")]:
        is_far = begin - at > _BEHIND + _BEFORE + len(_BETWEEN)
        if is_far and b"PRIVATE" not in data[max(0, at - _BEFORE) : at + _BEHIND]:  # keys are longer than that
            low, high = at + _BEHIND if at else 0, begin - _BEFORE if begin < len(data) else begin
            pieces += [data[at:low], _BETWEEN]
            raw += [at, low]
            at = high
        pieces += [data[at:begin], reading]
        raw += [at, begin]
        at = end
    return NormalForm(b"".join(pieces), list(accumulate(map(len, pieces[:-1]), initial=0)), [*raw, len(data)])


def _signs(data: bytes) -> list[Hidden]:
    if _is_binary(data):
        return [(a, b, data[a : b : 2 if data[a + 2] else 4]) for a, b in _WIDE.each(data)]
    signs = [_sign(data, begin, end) for begin, end in _SIGN.each(data)]
    if b"\r" in data:
        signs += [(match.start(), match.end(), b"") for match in _RETURN.finditer(data)]
    if any(data[begin] == _EQUALS for begin, _, _ in signs):  # quoted-printable
        signs += [_sign(data, begin, end) for begin, end in _QUOTED.each(data)]
    return signs


def _is_binary(data: bytes) -> bool:
    """Returns whether more than a few bytes are control characters, judging by a sample of some thousand bytes."""
    sample = data[:: len(data) // _SAMPLE_BYTES | 1]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    return controls * _SCATTERED > len(sample) and controls > _MAX_CONTROLS


def _sign(data: bytes, begin: int, end: int) -> Hidden:
    """Returns the range of a sign, and what the sign stands for."""
    if data[begin] == _ESCAPE:
        return begin, end, b""
    sign = data[begin:end]
    if sign == b"\0" and _VARIABLE.match(data, end) is not None:
        return begin, end, b"\n"
    if _MARKED_WORD.match(sign) is not None:
        return begin + 1, end - 1, b""
    return begin, end, _reading(sign)


def _reading(sign: bytes) -> bytes:
    first = sign[:1]
    if sign.endswith(b"\x08_"):
        return first
    if first == b"&" and sign.endswith(b";"):
        return b" " if sign == b"&nbsp;" else html.unescape(sign.decode("ascii")).encode("utf-8", "surrogatepass")
    if first in b"%=" and len(sign) == len("%41") and sign[1:].isalnum():
        return bytes((int(sign[1:], 16),))
    if first == b"\\":
        body = sign.lstrip(b"\\")
        if body[:1] in b"ux":
            return chr(int(body[1:], 16)).encode("utf-8", "surrogatepass")
        return b"\x1b" + body[1:] if body[:1] == b"e" else b"\x1b" if body == b"033" else body
    return b""


def _runs(data: bytes) -> list[Hidden]:
    """Returns every run of Base64 that decodes to text, with the text: blobs as a whole, other runs by line."""
    out: list[Hidden] = []
    begins = [(0, rest)] if (rest := rest_of(data)) >= _MIN_RUN else []  # maybe the rest of a blob
    for begin, end in (*begins, *((blob.body, blob.end) for blob in find_blobs(data))):
        pieces = (_decode_run(data[begin + shift : end]) for shift in range(1 if begin else 4))
        if (piece := next(filter(None, pieces), None)) is not None:
            padding = b"\n" * (1 + ((end - begin) % (len(piece) + 2) == 0))  # its bytes have no positions of their own
            out.append((begin, end, b"\n" + piece + padding))
    run_end = 0
    for at, _ in _RUN.each(data):
        match = _WHOLE_RUN.match(data, at)
        if match is None or at < run_end:
            continue
        begin, end = match.span(1)
        run = match[1]
        piece = _decode_run(run) if all(run.translate(None, dull) for dull in _DULL) else None
        if piece is None:
            continue
        out.append((begin, end, b"\n" + piece))
        run_end = end
        while len(run) >= _FULL_LINE and len(run) % 4 == 0 and (line := _NEXT_LINE.match(data, run_end)) is not None:
            piece = _decode_run(line[1])
            if piece is None:
                break
            out.append((run_end, line.end(), piece))
            run, run_end = line[1], line.end()
        out[-1] = (*out[-1][:2], out[-1][2] + b"\n")
    return in_order(out)


def _decode_run(run: bytes) -> bytes | None:
    """Returns the text that a run encodes, in any charset, without the NULs of wide charsets; None if it is no text."""
    if len(run) > _HEAD_BYTES and _decode_run(run[:_HEAD_BYTES]) is None:  # a picture
        return None
    piece = decode(run)
    piece = piece.replace(b"\0", b"") if piece.count(0) * 3 > len(piece) else piece
    printed = len(piece) - len(piece.translate(None, _TEXT))
    if printed >= _PRINTED * len(piece):
        return piece
    valid = len(piece.decode("utf-8", "ignore").encode()) + _ENDS
    controls = len(piece) - len(piece.translate(None, _CONTROLS))
    return piece if valid >= len(piece) and controls * _SCATTERED <= len(piece) else None
