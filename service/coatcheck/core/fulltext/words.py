"""Splits text into words in the form that is compared, and maps words to keys.

A chunk is a word, several words that belong together (an identifier, a path, an address, a number), or a run of a
script without blanks. Words are folded and reduced to stems. Runs of Chinese, Japanese and Korean become single
characters and pairs of neighbours, runs of Thai and related scripts triples. An identifier or a path is found by its
parts in their order: `src/app/main.py` is found by `app/main.py` and by `main`, but not by `main/app`.

`ascii_keys` splits many ASCII texts together, as arrays of bytes, and reads each different word as text only once. Most
words recur in their text and in neighbouring texts, even the numbers in times and addresses.
"""

import hashlib
import itertools
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import regex
from msgspec import Struct
from numpy.typing import NDArray

from coatcheck.core.caches import remember
from coatcheck.core.passages.terms import PAIRS, PARTS, SUFFIX, TRIPLES, WORD
from coatcheck.core.passages.units import fold

KEY_BITS: Final = 40
"""Bits of a word's hash. In a segment with a million words, about one query in 10^7 gets a document by the key of
another word (decision 0022)."""
MAX_WORD: Final = 128
"""Maximum letters of a word that is indexed: those of a SHA-512 in hexadecimal. Longer runs are encoded bytes."""
_MAX_PARTS: Final = 6
"""Maximum parts of a word; a word with more parts is a digest rather than an identifier."""
_CACHED_TEXTS: Final = 8_192
"""Maximum entries in each cache of keys: for texts between blanks, for words, and for pairs. More entries would not
make indexing faster."""
_CACHED_CHARS: Final = 64
"""Maximum characters of a text between blanks whose keys are cached: longer texts rarely occur again."""

_PAIRS: Final = f"{PAIRS}\uff66-\uff9f"
_JOINT: Final = r"(?:://|::|->|[._/\\:@+~#%'\u2019-])"
"""Matches what may be between two parts of one identifier, path, address or number, or inside a word."""
_ASCII_RUN: Final = re.compile(f"[A-Za-z0-9]+(?:{_JOINT}[A-Za-z0-9]+)*")
_LETTERS: Final = rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{_PAIRS}{TRIPLES}]]+"
_RUN: Final = regex.compile(rf"(?V1)[{_PAIRS}]+|[{TRIPLES}]+|{_LETTERS}(?:{_JOINT}{_LETTERS})*")
_UNSPACED: Final = re.compile(f"[{_PAIRS}{TRIPLES}]")
_APOSTROPHES: Final = re.compile("(?<=[^\\W\\d_])['\u2019](?=[^\\W\\d_])")

_ASCII_WORD: Final = re.compile("[A-Za-z0-9]+")
_ASCII_PARTS: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
"""Matches words and their parts in ASCII text, four times as fast as the expressions for all letters."""
JOINTS: Final = frozenset(["://", "::", "->", *"._/\\\\:@+~#%'-"])
"""What `_JOINT` matches in ASCII."""

_STEM_LETTERS: Final = 4
"""Minimum letters of a stem, as in passages/terms.py."""
_SLAVIC_STEM_LETTERS: Final = 5
"""Letters that the stem of a Greek or Cyrillic word has: their endings are not listed. Chosen, not measured."""
_LATIN: Final = re.compile("[a-z]+")
_INFLECTED: Final = re.compile("[\u0370-\u052f]+")
_ARTICLE: Final = "\u0627\u0644"
"""The Arabic article, which is written together with its word."""


class Chunk(Struct, frozen=True):
    """The words of one chunk, folded."""

    words: tuple["Word", ...]
    """The whole words, in order."""
    joints: tuple[tuple[str, str], ...]
    """Pairs of neighbouring parts that belong to different words of an identifier or a path: the last part of one word
    and the first part of the next."""
    grams: tuple[str, ...] = ()
    """Pieces of a run without blanks: single characters and pairs, or triples."""


