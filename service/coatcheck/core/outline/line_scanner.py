"""Scanners for entries that begin with a single line: commits of `git log --oneline`, and the phases of an output.

An entry extends to the next entry of the same or an outer level.
"""

import re
from collections import deque
from collections.abc import Callable
from typing import Final, final

from coatcheck.core.outline.model import MAX_ENTRIES, EntryStart, OutlineEntry, What, make_title, reaching
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position


class StartScanner:
    """The common part of scanners that record where entries begin; subclasses feed them lines."""

    def __init__(self) -> None:
        self.starts: list[EntryStart] = []

    @property
    def full(self) -> bool:
        """Whether the maximum number of entries was found."""
        return len(self.starts) >= MAX_ENTRIES

    def finish(self, end: Position, *, ends_line: bool) -> list[OutlineEntry]:
        """Returns the entries, once the lines have ended at this place; `ends_line`: with a line feed."""
        return reaching(self.starts, end, ends_line=ends_line)


@final
class LineScanner(StartScanner):
    """A scanner whose entries are the lines that a pattern finds, all of one level."""

    def __init__(
        self, pattern: BlockPattern, what: What, title: Callable[[bytes], bytes], longest: int = 1 << 30
    ) -> None:
        """`title` returns the part of a line that is its title; lines of more than `longest` bytes are no entries."""
        super().__init__()
        self.what: What = what
        self._pattern, self._title, self._longest = pattern, title, longest

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        offset, here = 0, place
        for start, end, *_ in self._pattern.lines(data):
            if self.full:
                return
            if end - start <= self._longest:
                here, offset = here.after(data[offset:start]), start
                self.starts.append(EntryStart(self.what, make_title(self._title(data[start:end])), 1, here))


_LOG: Final = re.compile(
    rb"(?:[*|/\\ ]{0,40}commit [0-9a-f]{40,64}\b[^\n]{0,400}\r?\n(?:\S[^\n]{0,400}\r?\n){0,8}"
    rb"[*|/\\ ]{0,40}(?:Author|Merge|Date|commit|AuthorDate):? )"
)
_LINE: Final = re.compile(rb"[*|/\\_. -]{0,40}[0-9a-f]{7,40}(?: |\r?$)")
_JOINT: Final = re.compile(rb"[*|/\\_. -]{0,40}$")
_FIRST_LINES: Final = 20
"""Number of first lines that must all be commits if a text is a log with one commit per line."""
_MIN_COMMITS: Final = 3
"""Minimum commits of a log, maximum number of different lengths of their hashes, and minimum words of a subject that is
prose."""
_WORDS: Final = re.compile(rb"(?<![^\s(\"'`])[A-Za-z\x80-\xff]{2,}(?![^\s.,:;!?)(\"'`])")


def is_log(head: bytes) -> bool:
    """Returns whether a text begins like `git log`, with one commit after the other, including author and date."""
    return _LOG.match(head) is not None


def is_oneline(head: bytes) -> bool:
    """Returns whether a text begins with commits, one per line.

    The hashes are distinct, and not all of them are plain numbers or words. At least half of the commits have a subject
    in words, unlike lists of checksums, addresses of symbols or identifiers of containers, and unlike annotated source.
    """
    lines = head[: _FIRST_LINES * 400].split(b"\n", _FIRST_LINES)[:_FIRST_LINES]
    if not all(_LINE.match(line) or _JOINT.match(line.rstrip()) for line in lines[:-1]):
        return False
    commits = [line for line in lines[:-1] or lines if _LINE.match(line)]
    hashes = [match[0] for line in commits if (match := re.search(rb"[0-9a-f]{7,40}", line)) is not None]
    mixed = any(re.search(rb"[0-9]", each) and re.search(rb"[a-f]", each) for each in hashes)
    lengths = set(map(len, hashes))
    if len(hashes) < _MIN_COMMITS or not mixed or len(set(hashes)) < len(hashes) or len(lengths) > _MIN_COMMITS:
        return False
    subjects = [line.partition(each)[2].strip() for line, each in zip(commits, hashes, strict=True)]
    return sum(map(_is_prose, subjects)) * 2 >= len(subjects)


def _is_prose(subject: bytes) -> bool:
    words = _WORDS.findall(subject)
    return b"  " not in subject and (len(words) >= _MIN_COMMITS or not all(map(bytes.isascii, words)))


_ONELINE: Final = BlockPattern(r"^[*|/\\_. -]{0,40}[0-9a-f]{7,40}(?: |$)")


def oneline_scanner() -> LineScanner:
    """Returns a scanner for the commits of `git log --oneline`. Their titles are their lines, without the graph."""
    return LineScanner(_ONELINE, "commit", lambda line: line.lstrip(b"*|/\\_. -"))


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
"""Bytes of each end in which a time is searched for."""
_STAMP_PREFIX: Final = re.compile(rb"\A" + _STAMP.encode() + rb"(?:##\[(?:group|section|command)\]|::group::)?")


def phase_scanner() -> LineScanner:
    """Returns a scanner for phases. Their titles are their lines, without the time and the mark of a group.

    Phases are not nested, because a program says where a phase begins, but seldom where it ends.
    """
    return LineScanner(_PHASES, "phase", lambda line: _STAMP_PREFIX.sub(b"", line, count=1), longest=1_000)


def times(head: bytes, tail: bytes) -> str | None:
    """Returns a sentence with the first and the last time in an output; None if its beginning has no time."""
    first = _TIME.search(head[:_TIME_BYTES])
    last = next(iter(deque(_TIME.finditer(tail[-_TIME_BYTES:]), maxlen=1)), None)
    if first is None:
        return None
    begin = first[0].decode("latin-1").lstrip("[")
    if last is None or last[0] == first[0]:
        return f"Times begin with {begin}."
    return f"Times from {begin} to {last[0].decode('latin-1').lstrip('[')}."
