"""Our own lines around the results, and the order in which results are shown.

Each line begins with a mark that no text from outside can have. Texts of a provider or a page in these lines (titles,
addresses, dates) are made inert and put on one line.

Results keep the provider's ranking unless the query itself says otherwise. These rules apply in this order; each one
only orders results that the rules before it leave equal:

1. `site:example.org` in the query: results of this site and its subdomains come first.
2. `"a phrase"` in the query: results that contain every such phrase, in upper or lower case, come first.
3. Results with a text come before results with only a title, since the places of shown results are for texts.
4. Results with any term of the query in title, URL or text come first.
5. The provider's rank decides. Scores are ignored: their meaning differs between providers, and ranks follow from them
   anyway.
"""

import re
from typing import Final, final
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from coatcheck.core.passages.scan import TermFinder
from coatcheck.core.search.fold import FoldedResult, fold_blanks
from coatcheck.core.search.model import (
    ADDRESS_CHARS,
    LINE_CHARS,
    QUERY_CHARS,
    REASON_CHARS,
    UNKNOWN,
    ProviderAnswer,
    SearchResponse,
    SearchResult,
    short,
)
from coatcheck.core.search.view import ResponseLayout
from coatcheck.core.tokens import Tokenizer
from coatcheck_client.contract.inert import MARK

_MAX_REASONS: Final = 2
"""Maximum failures that the first line names; a response has up to four. Chosen, not measured."""
_MAX_FOLDS: Final = 12
"""Maximum folded results that are named; the others are only counted."""
_LABELS: Final = {
    "answer": "answer",
    "knowledge": "knowledge panel",
    "question": "related question",
    "commentary": "note",
}


def first_line(query: str, response: SearchResponse, shown_count: int, artifact_id: str | None, *, brief: bool) -> str:
    """Returns the line with the outcome of the search, and with the ID under which the whole response is stored."""
    outcome = outcome_of(response)
    if brief:
        summary = f"{outcome}, {shown_count} shown" if response.results else outcome
        return f"{MARK} {summary}; {f'all in {artifact_id}' if artifact_id else 'not stored'}"
    of = f' for "{short(query, QUERY_CHARS)}"' if query.strip() else ""
    by = "" if response.provider == UNKNOWN else f" by {response.provider}"
    is_list = not (response.failed or response.unread)
    how = f"Search: {outcome}{of}{by}, {shown_count} shown" if is_list else f"Search{of}{by}: {outcome}".rstrip(".")
    if artifact_id is None:
        return f"{MARK} {how}. Not stored: cannot be read back."
    cite = f"; cite as {artifact_id}#r1" if response.results else ""
    return f"{MARK} {how}. Stored outside this conversation as {artifact_id}{cite}"


def outcome_of(response: SearchResponse) -> str:
    """Returns the outcome of a search: the number of results, a failure, or that the response was not understood."""
    if response.failed:
        return f"failed: {'; '.join(short(each, REASON_CHARS) for each in response.failures[:_MAX_REASONS])}"
    if response.unread:
        return "the response was not understood"
    count = len(response.results)
    if response.answers and not count:
        return "an answer without results"
    return f"{count} {'result' if count == 1 else 'results'}"


def result_line(section: str, result: SearchResult, also: str | None = None) -> str:
    """Returns the line above a result's text; `also` cites an earlier source with another text of the page."""
    about = [short(each, LINE_CHARS) for each in (result.date or "",) if each]
    other = [f"other text of this page: {also}"] if also else []
    return f"{MARK} {render_result_line(section, result)}{''.join(f' | {each}' for each in (*about, *other))}"


def render_result_line(section: str, result: SearchResult) -> str:
    """Returns the title and address of a result on one line."""
    title = short(result.title, LINE_CHARS)
    address = short(result.url or "", ADDRESS_CHARS)
    line = " ".join(each for each in (section, title, "|" if title and address else "", address) if each)
    return f"{line} | picture {short(result.picture, ADDRESS_CHARS)}" if result.picture else line


def answer_line(provider: str, answer: ProviderAnswer) -> str:
    """Returns the line above one of the provider's own answers."""
    whose = "Provider's" if provider == UNKNOWN else f"{provider}'s"
    more = [short(each, ADDRESS_CHARS) for each in (answer.title, answer.url or "") if each]
    return f"{MARK} {whose} own {_LABELS[answer.kind]}, not a source{''.join(f' | {each}' for each in more)}"


def list_line(count: int) -> str:
    """Returns the line above the results that are only listed."""
    return f"{MARK} {count} more, by title and address:"


def pictures_line(count: int) -> str:
    """Returns the line above the pictures beside the results."""
    return f"{MARK} {count} {'picture' if count == 1 else 'pictures'}, by address:"


def unread_line() -> str:
    """Returns the line above an excerpt of a response whose format was not recognised."""
    return f"{MARK} The response, as far as there is room:"


