"""The files of a diff and their hunks, with the lines that each adds and removes, and their commits.

The log of Git is a diff with commits and, perhaps, no files.
"""

import re
from binascii import a2b_base64, a2b_qp
from typing import Final, final

from msgspec.structs import replace

from coatcheck.core.outline.line_scanner import StartScanner
from coatcheck.core.outline.model import EntryStart, OutlineEntry, What, make_title
from coatcheck.core.text.count import plural
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_DIFF_LINES: Final = BlockPattern(
    r"^(?:diff --git |diff --cc |diff --combined |diff -r |Index: |--- |\+\+\+ |@@ |-- $|rename to |copy to "
    r"|[*|/\\ ]{0,40}commit [0-9a-f]{7,64}\b|From [0-9a-f]{40} )"
)
_COMBINED: Final = re.compile(rb"diff --(?:cc|combined) (.+)")
_GIT: Final = re.compile(rb"diff --git (.+)")
_PATH: Final = re.compile(rb"(?:---|\+\+\+) ([^\t\r\n]{1,500})")
_RENAMED: Final = re.compile(rb"(?:rename|copy) to (.{1,500})")
_HUNK: Final = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_COMMIT: Final = re.compile(rb"(?:([*|/\\_. -]{0,40}\* +)?commit|From) ([0-9a-f]{7,64})(?:[ ].*)?")
_NAMED: Final = re.compile(rb"[*|/\\ ]{0,40}commit |From ")
_HERE: Final = re.compile(rb"(?: [<>-]?[0-9a-f]{7,64})*(?: \(.*\))?")
"""What may follow the hash on a commit's line: its parents, and the names that point at it."""
_SUBJECT: Final = re.compile(
    rb"^(?:[*|/\\ ]{0,40}    (?P<line>\S[^\n]*)"
    rb"|Subject: ?(?:\[[^\]\n]*PATCH[^\]\n]*\] ?)?(?P<mail>[^\n]*(?:\n[ \t]+[^\n]*)*))",
    re.MULTILINE,
)
_FOLDED: Final = re.compile(rb"(?:[ \t]+[^\n]*\n)*")
_ENCODED: Final = re.compile(rb"=\?([\w-]{1,40})\?([bBqQ])\?([^?\s]*)\?=(?:\s+(?==\?))?")
_HEADER: Final = 4_000
"""Bytes after a commit's line in which its subject is searched for."""
_HASH: Final = 12
"""Digits of a commit's hash in its title."""
_ESCAPE: Final = re.compile(rb'\\([0-7]{3}|["\\abfnrtv])')
_ESCAPED: Final = dict(zip(b'"\\abfnrtv', b'"\\\a\b\f\n\r\t\v', strict=True))


_SIGNS: Final = (b"+", b"-", b"\\")
_BODY: Final = {b" ", *_SIGNS}
"""First byte of each line in a hunk. An empty line, which has lost its blank, is an exception."""


