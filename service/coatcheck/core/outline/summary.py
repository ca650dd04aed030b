"""Condenses outlines to facts of a card.

These are the largest parts of a text, the places of a JSON document, and the totals of a diff. All records of an array
form one place, `[*]`, whose members are those of all examined records. Paths follow RFC 9535, so that each place can be
read directly. The totals of a diff are counted while it streams in, in bounded memory, from all of its bytes.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from posixpath import commonprefix
from typing import Final, cast, final

from msgspec.structs import replace

from coatcheck.core.jsonpath.query import step
from coatcheck.core.outline.diff import Diff
from coatcheck.core.outline.json_shape import Node, Open, merge
from coatcheck.core.outline.model import MAX_ENTRIES, OutlineEntries, OutlineEntry, What, make_title
from coatcheck.core.outline.section_names import without_arguments
from coatcheck.core.structure import JsonReading, read_json
from coatcheck.core.text.count import first_of, format_count, plural
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_MAX_OUTER: Final = 30
"""Maximum entries of the outer levels that a card can name; if there are more, only the outermost level is named."""
_OUTER_LEVEL: Final = 2
"""Deepest level that is named if there are few entries: the chapters of a document, below its title."""
_MIN_ENTRIES: Final = 3
"""Number of entries on the outer levels that would be no outline by themselves: a title and a version or two."""
_CHARS: Final = 800
"""Maximum characters of the entries that a fact names: about as many as a card of 600 tokens has room for."""
_PLACE: Final = 6
"""Characters that a line number and a separator add to each entry."""


def size_of(entry: OutlineEntry) -> int:
    """Returns the number of lines of an entry; 0 if it has none."""
    return 0 if entry.lines is None else entry.lines.last - entry.lines.first + 1


def summary(entries: list[OutlineEntry], where: str) -> tuple[list[OutlineEntry], str]:
    """Returns the entries of the outer levels, and a fact that names these entries or the largest of them.

    Args:
        entries: all entries, in order; at least one.
        where: words for the lines that were examined, if not all were.
    """
    min_entries = 2 if entries[0].what == "part" else _MIN_ENTRIES
    deepest = sorted([entry.level for entry in entries])[: min_entries + 1][-1]
    if sum(entry.level <= _OUTER_LEVEL for entry in entries) <= _MAX_OUTER:
        deepest = max(deepest, _OUTER_LEVEL)
    outer = [entry for entry in entries if entry.level <= deepest]
    label, part = ("Sections", "sections") if outer[0].what == "heading" else ("Outline", "parts")
    outer = _shorten_titles(outer, entries, _CHARS)
    largest = _largest(outer, _CHARS)
    if len(largest) < len(outer):  # a card may have room for a few only
        label = f"Largest {part}"
        largest.sort(key=lambda each: (each.level, -size_of(each)))
    names = [f"{each.title} {each.lines.first if each.lines else ''}" for each in largest]
    return outer, f"{label}{where} (with lines): {'; '.join(names)}"


def contents(entries: list[OutlineEntry], where: str, room: int) -> Iterator[str]:
    """Yields facts that name headings, each shorter than the one before: all of the outermost, then the largest.

    Nothing if no level of the outermost ones has several.

    Args:
        entries: all headings, in order.
        where: words for the part of the text that they are of.
        room: about how many tokens a fact may have.
    """
    deepest = sorted([entry.level for entry in entries])[: _MIN_ENTRIES + 1][-1] if entries else 0
    outer = [entry for entry in entries if entry.level <= deepest]
    if max(Counter([entry.level for entry in outer]).values(), default=0) <= _MIN_ENTRIES:
        return
    yield f"Sections{where}: {'; '.join([entry.title for entry in outer])}"
    for chars in range(room * 5, 0, -max(1, room // 2)):
        yield f"Largest sections{where}: {'; '.join([entry.title for entry in _largest(outer, chars)])}"


def _shorten_titles(selection: list[OutlineEntry], entries: list[OutlineEntry], most: int) -> list[OutlineEntry]:
    """Returns symbols without their arguments if the titles exceed `most` characters, unless titles become equal."""
    if sum(len(entry.title) + _PLACE for entry in selection) <= most or selection[0].what != "symbol":
        return selection
    forms = Counter([without_arguments(title) for title in {entry.title for entry in entries}])
    short = [(entry, without_arguments(entry.title)) for entry in selection]
    return [replace(entry, title=title) if forms[title] == 1 else entry for entry, title in short]


def _largest(entries: list[OutlineEntry], most: int) -> list[OutlineEntry]:
    """Returns entries up to `most` characters, in order: outer levels first, and within a level the largest first."""
    chars, indices = 0, set[int]()
    for number in sorted(range(len(entries)), key=lambda each: (entries[each].level, -size_of(entries[each]), each)):
        chars += len(entries[number].title) + _PLACE
        if chars > most and indices:
            break
        indices.add(number)
    return [entry for number, entry in enumerate(entries) if number in indices]


_MEMBERS: Final = 40
"""Maximum members of one object that are named. With more, if these are similar, it is a map: its values form one
place."""
_MAX_MEMBERS: Final = 60
"""Maximum members of an object whose places are listed, if the members differ; with more, the outline is incomplete."""


def of_json(head: bytes, *, whole: bool) -> OutlineEntries:
    """Returns the places of a JSON document that begins with `head`; no entries if `head` does not begin like JSON."""
    reading = read_json(head, whole=whole)
    if reading is None:
        return OutlineEntries([])
    complete = reading.complete
    if whole and reading.lines and not complete:
        complete = reading.lines == sum(map(bool, map(bytes.strip, head.split(b"\n"))))
    # All elements of an array are merged into one node first, so that the outline grows with the places of a document,
    # not with the number of its records.
    root = Node()
    merge(root, reading.value if complete else _mark_continuation(reading))
    entries: list[OutlineEntry] = []
    queue: deque[tuple[str, int, Node]] = deque([("$", 1, root)])
    all_named = True
    while queue and len(entries) < MAX_ENTRIES:
        path, level, node = queue.popleft()
        if "object" not in node.types and "array" not in node.types:
            continue
        detail = make_title(_describe_node(node))
        entries.append(OutlineEntry(what="value", title=make_title(path), level=level, path=path, detail=detail))
        if node.item is not None:
            queue.append((f"{path}[*]", level + 1, node.item))
        children = [(f"{path}{step(key)}", level + 1, child) for key, child in node.keys.items()]
        queue.extend(children[:_MAX_MEMBERS])
        all_named = all_named and len(children) <= _MAX_MEMBERS
    notices: list[str] = []
    if reading.lines:
        amount = "all" if complete else "the first"
        notices.append(f"JSON lines: an array of its lines; {amount} {reading.lines:,} were looked at.")
    elif not complete:
        notices.append("Only its beginning was looked at.")
    return OutlineEntries(entries, complete and all_named and not queue, tuple(notices))


def _mark_continuation(reading: JsonReading) -> object:
    """Returns the value that was read, with open lists wherever the document may continue.

    With JSON lines, each line was read as a whole, but more lines may follow.
    """
    if reading.lines and isinstance(reading.value, list):
        return Open(cast("list[object]", reading.value))
    return _mark_open(reading.value)


def _mark_open(value: object) -> object:
    """Returns the value of a document that is cut off: the lists that the cut is in are marked as open."""
    if isinstance(value, list):
        elements = Open(cast("list[object]", value))
        if elements:
            elements[-1] = _mark_open(elements[-1])
        return elements
    if isinstance(value, dict) and value:
        members = cast("dict[str, object]", value)
        last = next(reversed(members))
        return {**members, last: _mark_open(members[last])}
    return cast("object", value)


def _describe_node(node: Node) -> str:
    parts: list[str] = []
    if node.item is not None:
        parts.append(_array(node, node.item))
    if node.keys:
        members = [f"{key} {'|'.join(child.types)}" for key, child in list(node.keys.items())[:_MEMBERS]]
        more = f", … {len(node.keys) - _MEMBERS} more" if len(node.keys) > _MEMBERS else ""
        parts.append(f"object: {', '.join(members)}{more}")
    elif "object" in node.types:
        parts.append("object")
    return " or ".join(parts)


def _array(node: Node, item: Node) -> str:
    """Returns `array of 2,000 objects`, `array of 0-3 ints or nulls`, `array of at least 887 objects`."""
    low, high = node.lengths
    if not high:
        return "array" if node.more else "empty array"
    types = list(item.types) or ["value"]
    several = _either([f"{name}s" for name in types])
    if low != high:
        return f"array of {low:,}-{high:,}{' or more' if node.more else ''} {several}"
    count = plural(high, _either(types), several)
    return f"array of {'at least ' if node.more else ''}{count}"


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


_HEAD_BYTES: Final = 16 * 1024
"""Bytes at the beginning of a text that must have a diff's header and a hunk."""
_PREFACE_BYTES: Final = 2 * 1024
"""Maximum bytes of text before a diff."""
_PIECE: Final = 64 * 1024
"""Bytes of a diff that are examined at a time: they have fewer hunks than an outline may have entries."""
_LINE: Final = 4 * 1024
"""Maximum bytes of an incomplete line that are kept."""
_MAX_FILES: Final = 20_000
"""Maximum files of a diff for which totals are counted; with more files, there are no totals."""
_LISTED_FILES: Final = 40
"""Maximum files that are named, those with most changes first: about as many as a card of 600 tokens has room for."""
_COMMON: Final = 24
"""Minimum characters of a directory that all files have in common, for it to be named once instead of in each name."""
_LISTED_COMMITS: Final = 8
"""Maximum commits that are named in addition to the files."""
_BEGINNING: Final = Position(0, 0, 0)
_HEADER: Final = re.compile(rb"^(?:diff -\S|Index: |--- \S[^\n]*\n\+\+\+ \S)", re.MULTILINE)
_HUNK: Final = BlockPattern(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")


def totals_of(head: bytes) -> "DiffTotals | None":
    """Returns a counter for the changes of a text that begins with `head`; None if no diff begins there."""
    first = head[:_HEAD_BYTES]
    diff = b"\n@@ -" in first and _HUNK.find(first) and _HEADER.search(head, 0, _PREFACE_BYTES)
    return DiffTotals() if diff else None


@final
class DiffTotals:
    """Counts the files of a diff, and the lines that each file adds and removes; lists its commits."""

    def __init__(self) -> None:
        self._carry = b""
        self._diff = Diff()
        self._added = Counter[str]()
        self._removed = Counter[str]()
        self._titles = Counter[str]()
        """How often each file's title occurs."""
        self._commits: list[str] = []
        self._numbers = Counter[What]()
        """Number of files, of hunks and of commits."""
        self._known = True
        """Whether every file so far could be counted, and be told apart from the others."""

    def feed(self, data: bytes) -> None:
        """Counts the lines in the next bytes. Of a line that spans several calls, the middle is ignored."""
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
            if what == "commit" and len(self._commits) < _LISTED_COMMITS:
                self._commits.append(title)
            if what == "file":
                several = title in self._titles and title.endswith("…")
                if counts is None or several or len(self._titles) >= _MAX_FILES:
                    self._known = False
                    return
                self._titles[title] += 1
                self._added[title] += counts[0]
                self._removed[title] += counts[1]

    def facts(self) -> tuple[str, ...]:
        """Returns facts about the first commits and about the files with most changes; empty if there are no totals."""
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
        facts = f"{files}: {first_of(largest, _LISTED_FILES, 'more files')}"
        return (f"{format_count(self._numbers['commit'], 'commit')}: {commit_list}", facts) if commits else (facts,)

    def sections(self) -> list[str]:
        """Returns the names of files that can be read as sections, most changes first. Call it after `facts`."""
        if not self._known or self._numbers.total() >= MAX_ENTRIES:
            return []
        return [name for name in self._largest() if self._titles[name] == 1]

    def _largest(self) -> list[str]:
        return sorted(self._titles, key=lambda name: -self._added[name] - self._removed[name])
