"""Finds the terms of a query in streamed content: one pass of RE2, positions only.

Memory and time are bounded by the number of hits that are kept: if there are too many, the most frequent terms are
dropped, because a word that is everywhere distinguishes nothing. If all words are, the phrase that they form is still
searched for. Nothing is ranked, and no bytes are kept but the last few of a block, where a term may cross its end.
"""

from array import array
from collections.abc import Callable
from functools import cached_property
from typing import Final, final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from coatcheck.core.caches import remember
from coatcheck.core.parts.blobs import blank_unseen
from coatcheck.core.passages.terms import Term
from coatcheck.core.passages.units import fold
from coatcheck.core.text.scan import PATTERN_BYTES, BlockPattern

MAX_HITS: Final = 8_000
"""Hits that are kept of any content: some 20 ms of work."""
DENSEST: Final = 1_024
"""Bytes per additional hit in large content."""
_OVERLAP: Final = 1_024
"""Bytes at a block's end that are searched again with the next: more than a term with all its marks takes."""
_BEHIND: Final = 4
"""Bytes before a match that decide whether a word begins there."""
_KNOWN: Final = 4_096
"""Number of cached spellings."""

_STRIDE: Final = 32 * 1024
"""Bytes that are searched by one method, before their contents decide the next one."""
_PROBE: Final = 4 * 1024
"""Bytes of the first stride, when nothing is known about the text."""
_LONG_STRIDE: Final = 256 * 1024
"""Bytes of a stride in which terms are searched for one by one, which has a fixed cost each time."""
_HIT_COST: Final = 5_000
"""Bytes in which one term can be searched for while the pattern of all terms finds one hit."""

_WORD: Final = np.zeros(256, dtype=np.bool_)
_WORD[list(b"abcdefghijklmnopqrstuvwxyz0123456789_")] = True
"""In lower case; the word characters of RE2's `\\b`."""
_FREQUENT: Final = b"etaoinsrhdlucmfywgpbvkxqjz"
"""Letters of English and of most program output, most frequent first; other characters are rarer."""

Find = Callable[[bytes, int, int | None], tuple[int, int] | None]
Ints = npt.NDArray[np.int64]
NONE: Final[Ints] = np.zeros(0, dtype=np.int64)
"""No positions."""


class Hits(Struct, frozen=True):
    """Where terms begin, in order: term number `terms[n]` at byte `at[n]`."""

    at: Ints
    terms: Ints
    end: int
    """Number of bytes, from 0, that were searched."""
    everywhere: frozenset[int]
    """Terms that were too frequent to be kept."""


@final
class TermFinder:
    """Finds any of some terms. Not thread-safe, as it caches spellings."""

    def __init__(self, terms: tuple[Term, ...], without: frozenset[int] = frozenset()) -> None:
        self._numbers = {term.stem: number for number, term in enumerate(terms) if number not in without}
        self._known: dict[bytes, tuple[int, ...]] = {}
        self._plain = [
            (term.stem.encode(), number, term.bound, _rarest_first(term.stem.encode()))
            for number, term in enumerate(terms)
            if number not in without and term.stem.isascii()
        ]
        self._live = [term for number, term in enumerate(terms) if number not in without]

    @cached_property
    def _find(self) -> Find:
        """The compiled search, created on first use: for ASCII, `plain` may suffice."""
        ordered = sorted(self._live, key=lambda term: (-len(term.stem), term.stem))  # longest first
        pattern = "|".join(rf"\b{t.pattern}" if t.bound and t.stem.isascii() else t.pattern for t in ordered)
        return _compile_pattern(pattern).find if ordered else _nowhere

    def next(self, data: bytes, at: int, end: int | None = None) -> tuple[int, tuple[int, ...]] | None:
        """Returns the first position at or after `at` where terms begin, and the numbers of those terms."""
        span = self._find(data, at, end)
        if span is None:
            return None
        spelling = data[span[0] : span[1]]
        numbers = self._known.get(spelling)
        return span[0], self._learn(spelling) if numbers is None else numbers

    def worth_plain(self, hits: int, size: int) -> bool:
        """Returns whether `plain` would have found that many hits in that many bytes faster."""
        return hits * _HIT_COST > size * len(self._plain)

    def plain(self, data: bytes, start: int, end: int) -> tuple[Ints, Ints]:
        """Returns all positions from `start` to before `end` where terms begin, and which; `data` must be ASCII.

        It searches term by term, which costs more per byte than a pattern of all of them, and almost nothing per hit.
        """
        octets = np.frombuffer(data[: end + _OVERLAP].lower(), np.uint8)
        positions, numbers = [NONE], [NONE]
        for stem, number, bound, order in self._plain:
            hits = _all_of(octets, stem, order, start, min(end, len(octets) - len(stem) + 1))
            if bound:
                hits = hits[(hits == 0) | ~_WORD[octets[hits - 1]]]
            positions.append(hits)
            numbers.append(np.full(len(hits), number, dtype=np.int64))
        hits, terms = np.concatenate(positions), np.concatenate(numbers)
        order = np.lexsort((terms, hits))
        return hits[order], terms[order]

    def _learn(self, spelling: bytes) -> tuple[int, ...]:
        """Returns the terms that a spelling begins with: the one that matched, and shorter ones."""
        text = spelling.decode("utf-8", "replace")
        prefixes = {form[:size] for form in (text, fold(text)) for size in range(1, len(form) + 1)}
        numbers = tuple(sorted(self._numbers[prefix] for prefix in prefixes if prefix in self._numbers))
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[spelling] = numbers
        return numbers


