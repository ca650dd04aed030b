"""Reads search results that a tool wrote as text for a model: labelled blocks, numbered lists, links, XML, JSON inside.

Each form is recognised by its own marks, and the most certain form is tried first; a page's text that merely contains
links has none of these forms. Text before the first result is commentary, except the tool's own heading. A line is read
once or twice for each form.
"""

# ruff: noqa: RUF001 - punctuation of other scripts

import ast
import json
import re
from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from coatcheck.core.search.model import MAX_LINE, MAX_RESULTS, ProviderAnswer, SearchResponse, SearchResult
from coatcheck.core.search.responses.generic_results import best_list
from coatcheck.core.search.responses.markup import one_line
from coatcheck.core.search.responses.providers import COMMON
from coatcheck.core.search.responses.reading import read_result
from coatcheck.core.search.responses.values import elements, is_url, iso, key, text_of
from coatcheck_client.contract.canonical import canonical

_LABELS: Final = {
    "url": "url link href source sourceurl uri 链接 网址 地址 連結 網址 リンク 링크 ссылка enlace lien",
    "title": "title name headline 标题 標題 タイトル 제목 заголовок título titulo titre titel",
    "snippet": "snippet description summary abstract excerpt body 摘要 描述 概要 説明 요약 설명 описание resumen "
    "résumé descripción",
    "raw": "rawcontent fullcontent fulltext pagecontent markdown",
    "content": "content text highlights extract 内容 正文 內容 本文 내용 содержание contenido contenu",
    "date": "date published publisheddate publishdate publishedat pagedate age 日期 发布时间 日付 날짜 дата fecha",
    "author": "author by 作者",
    "score": "score relevance relevancescore",
    "site": "site sitename engine publisher domain 网站 サイト",
    "position": "position rank id index result",
}
_KIND: Final = {key(name): kind for kind, names in _LABELS.items() for name in names.split()}
_LABEL: Final = re.compile(
    r"[ \t>]*(?:[-*+•]\s+)?(?:\d{1,3}[.)]\s*)?(?:\*\*|__)?([^\W\d_][\w -]{0,24}?)(?:\*\*|__)?\s{0,3}"
    r"(?::(?:\*\*|__)?(?:\s+|$)|：(?:\*\*|__)?\s*)(.*)"
)
_LINKED: Final = re.compile(
    r"[ \t]*(?:[-*+•]\s+|#{1,6}\s+|\d{1,3}[.)]\s*|\[\d{1,3}\]:?\s+){0,3}(?:\*\*|__)?"
    r"\[([^\]\n]{1,400})\]\(\s*<?((?:https?:)?//[^\s()<>]+"
    r"(?:\([^\s()]*\)[^\s()]*)*)>?(?:\s+\"[^\"]{0,200}\")?\)(?:\*\*|__)?\s*(?:[-–—:|]\s*)?(.*)"
)
_NUMBERED: Final = re.compile(r"[ \t]*(?:#{1,6}\s*)?(?:\*\*)?(?:\[(\d{1,3})\]|(\d{1,3})[.)])(?:\*\*)?:?\s+(.*)")
_BARE: Final = re.compile(r"[ \t]*(?:[-*+•]\s+)?<?(https?://[^\s<>]+)>?[ \t]*")
_RULE: Final = re.compile(r"[ \t]*(?:-{3,}|={3,}|\*{3,}|_{3,})[ \t]*")
_STARS: Final = re.compile(r"^(?:#{1,6}\s+)|\*\*|__|(?<!\S)\*(?=\S)|(?<=\S)\*(?!\S)")
_QUERY: Final = re.compile(
    r"(?:results?|searche?d?|query)\b[^\n\"“'`]{0,60}[\"“'`]([^\"”'`\n]{1,300})[\"”'`]", re.IGNORECASE
)
_HEADING: Final = re.compile(r"(?:#{1,6}\s.*|.{0,200}\b(?:results?|sources?|links?)\b.{0,200}[:：]?)", re.IGNORECASE)
_INLINE: Final = re.compile(r"(?:^\s*|[,;\]\n]\s*)\[?\s*([^\W\d_]{3,12}): (?=\S)")
_PRINTED: Final = re.compile(r"\s*[\[({]\s*[{']")
_LITERAL_CHARS: Final = 1_000_000
"""Maximum characters of a printed Python list, since `ast.literal_eval` builds a tree many times as large. Chosen, not
measured."""
_MAX_BRACKETS: Final = 20_000
"""Brackets in a printed Python list, above which the list is not parsed. Chosen, not measured."""
_LEAD_IN: Final = re.compile(r"\A\s*(?:[\w ]{1,40})?results?[ \t]?[:：][ \t]+(?=[^\W\d_]{3,12}: )", re.IGNORECASE)
_RECORDS: Final = re.compile(r"\[\s*\{")
_LONG: Final = frozenset({"content", "raw"})
"""Labels whose texts may contain lines that look like other labels."""
_ONLY_TAGS: Final = re.compile(r"[ \t]*(?:</?[A-Za-z][^<>]{0,200}>[ \t]*)+")
_ITEM: Final = re.compile(r"[ \t]*(?:[-*+•]|\(?\d{1,3}[.):]|\[\d{1,3}\]:?)\s+(?=\S)")
_ENDS: Final = re.compile(
    r"(|.*?[\s([<|])[-–—:]?\s*(https?://[^\s<>()\[\]]+|(?<![^\s])(?:[\w-]{1,63}\.){1,4}[a-z]{2,12}(?:/\S*)?)[)\]>]?"
)
_ITEMS_SHARE: Final = 0.6
"""Minimum share of a text's items that must have an address."""
_TITLE_LINES: Final = 4
"""Maximum lines above a URL in which the title of its result is searched for."""
_MAX_CHARS: Final = 4_000_000
"""Maximum characters of a text that are read. Chosen, not measured."""
_MAX_LINES: Final = 100_000
"""Maximum lines of a text that are read. Chosen, not measured."""
_MIN_LINKS: Final = 2
"""Minimum links of a text without labels that counts as a list of results: a single link can be in any text."""
_DECODER: Final = json.JSONDecoder()


