"""Decides whether two texts are nearly the same, by fingerprints that can be stored and never change.

Bottom-k sketches: of all overlapping runs of three words of a text (in scripts without blanks: of characters), each
hashed, the 128 smallest hashes. The share that two sketches have in common estimates the share of runs that the texts
have in common (Jaccard), within about 0.03. Moved, shortened or spliced texts differ; a changed date or advertisement
makes no difference.
"""

import re
import unicodedata
import zlib
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import regex

SAME: Final = 0.85
"""Similarity from which two texts count as the same."""
_KEPT: Final = 128
_LOOKED_AT: Final = 40_000
"""Characters of a text that are compared."""
_LEAST: Final = 24
"""Runs below which only equal texts are the same: in a short text, a few words make all the difference."""
_EQUAL: Final = 4
"""Words from which equal texts are the same: 'Sign in' is on many pages."""
_WORD: Final = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]|[\p{L}\p{M}\p{N}]+")
_SPACELESS: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
)
_PLAIN_WORD: Final = re.compile(r"\w+")
_BLANKED: Final = bytes(code if chr(code).isalnum() else 0x20 for code in range(128)) + bytes(range(128, 256))
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


def fingerprint(text: str) -> bytes:
    """Returns a text's fingerprint: at most 516 bytes; empty for a text of almost no words."""
    return fingerprint_texts([text])[0]


def fingerprint_texts(texts: list[str]) -> list[bytes]:
    """Returns the fingerprint of each text; together they cost half as much as separately."""
    apart = [_words(text[:_LOOKED_AT]) for text in texts]
    words = list(chain.from_iterable(apart))
    if len(words) < _EQUAL:
        return [b""] * len(texts)
    word_codes = {word: zlib.crc32(word) for word in set(words)}
    codes = np.fromiter(map(word_codes.__getitem__, words), np.uint64, len(words))
    runs = _scatter_codes(_scatter_codes(codes[:-2]) + codes[1:-1]) + codes[2:]
    hashes = (_scatter_codes(runs) >> np.uint64(32)).astype(np.uint32)
    out: list[bytes] = []
    start = 0
    for each in apart:
        end = start + len(each)
        out.append(_pack_hashes(hashes[start : end - 2]) if len(each) >= _EQUAL else b"")
        start = end
    return out


def _pack_hashes(hashes: npt.NDArray[np.uint32]) -> bytes:
    """Returns how many different hashes there are, and the smallest of them."""
    ordered = np.sort(hashes)  # several times as fast as np.unique
    fresh = np.flatnonzero(ordered[1:] != ordered[:-1])
    smallest = ordered[np.append(0, fresh[: _KEPT - 1] + 1)]
    return (len(fresh) + 1).to_bytes(4, "big") + smallest.astype(">u4").tobytes()


def _words(text: str) -> list[bytes]:
    if text.isascii():
        return text.encode().translate(_BLANKED).lower().split()
    normalized = unicodedata.normalize("NFKC", text).casefold()
    words: list[str] = (_WORD if _SPACELESS.search(normalized) else _PLAIN_WORD).findall(normalized)
    return "\n".join(words).encode("utf-8", "replace").split(b"\n")


def _scatter_codes(codes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scatters 64-bit numbers. Multiplication wraps around, as intended."""
    mixed = (codes ^ (codes >> np.uint64(29))) * _MIX
    return mixed ^ (mixed >> np.uint64(32))


def similarity(one: bytes, other: bytes) -> float:
    """Returns about which share of their runs two texts have in common, from 0 to 1."""
    if not one or not other:
        return 0.0
    first, second = _sketch(one), _sketch(other)
    both = np.union1d(first, second)[:_KEPT]
    common = np.isin(both, first) & np.isin(both, second)
    return float(common.sum()) / len(both)


def same(one: bytes, other: bytes) -> bool:
    """Returns whether two texts count as the same."""
    if not one or not other:
        return False
    if one == other:
        return True
    least = min(int.from_bytes(each[:4], "big") for each in (one, other))
    return least >= _LEAST and similarity(one, other) >= SAME


def _sketch(fingerprint_bytes: bytes) -> npt.NDArray[np.uint32]:
    return np.frombuffer(fingerprint_bytes, dtype=">u4", offset=4)