def _rarest_first(stem: bytes) -> list[int]:
    """Returns the positions in a term, rarest letter first: the first two exclude most places."""
    rank = [_FREQUENT.find(octet) if octet in _FREQUENT else len(_FREQUENT) for octet in stem]
    return sorted(range(len(stem)), key=lambda place: (-rank[place], place))


def _all_of(octets: npt.NDArray[np.uint8], stem: bytes, order: list[int], start: int, end: int) -> Ints:
    """Returns all positions from `start` to before `end` where a term begins."""
    if end <= start:
        return NONE
    first, *others = order
    hit = octets[start + first : end + first] == stem[first]
    # Two rare letters exclude nearly all places before anything else is compared.
    if others:
        second = others.pop(0)
        hit &= octets[start + second : end + second] == stem[second]
    positions = np.flatnonzero(hit) + start
    for place in others:
        positions = positions[octets[positions + place] == stem[place]]
    return positions


@remember("patterns", 8, PATTERN_BYTES)
def _compile_pattern(pattern: str) -> BlockPattern:
    """Returns a compiled pattern, cached: the same terms are searched for several times for one answer."""
    return BlockPattern(pattern, ignore_case=True)


def _nowhere(_data: bytes, _start: int, _end: int | None) -> None:
    """Finds nothing: there is nothing to search for."""