def read_listing(text: str) -> SearchResponse:
    """Returns the results that a text lists; a response without results if it is not a list of results."""
    warnings = (f"Only the first {_MAX_CHARS:,} characters are read.",) if len(text) > _MAX_CHARS else ()
    text = _LEAD_IN.sub("", text[:_MAX_CHARS].replace("\r\n", "\n").replace("\r", "\n"), count=1)
    for reader in (_xml, _inside, _literals, _inline, _read_labelled, _read_linked, _read_numbered, _blocks):
        before, results = reader(text)
        if results:
            return SearchResponse(
                query=" ".join(query.group(1).split()) if (query := _QUERY.search(text[:2_000])) else None,
                answers=_commentary(before),
                results=tuple(replace(result, rank=rank) for rank, result in enumerate(results[:MAX_RESULTS], 1)),
                warnings=warnings,
            )
    return SearchResponse(unknown=("text",) if text.strip() else ())


def _commentary(before: str) -> tuple[ProviderAnswer, ...]:
    lines = [
        line
        for line in before.split("\n")
        if line.strip() and not any(p.fullmatch(line) for p in (_HEADING, _RULE, _ONLY_TAGS))
    ]
    text = "\n".join(lines).strip()
    heading = len(lines) == 1 and text.endswith((":", "：")) and len(text) <= MAX_LINE
    return (ProviderAnswer(kind="commentary", text=text),) if text and not heading and text[0] != "<" else ()


Read = tuple[str, list[SearchResult]]
"""The text before the results, and the results."""


def _results(records: Iterable[object]) -> list[SearchResult]:
    return [result for record in records if (result := read_result(record, COMMON, 1)) is not None]


def _xml(text: str) -> Read:
    before, records = elements(text)
    return before, _results(records)


def _inside(text: str) -> Read:
    """Reads JSON inside a text, such as `Links: [{"title": …, "url": …}]`; the text around it is commentary."""
    for match in list(_RECORDS.finditer(text))[:8]:
        try:
            value, end = _DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if results := _results(best_list(value)[1]):
            head = text[: match.start()].rstrip().rpartition("\n")
            return f"{head[0]}\n{text[end:]}", results
    return text, []


def _inline(text: str) -> Read:
    """Reads `[snippet: …, title: …, link: https://…], […]`, with or without brackets or line breaks."""
    if not _INLINE.match(text):
        return text, []
    matches = [match for match in _INLINE.finditer(text) if key(match[1]) in _KIND]
    first = matches[0][1].lower() if matches else ""
    records: list[dict[str, object]] = []
    for place, match in enumerate(matches):
        end = matches[place + 1].start() if place + 1 < len(matches) else len(text)
        name = match[1].lower()
        # The label of the very first field marks the beginning of each further result.
        if name == first:
            records.append({})
        records[-1].setdefault(name, text[match.end() : end].strip().removesuffix("]").strip())
    return "", [result for result in _results(records[:MAX_RESULTS]) if result.url]


