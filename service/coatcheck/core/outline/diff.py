"""The files of a diff and their hunks, each with the lines that it adds and removes."""

import re
from typing import Final, final

from msgspec.structs import replace

from coatcheck.core.kinds.scan import Scan
from coatcheck.core.outline.model import MAX_ENTRIES, Entry, Start, reaching, titled
from coatcheck.core.text.plural import plural
from coatcheck.core.window import Place

_MARKS: Final = Scan(r"^(?:diff --git |diff --cc |diff -r |Index: |--- |\+\+\+ |@@ )")
_GIT: Final = re.compile(rb"diff --(?:git|cc) (?:a/.{1,500} b/)?(.{1,500})")
_PATH: Final = re.compile(rb"(?:---|\+\+\+) (?:[ab]/)?([^\t\r\n]{1,500})")
_HUNK: Final = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@final
class Diff:
    """A Scanner. A `---` or `+++` line inside a hunk, by the hunk's own counts, is a line of it and names no file."""

    def __init__(self) -> None:
        self._starts: list[Start] = []
        self._counts: list[list[int]] = []
        self._hunk_ends = 0
        self._named = False

    @property
    def full(self) -> bool:
        """See Scanner."""
        return len(self._starts) >= MAX_ENTRIES

    def feed(self, data: bytes, place: Place) -> None:
        """See Scanner."""
        counted, here = 0, place
        for start, end, *_ in _MARKS.lines(data):
            self._count(data, counted, start)
            here, counted = here.after(data[counted:start]), start
            if self.full:
                return
            self._mark(data[start:end], here)
        self._count(data, counted, len(data))

    def finish(self, end: Place, *, ends_line: bool) -> list[Entry]:
        """See Scanner."""
        entries = reaching(self._starts, end, ends_line=ends_line)
        totals: list[list[int]] = [[0, 0, 0] for _ in entries]
        file = 0
        for number, entry in enumerate(entries):
            if entry.what == "file":
                file = number
            else:
                totals[file][2] += 1
            for at in (file, number) if entry.what == "hunk" else ():
                totals[at][0] += self._counts[number][0]
                totals[at][1] += self._counts[number][1]
        return [
            replace(entry, detail=_detail(total, hunks=entry.what == "file"))
            for entry, total in zip(entries, totals, strict=True)
        ]

    def _count(self, data: bytes, start: int, end: int) -> None:
        """Count the lines of a hunk up to the next mark; its own first line is none of them."""
        if self._starts and self._starts[-1].what == "hunk" and end > start:
            low = max(start - 1, 0)
            first = start == 0
            self._counts[-1][0] += data.count(b"\n+", low, end) + (first and data.startswith(b"+"))
            self._counts[-1][1] += data.count(b"\n-", low, end) + (first and data.startswith(b"-"))

    def _mark(self, line: bytes, here: Place) -> None:
        hunk = _HUNK.match(line)
        if hunk is not None:
            self._hunk_ends = here.newlines + 1 + max(int(hunk[1] or 1), int(hunk[2] or 1))
            self._begin("hunk", titled(line), here)
            self._named = False
        elif line.startswith((b"--- ", b"+++ ")):
            self._path(line, here)
        elif (named := _GIT.match(line)) is not None or line.startswith((b"diff ", b"Index: ")):
            self._begin("file", titled(named[1] if named else line), here)
            self._named = True

    def _path(self, line: bytes, here: Place) -> None:
        """A `---` begins a file where no `diff` line did; a `+++` gives it the name that it has now."""
        if here.newlines < self._hunk_ends:
            return
        path = _PATH.match(line)
        name = None if path is None or path[1].strip() == b"/dev/null" else titled(path[1])
        if line.startswith(b"--- ") and not self._named:
            self._begin("file", name or "", here)
            self._named = True
        elif name and self._starts and self._starts[-1].what == "file" and line.startswith(b"+++ "):
            self._starts[-1] = replace(self._starts[-1], title=name)

    def _begin(self, what: str, title: str, here: Place) -> None:
        if what == "hunk":
            self._starts.append(Start("hunk", title, 2, here))
        else:
            self._hunk_ends = 0
            self._starts.append(Start("file", title, 1, here))
        self._counts.append([0, 0])


def _detail(total: list[int], *, hunks: bool) -> str:
    counts = f"+{total[0]} -{total[1]}"
    return f"{plural(total[2], 'hunk')}, {counts}" if hunks else counts
