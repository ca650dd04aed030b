"""Finds the headings of manual pages, descriptions of options, and RFCs: lines without indentation above indented text.

Headings are in capitals (`SEE ALSO`), numbered (`3.1.  Terms`), or end in a colon where options are listed below
(`Output options:`). A text is a manual if most of its blocks without indentation are such headings. Then all of its
titles without indentation are headings and, in a manual page, also titles that are indented less than the text.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from coatcheck.core.extract.blocks import SectionStart
from coatcheck.core.text.scan import BlockPattern

_FIRST_BYTES: Final = 1024
"""Bytes at the beginning of a text, among which a manual has an indented line. Most other texts are refused by this at
once."""
_INDENT_BYTES: Final = 2 * 1024
"""Bytes at the beginning of a text, in which a third of the lines must be indented."""
_HEAD_BYTES: Final = 16 * 1024
"""Bytes of a text that are examined: a few pages of a manual."""
_COLOUR: Final = r"(?:\x1b\[[0-9;]*m)*"
_OUTER: Final = BlockPattern(rf"^{_COLOUR}[^\s\x1b]")
_INNER: Final = BlockPattern(rf"^ {{2,3}}{_COLOUR}[^\s\x1b]")
"""Finds lines that are indented as little as the second level of manual pages."""
_NUMBER: Final = re.compile(r"(?:Appendix )?(?:\d{1,3}|[A-Z])((?:\.\d{1,3}){0,5})\.?[ \t]{1,3}(?=\w)")
_CAPITALS: Final = re.compile(r"[A-Z0-9][A-Z0-9 ,/'()&.+-]*[A-Z)]")
_LABEL: Final = re.compile(r"[A-Za-z][\w ,/'()&.-]{1,58}:")
_TITLE: Final = re.compile(r"[A-Z][^\n]{1,58}[^\s.,;:=\\{}\[\]<>|]:?")
_OPTION: Final = re.compile(rb"^[ \t]+-{1,2}\w|^ {0,2}(?i:usage):?[ \r\n]", re.MULTILINE)
_PAGE: Final = re.compile(rb"\s*(\S{1,60}\(\w{1,9}\))[ \t]{2}[^\n]*[ \t]\1\s*\n")
"""Matches the first line of a manual page. After such a line, one heading fewer is enough."""
_ESCAPES: Final = re.compile(_COLOUR.encode())
_INDENT: Final = re.compile(rb"^ +(?=\S)", re.MULTILINE)
_WIDE: Final = re.compile(r"\S(?:\t|  )")
"""Matches a line with columns, as the head and foot of a page have."""
_MIN_HEADINGS: Final = 3
"""Minimum headings of a manual and, if some of them end in a colon, minimum lines with options."""
_BLOCKS_PER_HEADING: Final = 4
"""Maximum blocks without indentation per heading, where one heading more is counted than were found; and maximum lines
without indentation per heading, where four more are counted. Beyond either, a text is refused at once."""
_TITLE_WORDS: Final = 8
"""Maximum words of a title that is recognised only by its capital letter and its place; a line of more words is a
sentence."""
_LONG: Final = 80
"""Maximum characters of a heading."""
_BLANK: Final = {b" ", b"\t"}
_UNDER: Final = 3
"""Blanks before headings of the second level in manual pages; text is indented further."""


class _Outer(Struct, frozen=True):
    """The first line of a block that is not indented."""

    at: int
    title: str
    strong: bool
    """Whether it is written as only headings are."""
    alone: bool
    """Whether it may be a heading: a title above indented text."""


def is_manual(data: bytes) -> bool:
    """Returns whether the first 16 KiB of a text are those of a manual. Cheap for a text that is not indented."""
    first = data[:_FIRST_BYTES]
    if b"\n  " not in first and b"\n\t" not in first:
        return False
    first = data[:_INDENT_BYTES]
    indented = first.count(b"\n  ") + first.count(b"\n\t")
    if 3 * indented < first.count(b"\n") - first.count(b"\n\n") - first.count(b"\n\r\n"):
        return False
    head = data if len(data) <= _HEAD_BYTES else data[: data.rfind(b"\n", 0, _HEAD_BYTES) + 1]
    strong: list[str] = []
    blocks = 0
    for lines, outer in enumerate(_outer(head)):
        max_blocks = _BLOCKS_PER_HEADING * (len(strong) + 1)
        if blocks > max_blocks or lines > max_blocks + _BLOCKS_PER_HEADING * (_BLOCKS_PER_HEADING - 1):
            return False  # prose and source have many lines that are not indented: most are refused after a few
        if outer is not None:
            blocks += 1
            strong += [outer.title] if outer.strong and outer.alone else []
    # A log of commands repeats its headings. Most headings of a manual are different, and they are most of its blocks.
    distinct, least = len(set(strong)), _MIN_HEADINGS - (_PAGE.match(head) is not None)
    if distinct < least or 2 * distinct < blocks or 5 * distinct < 4 * len(strong):
        return False
    return not any(title.endswith(":") for title in strong) or len(_OPTION.findall(head)) >= _MIN_HEADINGS


def manual_headings(data: bytes) -> list[SectionStart]:
    """Returns the headings of a manual, in order."""
    titles = [(line.at, line.title) for line in _outer(data) if line is not None and line.alone]
    indents = Counter(_INDENT.findall(data[:_HEAD_BYTES])).most_common(1)
    starts: list[SectionStart] = []
    labelled = any(title.endswith(":") for _, title in titles)
    inner = not labelled and indents and len(indents[0][0]) > _UNDER
    headings = sorted([*((at, title, 1) for at, title in titles), *(_second(data) if inner else ())])
    at, number = 0, 1
    for place, title, level in headings:
        number += data.count(b"\n", at, place)
        at = place
        parts = _NUMBER.match(title) if level == 1 else None
        starts.append(SectionStart(title, level + (parts[1].count(".") if parts else 0), place, number))
    return starts


def _outer(data: bytes) -> Iterator[_Outer | None]:
    """Yields the first line of each block without indentation; None for its other lines, and for the head of a page."""
    before = 0
    for start, end, *_ in _OUTER.lines(data):
        follows, before = before == start > 0, end
        title = "" if follows else _plain(data[start:end])
        if not title or _WIDE.search(title, _number_end(title)):
            yield None
            continue
        strong = _is_strong(title)
        titled = strong or (_TITLE.fullmatch(title) is not None and len(title.split()) <= _TITLE_WORDS)
        apart = (strong and title.endswith(":")) or not _above(data, start).strip()
        yield _Outer(start, title, strong, titled and apart and _indent_below(data, end) > 1)


def _second(data: bytes) -> Iterator[tuple[int, str, int]]:
    """Yields headings of the second level: lines that stand alone, and are indented less than the text below."""
    for start, end, *_ in _INNER.lines(data):
        title = _plain(data[start:end])
        apart = _above(data, start)[:1] not in _BLANK and title[-1:] not in ".,:;"
        if apart and not _WIDE.search(title) and _indent_below(data, end) > _UNDER:
            yield start, title, 2


def _above(data: bytes, start: int) -> bytes:
    return data[data.rfind(b"\n", 0, max(0, start - 1)) + 1 : start]


def _indent_below(data: bytes, end: int) -> int:
    """Returns the indentation of the next line from `end` on that is not empty; 0 if there is none."""
    while end < len(data):
        start, end = end, data.find(b"\n", end) + 1 or len(data)
        line = data[start : min(end, start + _LONG)]
        if line.strip():
            line = line.expandtabs(8)
            return len(line) - len(line.lstrip(b" "))
    return 0


def _is_strong(title: str) -> bool:
    if len(title) > _LONG:
        return False
    numbered = _number_end(title)
    if numbered and title[0].isdigit():
        return _TITLE.fullmatch(title, numbered) is not None
    return _CAPITALS.fullmatch(title) is not None or _LABEL.fullmatch(title) is not None


def _number_end(title: str) -> int:
    match = _NUMBER.match(title)
    return match.end() if match else 0


def _plain(line: bytes) -> str:
    return _ESCAPES.sub(b"", line[: 4 * _LONG]).strip().decode("utf-8", "replace")
