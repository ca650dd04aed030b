"""Folds results that duplicate another: of the same page, or with nearly the same text.

The first result of a page stays, unless only a later one has a text. An address alone is not enough to match a source
of an earlier search: for another query, providers give other passages of a page, and those are new. Every fold is
reported.
"""

from typing import Final, Literal

from msgspec import Struct

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


class Fold(Struct, frozen=True):
    """A result that is not shown, because it duplicates another."""

    section: str
    into: str
    """A section of the same response, or an earlier source's citation."""
    why: Literal["url", "text"]


class DistinctResults(Struct, frozen=True):
    """The results that remain."""

    kept: tuple[int, ...]
    """Indices of results, from 0, in order."""
    folds: tuple[Fold, ...]
    also: dict[int, str]
    """By index of a result: an earlier source of the same page with another text; the page itself, if it is there."""
    fingerprints: tuple[bytes, ...]
    """Fingerprints of all results' texts."""


def fingerprints(laid: ResponseLayout) -> tuple[bytes, ...]:
    """Returns the fingerprint of each result's text."""
    return tuple(similarity.fingerprints([body.text for body in laid.bodies]))


def unfold(
    laid: ResponseLayout,
    earlier: tuple[EarlierSource, ...] = (),
    prints: tuple[bytes, ...] | None = None,
    domains: Domains | None = None,
) -> DistinctResults:
    """Folds duplicates among the results that `domains` allow.

    `prints` are the texts' fingerprints, if known already.
    """
    domains = domains or Domains()
    results = laid.response.results[: len(laid.bodies)]
    prints = fingerprints(laid) if prints is None else prints
    folds: dict[int, Fold] = {}
    also: dict[int, str] = {}
    by_url: dict[str, int] = {}
    known_urls = {source.canonical_url: source for source in reversed(earlier) if source.canonical_url}
    pages = {source.canonical_url: source.citation for source in earlier if "#" not in source.citation}
    texts = _Texts([source.fingerprint for source in earlier])
    excluded = {place for place, result in enumerate(results) if domains and not domains.let_result(result)}
    for place, result in enumerate(results):
        if place in excluded:
            continue
        url = result.canonical_url or result.url
        known = known_urls.get(url) if url else None
        first = by_url.get(url) if url else None
        if first is not None and (laid.bodies[first].text or not laid.bodies[place].text):
            folds[place] = Fold(_name(place), _name(first), "url")
            continue
        if known is not None and (not known.fingerprint or not prints[place] or same(known.fingerprint, prints[place])):
            folds[place] = Fold(_name(place), known.citation, "url")
            continue
        twin = texts.twin(prints[place])
        if twin is not None:
            into = earlier[twin].citation if twin < len(earlier) else _name(texts.owner(twin))
            folds[place] = Fold(_name(place), into, "text")
            continue
        if first is not None:
            folds[first] = Fold(_name(first), _name(place), "url")
        if url:
            by_url[url] = place
        if known is not None:
            also[place] = pages.get(url, known.citation)
        texts.add(prints[place], place)
    kept = tuple(place for place in range(len(results)) if place not in folds and place not in excluded)
    return DistinctResults(kept, tuple(_settled(folds[place], folds) for place in sorted(folds)), also, prints)


def _name(place: int) -> str:
    return f"r{place + 1}"


def _settled(fold: Fold, folds: dict[int, Fold]) -> Fold:
    """Returns the final target of a fold: the first result of a page may itself have given way to one with a text."""
    by_name = {each.section: each for each in folds.values()}
    into = fold.into
    while into in by_name:
        into = by_name[into].into
    return Fold(fold.section, into, fold.why)


class _Texts:
    """Fingerprints by their hashes, so that only few are compared with each other."""

    def __init__(self, known: list[bytes]) -> None:
        self._prints: list[bytes] = []
        self._owners: list[int] = []
        self._of: dict[bytes, list[int]] = {}
        for each in known:
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

    def twin(self, printed: bytes) -> int | None:
        """Returns the first fingerprint that is nearly the same."""
        counts: dict[int, int] = {}
        pieces = _hashes(printed)
        for piece in pieces:
            for number in self._of.get(piece, ()):
                counts[number] = counts.get(number, 0) + 1
        near = [number for number, count in counts.items() if count >= _LEAST_SHARED * len(pieces)]
        nearest = sorted(near, key=lambda number: (-counts[number], number))[:_LOOKS]
        return min((number for number in nearest if same(self._prints[number], printed)), default=None)


def _hashes(printed: bytes) -> list[bytes]:
    return [printed[at : at + 4] for at in range(4, min(len(printed), 4 + 4 * _LOOKED_UP), 4)]
