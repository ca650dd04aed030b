"""Extracts the readable text of a snippet or page in HTML or Markdown, in one linear pass without a parser.

Used for excerpts and fetched content that no other reader handles: headings, lists, table rows and paragraphs stay
separate; menus, scripts, styles and images are removed. The pass does not look for the main text and does not rely on
nesting: an element that is never closed is ignored.

Some responses contain only actions of the provider's own tool, such as OpenAI's `web_search_call` items. Each action
becomes a short line (`actions_of`), in the words that hosts show.
"""

import html
import re
from collections.abc import Iterator
from typing import Final, cast

from coatcheck.core.search.model import ADDRESS_CHARS, QUERY_CHARS, Format, short
from coatcheck.core.search.responses.values import find_values, record_of, text_at, text_of

_TITLE: Final = re.compile(r"<title\b[^<>]*>([^<]*)</title>", re.IGNORECASE)
_JUDGED_CHARS: Final = 20_000
"""Characters at the beginning of a text by which its format is judged."""
_PAGE: Final = re.compile(r"\s*(?:<\?xml[^<>]{0,200}>\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_TAGS: Final = re.compile(
    r"</(?:p|div|span|a|li|ul|ol|table|tr|td|h[1-6]|b|strong|em|i|mark|article|section)>"
    r"|<(?:br|p|div|li|img|hr)\b[^<>]{0,400}>",
    re.IGNORECASE,
)
_MARKDOWN_SIGNS: Final = ("](", "**", "\n# ", "\n## ", "\n### ", "\n```", "\n- ", "\n* ", "\n+ ", "\n> ", "\n|")
"""Marks by which Markdown is recognised."""
_TAG: Final = re.compile(r"<(?:(/?[a-zA-Z][a-zA-Z0-9:-]{0,30})[^<>]*>|[!?][^<>]*>)")
_OPAQUE: Final = "script style svg noscript template iframe select textarea object canvas audio video datalist"
_ASIDE: Final = "head nav footer aside button menu dialog"
_SKIPPED: Final = re.compile(
    rf"<(?:!--|({f'{_OPAQUE} {_ASIDE}'.replace(' ', '|')})(?![a-zA-Z0-9:-])[^<>]*>)", re.IGNORECASE
)
_CLOSINGS: Final = {name: re.compile(rf"</{name}\b[^<>]{{0,64}}>", re.IGNORECASE) for name in _OPAQUE.split()}
_EITHERS: Final = {name: re.compile(rf"<(/?){name}(?:\s[^<>]*)?>", re.IGNORECASE) for name in _ASIDE.split()}
_MENU_CHARS: Final = 200_000
"""Maximum characters between the beginning and the end of a menu; a menu without an end is kept."""
_PARAGRAPHS: Final = (
    "p ul ol dl table blockquote article section main header form figure pre hr address fieldset details"
)
_LINES: Final = "div br tr dt dd option figcaption caption summary thead tbody body html"

_VOID: Final = frozenset({"br", "hr", "img", "input", "wbr"})
_INSIDE: Final = "a b i u s em strong span font small sup sub mark code kbd q cite li td th img input wbr label button"
_ELEMENTS: Final = "|".join(f"{_PARAGRAPHS} {_LINES} {_INSIDE} h[1-6]".split())
_ELEMENT: Final = re.compile(rf"<(/?)(?:[a-z]{{1,10}}:)?((?:{_ELEMENTS}))((?:\s[^<>]{{0,2000}})?/?)>", re.IGNORECASE)
_AROUND: Final = " ,.;:()'\""
"""Characters on both sides of a tag that a text mentions, as opposed to one that formats the text."""
_CODE: Final = re.compile(r"(```[\s\S]*?```|`[^`\n]+`)")
"""Matches code in Markdown: a fenced block, or text between backticks."""
_BLANKS: Final = re.compile(r"[ \t\r\f\v\xa0\u200b]{2,}|[\t\r\f\v\xa0\u200b]")
_EDGES: Final = re.compile(r" \n ?|\n ")
_CELLS: Final = re.compile(r"^(?:\| )+|(?: \|)+$")
_EMPTY: Final = frozenset({"-", "- ", "|", *(f"{'#' * level}{blank}" for level in range(1, 7) for blank in ("", " "))})
_GAPS: Final = re.compile(r"\n{3,}")
_IMAGE: Final = re.compile(r"!\[[^\]\n]{0,500}\]\([^()\n]*(?:\([^()\n]*\)[^()\n]*)?\)")
_NO_TEXT: Final = re.compile(r"\[[ \\\n]{0,20}\]\([^()\n]{0,4000}\)")
_ITEM_ONLY: Final = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}\.)?[ \t]*$\n?", re.MULTILINE)