@final
class PassageScanner:
    """One pass. `feed` it consecutive blocks from byte 0 on, the last with `last=True`.

    Attributes:
        full: the one remaining term is everywhere, and the phrase nowhere; further searching is pointless.
        fed: number of bytes fed so far, where the next block begins.
    """

    def __init__(
        self, terms: tuple[Term, ...], *, most: int = MAX_HITS, to_visible: Callable[[bytes], bytes] = blank_unseen
    ) -> None:
        """Begins at byte 0. `to_visible` returns bytes as a reader sees them, each line at its place and size."""
        self.full = False
        self.fed = 0
        self._terms = terms
        self._to_visible = to_visible
        self._phrases = frozenset(number for number, term in enumerate(terms) if term.role == "phrase")
        self._most = most
        self._at = array("q")
        self._term = array("q")
        self._everywhere: frozenset[int] = frozenset()
        self._words_end: int | None = None
        """Where the search for words ended because all of them are everywhere."""
        self._finder = TermFinder(terms)
        self._carry = b""
        self._base = 0
        self._next = 0
        self._dense = False

    @property
    def end(self) -> int:
        """Number of bytes that were searched."""
        return self._next

    def feed(self, block: bytes, *, last: bool = False) -> None:
        """Searches the next bytes."""
        self.fed += len(block)
        whole = self._carry + block if self._carry else block
        data = self._to_visible(whole)
        # The end of a block is searched with the next one: a term may continue there.
        stop = len(data) if last else len(data) - _OVERLAP
        at = self._next - self._base
        while at < stop and not self.full:
            at = self._look(data, at, stop)
            if len(self._at) > self._room(at):
                self._thin(self._room(at), self._base + at)
        self._next = self._base + at
        keep = max(0, at - _BEHIND)
        self._carry = whole[keep:]
        self._base += keep
        if last and self._words_end is not None and self._phrases.isdisjoint(self._term):
            self.full, self._next = True, self._words_end

    def hits(self) -> Hits:
        """Returns what was found so far."""
        at, terms = np.array(self._at, dtype=np.int64), np.array(self._term, dtype=np.int64)
        return Hits(at, terms, self._next, self._everywhere)

    def _look(self, data: bytes, at: int, stop: int) -> int:
        """Records matches that begin before `stop`, until there are too many; returns where to continue."""
        # Where hits are dense, each term is searched for over the whole array, which costs almost nothing per hit.
        if self._dense:
            far = min(stop, at + _LONG_STRIDE)
            if data[at : far + _OVERLAP].isascii():
                return self._look_plain(data, at, far)
        start, hit_count = at, len(self._at)
        at = self._look_for_all(data, at, min(stop, at + (_STRIDE if self._base + at else _PROBE)))
        self._dense = self._finder.worth_plain(len(self._at) - hit_count, at - start)
        return at

    def _look_plain(self, data: bytes, at: int, stop: int) -> int:
        low = max(0, at - _BEHIND)
        positions, terms = self._finder.plain(data[low : stop + _OVERLAP], at - low, stop - low)
        self._at.frombytes((positions + (self._base + low)).tobytes())
        self._term.frombytes(terms.tobytes())
        self._dense = self._finder.worth_plain(len(positions), stop - at)
        return stop

    def _look_for_all(self, data: bytes, at: int, stop: int) -> int:
        following, base = self._finder.next, self._base
        end = min(len(data), stop + _OVERLAP)
        add_at, add_term = self._at.append, self._term.append
        room = self._room(at)
        while len(self._at) <= room:
            hit = following(data, at, end)
            if hit is None or hit[0] >= stop:
                return stop
            start, numbers = hit
            for number in numbers:
                add_at(base + start)
                add_term(number)
            at = start + 1  # pairs of characters overlap, and so do a name and its parts
        return at

    def _room(self, at: int) -> int:
        """Returns how many hits may be kept before a position."""
        return self._most + (self._base + at) // DENSEST

    def _thin(self, room: int, end: int) -> None:
        """Drops the most frequent terms, until half the room is free or one term remains; or only the phrase."""
        if self._words_end is not None:  # the phrase is everywhere, too
            self.full = True
            return
        # The most frequent terms say least about where an answer is.
        terms = np.array(self._term, dtype=np.int64)
        counts = np.bincount(terms, minlength=len(self._terms))
        order = [int(number) for number in np.argsort(-counts, kind="stable")]
        remaining = len(terms)
        given_up = set(self._everywhere)
        words = [number for number in order if number not in self._phrases]  # phrases are as rare as their rarest word
        for number in words:
            if remaining <= room // 2 or len(given_up) >= len(words) - 1:
                break
            if number not in given_up:
                remaining -= int(counts[number])
                given_up.add(number)
        # What was found of the others stays; of dropped ones, nothing.
        keep = ~np.isin(terms, list(given_up))
        # Even the last word is everywhere: only the phrase can still lead somewhere.
        if remaining > room // 2 and self._phrases:
            self._words_end = end
            keep &= np.isin(terms, list(self._phrases)) | (np.cumsum(keep) <= room // 2)
            given_up.update(words)
        else:
            self.full = remaining > room // 2
        self._everywhere = frozenset(given_up)
        self._at = array("q", np.array(self._at, dtype=np.int64)[keep].tobytes())
        self._term = array("q", terms[keep].tobytes())
        self._finder = TermFinder(self._terms, self._everywhere)
