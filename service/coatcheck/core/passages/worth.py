"""Rates how likely a term is meant where its stem begins: as the word itself, inflected, longer, or inside another.

Rates one position at a time in any text (`worth_at`), or many at once in ASCII (`worths`), with the same results.
"""

import re
from typing import Final

import numpy as np
import numpy.typing as npt
import regex

from coatcheck.core.passages.fold import fold
from coatcheck.core.passages.scan import Ints
from coatcheck.core.passages.terms import Term

Floats = npt.NDArray[np.float64]

MEANT: Final = 1.0
"""The word itself."""
_INFLECTED: Final = 0.75
_LONGER: Final = 0.4
_INSIDE: Final = 0.25
_PREFIXED: Final = 0.6
"""The inside of a word in Arabic and Hebrew, which prefix articles and prepositions."""
_CERTAIN: Final = frozenset({"gram", "sign", "whole"})
"""Roles that are meant wherever they occur."""
_ENDING: Final = 2
"""Letters by which an inflected form may be longer."""
_WORD_BYTES: Final = 64
"""Bytes of a word that are examined."""

_CLITICS: Final = re.compile("[\u05d0-\u06ff]{3}")
_REST: Final = regex.compile(r"[\p{L}\p{M}\p{N}]*")
_UPPER, _LOWER, _DIGIT = 1, 2, 3
_KINDS: Final = np.zeros(256, dtype=np.uint8)
_KINDS[ord("A") : ord("Z") + 1] = _UPPER
_KINDS[ord("a") : ord("z") + 1] = _LOWER
_KINDS[ord("0") : ord("9") + 1] = _DIGIT
_CASE: Final = 0x20


def worth_at(data: bytes, at: int, term: Term) -> float:
    """Returns the worth of a term whose stem begins at `at`; 0 if it does not count."""
    if term.role in _CERTAIN:
        return MEANT
    before = data[max(0, at - 4) : at].decode("utf-8", "ignore")[-1:]
    rest = _REST.match(data[at : at + _WORD_BYTES].decode("utf-8", "ignore"))
    word = rest.group() if rest else ""
    camel = not before.isupper() and word[:1].isupper()
    if before.isalpha() and not camel:
        if _CLITICS.match(term.stem):
            return _PREFIXED
        return 0.0 if term.bound else _INSIDE
    plain = fold(word)
    if plain == term.text:
        return MEANT
    if len(plain) <= _longest(term):
        return _INFLECTED
    return 0.0 if term.bound else _LONGER


def worths(data: bytes, at: Ints, numbers: Ints, terms: tuple[Term, ...]) -> Floats:
    """Returns the worth of term number `numbers[n]` at `at[n]`, for many positions in ASCII text at once."""
    octets = np.frombuffer(data, np.uint8)
    kinds = _KINDS[octets]
    ends = np.append(np.flatnonzero(kinds == 0), len(octets))
    length = np.minimum(ends[np.searchsorted(ends, at)] - at, _WORD_BYTES)
    before = np.where(at > 0, kinds[at - 1], 0)
    inside = ((before == _UPPER) | (before == _LOWER)) & ((before == _UPPER) | (kinds[at] != _UPPER))
    out = np.empty(len(at))
    for number, term in enumerate(terms):
        mine = np.flatnonzero(numbers == number)
        if len(mine):
            out[mine] = _of_term(term, octets, at[mine], length[mine], inside[mine])
    return out


def _of_term(
    term: Term, octets: npt.NDArray[np.uint8], at: Ints, length: Ints, inside: npt.NDArray[np.bool_]
) -> Floats:
    if term.role in _CERTAIN:
        return np.full(len(at), MEANT)
    out = np.where(length <= _longest(term), _INFLECTED, 0.0 if term.bound else _LONGER)
    same = np.flatnonzero((length == len(term.text)) & ~inside) if term.text.isascii() else np.zeros(0, np.int64)
    for offset, octet in enumerate(term.text.encode()[:_WORD_BYTES] if len(same) else b""):
        letters = octets[at[same] + offset]
        same = same[np.where(_KINDS[letters] == _UPPER, letters | _CASE, letters) == octet]
    out[same] = MEANT
    out[inside] = 0.0 if term.bound else _INSIDE
    return out


def _longest(term: Term) -> int:
    """Returns the maximum number of letters of an inflected form."""
    return max(len(term.text), len(term.stem) + _ENDING) + _ENDING