def runs(text: str) -> list[str]:
    """Returns the chunks of a text, in order."""
    return _ASCII_RUN.findall(text) if text.isascii() else _RUN.findall(text)


def read(chunk: str) -> Chunk:
    """Returns the words of a chunk that `runs` returned."""
    if _UNSPACED.match(chunk):
        return Chunk((), (), _grams(chunk))
    words: list[Word] = []
    joints: list[tuple[str, str]] = []
    before: str | None = None
    for word in _words_of(chunk):
        if word is None:
            before = None
            continue
        words.append(word)
        if before is not None:
            joints.append((before, word.first))
        before = word.last
    return Chunk(tuple(words), tuple(joints))


class Word(NamedTuple):
    """A word of a chunk, folded."""

    word: str
    parts: tuple[str, ...]
    """The word's parts; empty if it has only one."""
    first: str
    last: str
    """The first and the last part, or the word itself if it has no parts."""
    keys: tuple[int, ...]
    """Keys of the word, of its parts, and of the pairs of neighbouring parts."""


def _words_of(chunk: str) -> Iterable[Word | None]:
    """Yields the words of a chunk; None in place of a word that is too long to be indexed."""
    ascii_only = chunk.isascii()
    chunk = _APOSTROPHES.sub("", chunk) if "'" in chunk or "\u2019" in chunk else chunk
    if ascii_only:
        return (ascii_word(word) if len(word) <= MAX_WORD else None for word in _ASCII_WORD.findall(chunk))
    return map(_fold_word, WORD.findall(chunk))


def has_long_word(chunk: str) -> bool:
    """Returns whether a chunk that `runs` returned has a word that is too long to be indexed."""
    is_spaced = len(chunk) > MAX_WORD and not _UNSPACED.match(chunk)
    return is_spaced and any(len(fold(word)) > MAX_WORD for word in WORD.findall(_APOSTROPHES.sub("", chunk)))


@remember("words", _CACHED_TEXTS, 650)
def ascii_word(text: str) -> Word:
    """Returns a word of 1 to MAX_WORD ASCII letters and digits."""
    return _word(text, text.lower())


def _fold_word(text: str) -> Word | None:
    word = fold(text)
    return _word(text, word) if 0 < len(word) <= MAX_WORD else None


def _word(text: str, word: str) -> Word:
    parts = _parts(text)
    keys = (word_key(word), *map(word_key, parts), *map(pair_key, itertools.pairwise(parts)))
    return Word(word, parts, parts[0] if parts else word, parts[-1] if parts else word, keys)


@remember("words", _CACHED_TEXTS, 230)
def _parts(text: str) -> tuple[str, ...]:
    """Returns the parts into which capitals and digits divide a word; empty if there is only one, or too many."""
    if text.isalpha() and (text.islower() or text[1:].islower()):
        return ()
    if text.isascii():
        parts = [part.lower() for part in _ASCII_PARTS.findall(text)]
    else:
        parts = [folded_part for part in PARTS.findall(text) if (folded_part := fold(part))]
    return tuple(parts) if 1 < len(parts) <= _MAX_PARTS else ()


def _grams(run: str) -> tuple[str, ...]:
    letters = fold(run)
    if re.match(f"[{TRIPLES}]", run):
        return tuple(letters[at : at + 3] for at in range(max(1, len(letters) - 2)))
    return (*letters, *(letters[at : at + 2] for at in range(len(letters) - 1)))


def stem(word: str) -> str:
    """Returns the part that a folded word and its regularly inflected forms share."""
    if word.startswith(_ARTICLE) and len(word) > _STEM_LETTERS:
        return word[len(_ARTICLE) :]
    if len(word) <= _STEM_LETTERS:
        return word
    if _LATIN.fullmatch(word):
        base = SUFFIX.sub("", word)
        return base if len(base) >= _STEM_LETTERS else word[:_STEM_LETTERS]
    return word[:_SLAVIC_STEM_LETTERS] if _INFLECTED.fullmatch(word) else word