def _literals(text: str) -> Read:
    """Reads a list in the form in which Python prints it: `[{'title': …, 'href': …}]`.

    Names become strings, as in JSON, tuples become lists, and values that JSON does not have become null.
    """
    if not _PRINTED.match(text) or len(text) > _LITERAL_CHARS or text.count("{") + text.count("[") > _MAX_BRACKETS:
        return text, []
    try:
        printed: object = ast.literal_eval(text.strip())
        value: object = json.loads(json.dumps(printed, skipkeys=True, default=lambda _: None))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text, []
    return "", _results(best_list(value)[1])


def _label(line: str) -> tuple[str, str] | None:
    """Returns the kind of the label at the beginning of a line, and the text after the label."""
    match = _LABEL.fullmatch(line)
    kind = _KIND.get(key(match.group(1).replace(" ", ""))) if match else None
    return (kind, match.group(2).strip()) if match and kind else None


def _address(line: str) -> str | None:
    """Returns the URL of a line that consists of a label for URLs and a URL; None for any other line."""
    if "://" not in line:
        return None
    label = _label(line)
    if label is None or label[0] != "url":
        return None
    linked = _LINKED.fullmatch(label[1])
    text = linked.group(2) if linked else label[1].strip("<>` ")
    return text if is_url(text) else None


def _read_labelled(text: str) -> Read:
    """Reads blocks with a line `URL: …` each. A block begins at the title above this line, or at the line itself."""
    lines = text.split("\n", _MAX_LINES)[:_MAX_LINES]
    every = ((number, url) for number, line in enumerate(lines) if (url := _address(line)))
    addresses = list(islice(every, MAX_RESULTS + 1))
    if not addresses:
        return text, []
    # The first block shows whether titles are above the addresses. An address without the same pattern is part of a
    # result's text.
    style = _begins(lines, addresses[0][0], 0)
    starts: list[tuple[int, str]] = []
    last = 0
    for number, url in addresses:
        start = _begins(lines, number, last)
        if starts and (start is None) != (style is None):
            continue  # an address inside a result's text
        starts.append((number if start is None else start, url))
        last = number + 1
    ends = [start for start, _ in starts[1:]] + [len(lines)]
    results = [_block(lines[start:end], url) for (start, url), end in zip(starts, ends, strict=True)]
    return "\n".join(lines[: starts[0][0]]), results


def _begins(lines: list[str], at: int, low: int) -> int | None:
    """Returns the line above a URL at which its result begins, a title or a numbered line; None if there is none."""
    for number in range(at - 1, max(low, at - _TITLE_LINES - 1) - 1, -1):
        line = lines[number]
        label = _label(line)
        if label is not None and label[0] == "title":
            return number
        if label is None and (_NUMBERED.fullmatch(line) or line.startswith("#") or _bold(line)):
            return number
        if not line.strip() or (label is None and _RULE.fullmatch(line)):
            return None
    return None


def _bold(line: str) -> bool:
    stripped = line.strip()
    return stripped.startswith("**") and stripped.endswith("**") and len(stripped) > 4  # noqa: PLR2004 - the stars


def _block(lines: list[str], url: str) -> SearchResult:
    """Returns the result of one labelled block. A label's text extends to the next label that is new in the block."""
    texts: dict[str, list[str]] = {}
    kind = ""
    for number, line in enumerate(lines):
        label = _label(line)
        # A label that occurred already, or that occurs in long content, belongs to the text of the page.
        if label is not None and label[0] not in texts and (kind not in _LONG or label[0] == "raw"):
            kind = label[0]
            texts[kind] = [label[1]]
        elif number == 0 and label is None:
            match = _NUMBERED.fullmatch(line)
            texts["title"] = [match.group(3) if match else line.strip().lstrip("# ")]
        elif _RULE.fullmatch(line) and not any(rest.strip() for rest in lines[number + 1 :]):
            break
        else:
            texts.setdefault(kind if kind in {"snippet", *_LONG} else "rest", []).append(line)
    fields = {name: "\n".join(value).strip() for name, value in texts.items()}
    long = [fields[name] for name in ("raw", "content") if fields.get(name)]
    return _result(
        url=url,
        title=fields.get("title", ""),
        snippet=fields.get("snippet") or (long[1] if len(long) > 1 else fields.get("rest", "")),
        content=long[0] if long else "",
        date=fields.get("date", ""),
        author=fields.get("author", ""),
    )


