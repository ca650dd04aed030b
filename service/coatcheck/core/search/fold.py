"""Folds results that duplicate another: of the same page, or with nearly the same text.

The first result of a page stays, unless only a later one has a text. A source of an earlier search stands for a result
only if that search asked for the same, or nothing of the query is in the text: another query has other passages of the
same page to show. An address alone is not enough either, since providers give other excerpts. Every fold is reported.
"""

from typing import Final, Literal

from msgspec import Struct

from coatcheck.core.passages.scan import TermFinder
from coatcheck.core.search import similarity
from coatcheck.core.search.domains import Domains
from coatcheck.core.search.similarity import same
from coatcheck.core.search.view import ResponseLayout

_PER_HASH: Final = 8
"""Results kept per hash: enough to find near duplicates, few enough to be fast."""
_LOOKS: Final = 8
"""Detailed comparisons per result."""
_LOOKED_UP: Final = 16
"""The number of hashes, the smallest ones, by which candidates are found: texts that share 85 % of their runs have
fewer than a third of these in common once in a million times."""
_LEAST_SHARED: Final = 0.3
"""Share of them from which texts are compared in detail."""


class EarlierSource(Struct, frozen=True):
    """A source that the session already has."""

    citation: str
    """`art_…#r1`."""
    canonical_url: str | None
    fingerprint: bytes = b""
    """Fingerprint of its text; without one, the address alone decides."""
    query: str = ""
    """What that search asked for; empty for a page, and where nobody knows."""


class Fold(Struct, frozen=True):
    """A result that is not shown, because it duplicates another."""

    section: str
    into: str
    """A section of the same response, or an earlier source's citation."""
    why: Literal["url", "text"]


class DistinctResults(Struct, frozen=True):
    """The results that remain."""

    indices: tuple[int, ...]
    """Indices of results, from 0, in order."""
    folds: tuple[Fold, ...]
    also: dict[int, str]
    """By index of a result: an earlier source of the same page or text; the page itself, if it is there."""
    fingerprints: tuple[bytes, ...]
    """Fingerprints of all results' texts."""


def fingerprints(laid: ResponseLayout) -> tuple[bytes, ...]:
    """Returns the fingerprint of each result's text."""
    return tuple(similarity.fingerprint_texts([body.text for body in laid.bodies]))


def unfold(
    laid: ResponseLayout,
    earlier: tuple[EarlierSource, ...] = (),
    prints: tuple[bytes, ...] | None = None,
    domains: Domains | None = None,
    query: str = "",
    finder: TermFinder | None = None,
) -> DistinctResults:
    """Folds duplicates among the results that `domains` allow.

    Args:
        laid: the response.
        earlier: sources that the session already has.
        prints: the texts' fingerprints, if known already.
        domains: which sites may be shown.
        query: what is asked for now.
        finder: finds its terms; None if it has none.
    """
    domains = domains or Domains()
    results = laid.response.results[: len(laid.bodies)]
    prints = fingerprints(laid) if prints is None else prints
    folds: dict[int, Fold] = {}
    also: dict[int, str] = {}
    by_url: dict[str, int] = {}
    known_urls: dict[str, list[EarlierSource]] = {}
    for source in earlier:
        known_urls.setdefault(source.canonical_url or "", []).append(source)
    pages = {source.canonical_url: source.citation for source in earlier if "#" not in source.citation}
    texts, known_texts = _Texts([]), _Texts([source.fingerprint for source in earlier])
    excluded = {place for place, result in enumerate(results) if domains and not domains.let_result(result)}
    for place, result in enumerate(results):
        if place in excluded:
            continue
        url = result.canonical_url or result.url
        first = by_url.get(url) if url else None
        if first is not None and (laid.bodies[first].text or not laid.bodies[place].text):
            folds[place] = Fold(_name(place), _name(first), "url")
            continue
        if twins := texts.twins(prints[place]):
            folds[place] = Fold(_name(place), _name(texts.owner(twins[0])), "text")
            continue
        earlier_sources = known_urls.get(url, []) if url else []
        equal = [
            each
            for each in earlier_sources
            if not (each.fingerprint and prints[place]) or same(each.fingerprint, prints[place])
        ]
        copies = [earlier[number] for number in known_texts.twins(prints[place])]
        says_all = finder is None or finder.next(laid.bodies[place].data, 0) is None
        repeated = next((each for each in (*equal, *copies) if says_all or _flat(each.query) == _flat(query)), None)
        if repeated is not None:
            folds[place] = Fold(_name(place), repeated.citation, "url" if repeated in equal else "text")
            continue
        also_known = next(iter((*earlier_sources, *copies)), None)
        if first is not None:
            folds[first] = Fold(_name(first), _name(place), "url")
        if url:
            by_url[url] = place
        if also_known is not None:
            also[place] = pages.get(url, also_known.citation)
        texts.add(prints[place], place)
    indices = tuple(place for place in range(len(results)) if place not in folds and place not in excluded)
    return DistinctResults(indices, tuple(_resolve_fold(folds[place], folds) for place in sorted(folds)), also, prints)


def _flat(query: str) -> str:
    return " ".join(query.casefold().split())


def _name(place: int) -> str:
    return f"r{place + 1}"


def _resolve_fold(fold: Fold, folds: dict[int, Fold]) -> Fold:
    """Returns the final target of a fold: the first result of a page may itself have given way to one with a text."""
    by_name = {each.section: each for each in folds.values()}
    into = fold.into
    while into in by_name:
        into = by_name[into].into
    return Fold(fold.section, into, fold.why)


class _Texts:
    """Fingerprints by their hashes, so that only few are compared with each other."""

    def __init__(self, known_prints: list[bytes]) -> None:
        self._prints: list[bytes] = []
        self._owners: list[int] = []
        self._of: dict[bytes, list[int]] = {}
        for each in known_prints:
            self.add(each, -1)

    def add(self, printed: bytes, owner: int) -> None:
        """Adds a fingerprint and its owner."""
        number = len(self._prints)
        self._prints.append(printed)
        self._owners.append(owner)
        for piece in _hashes(printed):
            numbers = self._of.setdefault(piece, [])
            if len(numbers) < _PER_HASH:
                numbers.append(number)

    def owner(self, number: int) -> int:
        """Returns the owner of a fingerprint."""
        return self._owners[number]

    def twins(self, printed: bytes) -> list[int]:
        """Returns the fingerprints that are nearly the same, in the order in which they were added."""
        counts: dict[int, int] = {}
        pieces = _hashes(printed)
        for piece in pieces:
            for number in self._of.get(piece, ()):
                counts[number] = counts.get(number, 0) + 1
        near = [number for number, count in counts.items() if count >= _LEAST_SHARED * len(pieces)]
        nearest = sorted(near, key=lambda number: (-counts[number], number))[:_LOOKS]
        return sorted(number for number in nearest if same(self._prints[number], printed))


def _hashes(printed: bytes) -> list[bytes]:
    return [printed[at : at + 4] for at in range(4, min(len(printed), 4 + 4 * _LOOKED_UP), 4)]
