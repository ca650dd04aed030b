"""Folds letters that readers consider the same: case, accents, vowel points and full-width forms do not count.

A word is folded once, when a query is read. Documents are not folded; they are searched with a pattern that matches
every spelling of the word.
"""

import re
import unicodedata
from functools import cache
from typing import Final

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
_MARKS: Final = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0640"
"""Accents, Hebrew points, Arabic vowels and the Arabic stretching line."""
_MARK: Final = re.compile(f"[{_MARKS}]")
_MARKED: Final = re.compile("[a-z\u0370-\u06ff]")
"""Folded letters that may be written with marks after them."""
_PLAIN: Final = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "ħ": "h", "æ": "ae", "œ": "oe"})
"""Letters of their own that many keyboards lack."""


def fold(text: str) -> str:
    """Returns a text in lower case, without accents or points; scripts whose vowels are marks keep them."""
    text = _MARK.sub("", unicodedata.normalize("NFKD", text).casefold()).translate(_PLAIN)
    return unicodedata.normalize("NFC", text)


@cache
def _variants() -> dict[str, str]:
    """Returns for each folded letter what may stand for it, as the inside of a character class."""
    variants: dict[str, list[str]] = {}
    for low, high in _RANGES:
        for code in range(low, high):
            letter = chr(code)
            base = fold(letter)
            if len(base) == 1 and letter.isalnum():
                variants.setdefault(base, []).append(letter)
    return {letter: "".join(letters) for letter, letters in variants.items()}


def spellings(text: str) -> str:
    """Returns an RE2 pattern for every spelling of folded text; anything but letters matches itself."""
    out: list[str] = []
    at = 0
    while at < len(text):
        pair = text[at : at + 2]
        if pair in _JOINED:
            out.append(f"(?:{_of(pair[0])}{_of(pair[1])}|{_JOINED[pair]})")
            at += 2
        else:
            out.append(_of(text[at]))
            at += 1
    return "".join(out)


_JOINED: Final = {"ss": "[ßẞ]", "ae": "[æÆ]", "oe": "[œŒ]"}


def _of(letter: str) -> str:
    variants = _variants().get(letter, letter)
    variants = variants if letter in variants else letter + variants
    pattern = f"[{variants}]" if len(variants) > 1 else re.escape(variants)
    return f"{pattern}[{_MARKS}]*" if _MARKED.match(letter) and not letter.isascii() else pattern
