"""The commits of `git log --oneline`: one per line, with or without a graph."""

import re
from typing import Final, final

from coatcheck.core.outline.line_scanner import LineScanner
from coatcheck.core.outline.model import What, titled
from coatcheck.core.text.scan import BlockPattern

_LOG: Final = re.compile(
    rb"(?:[*|/\\ ]{0,40}commit [0-9a-f]{40,64}\b[^\n]{0,400}\r?\n(?:\S[^\n]{0,400}\r?\n){0,8}"
    rb"[*|/\\ ]{0,40}(?:Author|Merge|Date|commit|AuthorDate):? )"
)
_LINE: Final = re.compile(rb"[*|/\\_. -]{0,40}[0-9a-f]{7,40}(?: |\r?$)")
_JOINT: Final = re.compile(rb"[*|/\\_. -]{0,40}$")
_FIRST: Final = 20
"""Lines that must all be commits for a text to be considered such a log."""
_LEAST: Final = 3


def is_log(head: bytes) -> bool:
    """Returns whether a text begins like `git log`, with one commit after the other, including author and date."""
    return _LOG.match(head) is not None


def is_oneline(head: bytes) -> bool:
    """Returns whether a text begins with commits, one per line, whose hashes cannot be mere numbers or words."""
    lines = head[: _FIRST * 400].split(b"\n")[:_FIRST]
    if not all(_LINE.match(line) or _JOINT.match(line.rstrip()) for line in lines[:-1]):
        return False
    commits = [line for line in lines[:-1] or lines if _LINE.match(line)]
    hashes = [re.search(rb"[0-9a-f]{7,40}", line) for line in commits]
    mixed = any(h is not None and re.search(rb"[0-9]", h[0]) and re.search(rb"[a-f]", h[0]) for h in hashes)
    same = len({len(h[0]) for h in hashes if h is not None})
    return len(commits) >= _LEAST and mixed and same <= _LEAST


@final
class Oneline(LineScanner):
    """Finds the commits of `git log --oneline`."""

    marks = BlockPattern(r"^[*|/\\_. -]{0,40}[0-9a-f]{7,40}(?: |$)")

    def entry(self, line: bytes) -> tuple[What, str, int]:
        """Returns a commit, titled by its line without the graph."""
        return "commit", titled(line.lstrip(b"*|/\\_. -")), 1