class _Entry(NamedTuple):
    """One result of a list in which each address is followed by its text."""

    begin: int
    """Number of the result's first line."""
    rest: int
    """Number of the first line that has only text."""
    url: str
    title: str
    text: str = ""
    """Text on the same line as the address."""


def _cut(lines: list[str], entries: list[_Entry]) -> Read:
    """Returns the text before the first entry, and a result for each entry with its text up to the next entry."""
    ends = [*(entry.begin for entry in entries[1:]), len(lines)]
    results = [
        _result(url=entry.url, title=entry.title, snippet="\n".join([entry.text, *lines[entry.rest : end]]))
        for entry, end in zip(entries, ends, strict=True)
    ]
    return "\n".join(lines[: entries[0].begin]), results


def _read_linked(text: str) -> Read:
    """Reads lines that begin with a Markdown link; the text of a result extends from its link to the next."""
    lines = text.split("\n", _MAX_LINES)[:_MAX_LINES]
    every = ((number, m) for number, line in enumerate(lines) if "](" in line and (m := _LINKED.fullmatch(line)))
    links = list(islice(every, MAX_RESULTS + 1))
    if len(links) < _MIN_LINKS and not (links and links[0][0] <= 2):  # noqa: PLR2004 - one result under a heading
        return text, []
    between = sum(1 for line in lines[: links[0][0]] if line.strip())
    if between > max(6, 3 * len(links)):  # a page that ends with a list of links
        return text, []
    return _cut(lines, [_Entry(number, number + 1, match[2], match[1], match[3]) for number, match in links])


def _read_numbered(text: str) -> Read:
    """Reads titles that stand right above a bare URL, and are numbered, bold, or the first line of a paragraph."""
    lines = text.split("\n", _MAX_LINES)[:_MAX_LINES]
    entries: list[_Entry] = []
    for number, line in enumerate(lines):
        # The title is on the line right above the address.
        match = _BARE.fullmatch(line) if "://" in line else None
        if match is None or number == 0 or not lines[number - 1].strip() or _BARE.fullmatch(lines[number - 1]):
            continue
        title = _NUMBERED.fullmatch(lines[number - 1])
        plain = number == 1 or not lines[number - 2].strip() or _RULE.fullmatch(lines[number - 2])
        if len(entries) <= MAX_RESULTS and (title is not None or plain or _bold(lines[number - 1])):
            title_text = title.group(3) if title else lines[number - 1]
            entries.append(_Entry(number - 1, number + 1, match.group(1), title_text))
    return _cut(lines, entries) if entries else (text, [])


def _blocks(text: str) -> Read:
    """Reads numbered or bulleted items with an address each, at the end of a line or on a line of its own."""
    lines = text.split("\n", _MAX_LINES)[:_MAX_LINES]
    starts = [number for number, line in enumerate(lines) if _ITEM.match(line)]
    results: list[SearchResult] = []
    for start, end in zip(starts[:MAX_RESULTS], [*starts[1:], len(lines)], strict=False):
        block = [_ITEM.sub("", lines[start], count=1), *lines[start + 1 : end]]
        matches = ((number, match) for number, line in enumerate(block) if (match := _ENDS.fullmatch(line.strip())))
        number, match = next(matches, (0, None))
        if match is not None:
            title = match[1].rstrip(" \t([<|-–—:") if number == 0 and match[1].strip() else block[0]
            rest = [*([match[1]] if number else []), *block[1:number], *block[number + 1 :]]
            results.append(_result(url=match[2], title=title, snippet="\n".join(map(str.strip, rest))))
    # Most items must have an address: a text that contains a bulleted list is not a list of results.
    if len(results) < _MIN_LINKS or len(results) < _ITEMS_SHARE * len(starts):
        return text, []
    return "\n".join(lines[: starts[0]]), results


def _result(*, url: str, title: str, snippet: str, content: str = "", date: str = "", author: str = "") -> SearchResult:
    snippet = snippet.strip().removesuffix("---").strip()
    date = " ".join(date.split())[:80]
    return SearchResult(
        rank=1,
        title=one_line(_STARS.sub("", title))[:MAX_LINE],
        url=url,
        canonical_url=canonical(url),
        snippet=text_of(snippet),
        content=text_of(content),
        date=date or None,
        date_iso=iso(date) if date else None,
        author=" ".join(author.split())[:MAX_LINE] or None,
    )
