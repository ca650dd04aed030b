"""Folds results with the same page or nearly the same text as another result, and leaves out excluded sites.

The first result of a page stays, unless only a later result of that page has a text. A result is also folded into a
source of an earlier search, but only if that search had the same query, or if no term of the query is in the result's
text: for another query, the same page has other passages to show. The same address is not enough either, since
providers return different excerpts of one page. Every fold is reported.

Texts are compared by fingerprints that can be stored and never change: bottom-k sketches. A text is split into all
overlapping runs of three words (in scripts without blanks: of three characters), each run is hashed, and the 128
smallest hashes are kept. The share of hashes that two sketches have in common estimates the share of runs that the
texts have in common (Jaccard). Moved, shortened or spliced texts differ; a changed date or advertisement makes no
difference.

Sites are domain names, each including its subdomains (`Domains`). They restrict only what is shown and listed; the
response is stored whole.
"""

import re
import unicodedata
import zlib
from itertools import chain
from typing import Final, Literal, final

import numpy as np
import numpy.typing as npt
import regex
from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.passages.scan import TermFinder
from coatcheck.core.search.model import SearchResult, host_of, section_name
from coatcheck.core.search.view import ResponseLayout

SAME_SHARE: Final = 0.85
"""Similarity from which two texts count as the same. Chosen, not measured."""
_MAX_HASHES: Final = 128
"""Hashes in a fingerprint, which keeps the smallest ones. They take 512 bytes; a similarity that is estimated from them
has a standard error of at most 0.044 (binomial)."""
_COMPARED_CHARS: Final = 40_000
"""Characters at the beginning of a text that are compared."""
_MIN_RUNS: Final = 24
"""Number of runs below which two texts count as the same only if they are equal: a few words make all the difference in
a short text."""
_MIN_WORDS: Final = 4
"""Number of words below which a text has no fingerprint and equals no other: 'Sign in' is on many pages."""
_WORD: Final = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]|[\p{L}\p{M}\p{N}]+")
_SPACELESS: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
)
_PLAIN_WORD: Final = re.compile(r"\w+")
_BLANKED: Final = bytes(code if chr(code).isalnum() else 0x20 for code in range(128)) + bytes(range(128, 256))
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


def fingerprint(text: str) -> bytes:
    """Returns a text's fingerprint of at most 516 bytes; empty for a text of fewer than `_MIN_WORDS` words."""
    return fingerprint_texts([text])[0]


def fingerprint_texts(texts: list[str]) -> list[bytes]:
    """Returns the fingerprint of each text. One call for all texts costs half as much as one call for each."""
    apart = [_words(text[:_COMPARED_CHARS]) for text in texts]
    words = list(chain.from_iterable(apart))
    if len(words) < _MIN_WORDS:
        return [b""] * len(texts)
    word_codes = {word: zlib.crc32(word) for word in set(words)}
    # The runs of three words are hashed for all texts at once. The smallest hashes of a text are a sample of its runs
    # (MinHash).
    codes = np.fromiter(map(word_codes.__getitem__, words), np.uint64, len(words))
    runs = _scatter_codes(_scatter_codes(codes[:-2]) + codes[1:-1]) + codes[2:]
    hashes = (_scatter_codes(runs) >> np.uint64(32)).astype(np.uint32)
    out: list[bytes] = []
    start = 0
    for each in apart:
        end = start + len(each)
        # The runs of the last two words would reach into the next text.
        out.append(_pack_hashes(hashes[start : end - 2]) if len(each) >= _MIN_WORDS else b"")
        start = end
    return out


def _pack_hashes(hashes: npt.NDArray[np.uint32]) -> bytes:
    """Returns the number of different hashes in four bytes, followed by the smallest of them."""
    ordered = np.sort(hashes)  # several times as fast as np.unique
    fresh = np.flatnonzero(ordered[1:] != ordered[:-1])
    smallest = ordered[np.append(0, fresh[: _MAX_HASHES - 1] + 1)]
    return (len(fresh) + 1).to_bytes(4, "big") + smallest.astype(">u4").tobytes()


