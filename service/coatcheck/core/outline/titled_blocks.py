"""Parts of texts that have titles but no markup: indented blocks below a line with a colon, and parts below a banner.

For texts in which nothing else was found. A title is a short line that differs from the others; statements of failure,
such as the first line of a trace, and keywords of code are no titles.
"""

import re
from typing import Final, final

from coatcheck.core.outline.line_scanner import LineScanner, StartScanner
from coatcheck.core.outline.model import EntryStart, OutlineScanner, What, titled
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_LOOK: Final = 16 * 1024
_LEAST: Final = 3
_WORDS: Final = 10
"""Maximum words of a title; a sentence has more."""
_DIFFERENT: Final = 0.8
"""Minimum share of titles that differ."""
_BELOW: Final = 0.5
"""Minimum share of the lines that stand in the blocks."""
_BLOCK: Final = re.compile(
    rb"^(\w(?:[^\n]{0,78}[\w)])?:)[ \t]*\r?\n(?:(?:[ \t]+\S[^\n]*|[ \t\r]*|-[^\n]*)(?:\n|\Z))+", re.MULTILINE
)
"""Matches a title with the lines below it that are indented, or begin with a dash."""
_TITLE: Final = BlockPattern(r"^(?:\w|\()(?:.{0,78}[\w)])?:[ \t]*\r?$")
_NO_TITLE: Final = re.compile(
    rb"(?i:.*\b(?:error|exception|traceback|warnings?|fail(?:ed|ure)?s?|caused by|panic)\b)|.*[=;{},]"
    rb"|(?:async|case|class|def|default|do|elif|else|except|finally|for|function|if|match|private|protected|public"
    rb"|return|switch|try|while|with)\b"
)
_FEWEST: Final = 2
_BANNER: Final = BlockPattern(
    r"^(?:#{4,}[ \t]*[^#\s].{0,98}[^#\s]?[ \t]*#{4,}|/{4,}[ \t]*[^/\s].{0,98}[^/\s]?[ \t]*/{4,}"
    r"|;{4,}[ \t]*[^;\s].{0,98}[^;\s]?[ \t]*;{4,})[ \t\r]*$"
)
_RULE: Final = BlockPattern(r"^(?:#|;|//|--)? ?(?:-{10,}|={10,}|\*{10,}|#{10,})[ \t#;/]*\r?$")
_COMMENT: Final = re.compile(rb"(#|;|//|--)[#;/ \t]*(\w[^\n]{0,98}?)[ \t#;/]*\r?\n")


def titled_blocks_of(head: bytes) -> OutlineScanner | None:
    """Returns what finds the titled parts of a text that begins with `head`; None if it has none."""
    first = head[: head.rfind(b"\n", 0, _LOOK) + 1]
    if _BANNER.count(first, _FEWEST) >= _FEWEST or len(_boxes(first)) >= _FEWEST:
        return Banners()
    titles = [match[1] for match in _BLOCK.finditer(first)] if first.count(b":\n") >= _LEAST else []
    if len(titles) < _LEAST or len(set(titles)) < _DIFFERENT * len(titles) or not all(map(_is_title, titles)):
        return None
    below = sum(match[0].count(b"\n") for match in _BLOCK.finditer(first))
    return TitledBlocks() if below >= _BELOW * first.count(b"\n") else None


def _is_title(line: bytes) -> bool:
    return len(line.split()) <= _WORDS and _NO_TITLE.match(line) is None


@final
class TitledBlocks(LineScanner):
    """Finds lines that end with a colon and are not indented, titled without it."""

    marks = _TITLE
    longest = 96

    def entry(self, line: bytes) -> tuple[What, str, int]:
        """Returns the title of a line."""
        return "block", titled(line.rstrip().removesuffix(b":")), 1


def _boxes(data: bytes) -> list[tuple[int, bytes]]:
    """Returns where a comment between two rules begins, and its text."""
    found: list[tuple[int, bytes]] = []
    before = -1
    start = 0
    for low, high, *_ in _RULE.lines(data):
        title = _COMMENT.fullmatch(data, before, low) if before >= 0 else None
        if title is not None:
            found.append((start, title[2]))
        before, start = (high, low) if title is None else (-1, 0)
    return found


@final
class Banners(StartScanner):
    """Finds comments that are banners: `#### NETWORK ####`, or a title between two rules."""

    def __init__(self) -> None:
        super().__init__()
        self._carry, self._place = b"", Position(0, 0, 0)

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        counted, here = 0, self._place if self._carry else place
        data = self._carry + data
        cut = self._cut(data)
        lines = [(start, data[start:end].strip(b"#/; \t\r\n")) for start, end, *_ in _BANNER.lines(data[:cut])]
        for start, title in sorted({*lines, *_boxes(data)}):
            if not self.full:
                here, counted = here.after(data[counted:start]), start
                self.starts.append(EntryStart("block", titled(title), 1, here))
                cut = max(cut, data.find(b"\n", start) + 1)
        self._place, self._carry = here.after(data[counted:cut]), data[cut:]

    def _cut(self, data: bytes) -> int:
        """Returns where a rule begins whose title may stand in the next block; the end of the data if none does."""
        at = data.rfind(b"\n", 0, max(0, len(data) - 1)) + 1
        at = data.rfind(b"\n", 0, max(0, at - 1)) + 1
        return next((start for start, *_ in _RULE.lines(data, at)), len(data))
