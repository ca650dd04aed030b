"""Outlines as facts of a card: the largest parts of a text, the places in a JSON document, the totals of a diff.

Records of an array form one place, `[*]`, with the members of all that were examined. Paths are RFC 9535, so that each
can be read directly. Totals of a diff are counted as it streams in, in bounded memory, from all of its bytes.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from posixpath import commonprefix
from typing import Final, cast, final

from msgspec.structs import replace

from coatcheck.core.jsonpath.query import step
from coatcheck.core.outline.diff import Diff
from coatcheck.core.outline.json_shape import MAX_DEPTH, MAX_ELEMENTS, Node, Open, merge
from coatcheck.core.outline.model import MAX_ENTRIES, OutlineEntries, OutlineEntry, What, make_title
from coatcheck.core.outline.section_names import without_arguments
from coatcheck.core.structure import JsonReading, read_json
from coatcheck.core.text.count import first_of, format_count, plural
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_MAX_OUTER: Final = 30
"""Maximum entries of the outer levels, about as many as a card can name; if there are more, only the outermost are
named."""
_OUTER_LEVEL: Final = 2
"""Level down to which entries are named if they are few: a document's chapters below its title."""
_MIN_ENTRIES: Final = 3
"""Maximum entries of the outer levels that by themselves would be no outline, such as a title and a version or two."""
_FEW_OUTER: Final = 8
"""Maximum entries of the outer levels beside which those of the next level are named."""
_MIN_RATIO: Final = 2
"""Minimum ratio of the entries of the next level to those of the outer levels. With fewer, the outer entries alone say
more."""
_CHARS: Final = 800
"""Maximum characters of the entries that a fact names: about what a card of 600 tokens has room for."""
_PLACE: Final = 6
"""Approximate characters of a line's number and of the separator between two entries."""


def size_of(entry: OutlineEntry) -> int:
    """Returns the number of lines of an entry; 0 if it has none."""
    return 0 if entry.lines is None else entry.lines.last - entry.lines.first + 1


def summary(entries: list[OutlineEntry], where: str) -> tuple[list[OutlineEntry], tuple[str, ...]]:
    """Returns the entries of the outer levels, and the facts that name them: the largest, then others or inner ones.

    Args:
        entries: all entries, in order.
        where: words for the lines that were examined, if these are not all lines.
    """
    deepest = _deepest(entries, 2 if entries[0].what == "part" else _MIN_ENTRIES)
    if sum(entry.level <= _OUTER_LEVEL for entry in entries) <= _MAX_OUTER:
        deepest = max(deepest, _OUTER_LEVEL)
    outer = [entry for entry in entries if entry.level <= deepest]
    label, part = ("Sections", "sections") if outer[0].what == "heading" else ("Outline", "parts")
    inner = min((entry.level for entry in entries if entry.level > deepest), default=0)
    outer = _shorten_titles(outer, entries, _CHARS)
    first = _largest(outer, _CHARS)
    if len(first) < len(outer):  # a card may have room for a few only
        label, first = f"Largest {part}", sorted(first, key=lambda each: (each.level, -size_of(each)))
    facts = [_fact(f"{label}{where}", first, 0)]
    within = [entry for entry in entries if entry.level == inner and entry.what != "part"]
    within = within if len(outer) <= _FEW_OUTER and len(within) >= _MIN_RATIO * len(outer) else []
    if within:
        within = _shorten_titles(within, entries, _CHARS)
        largest = _largest(within, _CHARS)
        facts.append(_fact(f"Inner {part}{where}", largest, len(within) - len(largest)))
    if len(first) < len(outer):
        first_ids = set(map(id, first))
        others = [entry for entry in outer if id(entry) not in first_ids]
        largest = _largest(others, _CHARS)
        facts.append(_fact(f"Smaller {part}{where}", largest, len(others) - len(largest)))
    return outer, tuple(facts)


