"""The values of a web search response, whatever the provider and its format.

Values are as the provider gave them: not cleaned for readers, and without additions. Ranks count from 1 in the given
order; the section of result n in a text view is `rn`.
"""

from typing import Final, Literal

from msgspec import Struct

Format = Literal["plain", "markdown", "html"]
AnswerKind = Literal["answer", "knowledge", "question", "commentary"]

MAX_RESULTS: Final = 500
"""Maximum results taken from one response: more than any provider returns per page."""
MAX_TEXT: Final = 1_000_000
"""Maximum characters taken of one text of a result; longer ones are cut, with a warning."""
MAX_UNREAD: Final = 262_144
"""Maximum characters kept of a response that is not understood: far more than any budget shows."""
MAX_LINE: Final = 1_000
"""Maximum characters of a title, a name or a date."""
UNKNOWN: Final = "unknown"
"""The provider's name if none is recognised."""


class ProviderAnswer(Struct, frozen=True, kw_only=True):
    """What a provider says itself, apart from the results."""

    kind: AnswerKind
    """`answer`: an answer box or a model's answer; `knowledge`: a knowledge panel, an infobox, an abstract; `question`:
    a related question with its answer; `commentary`: what a model said between results."""
    text: str
    title: str = ""
    url: str | None = None


class SearchResult(Struct, frozen=True, kw_only=True):
    """One search result."""

    rank: int
    title: str = ""
    """One line, without markup; empty if there was none."""
    url: str | None = None
    """As given."""
    canonical_url: str | None = None
    """Only for comparisons: see `coatcheck_client.contract.canonical`."""
    snippet: str = ""
    more: tuple[str, ...] = ()
    """Further excerpts: highlights, extra snippets."""
    content: str = ""
    """The page or a long extract of it, if the provider fetched it."""
    format: Format = "plain"
    """Format of `content`, or of the snippet if there is none."""
    date: str | None = None
    """As given, such as `2 days ago`."""
    date_iso: str | None = None
    """ISO 8601, if `date` is unambiguous."""
    score: float | None = None
    site: str | None = None
    language: str | None = None
    author: str | None = None
    picture: str | None = None
    """Address of the picture that the result is about, if it is one."""
    list_name: str = ""
    """The list that contained it, such as `news`; empty for the only or main one."""


class SearchResponse(Struct, frozen=True, kw_only=True):
    """A provider's whole response."""

    provider: str = UNKNOWN
    query: str | None = None
    """As the provider repeats it."""
    answers: tuple[ProviderAnswer, ...] = ()
    results: tuple[SearchResult, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences: what the provider reports as failed, and what could not be read."""
    unknown: tuple[str, ...] = ()
    """Members of the response that are not empty and were not understood."""
    failures: tuple[str, ...] = ()
    """What the provider says that went wrong, each on one line: the whole search, or an engine of it."""
    failed: bool = False
    """Whether the search as a whole failed: then there are no results because of `failures`."""
    unread: str = ""
    """The readable text of a response without results that was not understood, for an excerpt of it."""
    pictures: tuple[SearchResult, ...] = ()
    """Pictures beside the results, with the address of each; not among the results."""
    actions: tuple[str, ...] = ()
    """What the provider's own tool did, if it says so, one short line each: `'tide' in https://…`."""
