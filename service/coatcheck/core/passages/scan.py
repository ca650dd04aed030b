"""Finds the terms of a query in streamed content, in one pass of RE2, and keeps only their positions.

The number of hits that are kept bounds memory and time. If there are too many hits, the most frequent terms are
dropped, because a word that is everywhere distinguishes nothing. Nothing is ranked. Of each block, only the last few
bytes are kept, because a term may cross its end.
"""

from array import array
from collections.abc import Callable
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
"""Maximum hits that are kept, apart from those that DENSEST adds: some 20 ms of work."""
DENSEST: Final = 1_024
"""Number of bytes of content for which one more hit is kept, in addition to MAX_HITS."""
_OVERLAP: Final = 1_024
"""Bytes at the end of a block that are searched again with the next one: more than a term with all its marks takes."""
_BEHIND: Final = 4
"""Bytes before a match that show whether a word begins at the match."""
_KNOWN: Final = 4_096
"""Maximum number of cached spellings."""

Find = Callable[[bytes, int, int | None], tuple[int, int] | None]
Ints = npt.NDArray[np.int64]
NONE: Final[Ints] = np.zeros(0, dtype=np.int64)
"""An empty array of positions."""


class Hits(Struct, frozen=True):
    """Positions at which terms begin, in order: term number `terms[n]` begins at byte `at[n]`."""

    at: Ints
    terms: Ints
    end: int
    """Number of bytes that were searched, from byte 0 on."""
    everywhere: frozenset[int]
    """Numbers of terms that were too frequent: their hits are not kept."""


@final
class TermFinder:
    """Finds the next of several terms. Not thread-safe, because it caches spellings."""

    def __init__(self, terms: tuple[Term, ...], without: frozenset[int] = frozenset()) -> None:
        self._numbers = {term.stem: number for number, term in enumerate(terms) if number not in without}
        self._known: dict[bytes, tuple[int, ...]] = {}
        live = [term for number, term in enumerate(terms) if number not in without]
        live.sort(key=lambda term: (-len(term.stem), term.stem))  # longest first
        pattern = "|".join(rf"\b{t.pattern}" if t.bound and t.stem.isascii() else t.pattern for t in live)
        self._find: Find = _compile_pattern(pattern).find if live else _nowhere

    def next(self, data: bytes, at: int, end: int | None = None) -> tuple[int, tuple[int, ...]] | None:
        """Returns the first position from `at` on where terms begin, and the numbers of these terms; None: no more."""
        span = self._find(data, at, end)
        if span is None:
            return None
        spelling = data[span[0] : span[1]]
        numbers = self._known.get(spelling)
        return span[0], self._learn(spelling) if numbers is None else numbers

    def _learn(self, spelling: bytes) -> tuple[int, ...]:
        """Returns the numbers of the terms that a spelling begins with: the term that matched, and shorter ones."""
        text = spelling.decode("utf-8", "replace")
        prefixes = {form[:size] for form in (text, fold(text)) for size in range(1, len(form) + 1)}
        numbers = tuple(sorted(self._numbers[prefix] for prefix in prefixes if prefix in self._numbers))
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[spelling] = numbers
        return numbers


@remember("patterns", 8, PATTERN_BYTES)
def _compile_pattern(pattern: str) -> BlockPattern:
    """Returns a compiled pattern, cached, because the same terms are searched for several times for one answer."""
    return BlockPattern(pattern, ignore_case=True)


def _nowhere(_data: bytes, _start: int, _end: int | None) -> None:
    """Finds nothing, in place of a pattern if there are no terms."""


@final
class PassageScanner:
    """One pass over content. `feed` it consecutive blocks from byte 0 on, the last one with `last=True`.

    Attributes:
        full: whether the one remaining term is everywhere, so that further searching is pointless.
        fed: number of bytes fed so far, which is where the next block begins.
    """

    def __init__(
        self, terms: tuple[Term, ...], *, most: int = MAX_HITS, to_visible: Callable[[bytes], bytes] = blank_unseen
    ) -> None:
        """Begins at byte 0. `to_visible` returns bytes as a reader sees them, with all lines at their positions."""
        self.full = False
        self.fed = 0
        self._terms = terms
        self._to_visible = to_visible
        self._most = most
        self._at = array("q")
        self._term = array("q")
        self._everywhere: frozenset[int] = frozenset()
        self._finder = TermFinder(terms)
        self._carry = b""
        self._base = 0
        self._next = 0

    @property
    def end(self) -> int:
        """Number of bytes that were searched."""
        return self._next

    def feed(self, block: bytes, *, last: bool = False) -> None:
        """Searches the next bytes."""
        self.fed += len(block)
        whole = self._carry + block if self._carry else block
        data = self._to_visible(whole)
        # The end of a block is searched again with the next block, because a term may continue there.
        stop = len(data) if last else len(data) - _OVERLAP
        at = self._next - self._base
        while at < stop and not self.full:
            at = self._record_hits(data, at, stop)
            if len(self._at) > self._max_hits(at):
                self._thin(self._max_hits(at))
        self._next = self._base + at
        keep = max(0, at - _BEHIND)
        self._carry = whole[keep:]
        self._base += keep

    def hits(self) -> Hits:
        """Returns the hits so far."""
        at, terms = np.array(self._at, dtype=np.int64), np.array(self._term, dtype=np.int64)
        return Hits(at, terms, self._next, self._everywhere)

    def _record_hits(self, data: bytes, at: int, stop: int) -> int:
        """Records hits that begin before `stop`, until there are too many; returns where to continue."""
        following, base = self._finder.next, self._base
        end = min(len(data), stop + _OVERLAP)
        add_at, add_term = self._at.append, self._term.append
        room = self._max_hits(at)
        while len(self._at) <= room:
            hit = following(data, at, end)
            if hit is None or hit[0] >= stop:
                return stop
            start, numbers = hit
            for number in numbers:
                add_at(base + start)
                add_term(number)
            at = start + 1  # pairs of characters overlap, as do a name and its parts
        return at

    def _max_hits(self, at: int) -> int:
        """Returns how many hits before position `at` may be kept."""
        return self._most + (self._base + at) // DENSEST

    def _thin(self, room: int) -> None:
        """Drops the most frequent terms, until half of the room is free or one term remains."""
        # The most frequent terms say least about where an answer may be.
        terms = np.array(self._term, dtype=np.int64)
        counts = np.bincount(terms, minlength=len(self._terms))
        remaining = len(terms)
        dropped_terms = set(self._everywhere)
        for number in map(int, np.argsort(-counts, kind="stable")):
            if remaining <= room // 2 or len(dropped_terms) >= len(self._terms) - 1:
                break
            if number not in dropped_terms:
                remaining -= int(counts[number])
                dropped_terms.add(number)
        # The hits of dropped terms are removed, the others stay.
        keep = ~np.isin(terms, list(dropped_terms))
        self.full = remaining > room // 2
        self._everywhere = frozenset(dropped_terms)
        self._at = array("q", np.array(self._at, dtype=np.int64)[keep].tobytes())
        self._term = array("q", terms[keep].tobytes())
        self._finder = TermFinder(self._terms, self._everywhere)
