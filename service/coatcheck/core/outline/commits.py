"""The commits of `git log --oneline`: each a line of its own, with or without a graph."""

import re
from typing import Final, final

from coatcheck.core.outline.model import MAX_ENTRIES, Entry, EntryStart, reaching, titled
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.window import Position

_LOG: Final = re.compile(
    rb"(?:[*|/\\ ]{0,40}commit [0-9a-f]{40,64}\b[^\n]{0,400}\r?\n(?:\S[^\n]{0,400}\r?\n){0,8}"
    rb"[*|/\\ ]{0,40}(?:Author|Merge|Date|commit|AuthorDate):? )"
)
_GRAPH: Final = r"^[*|/\\_. -]{0,40}"
_ONELINE: Final = BlockPattern(_GRAPH + r"[0-9a-f]{7,40}(?: |$)")
_LINE: Final = re.compile(rb"[*|/\\_. -]{0,40}[0-9a-f]{7,40}(?: |\r?$)")
_JOINT: Final = re.compile(rb"[*|/\\_. -]{0,40}$")
_FIRST: Final = 20
"""Lines that must all be commits for a text to be taken for such a log."""
_LEAST: Final = 3


def is_log(head: bytes) -> bool:
    """Returns whether a text begins as `git log` writes it, one commit after the other with author and date."""
    return _LOG.match(head) is not None


def is_oneline(head: bytes) -> bool:
    """Returns whether a text begins with commits, one a line, whose hashes cannot be mere numbers or words."""
    lines = head[: _FIRST * 400].split(b"\n")[:_FIRST]
    commits = [line for line in lines[:-1] or lines if _LINE.match(line)]
    others = [line for line in lines[:-1] if not _LINE.match(line) and not _JOINT.match(line.rstrip())]
    hashes = [re.search(rb"[0-9a-f]{7,40}", line) for line in commits]
    mixed = any(h is not None and re.search(rb"[0-9]", h[0]) and re.search(rb"[a-f]", h[0]) for h in hashes)
    same = len({len(h[0]) for h in hashes if h is not None})
    return len(commits) >= _LEAST and not others and mixed and same <= _LEAST


@final
class Oneline:
    """A Scanner."""

    def __init__(self) -> None:
        self._starts: list[EntryStart] = []

    @property
    def full(self) -> bool:
        """See Scanner."""
        return len(self._starts) >= MAX_ENTRIES

    def feed(self, data: bytes, place: Position) -> None:
        """See Scanner."""
        counted, here = 0, place
        for start, end, *_ in _ONELINE.lines(data):
            if self.full:
                return
            here, counted = here.after(data[counted:start]), start
            self._starts.append(EntryStart("commit", titled(data[start:end].lstrip(b"*|/\\_. -")), 1, here))

    def finish(self, end: Position, *, ends_line: bool) -> list[Entry]:
        """See Scanner."""
        return reaching(self._starts, end, ends_line=ends_line)
