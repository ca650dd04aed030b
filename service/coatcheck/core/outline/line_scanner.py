"""Entries that begin at a line, and extend to the next one of their level or above.

The commits of `git log --oneline`: one per line, with or without a graph.

The phases of a log or a command's output, if the program marks them: groups, steps, tasks, banners, commands.
"""

import re
from abc import ABC, abstractmethod
from collections import deque
from typing import ClassVar, Final, final

from coatcheck.core.outline.model import MAX_ENTRIES, Entry, EntryStart, What, make_title, reaching
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

    def finish(self, end: Position, *, ends_line: bool) -> list[Entry]:
        """Returns the entries, once the lines have ended at this place; `ends_line`: with a line feed."""
        return reaching(self.starts, end, ends_line=ends_line)


class LineScanner(StartScanner, ABC):
    """A scanner whose entries are the lines that a pattern finds."""

    pattern: BlockPattern
    longest: ClassVar[int] = 1 << 30
    """Maximum bytes of a line that can be an entry."""

    @abstractmethod
    def entry(self, line: bytes) -> tuple[What, str, int]:
        """Returns the type of a line that the pattern found, its title and its level."""

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        offset, here = 0, place
        for start, end, *_ in self.pattern.lines(data):
            if self.full:
                return
            if end - start <= self.longest:
                here, offset = here.after(data[offset:start]), start
                self.starts.append(EntryStart(*self.entry(data[start:end]), here))


_LOG: Final = re.compile(
    rb"(?:[*|/\\ ]{0,40}commit [0-9a-f]{40,64}\b[^\n]{0,400}\r?\n(?:\S[^\n]{0,400}\r?\n){0,8}"
    rb"[*|/\\ ]{0,40}(?:Author|Merge|Date|commit|AuthorDate):? )"
)
_LINE: Final = re.compile(rb"[*|/\\_. -]{0,40}[0-9a-f]{7,40}(?: |\r?$)")
_JOINT: Final = re.compile(rb"[*|/\\_. -]{0,40}$")
_FIRST_LINES: Final = 20
"""Lines that must all be commits for a text to be considered such a log."""
_LEAST: Final = 3
_WORDS: Final = re.compile(rb"(?<![^\s(\"'`])[A-Za-z\x80-\xff]{2,}(?![^\s.,:;!?)(\"'`])")


def is_log(head: bytes) -> bool:
    """Returns whether a text begins like `git log`, with one commit after the other, including author and date."""
    return _LOG.match(head) is not None


def is_oneline(head: bytes) -> bool:
    """Returns whether a text begins with commits, one per line.

    Their hashes are distinct, and no mere numbers or words; most have a subject in words, which checksums, addresses of
    symbols, identifiers of containers and annotated source do not.
    """
    lines = head[: _FIRST_LINES * 400].split(b"\n", _FIRST_LINES)[:_FIRST_LINES]
    if not all(_LINE.match(line) or _JOINT.match(line.rstrip()) for line in lines[:-1]):
        return False
    commits = [line for line in lines[:-1] or lines if _LINE.match(line)]
    hashes = [match[0] for line in commits if (match := re.search(rb"[0-9a-f]{7,40}", line)) is not None]
    mixed = any(re.search(rb"[0-9]", each) and re.search(rb"[a-f]", each) for each in hashes)
    if len(hashes) < _LEAST or not mixed or len(set(hashes)) < len(hashes) or len(set(map(len, hashes))) > _LEAST:
        return False
    subjects = [line.partition(each)[2].strip() for line, each in zip(commits, hashes, strict=True)]
    return sum(map(_is_prose, subjects)) * 2 >= len(subjects)


def _is_prose(subject: bytes) -> bool:
    words = _WORDS.findall(subject)
    return b"  " not in subject and (len(words) >= _LEAST or not all(map(bytes.isascii, words)))


@final
class Oneline(LineScanner):
    """Finds the commits of `git log --oneline`."""

    pattern = BlockPattern(r"^[*|/\\_. -]{0,40}[0-9a-f]{7,40}(?: |$)")

    def entry(self, line: bytes) -> tuple[What, str, int]:
        """Returns a commit, titled by its line without the graph."""
        return "commit", make_title(line.lstrip(b"*|/\\_. -")), 1


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
_LOOK: Final = 16 * 1024
_STAMP_PREFIX: Final = re.compile(_STAMP.encode() + rb"(?:##\[(?:group|section|command)\]|::group::)?")


@final
class Phases(LineScanner):
    """Finds phases. They are not nested: a program says where one begins, but seldom where it ends."""

    pattern = _PHASES
    longest = 1_000

    def entry(self, line: bytes) -> tuple[What, str, int]:
        """Returns a phase, titled by its line without time and group mark."""
        mark = _STAMP_PREFIX.match(line)
        return "phase", make_title(line[mark.end() if mark else 0 :]), 1


def times(head: bytes, tail: bytes) -> str | None:
    """Returns when the output begins and ends, by the first and last time in it; None if there is none."""
    first = _TIME.search(head[:_LOOK])
    last = next(iter(deque(_TIME.finditer(tail[-_LOOK:]), maxlen=1)), None)
    if first is None:
        return None
    begin = first[0].decode("latin-1").lstrip("[")
    if last is None or last[0] == first[0]:
        return f"Times begin with {begin}."
    return f"Times from {begin} to {last[0].decode('latin-1').lstrip('[')}."
