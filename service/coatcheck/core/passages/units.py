"""Splits bytes into sentences and lines, the units of passages; folds letters; finds the line that introduces text.

Units end at the ends of lines, of sentences in any script, and of blocks of markup. A longer unit is cut after
punctuation or a blank if possible, otherwise between two characters. Works on any bytes, and returns positions.

Case, accents, vowel points and full-width forms make no difference. Only the words of the query are folded; documents
are searched with a pattern that matches every spelling of a word (`spellings`).

The line that introduces a passage (a heading, a definition, the key or message above an indented block) is recognised
by layout alone, so this works in any text: the line stands above the passage, and the passage is indented under it or
follows it like text under a heading.
"""

import re
import unicodedata
from functools import cache
from typing import Final

from coatcheck.core.text.excerpt import grapheme_before

_LINE_BYTES: Final = 2_000
"""Maximum bytes of a line that `lines_of` keeps whole."""
UNIT_BYTES: Final = 480
"""Maximum bytes of a unit."""
_MIN_SENTENCE_BYTES: Final = 60
"""Minimum bytes of a sentence that ends inside a line: a shorter one is taken for an abbreviation or a number."""

_AFTER: Final = rb"[\"')\]]{0,3}[ \t]+(?![a-z \t])"
"""Matches what follows a sentence's last sign: closing quotes or brackets, and blanks without a lower-case letter after
them."""
_CLOSING: Final = rb"(?:\xe2\x80[\x99\x9d]|\xe3\x80[\x8d\x8f]|\xef\xbc\x89)?"
_END: Final = re.compile(
    rb"|".join(
        (
            rb"\n[\r\n]*",
            rb"\." + _AFTER,
            rb"!" + _AFTER,
            rb"\?" + _AFTER,
            rb"\xe2\x80[\xa6\x9d]" + _AFTER,
            rb"\xe3\x80\x82" + _CLOSING,  # Chinese and Japanese
            rb"\xef\xbc[\x81\x9f\x9b]" + _CLOSING,
            rb"\xe0\xa5[\xa4\xa5][ \t]*",  # danda
            rb"\xd8\x9f[ \t]*",  # Arabic
            rb"\xdb\x94[ \t]*",
            rb"\xe1\x81\x8b[ \t]*",  # Burmese
            rb"\xe1\x9f\x94[ \t]*",  # Khmer
            rb"</(?i:p|li|h[1-6]|div|td|tr|dd|dt|title|blockquote|section|pre)>",
            rb"\\n",  # a line end inside JSON
        )
    )
)
"""Matches the end of a unit. Every alternative begins with a fixed byte, so that the engine looks for these bytes and
tries nothing elsewhere."""
_BREAK: Final = re.compile(rb"[,;:)}\]>]|\xef\xbc\x8c|\xe3\x80\x81|[ \t]+")
"""Matches positions at which a sentence that is too long may be cut."""


def units(data: bytes, base: int) -> list[tuple[int, int]]:
    """Returns the ranges of units, without gaps from the first byte to the last; positions count from `base`."""
    out: list[tuple[int, int]] = []
    start, size = 0, len(data)
    ends = [match.end() for match in _END.finditer(data)]
    ends.append(size)
    for end in ends:
        if end - start < _MIN_SENTENCE_BYTES and (end <= start or (end < size and data[end - 1 : end] != b"\n")):
            continue
        while end - start > UNIT_BYTES:
            break_at = _cut(data, start)
            out.append((base + start, base + break_at))
            start = break_at
        out.append((base + start, base + end))
        start = end
    return out


def lines_of(data: bytes) -> list[tuple[int, int]]:
    """Returns the ranges of lines, each including its line feed; a long line is returned in pieces."""
    out: list[tuple[int, int]] = []
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        if end - start > _LINE_BYTES:
            end = _cut(data, start)
        out.append((start, end))
        start = end
    return out


def _cut(data: bytes, start: int) -> int:
    low, high = start + UNIT_BYTES // 2, start + UNIT_BYTES
    break_at = max((match.end() for match in _BREAK.finditer(data, low, high)), default=0)
    return break_at or max(grapheme_before(data, high), start + 1)


def markup(data: bytes) -> list[tuple[int, int]]:
    """Returns the ranges of a page that its readers do not see, in order: tags, scripts, styles and comments."""
    out: list[tuple[int, int]] = []
    at = 0
    lowered = data.lower()
    while (at := lowered.find(b"<", at)) >= 0:
        end = _tag_end(lowered, at)
        if end < 0:
            break
        out.append((at, end))
        at = end
    return out


_RAW: Final = ((b"<script", b"</script"), (b"<style", b"</style"), (b"<!--", b"-->"))


def _tag_end(data: bytes, at: int) -> int:
    """Returns the end of the tag at `at`, or of the whole element if it is a script or a style.

    If the end is missing, returns the end of `data`.
    """
    for opening, closing in _RAW:
        if data.startswith(opening, at):
            at = data.find(closing, at)
            if at < 0:
                return len(data)
            break
    end = data.find(b">", at)
    return len(data) if end < 0 else end + 1


