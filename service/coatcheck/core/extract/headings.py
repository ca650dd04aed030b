"""Headings of documents that are readable as they are: Markdown, reStructuredText, plain text. The view is the payload.

Recognises `#` headings and underlined headings outside fenced code. If a document has none, at least three numbered
lines between empty lines are its headings. `core/extract/manual.py` recognises the headings of manuals. In a source
file or an output, `#` begins a comment or a banner; `reads_as_document` decides by a text's name or content whether the
text is a document, whatever tool it came from.
"""

import re
from itertools import islice
from typing import Final

from msgspec import structs

from coatcheck.core.extract.blocks import SectionStart, sections
from coatcheck.core.extract.manual import is_manual, manual_headings
from coatcheck.core.views.view import ExtractedText

EXTRACTOR: Final = "headings 3"
_DOCUMENTS: Final = ("markdown", "x-rst", "restructuredtext")
_SUFFIXES: Final = (".md", ".markdown", ".rst", ".mdx", ".txt", ".adoc")
_HEAD_BYTES: Final = 64 * 1024
"""Bytes at the beginning of a text that tell whether it is a document; source files of any size are refused by them."""
_SUBHEADING: Final = re.compile(rb"^\r?\n##{1,3} [A-Z\d]\S*.*\n\r?$", re.MULTILINE)
"""A Markdown heading below the first level, between empty lines: comments are hardly ever set like that."""
_TITLED: Final = re.compile(rb"\A# [^\n]+\n\r?\n")
_RULED: Final = re.compile(
    rb"(?:\A|\n\r?\n)[ \t]*(\S[^\n]{1,98}\S)[ \t]*\r?\n[ \t]*(?=([=*#~-]))(\2{3,})[ \t]*\r?\n(?=\r?\n)"
)
"""Matches a title and its underline, with empty lines before and after both."""
_FENCED: Final = re.compile(rb"^(`{3,}|~{3,})[^\n]*\n(?:.*?^\1|.*\Z)", re.MULTILINE | re.DOTALL)
_MARKED: Final = re.compile(rb"^#{1,6} \S", re.MULTILINE)
_ALONE: Final = re.compile(rb"(?:\A|\n\r?\n)#{1,6} \S")
_CODE: Final = re.compile(
    rb"^(?:import [\w.]+(?: as \w+)?\r?$|from [\w.]+ import |(?:async )?def \w+\(|class \w+[(:]|#include [<\"]"
    rb"|[^\s\-*>|#][^\n]*\{\r?$|\}|\w+ ?<- ?function\()",
    re.MULTILINE,
)
_LITTLE: Final = 3
"""Number of unindented lines of code, outside fences, from which a text is a source file."""
_MIN_HEADINGS: Final = 2
"""Minimum headings of a document: a single one may be a comment."""
_CANDIDATE: Final = re.compile(
    rb"^(?:[ ]{0,3}(?:(#{1,6})[ \t]+(\S[^\n]{0,400})|(`{3,}|~{3,})[^\n]*|([=\-~^\"'`*+#.:_]{3,120})[ \t\r]*)"
    rb"|(\d{1,3}(?:\.\d{1,3}){0,4}\.?)[ \t]{1,3}([^\W\d_][^\n]{0,80}))$",
    re.MULTILINE,
)
_MARKDOWN: Final = {b"=": 1, b"-": 2}
"""Levels of underlines in Markdown; in reStructuredText, their order of appearance decides."""
_MIN_NUMBERED: Final = 3
"""Minimum numbered headings of a document; fewer such lines are items of a list."""
_TITLE_BYTES: Final = 120
"""Maximum bytes of a title above an underline: as many as the longest underline has."""
_SENTENCE: Final = (b".", b",", b";", b":", b"?", b"!")


def reads_as_document(media_type: str | None, url: str | None, data: bytes) -> bool:
    """Returns whether a text of unknown type is a document with headings.

    A text is a document if its media type or the ending of its name says so, or if it is a manual. It also is one if
    its first 64 KiB have two Markdown headings below the first level between empty lines (after a title in the first
    line, one is enough), or two underlined titles, each as long as its underline and one of them in the first line. A
    source file with such comments, or with `#!` at its beginning, is not a document.
    """
    if any(name in (media_type or "") for name in _DOCUMENTS):
        return True
    if (url or "").partition("?")[0].partition("#")[0].lower().endswith(_SUFFIXES):
        return True
    minimum = _MIN_HEADINGS - (_TITLED.match(data) is not None)
    if data.startswith(b"#!"):
        return False
    if b"\n##" not in data[:_HEAD_BYTES] or _count(_SUBHEADING, data[:_HEAD_BYTES], minimum) < minimum:
        return is_manual(data) or _is_underlined(data[:_HEAD_BYTES])
    text = _FENCED.sub(b"", data[:_HEAD_BYTES])  # comments are usually directly above or below what they describe
    mostly_alone = _count(_ALONE, text, _HEAD_BYTES) * 3 >= _count(_MARKED, text, _HEAD_BYTES) * 2
    return mostly_alone and _count(_CODE, text, _LITTLE) < _LITTLE


