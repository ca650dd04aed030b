"""Makes the keys of several ASCII texts together, which is cheaper than of one after another.

Words are found and told apart as arrays of bytes, and one of each is read as text: most words of a text recur in it and
in its neighbours, also the numbers of which its times and addresses consist.
"""

import re
import string
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coatcheck.core.fulltext.words import JOINTS, KEY_BITS, MAX_WORD, ascii_word, pair_key

Numbers = NDArray[np.uint64]
Indexes = NDArray[np.int64]

_ASCII_APOSTROPHES: Final = re.compile(b"'(?<=[A-Za-z]')(?=[A-Za-z])")
_INSIDE: Final = 1
_JOINT_CLASS: Final = 2
_CLASSES: Final = bytes(
    _INSIDE if chr(code) in string.ascii_letters + string.digits else _JOINT_CLASS if chr(code) in JOINTS else 0
    for code in range(256)
)
_LONG_JOINTS: Final = np.array([int.from_bytes(j.encode(), "little") for j in JOINTS if len(j) > 1], dtype=np.uint64)
_LONGEST_JOINT: Final = max(map(len, JOINTS))
_STEP: Final = 8
"""Bytes of a word that are compared at once."""
_MASKS: Final = np.array([(1 << (8 * size)) - 1 for size in range(_STEP + 1)], dtype=np.uint64)
_LONG_WORD: Final = 0x80 << 56
"""More than any 8 bytes of ASCII."""
_LEAST_BITS: Final = 14
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)


class _Words(NamedTuple):
    """The words of a text in order, without those that are too long."""

    starts: Indexes
    ends: Indexes
    codes: Numbers
    """Equal if the words are."""
    joints: Indexes
    """Indices of words that a joint connects with the next one."""


def ascii_keys(texts: Sequence[bytes]) -> Numbers:
    """Returns the keys of each text, possibly with duplicates, with the text's index above their KEY_BITS.

    Those of one text are in the order in which its words, then its pairs of words occur.
    """
    texts = [_ASCII_APOSTROPHES.sub(b"", text) if b"'" in text else text for text in texts]
    whole = b"\n".join([b"", *texts, bytes(_STEP)])
    words = _words_in(whole)
    at, word = _number_values(words.codes)
    text = whole.decode("ascii")
    distinct_words = [ascii_word(text[start:end]) for start, end in _pairs(words.starts, words.ends, at)]
    # What is joined are the last part of a word and the first one of the next.
    firsts, lasts = _hashes([each.first for each in distinct_words]), _hashes([each.last for each in distinct_words])
    earlier, later = word[words.joints], word[words.joints + 1]
    at, pair = _number_values(lasts[earlier] * _SPREAD ^ firsts[later])
    keys = [each.keys for each in distinct_words]
    keys += [(pair_key((distinct_words[a].last, distinct_words[b].first)),) for a, b in _pairs(earlier, later, at)]
    # Each of a text's words and pairs once.
    bounds = np.searchsorted(words.starts, np.cumsum([1, *(len(text) + 1 for text in texts)]))
    owner = np.repeat(np.arange(len(texts)) * len(keys), np.diff(bounds))
    there = np.zeros(len(texts) * len(keys), dtype=np.bool_)
    there[owner + word] = True
    there[owner[words.joints] + (pair + len(distinct_words))] = True
    present = np.flatnonzero(there)
    owner = present // max(1, len(keys))
    number = present - owner * len(keys)
    counts = np.array([len(mine) for mine in keys], dtype=np.int64)
    mine = counts[number]
    begin = np.cumsum(counts)[number] - np.cumsum(mine)
    at = np.repeat(begin, mine) + np.arange(int(mine.sum()))
    flat = np.array(list(chain.from_iterable(keys)), dtype=np.uint64)
    return flat[at] | np.repeat(owner.astype(np.uint64) << np.uint64(KEY_BITS), mine)


def _hashes(parts: list[str]) -> Numbers:
    return np.array(list(map(hash, parts)), dtype=np.int64).view(np.uint64)


def _pairs(earlier: Indexes, later: Indexes, at: Indexes) -> Iterable[tuple[int, int]]:
    return zip(earlier[at].tolist(), later[at].tolist(), strict=True)


def _words_in(whole: bytes) -> _Words:
    """Returns the words of a text that begins with a blank and ends with some NUL."""
    classes = np.frombuffer(whole.translate(_CLASSES), dtype=np.uint8)
    inside = classes == _INSIDE
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    sizes = ends - starts
    if len(sizes) and sizes.max() > MAX_WORD:
        is_short = sizes <= MAX_WORD
        starts, ends, sizes = starts[is_short], ends[is_short], sizes[is_short]
    eights = np.ndarray(len(whole) - _STEP + 1, dtype="<u8", buffer=whole, strides=(1,))
    codes = eights[starts] & _MASKS[np.minimum(sizes, _STEP)]
    offset, longer = _STEP, np.flatnonzero(sizes > _STEP)
    while len(longer):
        tails = eights[starts[longer] + offset] & _MASKS[np.minimum(sizes[longer] - offset, _STEP)]
        (_, head), (_, tail) = _number_values(codes[longer]), _number_values(tails)
        codes[longer] = (head << 28 | tail).view(np.uint64) + np.uint64(_LONG_WORD + (offset << 53))
        offset, longer = offset + _STEP, longer[sizes[longer] > offset + _STEP]
    gaps = starts[1:] - ends[:-1]
    is_joint = (gaps == 1) & (classes[ends[:-1]] == _JOINT_CLASS)
    few = np.flatnonzero((gaps > 1) & (gaps <= _LONGEST_JOINT))
    between = eights[ends[few]] & _MASKS[gaps[few]]
    is_joint[few] = np.logical_or.reduce([between == joint for joint in _LONG_JOINTS])
    return _Words(starts, ends, codes, np.flatnonzero(is_joint))


def _number_values(values: Numbers) -> tuple[Indexes, Indexes]:
    """Returns where each different value occurs first, and for every value, which of these it equals.

    Values are looked up where the first with the same hash is; the few that differ from it are sorted.
    """
    count = len(values)
    positions = np.arange(count, dtype=np.int32)
    bits = max(_LEAST_BITS, count.bit_length())
    buckets = ((values * _SPREAD) >> np.uint64(64 - bits)).view(np.int64)
    table = np.empty(1 << bits, dtype=np.int32)
    table[buckets[::-1]] = positions[::-1]
    first = table[buckets]
    differing = np.flatnonzero(values[first] != values)
    if len(differing):
        _, at, which = np.unique(values[differing], return_index=True, return_inverse=True)
        first[differing] = differing[at][which]
    at = np.flatnonzero(first == positions)
    number = np.empty(count, dtype=np.int64)
    number[at] = np.arange(len(at))
    return at, number[first]