_RANGES: Final = (
    (0x30, 0x3A),
    (0x41, 0x5B),
    (0x61, 0x7B),
    (0xB5, 0x250),  # Latin with accents
    (0x370, 0x530),  # Greek, Cyrillic
    (0x5D0, 0x5EB),  # Hebrew
    (0x620, 0x6D4),  # Arabic
    (0x1E00, 0x2000),  # more Latin and Greek with accents
    (0xFB1D, 0xFB50),  # Hebrew with points
    (0xFF10, 0xFF1A),  # full-width digits and letters
    (0xFF21, 0xFF3B),
    (0xFF41, 0xFF5B),
)
"""Ranges of code points whose spellings are collected: scripts that have capitals, accents, points or wide forms."""
_LATIN_ACCENTS: Final = "\u0300-\u036f"
_ACCENTS: Final = f"{_LATIN_ACCENTS}\u0591-\u05c7\u064b-\u065f\u0670\u0640"
"""Accents, Hebrew points, Arabic vowels and the Arabic stretching line."""
_MARK: Final = re.compile(f"[{_ACCENTS}]")
_MARKED: Final = re.compile("[a-z\u0370-\u06ff]")
"""Matches folded letters that combining marks may follow."""
_MARKED_LETTERS: Final = 40
"""Letters of a word after which combining marks are looked for: with 48 words of 80 such letters, a search of 5 MB
takes 2 s in place of 0.05 s. No word is that long."""
_PLAIN: Final = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "ħ": "h", "æ": "ae", "œ": "oe"})
"""Letters that are no accented forms, but that many keyboards lack, and the letters that people type instead."""


def fold(text: str) -> str:
    """Returns a text in lower case, without accents or points; scripts whose vowels are written as marks keep them."""
    text = _MARK.sub("", unicodedata.normalize("NFKD", text).casefold()).translate(_PLAIN)
    return unicodedata.normalize("NFC", text)


@cache
def _variants() -> dict[str, str]:
    """Returns for each folded letter the letters that fold to it, as the inside of a character class."""
    variants: dict[str, list[str]] = {}
    for low, high in _RANGES:
        for code in range(low, high):
            letter = chr(code)
            base = fold(letter)
            if len(base) == 1 and letter.isalnum():
                variants.setdefault(base, []).append(letter)
    return {letter: "".join(letters) for letter, letters in variants.items()}


def spellings(text: str) -> str:
    """Returns an RE2 pattern that matches every spelling of a folded text; anything but letters matches itself."""
    out: list[str] = []
    at = 0
    while at < len(text):
        pair = text[at : at + 2]
        if pair in _JOINED:
            out.append(f"(?:{_of(pair[0])}{_of(pair[1])}|{_JOINED[pair]})")
            at += 2
        else:
            out.append(_of(text[at], marked=at < _MARKED_LETTERS))
            at += 1
    return "".join(out)


_JOINED: Final = {"ss": "[ßẞ]", "ae": "[æÆ]", "oe": "[œŒ]"}


def _of(letter: str, *, marked: bool = True) -> str:
    variants = _variants().get(letter, letter)
    variants = variants if letter in variants else letter + variants
    pattern = f"[{variants}]" if len(variants) > 1 else re.escape(variants)
    # In decomposed text (NFD), such as names of files on macOS, marks follow letters of ASCII, too.
    accents = _LATIN_ACCENTS if letter.isascii() else _ACCENTS
    return f"{pattern}[{accents}]*" if marked and _MARKED.match(letter) else pattern


_LEAD_BYTES: Final = 8 * 1024
"""Maximum bytes above a passage in which an introducing line is searched for."""
_LEAD_LINES: Final = 200
"""Maximum lines above a passage in which an introducing line is searched for."""
_LEAD_LINE_BYTES: Final = 120
"""Maximum bytes of an introducing line."""
_HEADING: Final = re.compile(rb"^#{1,6} [^\n]+\n(?=[ \t]*\n)", re.MULTILINE)
_INTRODUCES: Final = re.compile(rb"[A-Za-z_@#\"'\x80-\xff-][^\n]*[^\s.,;]\s*\Z")
"""Matches a line, without its indentation, that may introduce others: neither a number in a column nor a finished
sentence."""
_DEFINES: Final = re.compile(
    rb"(?:[a-z]+ ){0,3}(?:def|class|func|fn|function|interface|struct|enum|trait|impl|module|namespace|sub|proc)\b"
)


def lead_line(data: bytes, at: int, *, whole: bool) -> tuple[int, int] | None:
    """Returns the half-open byte range of the line in `data` that introduces the line beginning at `at`, if any.

    `whole` says whether `data` begins at the start of a line.
    """
    low = max(0, at - _LEAD_BYTES)
    if low or not whole:
        low = data.find(b"\n", low, at) + 1
        if not low:
            return None
    end = data.find(b"\n", at)
    depth = _depth(data[at : end if end >= 0 else len(data)])
    if depth:
        return _above(data, low, at, depth)
    headings = list(_HEADING.finditer(data, low, at)) if data.find(b"#", low, at) >= 0 else []
    return headings[-1].span() if headings else None


def _above(data: bytes, low: int, at: int, depth: int) -> tuple[int, int] | None:
    """Returns the nearest less indented definition, going outwards, or else the nearest less indented lead line."""
    nearest: tuple[int, int] | None = None
    end = at
    for _ in range(_LEAD_LINES):
        if end <= low or not depth:
            break
        start = max(low, data.rfind(b"\n", low, end - 1) + 1)
        line = data[start:end]
        own = _depth(line)
        if line.strip() and own < depth:
            depth = own
            text = line[own:]
            if len(text) <= _LEAD_LINE_BYTES and _INTRODUCES.match(text):
                if _DEFINES.match(text):
                    return start, end
                nearest = nearest or (start, end)
        end = start
    return nearest


def _depth(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" \t"))
