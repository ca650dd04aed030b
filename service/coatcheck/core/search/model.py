"""The values of a web search: a response of any provider in one form, and the limits of what is shown of it.

Except for titles, values are as the provider gave them: not cleaned for readers, and without additions. Ranks count
from 1 in the given order; result n is the section `rn` of a text view. Text from outside gets into our own lines only
through `short`, which makes the text inert and cuts it.
"""

import re
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck_client.contract.inert import one_line

Format = Literal["plain", "markdown", "html"]
AnswerKind = Literal["answer", "knowledge", "question", "commentary"]

MAX_RESULTS: Final = 500
"""Maximum results that are read from one response: more than any provider returns per page."""
MAX_TEXT: Final = 1_000_000
"""Maximum characters that are read of one text of a result; longer texts are cut, and end with CUT_MARK."""
CUT_MARK: Final = f" [cut here: only the first {MAX_TEXT:,} characters of this text are read]"
MAX_UNREAD: Final = 262_144
"""Maximum characters that are kept of a response whose format was not recognised: far more than any budget shows."""
MAX_LINE: Final = 1_000
"""Maximum characters of a title, a name or a query."""
UNKNOWN: Final = "unknown"
"""The provider's name if none is recognised."""

# Maximum characters of text from outside in one of our own lines. Chosen, not measured.
QUERY_CHARS: Final = 200
"""Characters of a query."""
LINE_CHARS: Final = 160
"""Characters of a title."""
DATE_CHARS: Final = 80
"""Characters of a date in the form in which the provider writes it."""
REASON_CHARS: Final = 300
"""Characters of one failure or warning of the provider."""
ADDRESS_CHARS: Final = 600
"""Maximum characters of an address that is shown whole; a longer address is cut, and is whole only in the view."""


class ProviderAnswer(Struct, frozen=True, kw_only=True):
    """A provider's own statement, apart from the results."""

    kind: AnswerKind
    """`answer`: an answer box or a model's answer; `knowledge`: a knowledge panel, an infobox, an abstract; `question`:
    a related question with its answer; `commentary`: a model's text between results."""
    text: str
    title: str = ""
    url: str | None = None


class SearchResult(Struct, frozen=True, kw_only=True):
    """One search result."""

    rank: int
    title: str = ""
    """The title on one line and without markup; empty if there is none."""
    url: str | None = None
    """The address as the provider gave it."""
    canonical_url: str | None = None
    """The address in a form that is only for comparisons; see `coatcheck_client.contract.canonical`."""
    snippet: str = ""
    more: tuple[str, ...] = ()
    """Further excerpts: highlights, extra snippets."""
    content: str = ""
    """The page or a long extract of the page, if the provider fetched it."""
    date: str | None = None
    """The date as the provider gave it, such as `2 days ago`."""
    date_iso: str | None = None
    """The date in ISO 8601, if `date` is unambiguous."""
    score: float | None = None
    site: str | None = None
    author: str | None = None
    picture: str | None = None
    """Address of the picture, if the result is a picture."""


