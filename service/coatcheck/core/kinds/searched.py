"""Whether a payload is a list of search results, by its form: an engine's envelope, or records that say little else.

A record with an address and a title is no result by that: issues, products and packages have them too, among much else.
"""

import re
from typing import Final, cast

_ENVELOPES: Final = (
    frozenset({"searchparameters"}),
    frozenset({"searchmetadata"}),
    frozenset({"searchinformation"}),
    frozenset({"webpages"}),
    frozenset({"organic"}),
    frozenset({"organicresults"}),
    frozenset({"query", "results"}),
    frozenset({"query", "web"}),
    frozenset({"requestid", "results"}),
    frozenset({"numberofresults", "results"}),
    frozenset({"responsetime", "results"}),
    frozenset({"searchid", "results"}),
)
"""Members that a search engine's answer has at its top, as their names read without case, `_` and `-`."""
_URLS: Final = frozenset({"url", "link", "href", "uri", "sourceurl"})
_NAMES: Final = frozenset({"title", "name", "heading", "htmltitle"})
_TEXTS: Final = frozenset(
    {"snippet", "snippets", "description", "content", "summary", "text", "body", "highlights", "extrasnippets"}
)
_BESIDE: Final = frozenset(
    [
        "id",
        "position",
        "rank",
        "score",
        "date",
        "age",
        "publisheddate",
        "publishedat",
        "published",
        "datelastcrawled",
        "displaylink",
        "displayedlink",
        "displayurl",
        "htmltitle",
        "htmlsnippet",
        "formattedurl",
        "rawcontent",
        "markdown",
        "favicon",
        "icon",
        "source",
        "engine",
        "engines",
        "category",
        "domain",
        "hostname",
        "author",
        "image",
        "thumbnail",
        "language",
        "type",
        "kind",
        "sitelinks",
        "pagemap",
        "metaurl",
        "profile",
        "cacheid",
        "index",
        "relevance",
        "highlightscores",
        "subpages",
        "links",
        "encryptedcontent",
        "pageage",
        "familyfriendly",
        "isfamilyfriendly",
        "issourcelocal",
        "issourceboth",
        "video",
        "deepresults",
        "attributes",
        "imageurl",
        "sitename",
        "redirectlink",
        "parsedurl",
        "template",
        "positions",
        "summary",
        "lastupdated",
        "htmlformattedurl",
        "language",
        "schema",
    ]
)
_SHARE: Final = 0.3
"""Of a list, the records that must be results: some providers mix pages with pictures."""
_MOST_BESIDE: Final = 0.25
"""The share of a record's members that may be of another world."""


def _key(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def searched(value: object, depth: int = 0) -> bool:
    """Whether a JSON value is a search engine's answer, or one inside a provider's wrapping."""
    if isinstance(value, list):
        return _results(cast("list[object]", value))
    if not isinstance(value, dict) or depth > 2:  # noqa: PLR2004 - wrappings nest twice
        return False
    members = {_key(name): member for name, member in cast("dict[str, object]", value).items()}
    if members.get("kind") == "customsearch#search" or members.get("type") == "SearchResponse":
        return True
    if any(envelope <= members.keys() for envelope in _ENVELOPES):
        return _holds_results(members)
    inner = [cast("object", member) for member in members.values() if isinstance(member, dict | list)]
    return len(inner) <= 3 and len(members) <= 8 and any(searched(member, depth + 1) for member in inner)  # noqa: PLR2004


def _holds_results(members: dict[str, object]) -> bool:
    """Some member holds records with addresses, or was cut off before the first one ended."""
    if any(name in members for name in ("searchparameters", "searchmetadata", "organicresults", "webpages", "organic")):
        return True
    found = members.get("results", members.get("web"))
    if isinstance(found, dict):
        found = cast("dict[str, object]", found).get("results")
    if not isinstance(found, list):
        return False
    records = cast("list[object]", found)
    return not records or _results(records, least=1)


def _results(values: list[object], least: int = 2) -> bool:
    records = [cast("dict[str, object]", value) for value in values if isinstance(value, dict)]
    good = sum(map(_result, records))
    return good >= least and good >= _SHARE * len(values)


def _result(record: dict[str, object]) -> bool:
    names = {_key(name) for name in record}
    if not (names & _URLS and names & _NAMES and names & _TEXTS):
        return False
    if not any(_address(value) for name, value in record.items() if _key(name) in _URLS):
        return False
    other = names - _URLS - _NAMES - _TEXTS - _BESIDE
    return len(other) <= max(1, int(_MOST_BESIDE * len(names)))


def _address(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))


_URL: Final = r"https?://[^\s)>\]]{4,}"
_ITEM: Final = re.compile(
    rf"^[ \t]*(?:(?:[-*•]|\d{{1,3}}[.)])[ \t]+)?\**\[[^\]\n]{{3,300}}\]\({_URL}\)\**(?::| [-\u2013\u2014])?[ \t]*"
    rf"(.{{0,2000}})$"
    rf"|^[ \t]*(?:[-*•] )?\**(?:URL|Url|Link|Source|Href|link|url)\**:\**[ \t]*<?{_URL}>?[ \t]*$"
    rf"|^[ \t]*<?{_URL}>?[ \t]*$",
    re.MULTILINE,
)
"""A line that is a result's address: a link with the title as its text, a labelled address, or one alone."""
_LEAD: Final = re.compile(
    r"^[ \t]*(?:(?:\d{1,3}[.)]|\[\d{1,3}\]|#{1,4}|[-*•]|\**(?:Title|title|Result \d+)\**:)[ \t]*)?\**\S.{0,300}$"
)
_MARKED: Final = re.compile(r"^[ \t]*(?:\d{1,3}[.)]|\[\d{1,3}\]|#{2,4}|\**(?:Title|title|Result)\b|<result|---)")
_FEW_LINES: Final = 12
"""Lines of one result, about, between two addresses."""


def listed(head: bytes) -> bool:
    """Whether a text is a list of results as programs print it: titles with addresses, and words under each."""
    text = head.decode("utf-8", "replace")
    first = "\n".join(text.split("\n", _FEW_LINES // 2 + 1)[: _FEW_LINES // 2 + 1])
    if "http" not in first or not _ITEM.search(first):
        return False
    found = list(_ITEM.finditer(text))
    lines = text.split("\n")
    numbers = [text.count("\n", 0, match.start()) for match in found]
    leads = sum(_led(lines, number, match) for number, match in zip(numbers, found, strict=True))
    filled = [line for line in lines if line.strip()]
    dense = len(filled) <= _FEW_LINES * len(found)
    return (
        dense and leads >= 0.7 * len(found) and (len(found) > 1 or leads == len(filled)) and _worded(filled, len(found))
    )


def _led(lines: list[str], number: int, match: re.Match[str]) -> bool:
    """Whether a title stands before an address, marked as one of a list."""
    if match.group(1) is not None:
        return len(match.group(1)) > 60  # noqa: PLR2004 - a snippet, where an index of links has a word or two
    before = lines[number - 1] if number else ""
    return bool(_LEAD.match(before)) and bool(_MARKED.match(before) or _MARKED.match(lines[number]))


def _worded(filled: list[str], found: int) -> bool:
    """Whether there is text besides titles and addresses."""
    return sum(len(line) for line in filled if len(line) > 80 or line[:1] == " ") > 60 * found  # noqa: PLR2004