def format_of(text: str) -> Format:
    """Returns the format of a text: HTML or Markdown, whichever has more marks in it, or plain text."""
    head = text[:_JUDGED_CHARS]
    if _PAGE.match(head):
        return "html"
    tags = len(_TAGS.findall(head)) if "<" in head else 0
    lines = f"\n{head}"
    marker_count = sum(lines.count(mark) for mark in _MARKDOWN_SIGNS)
    if tags and tags >= marker_count:
        return "html"
    return "markdown" if marker_count else "plain"


def inline(text: str) -> str:
    """Returns a title or a snippet without tags. A tag that the text mentions stays."""
    text = _without_tags(text.replace("\r\n", "\n").replace("\r", "\n"))
    return html.unescape(text) if "&" in text else text


def one_line(text: str) -> str:
    """Returns a title without markup, on one line with single blanks."""
    return " ".join(inline(text).split())


def page_title(text: str) -> str:
    """Returns the title of an HTML page; empty if there is none."""
    match = _TITLE.search(text[:_JUDGED_CHARS])
    return one_line(match[1]) if match else ""


def excerpt_text(text: str) -> str:
    """Returns a snippet in the form that its readers see."""
    if _PAGE.match(text):
        return html_text(text)
    text_format, plain = format_of(text), inline(text)
    return (
        _normalize_blanks(plain)
        if text_format == "html"
        else markdown_text(plain)
        if text_format == "markdown"
        else plain.strip()
    )


def readable(text: str, text_format: Format) -> str:
    """Returns a text in the form that its readers see; each line is a paragraph, an item, a row or a heading."""
    if text_format == "html":
        return html_text(text)
    text = _without_tags(text.replace("\r\n", "\n").replace("\r", "\n"))
    return markdown_text(text) if text_format == "markdown" else text.strip()


def _without_tags(text: str) -> str:
    """Returns a text without its HTML elements. Code stays, and so does a tag that the text mentions between words."""
    if "<" not in text or (_ELEMENT.search(text) is None and _SKIPPED.search(text) is None):
        return text
    pieces = _CODE.split(text)
    pieces[0::2] = ["".join(_to_read(piece)) for piece in pieces[0::2]]
    closed = {match[2].lower() for piece in pieces[0::2] for match in _ELEMENT.finditer(piece) if match[1]}

    def stand_in(match: re.Match[str]) -> str:
        name, (start, end), piece = match[2].lower(), match.span(), match.string
        alone = name not in closed and name not in _VOID and not match[3] and start > 0
        if alone and piece[start - 1] in _AROUND and piece[end : end + 1] in _AROUND:
            return match[0]
        return _LAYOUT.get(f"{match[1]}{name}", "")

    pieces[0::2] = [_ELEMENT.sub(stand_in, piece) for piece in pieces[0::2]]
    return "".join(pieces)


def markdown_text(text: str) -> str:
    """Returns Markdown without images, links without a text, and empty items."""
    if "](" in text:
        text = _NO_TEXT.sub("", _IMAGE.sub("", text))
    return _GAPS.sub("\n\n", _ITEM_ONLY.sub("\n", text)).strip()


def html_text(text: str) -> str:
    """Returns the text of a page or a fragment of HTML, in linear time."""
    pieces: list[str] = []
    preformatted = False
    for chunk in _to_read(text):
        preformatted = _add_chunk(pieces, chunk, preformatted=preformatted)
    return _normalize_blanks(html.unescape("".join(pieces)))


def _to_read(text: str) -> Iterator[str]:
    """Yields the text outside comments, menus and elements without readable text."""
    at = text_start = 0
    unclosed: set[str] = set()
    while (match := _SKIPPED.search(text, at)) is not None:
        at = match.end()
        name = (match.group(1) or "").lower()
        if not name:
            end = text.find("-->", at)
            end = end + 3 if end >= 0 else len(text)
        elif name in _CLOSINGS:
            closing = _CLOSINGS[name].search(text, at)
            end = closing.end() if closing else len(text)
        # If a menu's tag was not closed once, its end is never searched for again: many open tags would otherwise take
        # quadratic time.
        elif name in unclosed or (end := _find_menu_end(text, name, at)) < 0:
            unclosed.add(name)
            continue
        yield text[text_start : match.start()]
        at = text_start = end
    yield text[text_start:]