@remember("words", _CACHED_TEXTS, 180)
def word_key(word: str) -> int:
    """Returns the key of a folded word, which is the key of its stem."""
    return _key(stem(word))


def gram_key(gram: str) -> int:
    """Returns the key of a piece of a run without blanks."""
    return _key(f"\1{gram}")


@remember("words", _CACHED_TEXTS, 320)
def pair_key(pair: tuple[str, str]) -> int:
    """Returns the key of two consecutive parts of an identifier or a path."""
    return _key(f"{pair[0]}\1{pair[1]}")


def _key(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BITS // 8, person=b"word").digest()
    return int.from_bytes(digest, "big")


def keys_of_words(texts: Iterable[str]) -> Iterable[int]:
    """Yields every key under which a document with these texts is found, possibly with duplicates.

    Args:
        texts: the texts between the document's blanks.
    """
    for text in texts:
        yield from _known_text_keys(text) if len(text) <= _CACHED_CHARS else _text_keys(text)


def _text_keys(text: str) -> tuple[int, ...]:
    return tuple(key for run in runs(text) for key in _chunk_keys(run))


_known_text_keys: Final = remember("words", _CACHED_TEXTS, 300)(_text_keys)
"""`_text_keys`, cached: most texts between blanks occurred in the previous document."""


def _chunk_keys(run: str) -> Iterator[int]:
    chunk = read(run)
    for word in chunk.words:
        yield from word.keys
    yield from map(pair_key, chunk.joints)
    yield from map(gram_key, chunk.grams)


Numbers = NDArray[np.uint64]
Indexes = NDArray[np.int64]

_ASCII_APOSTROPHES: Final = re.compile(b"'(?<=[A-Za-z]')(?=[A-Za-z])")
_WORD_CLASS, _JOINT_CLASS = 1, 2
"""Classes of an ASCII byte: a letter or digit, and a sign that joins words; 0 is every other byte."""
_CLASSES: Final = bytes(
    _WORD_CLASS if chr(code) in string.ascii_letters + string.digits else _JOINT_CLASS if chr(code) in JOINTS else 0
    for code in range(256)
)
_LONG_JOINTS: Final = np.array([int.from_bytes(j.encode(), "little") for j in JOINTS if len(j) > 1], dtype=np.uint64)
_LONGEST_JOINT: Final = max(map(len, JOINTS))
_STEP_BYTES: Final = 8
"""Bytes of a word that are compared at once."""
_MASKS: Final = np.array([(1 << (8 * size)) - 1 for size in range(_STEP_BYTES + 1)], dtype=np.uint64)
_LONG_WORD: Final = 0x80 << 56
"""More than any 8 bytes of ASCII."""
_MIN_TABLE_BITS: Final = 14
"""Bits of an index into the smallest table: it has 16,384 entries of 4 bytes, and few collisions for a page's words."""
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)


class _Words(NamedTuple):
    """The words of a text in order, without those that are too long."""

    starts: Indexes
    ends: Indexes
    codes: Numbers
    """Numbers that are equal if the words are equal."""
    joints: Indexes
    """Indices of words that a joint connects with the next word."""


