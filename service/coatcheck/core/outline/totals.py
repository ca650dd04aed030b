"""Totals of a diff that streams in, in bounded memory: its commits, files, and the lines that each changes.

All bytes are examined, however they are split.
"""

import re
from collections import Counter
from collections.abc import Iterable
from posixpath import commonprefix
from typing import Final, final

from coatcheck.core.outline.diff import Diff
from coatcheck.core.outline.model import MAX_ENTRIES, What
from coatcheck.core.text.plural import first_of, format_count
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_HEAD: Final = 16 * 1024
_SOON: Final = 2 * 1024
"""Maximum bytes before a diff."""
_PIECE: Final = 64 * 1024
"""Bytes of a diff that are examined together: fewer hunks than an outline may have."""
_LINE: Final = 4 * 1024
"""Bytes of a line that matter."""
_MOST: Final = 20_000
"""Maximum files of a diff; of one with more there are no totals."""
_FILES: Final = 40
_COMMON: Final = 24
"""Minimum characters that all names begin with from which their directory is told once."""
_NAMED: Final = 8
_BEGINNING: Final = Position(0, 0, 0)
_HEADER: Final = re.compile(rb"^(?:diff -\S|Index: |--- \S[^\n]*\n\+\+\+ \S)", re.MULTILINE)
_HUNK: Final = BlockPattern(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")


def totals_of(head: bytes) -> "DiffTotals | None":
    """Returns what counts the changes of a text that begins like this; None if it begins with no diff."""
    diff = b"\n@@ -" in head[:_HEAD] and _HUNK.find(head[:_HEAD]) and _HEADER.search(head, 0, _SOON)
    return DiffTotals() if diff else None


@final
class DiffTotals:
    """Counts the files of a diff, and the lines that each adds and removes; names its commits, if it has any."""

    def __init__(self) -> None:
        self._carry = b""
        self._diff = Diff()
        self._added = Counter[str]()
        self._removed = Counter[str]()
        self._titles = Counter[str]()
        """How often each title of a file occurs."""
        self._commits: list[str] = []
        self._numbers = Counter[What]()
        """How many files, hunks and commits there are."""
        self._known = True
        """Whether every file so far could be counted, and told from the others."""

    def feed(self, data: bytes) -> None:
        """Counts what is in the next bytes; of a long line, only the beginning and the end are examined."""
        end = data.rfind(b"\n") + 1
        if end:
            self._count_lines(self._carry + data[:end])
            self._carry = b""
        self._carry += data[end : end + _LINE - len(self._carry)]

    def _count_lines(self, data: bytes) -> None:
        at = 0
        while at < len(data) and self._known:
            end = len(data) if len(data) - at <= _PIECE else data.rfind(b"\n", at, at + _PIECE) + 1
            end = end if end > at else data.find(b"\n", at) + 1
            self._diff.feed(data[at:end], _BEGINNING)
            at = end
            self.add(self._diff.take_complete())

    def add(self, entries: Iterable[tuple[What, str, list[int] | None]]) -> None:
        """Counts complete entries, each with its title and, if known, how many lines it adds and removes."""
        for what, title, counts in entries:
            self._numbers[what] += 1
            if what == "commit" and len(self._commits) < _NAMED:
                self._commits.append(title)
            if what == "file":
                several = title in self._titles and title.endswith("…")
                if counts is None or several or len(self._titles) >= _MOST:
                    self._known = False
                    return
                self._titles[title] += 1
                self._added[title] += counts[0]
                self._removed[title] += counts[1]

    def facts(self) -> tuple[str, ...]:
        """Returns the first commits, and the files with the largest changes."""
        self._count_lines(self._carry)
        self._carry = b""
        self.add(self._diff.take_complete(end=True))
        if not self._known or not self._titles:
            return ()
        commits = first_of(self._commits, self._numbers["commit"])
        more = self._numbers["commit"] - len(self._commits)
        commit_list = f"{commits}; … {more} more" if more else commits
        common = commonprefix(list(self._titles))
        common = common[: common.rfind("/") + 1] if len(self._titles) > 1 and len(common) >= _COMMON else ""
        largest = [f"{name[len(common) :]} +{self._added[name]} -{self._removed[name]}" for name in self._largest()]
        where = f" in {common}" if common else ""
        files = f"{format_count(len(largest), 'file')}{where}, +{self._added.total()} -{self._removed.total()}"
        facts = f"{files}: {first_of(largest, _FILES, 'more files')}"
        return (f"{format_count(self._numbers['commit'], 'commit')}: {commit_list}", facts) if commits else (facts,)

    def sections(self) -> list[str]:
        """Returns the files by which an outline's parts can be read, largest changes first, after `facts`."""
        if not self._known or self._numbers.total() >= MAX_ENTRIES:
            return []
        return [name for name in self._largest() if self._titles[name] == 1]

    def _largest(self) -> list[str]:
        return sorted(self._titles, key=lambda name: -self._added[name] - self._removed[name])