def contents(entries: list[OutlineEntry], where: str, room: int) -> Iterator[str]:
    """Yields facts that name headings, each fact shorter than the one before.

    The first fact names the outermost headings with their lines, the second without lines, and the others only the
    largest. Yields nothing if no level has more than _MIN_ENTRIES of the outermost headings. The largest headings are
    those with most bytes, because in a text that is made from a page, a paragraph of any length is one line.

    Args:
        entries: all headings, in order.
        where: words for the part of the text that the headings are in.
        room: approximate maximum tokens of a fact about the largest headings.
    """
    deepest = _deepest(entries, _MIN_ENTRIES) if entries else 0
    outer = [entry for entry in entries if entry.level <= deepest]
    if max(Counter([entry.level for entry in outer]).values(), default=0) <= _MIN_ENTRIES:
        return
    yield _fact(f"Sections{where}", outer, 0)
    yield f"Sections{where}: {'; '.join([entry.title for entry in outer])}"
    for chars in range(room * 5, 0, -max(1, room // 2)):
        yield f"Largest sections{where}: {'; '.join([entry.title for entry in _largest(outer, chars, _bytes_of)])}"


def _deepest(entries: list[OutlineEntry], few: int) -> int:
    """Returns the level down to which there are more than `few` entries, or all."""
    return sorted([entry.level for entry in entries])[: few + 1][-1]


def _fact(label: str, entries: list[OutlineEntry], more: int) -> str:
    """Returns a fact that names entries with their lines, and how many are left out."""
    labels = [f"{entry.title} {entry.lines.first if entry.lines else ''}" for entry in entries]
    return f"{label} (with lines): {'; '.join([*labels, *([f'… {more} more'] if more else [])])}"


def _bytes_of(entry: OutlineEntry) -> int:
    return 0 if entry.bytes is None else entry.bytes.end - entry.bytes.start


def _shorten_titles(selection: list[OutlineEntry], entries: list[OutlineEntry], most: int) -> list[OutlineEntry]:
    """Returns symbols without their arguments if the titles take more than `most` characters.

    A symbol keeps its arguments if several would have the same title without them.
    """
    if sum(len(entry.title) + _PLACE for entry in selection) <= most or selection[0].what != "symbol":
        return selection
    forms = Counter([without_arguments(title) for title in {entry.title for entry in entries}])
    short = [(entry, without_arguments(entry.title)) for entry in selection]
    return [replace(entry, title=title) if forms[title] == 1 else entry for entry, title in short]


def _largest(
    entries: list[OutlineEntry], most: int, size: Callable[[OutlineEntry], int] = size_of
) -> list[OutlineEntry]:
    """Returns, in order, entries that have up to `most` characters: the outermost and, within a level, the largest."""
    chars, indices = 0, set[int]()
    for number in sorted(range(len(entries)), key=lambda each: (entries[each].level, -size(entries[each]), each)):
        chars += len(entries[number].title) + _PLACE
        if chars > most and indices:
            break
        indices.add(number)
    return [entry for number, entry in enumerate(entries) if number in indices]


_MEMBERS: Final = 40
"""Maximum members of an object that its line names; further members are counted."""
_MAX_MEMBERS: Final = 60
"""Maximum members of an object whose places are listed; if an object has more, the outline is incomplete."""


def of_json(head: bytes, *, whole: bool) -> OutlineEntries:
    """Returns the places in a document that begins with `head`; none if it does not begin like JSON."""
    reading = read_json(head, whole=whole)
    if reading is None:
        return OutlineEntries([])
    complete = reading.complete
    if whole and reading.lines and not complete:
        complete = reading.lines == sum(map(bool, map(bytes.strip, head.split(b"\n"))))
    # All elements of an array are merged into one node first, so that the outline grows with the places of a document,
    # not with its records.
    root = Node()
    merge(root, reading.value if complete else _cut_short(reading))
    entries: list[OutlineEntry] = []
    queue: deque[tuple[str, int, Node]] = deque([("$", 1, root)])
    all_named, is_deeper, is_sampled = True, False, False
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
        is_deeper, is_sampled = is_deeper or node.is_deeper, is_sampled or node.is_sampled
    notices: list[str] = []
    if reading.lines:
        amount, were = "all" if complete else "the first", "was" if reading.lines == 1 else "were"
        notices.append(f"JSON lines: an array of its lines; {amount} {reading.lines:,} {were} read.")
    elif not complete:
        notices.append("Only its beginning was looked at.")
    if is_deeper:
        notices.append(f"Nothing below level {MAX_DEPTH + 1} is listed.")
    if is_sampled and complete:
        notices.append(f"Of arrays with over {MAX_ELEMENTS} elements, about {MAX_ELEMENTS} were looked at.")
    is_exact = complete and all_named and not (queue or is_deeper or is_sampled)
    return OutlineEntries(entries, is_exact, tuple(notices))


def _cut_short(reading: JsonReading) -> object:
    """Returns the value that was read, with `Open` lists where lists may continue.

    JSON lines form one open list: each line was read whole, but there are more lines.
    """
    if reading.lines and isinstance(reading.value, list):
        return Open(cast("list[object]", reading.value))
    return _mark_open(reading.value)


def _mark_open(value: object) -> object:
    """Returns the value of a document that was cut off. Its last lists are `Open` lists, because they may continue."""
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
"""Bytes at the beginning in which a hunk must follow the header of a diff."""
_PREFACE_BYTES: Final = 2 * 1024
"""Maximum bytes before a diff."""
_PIECE: Final = 64 * 1024
"""Bytes of a diff that are examined together: they cannot have more hunks than an outline may have."""
_LINE: Final = 4 * 1024
"""Maximum bytes of a line that are kept until its end arrives."""
_MAX_FILES: Final = 20_000
"""Maximum files of a diff; a diff with more files gets no totals."""
_LISTED_FILES: Final = 40
"""Maximum files that are named, those with most changes: a card of 600 tokens has room for about as many."""
_COMMON: Final = 24
"""Minimum characters of a beginning that all names share. Their common directory is then stated once."""
_LISTED_COMMITS: Final = 8
"""Maximum commits that are named beside the files."""
_BEGINNING: Final = Position(0, 0, 0)
_HEADER: Final = re.compile(rb"^(?:diff -\S|Index: |--- \S[^\n]*\n\+\+\+ \S)", re.MULTILINE)
_HUNK: Final = BlockPattern(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")


def totals_of(head: bytes) -> "DiffTotals | None":
    """Returns a counter for the changes in a text that begins with `head`; None if it does not begin with a diff."""
    first = head[:_HEAD_BYTES]
    diff = b"\n@@ -" in first and _HUNK.find(first) and _HEADER.search(head, 0, _PREFACE_BYTES)
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
        """Whether every file so far could be counted, and distinguished from the others."""

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
        """Returns the first commits, and the files with the largest changes; nothing if a file could not be counted."""
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
        """Returns the files that can be read as parts of an outline, largest changes first. Call it after `facts`."""
        if not self._known or self._numbers.total() >= MAX_ENTRIES:
            return []
        return [name for name in self._largest() if self._titles[name] == 1]

    def _largest(self) -> list[str]:
        return sorted(self._titles, key=lambda name: -self._added[name] - self._removed[name])