class SearchResponse(Struct, frozen=True, kw_only=True):
    """A provider's whole response."""

    provider: str = UNKNOWN
    query: str | None = None
    """The query as the provider repeats it; None if it does not."""
    answers: tuple[ProviderAnswer, ...] = ()
    results: tuple[SearchResult, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences about failures that the provider reports, and about parts that could not be read."""
    unknown: tuple[str, ...] = ()
    """Names of members of the response that are not empty and were not understood."""
    failures: tuple[str, ...] = ()
    """Reasons that the provider gives for a failure of the whole search or of one engine, each on one line."""
    failed: bool = False
    """Whether the whole search failed: there are no results, because of `failures`."""
    unread: str = ""
    """The readable text of a response without results whose format was not recognised; an excerpt of it is shown."""
    pictures: tuple[SearchResult, ...] = ()
    """Pictures beside the results, each with its address; they are not among the results."""
    actions: tuple[str, ...] = ()
    """Actions of the provider's own tool, if the response names them, one short line each: `'tide' in https://…`."""


MAX_SHOWN_RESULTS: Final = 20
"""Maximum of `max_results`. Chosen, not measured."""
MAX_RESULT_TOKENS: Final = 8_192
"""Maximum of `max_tokens_per_result`: four times the default. Chosen, not measured."""
MAX_TOTAL_TOKENS: Final = 32_768
"""Maximum of `max_total_tokens`: four times the default. Chosen, not measured."""
MIN_RESULT_TOKENS: Final = 64
"""Minimum of `max_tokens_per_result`: enough for the line above a result and a few words."""
MIN_TOTAL_TOKENS: Final = 128
"""Minimum of `max_total_tokens`. Already below 300, our own lines cost more than they are worth, except for their
addresses (decision 0025)."""
BOUNDS: Final = {
    "max_results": (1, MAX_SHOWN_RESULTS),
    "max_tokens_per_result": (MIN_RESULT_TOKENS, MAX_RESULT_TOKENS),
    "max_total_tokens": (MIN_TOTAL_TOKENS, MAX_TOTAL_TOKENS),
}
"""The lowest and the highest value of each limit, by the limit's name in requests."""


class SearchLimits(Struct, frozen=True, kw_only=True):
    """Hard limits, each counted separately in the tokenizer's encoding."""

    max_results: int = 3
    """Maximum results whose text is shown; the others are listed by title and URL."""
    max_tokens_per_result: int = 2_048
    """Maximum tokens of one result's text with the line above it."""
    max_total_tokens: int = 8_192
    """Maximum tokens of the whole text."""


class Switches(Struct, frozen=True, kw_only=True):
    """Whether searches are accepted and how many, and whether a summary of them stays."""

    enabled: bool = True
    keep_summary: bool = True
    """Whether sentences and sources stay for later turns, as opposed to one line."""
    max_searches: int | None = None
    """Maximum searches in a session; None: no limit."""
    max_searches_per_turn: int | None = None


def check_limits(limits: SearchLimits) -> SearchLimits:
    """Returns the limits unchanged after checking them.

    Raises:
        CoatcheckError: `invalid_request` for a number outside `BOUNDS`.
    """
    for name, (least, most) in BOUNDS.items():
        if not least <= getattr(limits, name) <= most:
            raise CoatcheckError(Code.INVALID_REQUEST, f"{name} must be from {least} to {most:,}.", parameter=name)
    return limits


def shares(needs: list[int], room: int) -> list[int]:
    """Returns a share of `room` for each need: the whole need, or the same part as all others that cannot be met.

    What a small need does not use goes to the larger ones. The sum of the shares never exceeds `room`.
    """
    out = [0] * len(needs)
    remaining = max(0, room)
    # From the smallest need on: the part that it does not use is divided among the larger ones.
    for count, place in enumerate(sorted(range(len(needs)), key=lambda place: (needs[place], place))):
        out[place] = min(needs[place], remaining // (len(needs) - count))
        remaining -= out[place]
    return out


def section_name(place: int) -> str:
    """Returns the name of the section of the result with an index, which counts from 0."""
    return f"r{place + 1}"


_BEFORE_HOST: Final = re.compile(
    r"(?:https?|ftp|wss?):[/\\]*|[/\\]{2,}|[a-z][a-z0-9+.-]*://|(?=[^/\\?#:]*\.)", re.IGNORECASE
)
"""Matches what is before a host: scheme and slashes; nothing in an address without both, such as `example.org/page`."""


def host_of(url: str | None) -> str:
    r"""Returns the host of an address in lower case; empty if it has none, or if it is no valid address.

    The host is the one that a browser would open (WHATWG URL): `\` counts as `/`, any number of slashes may be before
    the host, and escapes in it are decoded. Characters outside ASCII stay.
    """
    text = (url or "").strip()
    begin = _BEFORE_HOST.match(text)
    if begin is None:
        return ""
    try:
        host = urlsplit(f"//{text[begin.end() :]}".replace("\\", "/")).hostname or ""
    except ValueError:
        return ""
    return unquote(host).lower().strip(".")


def escape_citations(text: str) -> str:
    """Returns text from outside, changed so that nothing in it can be taken for one of our citations."""
    return text.replace("[art_", "\uff3bart_")


def short(text: str, most: int) -> str:
    """Returns a text on one line, inert and without our citations; beyond `most` characters it is cut and marked."""
    flat, rest = escape_citations(one_line(text[: most * 4])), text[most * 4 :]
    return flat if len(flat) <= most and not rest.strip() else f"{flat[: most - 1].rstrip()}…"
