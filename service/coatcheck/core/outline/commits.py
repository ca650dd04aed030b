"""The commits of `git log --oneline`: one per line, with or without a graph."""

import re
from typing import Final, final

from coatcheck.core.outline.line_scanner import LineScanner
from coatcheck.core.outline.model import What, make_title
from coatcheck.core.text.scan import BlockPattern

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