@final
class Diff(StartScanner):
    """Finds files, hunks and commits. A line that is inside a hunk, by the hunk's own counts, names no file."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: list[list[int] | None] = []
        self._wanted = (0, 0)
        """Number of lines that the open hunk announces for the old file, and for the new file."""
        self._open = False
        """Whether the last entry is an incomplete hunk."""
        self._named = False
        self._untitled = False
        """Whether the last entry is a commit without its subject."""
        self._folded: bytes | None = None
        """The subject of the last entry, which the next line may continue."""
        self._drawn: bool | None = None
        """Whether a drawn graph precedes the first commit, and so all commits; None: no commit was found yet."""
        self._old = b""
        """What the last `---` line named, as written."""
        self._sides = True
        """Whether the names of the open file have the prefixes `a/` and `b/`, as far as known."""

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        offset, here = 0, place
        if self._folded is not None:
            self._unfold(data)
        if self._untitled:
            self._title(data, 0)
        for start, end, *_ in _DIFF_LINES.lines(data):
            self._count(data, offset, start)
            here, offset = here.after(data[offset:start]), start
            if self.full:
                return
            self._mark(data[start:end].rstrip(b"\r\n"), here)
            if self._untitled:
                self._title(data, end)
        self._count(data, offset, len(data))

    def finish(self, end: Position, *, ends_line: bool) -> list[OutlineEntry]:
        """Returns the entries; `detail` counts a file's hunks and the lines that it adds and removes."""
        entries = super().finish(end, ends_line=ends_line)
        hunks = [0] * len(entries)
        file = 0
        for number, entry in enumerate(entries):
            counts, whole = self._counts[number], self._counts[file]
            if entry.what == "file":
                file = number
            elif entry.what == "hunk" and counts is not None and whole is not None and file != number:
                hunks[file] += 1
                whole[0] += counts[0]
                whole[1] += counts[1]
        rows = zip(entries, self._counts, hunks, strict=True)
        return [self._add_counts(entry, counts, number) for entry, counts, number in rows]

    def take_complete(self, *, end: bool = False) -> list[tuple[What, str, list[int] | None]]:
        """Returns the complete files, hunks and commits, and forgets them; with `end`, all of them.

        Each comes with its title and, if they can be counted, the numbers of lines that it adds and removes. The
        numbers of a file are the sums over its hunks.
        """
        last, file = len(self.starts) - 1, -1
        for number, (start, counts) in enumerate(zip(self.starts, self._counts, strict=True)):
            if start.what == "file":
                file = number
            whole = self._counts[file] if start.what == "hunk" and file >= 0 else None
            if counts is not None and whole is not None and (end or number < last):
                whole[0] += counts[0]
                whole[1] += counts[1]
        pending: set[int] = set() if end else {file, last}
        out: list[tuple[What, str, list[int] | None]] = [
            (start.what, start.title, counts)
            for number, (start, counts) in enumerate(zip(self.starts, self._counts, strict=True))
            if number not in pending
        ]
        self.starts = [start for number, start in enumerate(self.starts) if number in pending]
        self._counts = [counts for number, counts in enumerate(self._counts) if number in pending]
        return out

    @staticmethod
    def _add_counts(entry: OutlineEntry, counts: list[int] | None, hunks: int) -> OutlineEntry:
        if counts is None:
            return entry
        lines = f"+{counts[0]} -{counts[1]}"
        detail = f"{plural(hunks, 'hunk')}, {lines}" if entry.what == "file" else lines
        return replace(entry, detail=detail, added=counts[0], removed=counts[1])

    def _count(self, data: bytes, start: int, end: int) -> None:
        """Counts the lines of the open hunk between two offsets. Lines after a complete hunk do not belong to it."""
        counts = self._counts[-1] if self._counts else None
        if not self._open or end <= start or counts is None:
            return
        before = counts.copy()
        low = max(start - 1, 0)
        for kind, sign in enumerate(_SIGNS):
            counts[kind] += data.count(b"\n" + sign, low, end) + (start == 0 and data.startswith(sign))
        counts[3] += data.count(b"\n", start, end)
        if max(self._beyond()) > 0:
            counts[:] = before
            self._open = not self._count_body(data[start:end].removesuffix(b"\n").split(b"\n"), counts)

    def _count_body(self, lines: list[bytes], counts: list[int]) -> bool:
        """Counts lines up to the first that does not belong to the hunk; returns whether there is one."""
        for line in lines:
            if min(self._beyond()) >= 0 and (line[:1] not in _BODY or line.rstrip() == b"--"):
                return True
            for kind, sign in enumerate(_SIGNS):
                counts[kind] += line.startswith(sign)
            counts[3] += 1
        return False

    def _beyond(self) -> tuple[int, int]:
        """Returns how many lines more the hunk has than it announced, for the old file and for the new file.

        A negative number says how many lines are missing. The hunk's first line, which announces them, is not counted.
        """
        added, removed, odd, lines = self._counts[-1] or (0, 0, 0, 0)
        lines -= odd + 1
        return lines - added - self._wanted[0], lines - removed - self._wanted[1]

    def _mark(self, line: bytes, here: Position) -> None:
        if self._open and line.startswith((b"--", b"++")) and min(self._beyond()) < 0:
            return
        commit = self._commit(line)
        if commit is None and _NAMED.match(line):
            return  # the message of a commit mentions another commit
        self._open = False
        hunk = _HUNK.match(line)
        if hunk is not None:
            self._begin("hunk", make_title(line), here)
            self._wanted = int(hunk[1] or 1), int(hunk[2] or 1)
            self._open, self._named = True, False
        elif commit is not None:
            self._begin("commit", commit[:_HASH].decode(), here, is_counted=False)
            self._untitled, self._named = True, False
        elif line.startswith((b"--- ", b"+++ ")):
            self._path(line, here)
        elif (renamed := _RENAMED.match(line)) is not None:
            self._rename(_unquote_path(renamed[1]))
        elif (combined := _COMBINED.match(line)) is not None:
            self._begin("file", make_title(_unquote_path(combined[1])), here, is_counted=False)
            self._named = True
        elif line.startswith((b"diff ", b"Index: ")):
            match = _GIT.match(line)
            name, self._sides = _now(match[1]) if match else (line.partition(b" ")[2], True)
            self._begin("file", make_title(name), here)
            self._named = True

    def _commit(self, line: bytes) -> bytes | None:
        """Returns the hash on a line that begins a commit; None for any other line, such as a line of a message."""
        match = _COMMIT.fullmatch(line)
        if match is None:
            return None
        if not line.startswith(b"From "):
            has_graph = match[1] is not None
            if self._drawn not in {None, has_graph} or not _HERE.fullmatch(line[match.end(2) :]):
                return None
            self._drawn = has_graph
        return match[2]

    def _path(self, line: bytes, here: Position) -> None:
        """Handles paths: a `---` begins a file if no `diff` line did; a `+++` gives it its present name."""
        path = _PATH.match(line)
        raw = b"" if path is None else _unquote_path(path[1])
        none = path is None or path[1].strip() == b"/dev/null"
        if line.startswith(b"--- "):
            self._old = b"a/" if none else raw
            if not self._named:
                self._sides = True
                self._begin("file", make_title(b"" if none else _without_side(raw)), here)
                self._named = True
            return
        if not none:
            sided = self._sides and self._old.startswith(b"a/") and raw.startswith(b"b/")
            self._rename(raw[2:] if sided else raw)

    def _rename(self, name: bytes) -> None:
        if self.starts and self.starts[-1].what == "file":
            self.starts[-1] = replace(self.starts[-1], title=make_title(name))

    def _title(self, data: bytes, at: int) -> None:
        """Adds the subject to a commit's title. The title of a commit without a subject stays its hash."""
        match = _SUBJECT.search(data, at, at + _HEADER)
        if match is not None and (following := _DIFF_LINES.find(data, at)) is not None and following[0] < match.start():
            match = None
        if match is not None or at + _HEADER < len(data):
            self._untitled = False
        if match is not None:
            self._entitle(match["line"] or match["mail"])
            self._folded = match["mail"] if match["line"] is None and match.end() + 1 >= len(data) else None

    def _entitle(self, subject: bytes) -> None:
        hash_ = self.starts[-1].title.partition(" ")[0].encode()
        words = _ENCODED.sub(_decode_word, subject) if b"=?" in subject else subject
        self.starts[-1] = replace(self.starts[-1], title=make_title((hash_ + b" " + words).rstrip()))

    def _unfold(self, data: bytes) -> None:
        """Completes a mail's subject by the lines at the beginning of a block that continue it."""
        more = _FOLDED.match(data)
        if self._folded is not None and more is not None:
            self._folded = (self._folded + b"\n" + more[0])[:_HEADER]
            self._entitle(self._folded)
            self._folded = None if more.end() < len(data) else self._folded

    def _begin(self, what: What, title: str, here: Position, *, is_counted: bool = True) -> None:
        deep = any(start.what == "commit" for start in self.starts[:1])
        level = 1 if what == "commit" else 1 + (what == "hunk") + deep
        self._untitled = False
        self.starts.append(EntryStart(what, title, level, here))
        self._counts.append([0, 0, 0, 0] if is_counted else None)