def folds_line(folds: tuple[FoldedResult, ...]) -> str:
    """Returns the line that names the folded results and what they duplicate."""
    duplicates = [
        f"{fold.section} is {'already stored as ' if fold.into.startswith('art_') else ''}{fold.into} "
        f"({'same page' if fold.why == 'url' else 'same text'})"
        for fold in folds[:_MAX_FOLDS]
    ]
    more = f" and {len(folds) - _MAX_FOLDS} more" if len(folds) > _MAX_FOLDS else ""
    return f"{MARK} Not shown twice: {'; '.join(duplicates)}{more}"


def render_omissions_line(
    cut_chars: int, chars: int, boilerplate_chars: int, unlisted: int, excluded: int, answers: int
) -> str:
    """Returns the line with the characters left out of shown results, and the numbers of other things left out."""
    parts: list[str] = []
    if cut_chars:
        parts.append(f"{cut_chars:,} of {chars:,} characters of the shown results")
    if boilerplate_chars:
        parts.append(f"{boilerplate_chars:,} characters of menus, notices and repeats")
    if unlisted:
        parts.append(f"{unlisted} {'result' if unlisted == 1 else 'results'}")
    if excluded:
        parts.append(f"{excluded} of sites that the request excludes")
    if answers:
        parts.append(f"{answers} more {'answer' if answers == 1 else 'answers'}")
    return f"{MARK} Left out: {', '.join(parts)}" if parts else ""


def next_line(artifact_id: str, section: str | None) -> str:
    """Returns a literal call that reads more: of a section or, if it is None, of the whole response."""
    part = f', section="{section}"' if section else ""
    return f'{MARK} Next: read_artifact(artifact_id="{artifact_id}"{part}, query="…")'


def warning_line(warning: str) -> str:
    """Returns a line with a warning."""
    return f"{MARK} {short(warning, 300)}"


_SITE: Final = re.compile(r"(?<!\S)site:\s?([^\s\"']{1,200})", re.IGNORECASE)
_PHRASE: Final = re.compile(r"\"([^\"\n]{2,200})\"|[“„«]([^”“»\n]{2,200})[”“»]")
_MAX_PREFERENCES: Final = 8
"""Maximum sites and phrases of a query that are used. Chosen, not measured."""


def words_of(query: str) -> str:
    """Returns a query without its `site:` terms."""
    return _SITE.sub(" ", query)


def order_results(laid: ResponseLayout, indices: tuple[int, ...], query: str, finder: TermFinder | None) -> list[int]:
    """Returns the indices of the results in the order in which they are shown."""
    sites = [site.lower().removeprefix("www.").strip("/*.") for site in _SITE.findall(query)[:_MAX_PREFERENCES]]
    phrases = [fold_blanks(one or two) for one, two in _PHRASE.findall(query)[:_MAX_PREFERENCES]]

    def worth(place: int) -> tuple[bool, bool, bool, bool, int]:
        result, body = laid.response.results[place], laid.bodies[place]
        head = f"{result.title}\n{result.url or ''}\n"
        off_site = bool(sites) and not any(_of_site(result, site) for site in sites)
        without = bool(phrases) and not _has(f"{head}{body.text}", phrases)
        missing = finder is not None and finder.next(head.encode("utf-8", "replace") + body.data, 0) is None
        # The provider's ranking decides among equal results: the provider knows what the query meant, these rules do
        # not.
        return off_site, without, not body.text, missing, place

    return sorted(indices, key=worth)


def _of_site(result: SearchResult, site: str) -> bool:
    host, _, path = site.partition("/")
    try:
        parts = urlsplit(result.canonical_url or result.url or "")
        name = (parts.hostname or "").removeprefix("www.")
    except ValueError:
        return False
    return (name == host or name.endswith(f".{host}")) and parts.path.lower().startswith(f"/{path}" if path else "")


def _has(text: str, phrases: list[str]) -> bool:
    flat = fold_blanks(text)
    return all(phrase in flat for phrase in phrases)


@final
class CachingTokenizer:
    """Counts each text only once: blocks are counted again while they shrink, and at the end.

    Lives only as long as one search, because it never forgets a text. Not thread-safe.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._counts: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The encoding's public name."""
        return self._tokenizer.name

    def count(self, text: str) -> int:
        """Returns the number of tokens of `text`."""
        token_count = self._counts.get(text)
        if token_count is None:
            token_count = self._counts[text] = self._tokenizer.count(text)
        return token_count

    def encode(self, text: str) -> list[int]:
        """Returns the token numbers of `text`."""
        return self._tokenizer.encode(text)

    def decode(self, tokens: list[int]) -> bytes:
        """Returns the bytes of these tokens."""
        return self._tokenizer.decode(tokens)

    def ends(self, text: str) -> npt.NDArray[np.int64]:
        """Returns where each token of `text` ends, in bytes."""
        return self._tokenizer.ends(text)