def _words(text: str) -> list[bytes]:
    if text.isascii():
        return text.encode().translate(_BLANKED).lower().split()
    normalized = unicodedata.normalize("NFKC", text).casefold()
    words: list[str] = (_WORD if _SPACELESS.search(normalized) else _PLAIN_WORD).findall(normalized)
    return "\n".join(words).encode("utf-8", "replace").split(b"\n")


def _scatter_codes(codes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scatters 64-bit numbers. The multiplication overflows, as intended."""
    mixed = (codes ^ (codes >> np.uint64(29))) * _MIX
    return mixed ^ (mixed >> np.uint64(32))


def similarity(one: bytes, other: bytes) -> float:
    """Returns the estimated share of runs that the texts of two fingerprints have in common, from 0 to 1."""
    if not one or not other:
        return 0.0
    first, second = _sketch(one), _sketch(other)
    both = np.union1d(first, second)[:_MAX_HASHES]
    common = np.isin(both, first) & np.isin(both, second)
    return float(common.sum()) / len(both)


def same(one: bytes, other: bytes) -> bool:
    """Returns whether the texts of two fingerprints count as the same. Texts without a fingerprint never do."""
    if not one or not other:
        return False
    if one == other:
        return True
    least = min(int.from_bytes(each[:4], "big") for each in (one, other))
    return least >= _MIN_RUNS and similarity(one, other) >= SAME_SHARE


def _sketch(fingerprint_bytes: bytes) -> npt.NDArray[np.uint32]:
    return np.frombuffer(fingerprint_bytes, dtype=">u4", offset=4)


MAX_DOMAINS: Final = 100
"""Maximum sites in the list of allowed sites of a request, and in that of excluded sites. Chosen, not measured."""
MAX_DOMAIN_CHARS: Final = 253
"""Maximum characters of a domain name in DNS (RFC 1035), without the final dot."""
_NAME: Final = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?")


@final
class Domains:
    """The sites that may be shown: the allowed ones, or all if none is named, except the excluded ones."""

    def __init__(
        self, allowed: tuple[str, ...] = (), excluded: tuple[str, ...] = (), also: "Domains | None" = None
    ) -> None:
        """Takes names as callers write them: `example.org`, `*.example.org`, `bücher.example`.

        Args:
            allowed: if not empty, only pages of these sites may be shown.
            excluded: pages of these sites may not be shown.
            also: further restrictions; a page must be allowed by these as well.

        Raises:
            CoatcheckError: `invalid_request` for an invalid name, such as an address.
        """
        self._allowed = frozenset(_domain_name(each, "allowed_domains") for each in allowed)
        self._excluded = frozenset(_domain_name(each, "excluded_domains") for each in excluded)
        self._also = also

    def __bool__(self) -> bool:
        """Returns whether any page could be refused."""
        return bool(self._allowed or self._excluded or self._also)

    def let(self, url: str | None) -> bool:
        """Returns whether a page may be shown. Without an address, it may be unless only some sites are allowed.

        A page whose host has no form in DNS may be shown only if no site is allowed or excluded.
        """
        if self._also is not None and not self._also.let(url):
            return False
        written = host_of(url)
        host = _in_ascii(written)
        if written and not host:
            return not self._excluded and not self._allowed
        names = {host[at:] for at in range(len(host)) if at == 0 or host[at - 1] == "."}
        return not names & self._excluded and (not self._allowed or bool(names & self._allowed))

    def let_result(self, result: SearchResult) -> bool:
        """Returns whether a result may be shown: its address and the page that the address wraps must be allowed."""
        urls = [url for url in (result.url, result.canonical_url) if url]
        return all(map(self.let, urls)) if urls else self.let(None)

    def within(self, laid: ResponseLayout) -> ResponseLayout:
        """Returns the response without the pictures and the provider's answers that come from excluded sites."""
        if not self:
            return laid
        answers = tuple(each for each in laid.response.answers if each.url is None or self.let(each.url))
        pictures = tuple(filter(self.let_result, laid.response.pictures))
        return replace(laid, response=replace(laid.response, answers=answers, pictures=pictures))


def _domain_name(text: str, parameter: str) -> str:
    name = _in_ascii(text.strip().removeprefix("*.").strip(".").lower())
    if len(name) > MAX_DOMAIN_CHARS or not _NAME.fullmatch(name):
        excerpt = text if len(text) <= 80 else f"{text[:80]}…"  # noqa: PLR2004
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"{parameter} takes names such as example.org, with all their subdomains; {excerpt!r} is none.",
            parameter=parameter,
        )
    return name