def ascii_keys(texts: Sequence[bytes]) -> Numbers:
    """Returns the keys of each text, possibly with duplicates, with the text's index above their KEY_BITS.

    If there is only one text, its keys are in the order of their first occurrence: first the keys of words, then those
    of pairs of words.
    """
    # All texts are split at once, with numpy. The keys are the same as if one word were read after the other, but it is
    # seven times as fast (measured on 1.7 MB of Python).
    texts = [_ASCII_APOSTROPHES.sub(b"", text) if b"'" in text else text for text in texts]
    whole = b"\n".join([b"", *texts, bytes(_STEP_BYTES)])
    words = _words_in(whole)
    # Each different word is read and hashed once, however often it occurs.
    at, word = _number_values(words.codes)
    text = whole.decode("ascii")
    distinct_words = [ascii_word(text[start:end]) for start, end in _pairs(words.starts, words.ends, at)]
    # A joint connects the last part of a word with the first part of the next word.
    firsts, lasts = _hashes([each.first for each in distinct_words]), _hashes([each.last for each in distinct_words])
    earlier, later = word[words.joints], word[words.joints + 1]
    at, pair = _number_values(lasts[earlier] * _SPREAD ^ firsts[later])
    keys = [each.keys for each in distinct_words]
    keys += [(pair_key((distinct_words[a].last, distinct_words[b].first)),) for a, b in _pairs(earlier, later, at)]
    # Each word and each pair of a text is taken once.
    bounds = np.searchsorted(words.starts, np.cumsum([1, *(len(text) + 1 for text in texts)]))
    owner = np.repeat(np.arange(len(texts)) * len(keys), np.diff(bounds))
    there = np.zeros(len(texts) * len(keys), dtype=np.bool_)
    there[owner + word] = True
    there[owner[words.joints] + (pair + len(distinct_words))] = True
    present = np.flatnonzero(there)
    owner = present // max(1, len(keys))
    number = present - owner * len(keys)
    # Each "word n is in text m" is replaced by the keys of the word, which are several if the word has parts.
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
    """Returns the words of a text, which must begin with a blank and end with at least _STEP_BYTES NULs."""
    classes = np.frombuffer(whole.translate(_CLASSES), dtype=np.uint8)
    # Words begin and end where the class of bytes changes.
    inside = classes == _WORD_CLASS
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    sizes = ends - starts
    if len(sizes) and sizes.max() > MAX_WORD:
        is_short = sizes <= MAX_WORD
        starts, ends, sizes = starts[is_short], ends[is_short], sizes[is_short]
    # Eight bytes from every position: words of up to eight letters are compared as one integer each.
    eights = np.ndarray(len(whole) - _STEP_BYTES + 1, dtype="<u8", buffer=whole, strides=(1,))
    codes = eights[starts] & _MASKS[np.minimum(sizes, _STEP_BYTES)]
    offset, longer = _STEP_BYTES, np.flatnonzero(sizes > _STEP_BYTES)
    # For longer words, the code so far and the next eight letters are replaced by one number, until a word ends.
    while len(longer):
        tails = eights[starts[longer] + offset] & _MASKS[np.minimum(sizes[longer] - offset, _STEP_BYTES)]
        (_, head), (_, tail) = _number_values(codes[longer]), _number_values(tails)
        codes[longer] = (head << 28 | tail).view(np.uint64) + np.uint64(_LONG_WORD + (offset << 53))
        offset, longer = offset + _STEP_BYTES, longer[sizes[longer] > offset + _STEP_BYTES]
    # Two words are parts of one identifier if exactly one joint is between them.
    gaps = starts[1:] - ends[:-1]
    is_joint = (gaps == 1) & (classes[ends[:-1]] == _JOINT_CLASS)
    few = np.flatnonzero((gaps > 1) & (gaps <= _LONGEST_JOINT))
    between = eights[ends[few]] & _MASKS[gaps[few]]
    is_joint[few] = np.logical_or.reduce([between == joint for joint in _LONG_JOINTS])
    return _Words(starts, ends, codes, np.flatnonzero(is_joint))


def _number_values(values: Numbers) -> tuple[Indexes, Indexes]:
    """Numbers the different values. Returns where each of them occurs first, and the number of every value.

    Each value is compared with the first value of the same hash. The few that differ from that one are sorted instead.
    """
    count = len(values)
    positions = np.arange(count, dtype=np.int32)
    bits = max(_MIN_TABLE_BITS, count.bit_length())
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