def _add_chunk(pieces: list[str], chunk: str, *, preformatted: bool) -> bool:
    """Adds a text in which each tag is replaced by the blanks or marks of its layout.

    Returns whether the text after it is preformatted.
    """
    split = _TAG.split(chunk)
    tags = cast("list[str | None]", split[1::2])
    tag_names = {tag: (tag or "").lower() for tag in set(tags)}
    if not preformatted and "pre" not in tag_names.values():
        split[0::2] = [text.replace("\n", " ") for text in split[0::2]] if "\n" in chunk else split[0::2]
    else:
        for number, tag in enumerate((None, *tags)):
            name = tag_names.get(tag, "")
            preformatted = not name.startswith("/") if name.lstrip("/") == "pre" else preformatted
            split[2 * number] = split[2 * number] if preformatted else split[2 * number].replace("\n", " ")
    stands = {tag: _LAYOUT.get(name, "") for tag, name in tag_names.items()}
    split[1::2] = [stands[tag] for tag in tags]
    pieces += split
    return preformatted


_LAYOUT: Final[dict[str, str]] = {
    **{f"h{level}": f"\n\n{'#' * level} " for level in range(1, 7)},
    **{f"/h{level}": "\n\n" for level in range(1, 7)},
    **{f"{slash}{name}": "\n\n" for name in _PARAGRAPHS.split() for slash in ("", "/")},
    **{f"{slash}{name}": "\n" for name in _LINES.split() for slash in ("", "/")},
    "li": "\n- ",
    "/td": " | ",
    "/th": " | ",
}
"""The text that replaces a tag, by its name; a tag that is not listed is replaced by nothing."""


def _find_menu_end(text: str, name: str, at: int) -> int:
    """Returns the end of a menu, after the closing tag that matches; -1 if there is none within `_MENU_CHARS`."""
    depth = 1
    for match in _EITHERS[name].finditer(text, at, min(len(text), at + _MENU_CHARS)):
        depth += -1 if match.group(1) else 1
        if depth == 0:
            return match.end()
    return -1


def _normalize_blanks(text: str) -> str:
    """Returns a text with single blanks, without empty items, empty cells and repeated empty lines."""
    if text.isascii():
        lines = [" ".join(line.split()) for line in text.split("\n")]
    else:
        lines = _EDGES.sub("\n", _BLANKS.sub(" ", text)).split("\n")
    out: list[str] = []
    for line in lines:
        if "|" in line:
            line = _CELLS.sub("", line)  # noqa: PLW2901 - what is left of it
        if line in _EMPTY or (not line and out and not out[-1]):
            continue
        out.append(line)
    return "\n".join(out).strip()


_CALLS: Final = ("output[type=web_search_call]", "[type=web_search_call]")
_MAX_ACTIONS: Final = 8
"""Maximum actions that are read from one response. Chosen, not measured."""
_SHOWN_QUERIES: Final = 3
"""Maximum queries that are shown of one action."""


def actions_of(value: object) -> tuple[str, ...]:
    """Returns the lines of a response's actions in order, without duplicates; empty if it has none."""
    record = record_of(value)
    alone = record is not None and text_of(record.get("type")) == "web_search_call"
    calls = [value] if alone else [call for path in _CALLS for call in find_values(value, path)]
    lines = (_line(action) for call in calls for action in find_values(call, "action"))
    return tuple(dict.fromkeys(line for line in lines if line))[:_MAX_ACTIONS]


def _line(action: object) -> str:
    queries = tuple(text for each in find_values(action, "queries[]") if (text := text_of(each)))
    url, pattern, query = (text_at(action, name) for name in ("url", "pattern", "query"))
    if not (url or query or queries):
        return ""
    return action_line(query, url=url, pattern=pattern, queries=queries)


def action_line(
    query: str | None = None, *, url: str | None = None, pattern: str | None = None, queries: tuple[str, ...] = ()
) -> str:
    """Returns the action of a web tool as hosts show it: `searched 'x'`, `opened https://…`, `'y' in https://…`."""
    if url:
        address = short(url, ADDRESS_CHARS)
        return f"'{short(pattern, QUERY_CHARS)}' in {address}" if pattern else f"opened {address}"
    searches = [each for each in dict.fromkeys((query or "", *queries)) if each.strip()]
    if not searches:
        return "searched the web"
    quoted_searches = ", ".join(f"'{short(each, QUERY_CHARS)}'" for each in searches[:_SHOWN_QUERIES])
    more = f" and {len(searches) - _SHOWN_QUERIES} more" if len(searches) > _SHOWN_QUERIES else ""
    return f"searched {quoted_searches}{more}"