def _in_ascii(name: str) -> str:
    """Returns a domain name in the ASCII form of DNS, without a final dot; empty if it has none."""
    try:
        return name if name.isascii() else name.encode("idna").decode().strip(".")
    except UnicodeError:
        return ""


_RESULTS_PER_HASH: Final = 8
"""Results that are kept for each hash: enough to find near duplicates, few enough to be fast."""
_MAX_COMPARISONS: Final = 8
"""Maximum comparisons of whole fingerprints per result."""
_INDEXED_HASHES: Final = 16
"""Number of hashes, the smallest of a fingerprint, that are used to find candidates. Two texts that share 85 % of their
runs have fewer than a third of these hashes in common only once in a million times."""
_MIN_SHARED: Final = 0.3
"""Share of the indexed hashes that two texts must have in common before their whole fingerprints are compared."""


class EarlierSource(Struct, frozen=True):
    """A source that the session already has."""

    citation: str
    """The source's citation, such as `art_…#r1`; a page that was posted has no `#`."""
    canonical_url: str | None
    fingerprint: bytes = b""
    """Fingerprint of the source's text; if empty, the address alone decides whether a result is the same."""
    query: str = ""
    """The query of the search that found this source; empty for a page that was posted, and if it is unknown."""


class FoldedResult(Struct, frozen=True):
    """A result that is not shown, because it duplicates another."""

    section: str
    into: str
    """Target of the fold: a section of the same response, or the citation of an earlier source."""
    why: Literal["url", "text"]


class DistinctResults(Struct, frozen=True):
    """The results that remain after folding and excluding, and the folds."""

    indices: tuple[int, ...]
    """Indices of the remaining results, from 0, in the response's order."""
    folds: tuple[FoldedResult, ...]
    also: dict[int, str]
    """Citation of an earlier source with the same page or text, by the index of a remaining result. If the page itself
    was posted, the citation is the page's."""
    fingerprints: tuple[bytes, ...]
    """Fingerprints of all results' texts, by the index of the result."""


def fingerprints(laid: ResponseLayout) -> tuple[bytes, ...]:
    """Returns the fingerprint of each result's text."""
    return tuple(fingerprint_texts([body.text for body in laid.bodies]))


