"""Outlines the output of a program: its phases, each of which begins with a line and extends to the next phase."""

import re
from collections import deque
from typing import Final, final

from coatcheck.core.outline.model import MAX_ENTRIES, EntryStart, OutlineEntry, make_title, reaching
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position


class StartScanner:
    """Base class of scanners that record where entries begin; subclasses feed them lines."""

    def __init__(self) -> None:
        self.starts: list[EntryStart] = []

    @property
    def full(self) -> bool:
        """Whether the maximum number of entries was found."""
        return len(self.starts) >= MAX_ENTRIES

    def finish(self, end: Position, *, ends_line: bool) -> list[OutlineEntry]:
        """Returns the entries after the last line, which ended at `end`; `ends_line`: with a line feed."""
        return reaching(self.starts, end, ends_line=ends_line)


_LOG: Final = re.compile(
    rb"(?:[*|/\\ ]{0,40}commit [0-9a-f]{40,64}\b[^\n]{0,400}\r?\n(?:\S[^\n]{0,400}\r?\n){0,8}"
    rb"[*|/\\ ]{0,40}(?:Author|Merge|Date|commit|AuthorDate):? )"
)


def is_log(head: bytes) -> bool:
    """Returns whether a text begins like the output of `git log`: with a commit, its author and its date."""
    return _LOG.match(head) is not None


_STAMP: Final = r"(?:\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{8,18}(?:Z|[+-][0-9:]{4,6})?\]? +)?"
_PHASES: Final = BlockPattern(
    rf"^{_STAMP}(?:##\[(?:group|section|command)\]|::group::|section_start:|={{3,}} ?[^= ].* ?={{3,}}\s*$"
    r"|-{3,} [^- ].* -{3,}\s*$|\*{3,} [^*]|> Task :|Step [0-9]+/[0-9]+ *:|#[0-9]+ \[[^\]]{1,60}\]|\$ \S|\+ \S|={2,}> \S"
    r"|make(?:\[[0-9]+\])?: Entering directory|\[INFO\] -{3,}< |PLAY \[|TASK \[|Stage \"|\[Pipeline\] (?:stage|\{ \())"
)
_TIME: Final = re.compile(
    rb"[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
    rb"|[0-9]{1,2}/(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)/[0-9]{4}:[0-9:]{8}(?: [+-][0-9]{4})?"
    rb"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}"
    rb"|(?m:^)\[?[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,6})?"
)
_TIME_BYTES: Final = 16 * 1024
"""Bytes at each end of an output in which a time is searched for."""
_PHASE_BYTES: Final = 1_000
"""Maximum bytes of a line that begins a phase."""
_STAMP_PREFIX: Final = re.compile(rb"\A" + _STAMP.encode() + rb"(?:##\[(?:group|section|command)\]|::group::)?")


@final
class Phases(StartScanner):
    """Finds phases; the title of a phase is its first line without time and group mark.

    Phases are not nested: a program prints where a phase begins, but seldom where it ends.
    """

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines; the first line begins at `place`."""
        offset, here = 0, place
        for start, end, *_ in _PHASES.lines(data):
            if self.full:
                return
            if end - start <= _PHASE_BYTES:
                here, offset = here.after(data[offset:start]), start
                title = make_title(_STAMP_PREFIX.sub(b"", data[start:end], count=1))
                self.starts.append(EntryStart("phase", title, 1, here))


def times(head: bytes, tail: bytes) -> str | None:
    """Returns a sentence with the first and the last time in an output; None if it has no times."""
    first = _TIME.search(head[:_TIME_BYTES])
    last = next(iter(deque(_TIME.finditer(tail[-_TIME_BYTES:]), maxlen=1)), None)
    if first is None:
        return None
    begin = first[0].decode("latin-1").lstrip("[")
    if last is None or last[0] == first[0]:
        return f"Times begin with {begin}."
    return f"Times from {begin} to {last[0].decode('latin-1').lstrip('[')}."
