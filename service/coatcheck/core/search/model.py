"""The values of a web search: a response whatever the provider and its format, and the limits of what is shown of it.

Values are as the provider gave them: not cleaned for readers, and without additions. Ranks count from 1 in the given
order; the section of result n in a text view is `rn`. Outside text gets into a line of ours only through `short`, which
makes it inert and cuts it.
"""

from typing import Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck_client.contract.inert import one_line

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

# What one line of ours shows of outside text. Chosen, not measured.
QUERY_CHARS: Final = 200
"""Characters of a query."""
LINE_CHARS: Final = 160
"""Characters of a title."""
DATE_CHARS: Final = 80
"""Characters of a date as the provider writes it."""
REASON_CHARS: Final = 300
"""Characters of one failure or warning of the provider."""
ADDRESS_CHARS: Final = 600
"""Maximum characters of an address that is shown whole; a longer one is only in the view."""


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
    date: str | None = None
    """As given, such as `2 days ago`."""
    date_iso: str | None = None
    """ISO 8601, if `date` is unambiguous."""
    score: float | None = None
    site: str | None = None
    author: str | None = None
    picture: str | None = None
    """Address of the picture that the result is about, if it is one."""


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


MAX_SHOWN_RESULTS: Final = 20
"""Results. Chosen, not measured."""
MAX_RESULT_TOKENS: Final = 8_192
"""Tokens: four times the default. Chosen, not measured."""
MAX_TOTAL_TOKENS: Final = 32_768
"""Tokens: four times the default. Chosen, not measured."""
MIN_RESULT_TOKENS: Final = 64
"""Tokens: room for the line above a result and a few words."""
MIN_TOTAL_TOKENS: Final = 128
"""Tokens; already below 300, our own lines cost more than they are worth, except in addresses (decision 0025)."""
BOUNDS: Final = {
    "max_results": (1, MAX_SHOWN_RESULTS),
    "max_tokens_per_result": (MIN_RESULT_TOKENS, MAX_RESULT_TOKENS),
    "max_total_tokens": (MIN_TOTAL_TOKENS, MAX_TOTAL_TOKENS),
}
"""The lowest and the highest value of each limit, by its name in requests."""


class SearchLimits(Struct, frozen=True, kw_only=True):
    """Hard limits, each counted separately in the tokenizer's encoding."""

    max_results: int = 3
    """Results whose text is shown; the others are listed by title and URL."""
    max_tokens_per_result: int = 2_048
    """Tokens of a result's text with the line above it."""
    max_total_tokens: int = 8_192
    """Tokens in total."""


class Switches(Struct, frozen=True, kw_only=True):
    """Whether and how often searches are taken, and what stays of them."""

    enabled: bool = True
    keep_summary: bool = True
    """Whether sentences and sources stay for later turns."""
    max_searches: int | None = None
    """In a session; None: no limit."""
    max_searches_per_turn: int | None = None


def check_limits(limits: SearchLimits) -> SearchLimits:
    """Returns the limits after checking them.

    Raises:
        CoatcheckError: `invalid_request` for a number out of bounds.
    """
    for name, (least, most) in BOUNDS.items():
        if not least <= getattr(limits, name) <= most:
            raise CoatcheckError(Code.INVALID_REQUEST, f"{name} must be from {least} to {most:,}.", parameter=name)
    return limits


def shares(needs: list[int], room: int) -> list[int]:
    """Returns each one's share of `room`: its need, or as much as everyone else who does not get all.

    What one does not need goes to the others; the sum never exceeds `room`.
    """
    out = [0] * len(needs)
    remaining = max(0, room)
    # From the smallest need: what it leaves is divided among the larger ones.
    for count, place in enumerate(sorted(range(len(needs)), key=lambda place: (needs[place], place))):
        out[place] = min(needs[place], remaining // (len(needs) - count))
        remaining -= out[place]
    return out


def section_name(place: int) -> str:
    """Returns the section of a result, by its index."""
    return f"r{place + 1}"


def host_of(url: str | None) -> str:
    """Returns the host in an address, in lower case; empty if there is none."""
    try:
        return (urlsplit(url or "").hostname or "").strip(".")
    except ValueError:
        return ""


def escape_citations(text: str) -> str:
    """Returns outside text in which nothing can be mistaken for our citations."""
    return text.replace("[art_", "\uff3bart_")


def short(text: str, most: int) -> str:
    """Returns a text on one line, inert, no citation of ours, with its end cut off and marked if it is too long."""
    flat = escape_citations(one_line(text[: most * 4]))
    return flat if len(flat) <= most else f"{flat[: most - 1].rstrip()}…"