def unfold(
    laid: ResponseLayout,
    earlier: tuple[EarlierSource, ...] = (),
    prints: tuple[bytes, ...] | None = None,
    domains: Domains | None = None,
    query: str = "",
    finder: TermFinder | None = None,
) -> DistinctResults:
    """Folds duplicates among the results that `domains` allows.

    Args:
        laid: the response with its text view.
        earlier: sources that the session already has.
        prints: the fingerprints of the results' texts; None computes them.
        domains: the sites that may be shown; None allows all.
        query: the query of this search.
        finder: finds the terms of `query`; None if the query has no terms.
    """
    domains = domains or Domains()
    results = laid.response.results[: len(laid.bodies)]
    prints = fingerprints(laid) if prints is None else prints
    folds: dict[int, FoldedResult] = {}
    also: dict[int, str] = {}
    by_url: dict[str, int] = {}
    # The sources of the session, by address and by text. A posted page is cited beside a result (`also`) rather than in
    # its place: the model may have seen only a card of the page.
    known_urls: dict[str, list[EarlierSource]] = {}
    for source in earlier:
        known_urls.setdefault(source.canonical_url or "", []).append(source)
    pages = {source.canonical_url: source.citation for source in earlier if "#" not in source.citation}
    texts, known_texts = _Texts([]), _Texts([source.fingerprint for source in earlier])
    # A result of an excluded site is neither folded nor the target of a fold.
    excluded = {place for place, result in enumerate(results) if domains and not domains.let_result(result)}
    for place, result in enumerate(results):
        if place in excluded:
            continue
        url = result.canonical_url or result.url
        first = by_url.get(url) if url else None
        # The same page again. If the first result has no text and this one has, this one stays instead.
        if first is not None and (laid.bodies[first].text or not laid.bodies[place].text):
            folds[place] = FoldedResult(section_name(place), section_name(first), "url")
            continue
        # The same text on another page: a copy or a mirror.
        if twins := texts.twins(prints[place]):
            folds[place] = FoldedResult(section_name(place), section_name(texts.owner(twins[0])), "text")
            continue
        # An earlier source may replace a result only if the text contains no term of this query, or if the queries are
        # the same. Otherwise the model would be sent to passages that answer another question.
        earlier_sources = known_urls.get(url, []) if url else []
        equal = [
            each
            for each in earlier_sources
            if not (each.fingerprint and prints[place]) or same(each.fingerprint, prints[place])
        ]
        copies = [earlier[number] for number in known_texts.twins(prints[place])]
        says_all = finder is None or finder.next(laid.bodies[place].data, 0) is None
        repeated = next(
            (each for each in (*equal, *copies) if says_all or fold_blanks(each.query) == fold_blanks(query)), None
        )
        if repeated is not None:
            folds[place] = FoldedResult(section_name(place), repeated.citation, "url" if repeated in equal else "text")
            continue
        # The result stays: an earlier source of its page or text is named beside it, and later results can be folded
        # into it.
        also_known = next(iter((*earlier_sources, *copies)), None)
        if first is not None:
            folds[first] = FoldedResult(section_name(first), section_name(place), "url")
        if url:
            by_url[url] = place
        if also_known is not None:
            also[place] = pages.get(url, also_known.citation) if url else also_known.citation
        texts.add(prints[place], place)
    indices = tuple(place for place in range(len(results)) if place not in folds and place not in excluded)
    return DistinctResults(indices, tuple(_resolve_fold(folds[place], folds) for place in sorted(folds)), also, prints)


def fold_blanks(query: str) -> str:
    """Returns a text in lower case with single blanks, for comparisons."""
    return " ".join(query.casefold().split())


def _resolve_fold(fold: FoldedResult, folds: dict[int, FoldedResult]) -> FoldedResult:
    """Returns a fold with its final target: the target may itself have been folded into a later result with a text."""
    by_name = {each.section: each for each in folds.values()}
    into = fold.into
    while into in by_name:
        into = by_name[into].into
    return FoldedResult(fold.section, into, fold.why)


class _Texts:
    """An index of fingerprints by their hashes, so that only similar candidates are compared."""

    def __init__(self, known_prints: list[bytes]) -> None:
        self._prints: list[bytes] = []
        self._owners: list[int] = []
        self._of: dict[bytes, list[int]] = {}
        for each in known_prints:
            self.add(each, -1)

    def add(self, printed: bytes, owner: int) -> None:
        """Adds a fingerprint that belongs to the result with the index `owner`; -1 for an earlier source."""
        number = len(self._prints)
        self._prints.append(printed)
        self._owners.append(owner)
        for piece in _hashes(printed):
            numbers = self._of.setdefault(piece, [])
            if len(numbers) < _RESULTS_PER_HASH:
                numbers.append(number)

    def owner(self, number: int) -> int:
        """Returns the owner of the fingerprint with a number."""
        return self._owners[number]

    def twins(self, printed: bytes) -> list[int]:
        """Returns the numbers of the fingerprints that are nearly the same, in the order in which they were added."""
        counts: dict[int, int] = {}
        pieces = _hashes(printed)
        for piece in pieces:
            for number in self._of.get(piece, ()):
                counts[number] = counts.get(number, 0) + 1
        # Comparing a text with every other text would take quadratic time. Texts that share 85 % of their runs also
        # share many of the smallest hashes, so only such texts are compared.
        near = [number for number, count in counts.items() if count >= _MIN_SHARED * len(pieces)]
        nearest = sorted(near, key=lambda number: (-counts[number], number))[:_MAX_COMPARISONS]
        return sorted(number for number in nearest if same(self._prints[number], printed))


def _hashes(printed: bytes) -> list[bytes]:
    return [printed[at : at + 4] for at in range(4, min(len(printed), 4 + 4 * _INDEXED_HASHES), 4)]