def _now(names: bytes) -> tuple[bytes, bool]:
    """Returns the new name of the two names on a `diff --git` line, and whether the names have prefixes.

    If the names differ, the result is a guess, and a later line gives the new name.
    """
    if names.endswith(b'"'):
        first, last = names[: names.rfind(b' "', 0, -1)], names[names.rfind(b' "', 0, -1) + 1 :]
        old, new = _unquote_path(first), _unquote_path(last)
    else:
        half = len(names) // 2
        old, new = (names[:half], names[half + 1 :]) if names[half : half + 1] == b" " else (b"", b"")
    if new and old == new:
        return new, False
    if new and _without_side(old) == _without_side(new):
        return _without_side(new), True
    if names.endswith(b'"'):
        return _without_side(_unquote_path(names[names.rfind(b' "', 0, -1) + 1 :])), True
    return _without_side(names.rpartition(b" b/")[2] or names), True


def _decode_word(word: re.Match[bytes]) -> bytes:
    """Decodes a word of a mail's header that was encoded because it is not ASCII. A wrong encoding is left as it is."""
    try:
        raw = a2b_base64(word[3]) if word[2] in b"bB" else a2b_qp(word[3], header=True)
        return raw.decode(word[1].decode()).encode()
    except (ValueError, LookupError):
        return word[0]


def _without_side(path: bytes) -> bytes:
    return path[2:] if path[:2] in {b"a/", b"b/"} else path


def _unquote_path(path: bytes) -> bytes:
    """Returns a path without the quotes and escapes that Git writes around unusual characters."""
    path = path.rstrip()
    if not (len(path) > 1 and path[:1] == path[-1:] == b'"'):
        return path
    return _ESCAPE.sub(lambda m: bytes([_ESCAPED[m[1][0]] if len(m[1]) == 1 else int(m[1], 8) & 0xFF]), path[1:-1])
