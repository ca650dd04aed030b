"""Recognises search results of any engine, and describes each of them for a card."""

import re
from itertools import chain
from typing import Final, cast

from coatcheck.core.kinds.description import NOTHING, Description, PayloadProbe, clip_line
from coatcheck.core.text.count import format_count
from coatcheck.core.text.scan import BlockPattern

Record = dict[str, object]
_URLS: Final = ("url", "link", "href", "uri", "source_url")
_LINK: Final = frozenset(_URLS)
_TITLES: Final = ("title", "name", "heading")
_TEXTS: Final = ("snippet", "description", "content", "summary", "text", "body", "raw_content")
_SHARE: Final = 0.3
"""Minimum share of results among a list's records: some engines mix pages with images."""
_BESIDE: Final = 4
"""Maximum members beside URL, title and text of a result in a list without a query; issues and products have more."""
_MAX_DEPTH: Final = 3
"""Maximum depth of objects and lists around the results."""
_MAX_RESULTS: Final = 20
"""Maximum results that are described. A search engine's page has ten to twenty."""
_TITLE_CHARS: Final = 120
"""Maximum characters of a result's title."""
_URL_CHARS: Final = 300
"""Maximum characters of a URL, which nearly all URLs stay below: a URL that was cut cannot be fetched."""
_MAX_TEXT_CHARS: Final = 250
"""Maximum characters of the first piece of a result's text. If there are many results, each piece is only an equal
share of _FIRST_TEXT_CHARS."""
_FIRST_TEXT_CHARS: Final = 1_200
"""Characters of the first pieces of all texts together."""
_MIN_TEXT_CHARS: Final = 60
"""Minimum characters of such a piece, however many results there are: less would not be a clause."""
_MORE: Final = 1_200
"""Maximum characters of a result's text that are kept for a card. The card first shows a piece of every text, then the
rest of each."""

_TOOL: Final = re.compile(r"(?:^|web|internet|[-_.])search(?:$|[-_.]?(?:web|results|engine|internet))")
_INSIDE: Final = re.compile(r"code|file|text|grep|repo|issue|doc|mail|symbol")
"""Matches tools that search something other than the web."""
_ADDRESS: Final = BlockPattern(r"^[ \t]*(?:[-*] )?(?:\**\w{2,8}\**:\**[ \t]*)?<?https?://\S+[ \t]*$|\]\(https?://")
"""Every printed list of results has a match of this pattern. It is searched for first, because `_LISTED` is slow to
find that a text has no results."""
_LISTED: Final = re.compile(
    rb"^[ \t]*(?:\d{1,3}[.)]|\[\d{1,3}\]|#{2,4} |\**[Tt]itle\**:|---).*\n+[ \t]*(?:[-*] )?(?:\**\w{2,8}\**:\**[ \t]*)?"
    rb"<?https?://\S{4,}[ \t]*$"
    rb"|^[ \t]*(?:[-*]|\d{1,3}[.)])[ \t]+\**\[(?=[^\]\n]*[A-Za-z\x80-\xff]{2})[^\]\n]{3,300}\]\(https?://[^\s)]{4,}\)\**.{60}",
    re.MULTILINE,
)
"""Matches a result as a program prints it: a marked title above an address, or a linked title of words with a text."""
_HEADING: Final = re.compile(rb"^#{1,6} \S", re.MULTILINE)
_LINES: Final = 12
"""Maximum lines per printed result, on average; a document has more lines for each link."""
_WORDS: Final = 60
"""Approximate bytes of title and address of a printed result, and minimum bytes of its text: an index of links has
hardly any text beside them."""


def is_search_tool(name: str | None) -> bool:
    """Returns whether a tool with this name searches the web."""
    lower = (name or "").lower().replace("research", "")
    return _TOOL.search(lower) is not None and _INSIDE.search(lower) is None


def is_search_answer(value: object) -> bool:
    """Returns whether a JSON value is a search engine's response: it has results, and a query or little else.

    A record with a URL, a title and a text is not necessarily a result: issues and products have these, too.
    """
    results = find_results(value)
    if not results:
        return False
    outer = cast("Record", value) if isinstance(value, dict) else {}
    envelope = chain(outer, (item for item in outer.values() if isinstance(item, str) and len(item) < _TITLE_CHARS))
    if any("search" in word.lower() or word == "query" for word in envelope):
        return True
    return len(results) > 1 and all(len(record) <= 3 + _BESIDE for record in results)


def find_results(value: object, depth: int = 0) -> list[Record]:
    """Returns the longest list of results in a response: records with a URL and a title, of which some have a text.

    The list is empty if there is none.
    """
    if isinstance(value, list):
        every = cast("list[object]", value)
        records = cast("list[Record]", [item for item in every if isinstance(item, dict)])
        linked = (record for record in records if not _LINK.isdisjoint(record))
        results = [record for record in linked if _first(record, _URLS) and _first(record, _TITLES)]
        has_text = any(_first(record, _TEXTS) for record in results)
        return results if has_text and len(results) >= _SHARE * len(every) else []
    if not isinstance(value, dict) or depth >= _MAX_DEPTH:
        return []
    none: list[Record] = []
    return max((find_results(member, depth + 1) for member in cast("Record", value).values()), key=len, default=none)


def is_listing(text: bytes) -> bool:
    """Returns whether a text is a list of results as programs print it, with text under each."""
    link_lines = _LISTED.findall(text) if b"http" in text and _ADDRESS.find(text) else []
    if not link_lines or len(text) < 2 * _WORDS * len(link_lines):
        return False
    headings = len(_HEADING.findall(text)) - sum(line.lstrip().startswith(b"#") for line in link_lines)
    lines = sum(1 for line in text.split(b"\n") if line.strip())
    # A document has headings beside its links.
    return lines <= _LINES * len(link_lines) and 2 * headings <= len(link_lines)


def _first(record: Record, names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := record.get(name), str) and value.strip()), "")


def _word_end(text: str, size: int) -> int:
    """Returns the position of a cut at `size` or before it: after a word, or exactly at `size` if there is no blank."""
    if len(text) <= size:
        return len(text)
    blank = text.rfind(" ", size // 2, size)
    return blank if blank > 0 else size


def describe_results(payload: PayloadProbe) -> Description:
    """Returns a line with title and URL for each result, followed by pieces of the results' texts."""
    reading = payload.json
    results = find_results(reading.value) if reading is not None else []
    if not results:
        return NOTHING
    lines: list[str] = []
    texts: list[str] = []
    more: list[str] = []
    size = min(_MAX_TEXT_CHARS, max(_MIN_TEXT_CHARS, _FIRST_TEXT_CHARS // min(len(results), _MAX_RESULTS)))
    for rank, record in enumerate(results[:_MAX_RESULTS], 1):
        title, url = clip_line(_first(record, _TITLES), _TITLE_CHARS), clip_line(_first(record, _URLS), _URL_CHARS)
        lines.append(f"r{rank} {title} | {url}")
        whole = _first(record, _TEXTS)
        text = " ".join(whole[: _MORE * 2].split())
        end = _word_end(text, size)
        if whole:
            is_cut = end < len(text) or whole[_MORE * 2 :].strip()
            texts.append(f"r{rank}: {text[:end]}{'…' if is_cut else ''}")
        if end < len(text):
            more.append(f"r{rank} goes on: …{text[end : _word_end(text, _MORE)]}…")
    return Description(facts=(f"{format_count(len(results), 'result')}:", *lines, *texts, *more))