def _is_underlined(data: bytes) -> bool:
    """Returns whether a text begins with an underlined title, and has another."""
    if _RULED.match(data) is None:
        return False
    titles = [match for match in _RULED.finditer(data) if len(match[1].decode("utf-8", "ignore")) == len(match[3])]
    return len(titles) >= _MIN_HEADINGS and titles[0].start() == 0


def _count(pattern: re.Pattern[bytes], data: bytes, most: int) -> int:
    """Returns how often a pattern occurs in a text, up to `most`."""
    return sum(1 for _ in islice(pattern.finditer(data), most))


def extract_headings(data: bytes) -> ExtractedText | None:
    """Returns the sections of a document; None if it has no headings."""
    starts = manual_headings(data) if is_manual(data) else _starts(data)
    if not starts:
        return None
    outline = sections(starts, prefix="s", size=len(data), lines=data.count(b"\n") + (not data.endswith(b"\n")))
    return ExtractedText(text=None, sections=outline, extractor=EXTRACTOR)


def _starts(data: bytes) -> list[SectionStart]:
    collector = _HeadingCollector(data)
    at, line = 0, 1
    for match in _CANDIDATE.finditer(data):
        line += data.count(b"\n", at, match.start())
        at = match.start()
        collector.take(match, at, line)
    return collector.starts()


class _HeadingCollector:
    """Collects the headings of a document."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._fence = b""
        self._marked: list[SectionStart] = []
        self._ruled: dict[int, bytes] = {}
        """The underline character of each underlined heading, by the heading's number in `_marked`."""
        self._numbered: list[SectionStart] = []

    def take(self, match: "re.Match[bytes]", at: int, line: int) -> None:
        """Processes a line that may be part of a heading."""
        hashes, title, ticks, rule, number, words = match.groups()
        if ticks is not None or self._fence:
            self._code(ticks)
        elif hashes is not None:
            self._marked.append(SectionStart(_text(title.rstrip().rstrip(b"#")), len(hashes), at, line))
        elif rule is not None:
            above = _find_underlined(self._data, at, rule)
            if above is not None:
                self._ruled[len(self._marked)] = rule[:1]
                self._marked.append(SectionStart(_text(self._data[above:at]), 1, above, line - 1))
        elif _alone(self._data, match.span()) and not words.rstrip().endswith(_SENTENCE):
            level = number.rstrip(b".").count(b".") + 1
            self._numbered.append(SectionStart(_text(number + b" " + words), level, at, line))

    def _code(self, ticks: bytes | None) -> None:
        if not self._fence:
            self._fence = ticks or b""
        elif ticks is not None and ticks.startswith(self._fence):
            self._fence = b""

    def starts(self) -> list[SectionStart]:
        """Returns the headings in order, with their levels."""
        if not self._marked:
            return self._numbered if len(self._numbered) >= _MIN_NUMBERED else []
        styles = list(dict.fromkeys(self._ruled.values()))
        for place, rule in self._ruled.items():
            level = _MARKDOWN[rule] if set(styles) <= _MARKDOWN.keys() else styles.index(rule) + 1
            self._marked[place] = structs.replace(self._marked[place], level=min(level, 6))
        return sorted(self._marked, key=lambda start: start.at)


def _find_underlined(data: bytes, at: int, rule: bytes) -> int | None:
    """Returns the offset of the line above an underline if that line is a heading: short, with nothing directly above.

    None if it is no heading.
    """
    if len(set(rule)) > 1 or at == 0:
        return None
    start = data.rfind(b"\n", max(0, at - 1 - _TITLE_BYTES), at - 1) + 1
    if start == 0 and at - 1 > _TITLE_BYTES:
        return None
    title = data[start : at - 1].strip()
    if len(title) < 1 or title[:1] in b"#>|-*+" or len(title) > len(rule) * 4 + 8 or not re.search(rb"[^\W_]", title):
        return None
    above = data[data.rfind(b"\n", max(0, start - 1 - _TITLE_BYTES), max(0, start - 1)) + 1 : max(0, start - 1)].strip()
    return start if not above or len(set(above)) == 1 or above.startswith(b"#") else None


def _alone(data: bytes, span: tuple[int, int]) -> bool:
    """Returns whether a line is surrounded by empty lines."""
    start, end = span
    before, after = data[max(0, start - 4) : start], data[end : end + 2]
    return (not before or before.endswith((b"\n\n", b"\r\n\r\n"))) and after in {b"\n\n", b"\n\r", b"\n", b""}


def _text(words: bytes) -> str:
    return words.strip().decode("utf-8", "replace")
