"""The nouns of a web search: what a provider answered, whatever its name and shape.

Values only, as the provider gave them: nothing here is cleaned for a reader, and nothing that was not there is filled
in. Ranks count from 1 in the order given; the section of result n in a text view is `rn`.
"""

from typing import Final, Literal

from msgspec import Struct

Format = Literal["plain", "markdown", "html"]
AnswerKind = Literal["answer", "knowledge", "question", "commentary"]

MAX_RESULTS: Final = 500
"""Results that are taken from one response: more than any provider gives on a page."""
MAX_TEXT: Final = 1_000_000
"""Characters that are taken of one text of a result; what is longer is cut there and said."""
MAX_LINE: Final = 1_000
"""Characters of a title, a name or a date."""
MAX_URL: Final = 8_192
"""Characters of a URL; a longer one is none."""
UNKNOWN: Final = "unknown"
"""The provider's name where none is recognised."""


class ProviderAnswer(Struct, frozen=True, kw_only=True):
    """What a provider says itself, apart from what it found."""

    kind: AnswerKind
    """`answer`: an answer box or a model's answer; `knowledge`: a knowledge panel, an infobox, an abstract;
    `question`: a related question with its answer; `commentary`: what a model said between results."""
    text: str
    title: str = ""
    url: str | None = None


class SearchResult(Struct, frozen=True, kw_only=True):
    """One thing that was found."""

    rank: int
    title: str = ""
    """One line, without markup; empty where none was given."""
    url: str | None = None
    """As it was given."""
    canonical_url: str | None = None
    """For comparing only: see canonical.py."""
    snippet: str = ""
    more: tuple[str, ...] = ()
    """Further excerpts: highlights, extra snippets."""
    content: str = ""
    """The page or a long extract of it, where the provider fetched it."""
    format: Format = "plain"
    """Of `content`, or of the snippet where there is none."""
    date: str | None = None
    """As it was given, such as `2 days ago`."""
    date_iso: str | None = None
    """ISO 8601, where `date` can mean only one."""
    score: float | None = None
    site: str | None = None
    language: str | None = None
    author: str | None = None
    listed: str = ""
    """The list that it stood in, such as `news`; empty for the only or main one."""


class SearchResponse(Struct, frozen=True, kw_only=True):
    """A provider's whole answer."""

    provider: str = UNKNOWN
    query: str | None = None
    """As the provider repeats it."""
    answers: tuple[ProviderAnswer, ...] = ()
    results: tuple[SearchResult, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences: what the provider says went wrong, and what could not be read."""
    unknown: tuple[str, ...] = ()
    """Members of the response that hold something and were not understood."""
    actions: tuple[str, ...] = ()
    """What the provider's own tool did, one short line each, where it says so: `'tide' in https://…`."""
