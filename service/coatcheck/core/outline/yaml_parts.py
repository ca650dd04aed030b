"""The parts of block YAML: the documents of a stream, or the keys of a mapping, and list items that have a name."""

import re
from collections import Counter
from typing import Final, Literal, final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.outline.model import MAX_ENTRIES, EntryStart, OutlineEntry, What, make_title, reaching
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_HEAD_BYTES: Final = 16 * 1024
"""Bytes at the beginning that tell whether a text is YAML."""
_MIN_PARTS: Final = 2
"""Minimum documents of a stream, keys of a mapping, items of a list."""
_MAX_LEVEL: Final = 2
"""Maximum level of a key that is a part."""
_NAMES: Final = (b"name", b"id", b"title")
_KEY: Final = r"(?:\"[^\"\n]{1,80}\"|'[^'\n]{1,80}'|\{[^{}\n]{1,80}\}|[\w./$~<*+][\w./${}<>*+@=()-]{0,80})"
_KEY_LINES: Final = BlockPattern(rf"^(?:---(?:\s|$)| {{0,40}}(?:- +)*{_KEY}:(?:[ \t\r]|$))")
_LINE: Final = re.compile(rb"( *)((?:- +)*)(" + _KEY.encode() + rb"):[ \t\r]*(.*)")
_SEPARATOR: Final = re.compile(rb"---(?:\s|$)")
_OUTER: Final = re.compile(rb"#|%YAML|(?:---|\.\.\.)(?:\s|$)|-\s|[\]}]|" + _KEY.encode() + rb":(?:\s|$)")
"""Matches a line of YAML that is not indented."""
_BLOCK: Final = re.compile(rb"^[^\s#-][^\n]*:[ \t]*\r?\n(?:[ \t]*(?:#[^\n]*)?\n)*(?: +|- )\S", re.MULTILINE)
"""Matches a key that is not indented, and whose value begins on a line below it."""
_EMPTY: Final = re.compile(rb"(?:[&!]\S+[ \t\r]*)*(?:#.*)?$")
"""Matches what may follow the colon of a key whose value is on the lines below."""
_FIRST_LINE: Final = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?\n)*([ \t]*[^\s#.][^\n]*)")
"""Matches up to the end of the first line that is neither empty nor a comment."""


def yaml_form(head: bytes) -> Literal["documents", "keys"] | None:
    """Returns whether a text begins as several YAML documents, or as one mapping or list of mappings; None: neither."""
    first = head[:_HEAD_BYTES]
    whole = first[: first.rfind(b"\n") + 1] if len(head) > _HEAD_BYTES else first
    lines = [line for line in whole.split(b"\n") if line and not line.isspace() and line[:1] not in b" \t"]
    if not lines or not all(map(_OUTER.match, lines)):
        return None
    texts = [line for line in lines if not line.startswith((b"#", b"...", b"%"))]
    separators = [bool(_SEPARATOR.match(line)) for line in texts]
    documents = sum(before and not here for before, here in zip([True, *separators], separators, strict=False))
    if documents >= _MIN_PARTS and b"\n---" in head:
        return "documents"
    texts = [line for line, separator in zip(texts, separators, strict=True) if not separator]
    if b"\n " not in first or b"\n\t" in first or documents != 1:
        return None
    matches = [match for line in texts if (match := _LINE.match(line)) is not None]
    if texts[0][:2] == b"- ":
        return "keys" if len(texts) == len(matches) >= _MIN_PARTS and all(match[2] for match in matches) else None
    keys = Counter(match[3] for match in matches if not match[2])
    blocks = len(_BLOCK.findall(first))
    distinct = len(keys) == keys.total() and (len(keys) > _MIN_PARTS or len(keys) == blocks)
    return "keys" if blocks and distinct else None


class _Part(Struct, eq=False):
    """A document, a key or an item, and where it begins."""

    what: What
    title: bytes
    level: int
    column: int
    """Column of the part's own key; for a document or an item, column of the keys in it."""
    place: Position
    leaf: bool = False
    """Whether the part's value is on the same line as its key."""
    name: bytes = b""
    kind: bytes = b""
    rank: tuple[int, int] = (_MAX_LEVEL, 0)
    """Where the name was found: the depth, and the index of its key in _NAMES. The smallest rank wins."""


@final
class YamlParts:
    """Finds documents, or else keys at two levels, and named items of lists that are not inside another item.

    The title of a document is its kind and its name, or else its first line, and the `detail` of its entry is its kind.
    A name is a member of the document or the item, or of its `metadata`. A document that holds nothing has no entry.
    """

    def __init__(self, form: Literal["documents", "keys"]) -> None:
        self._parts: list[_Part] = []
        self._whole = form == "documents"
        self._open: list[_Part] = []
        """Parts and other blocks around the present line, outermost first."""
        self._value = -1
        """Column of the last key, if its value is on the same line: lines that are indented further belong to this
        value. -1: there is no such key."""
        self._record: _Part | None = None
        """The present document or item; None: there is none."""
        self._first = True
        """Whether the line that is the title of the present document was not found yet."""
        if self._whole:
            self._begin(Position(0, 0, 0))

    @property
    def full(self) -> bool:
        """Whether the maximum number of entries was found."""
        return len(self._parts) >= MAX_ENTRIES

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        offset, here = 0, place
        self._see_first(data, 0)
        for start, end, *_ in _KEY_LINES.lines(data):
            if self.full:
                return
            here, offset = here.after(data[offset:start]), start
            if _SEPARATOR.match(data, start):
                if self._whole:
                    self._begin(here)
                    self._see_first(data, end)
            elif (match := _LINE.match(data, start, end)) is not None:
                self._take(len(match[1]), len(match[2]), match[3].strip(b"\"'"), match[4], here)

    def _begin(self, place: Position) -> None:
        self._record = _Part("document", b"", 1, 0, place)
        self._parts.append(self._record)
        self._open, self._value, self._first = [self._record], -1, True

    def _see_first(self, data: bytes, at: int) -> None:
        if not (self._whole and self._first and self._record):
            return
        first = _FIRST_LINE.match(data, at)
        if first is not None and not _SEPARATOR.match(first[1]):
            self._record.title, self._first = first[1], False

    def _take(self, indent: int, dashes: int, key: bytes, value: bytes, place: Position) -> None:
        """Processes a line with a key, which `indent` bytes of indentation and `dashes` bytes of dashes precede."""
        column = indent + dashes
        if 0 <= self._value < indent:  # a line of a text that a key on an earlier line begins
            return
        # Parts that do not contain this line have ended.
        outermost = indent if dashes else column
        while self._open and self._open[-1].what != "document" and self._closes(self._open[-1], outermost, dashes):
            self._open.pop()
        if self._record is not None and self._record not in self._open:
            self._record = None
        level = len(self._open) + 1
        # An item inside another item is data of the outer item: only outermost items have names and entries.
        if dashes:
            item = _Part("item", b"", level, column, place)
            if self._record is None and not self._whole:
                self._record = item
                self._parts.append(item)
            self._open.append(item)
        empty = _EMPTY.match(value) is not None
        if self._record is not None:
            self._name(self._record, key, value)
        elif level <= _MAX_LEVEL:
            self._parts.append(_Part("block", key, level, column, place))
            self._parts[-1].leaf = not empty
        self._value = -1 if empty else column
        if empty:
            is_part = self._record is None and level <= _MAX_LEVEL
            self._open.append(self._parts[-1] if is_part else _Part("block", key, 0, column, place))

    @staticmethod
    def _closes(part: _Part, column: int, dashes: int) -> bool:
        """Returns whether a line that begins in this column ends a part; items may stand below their key."""
        return part.column > column or (part.column == column and not dashes and part.what != "item")

    def _name(self, record: _Part, key: bytes, value: bytes) -> None:
        """Considers a member of a document or an item, or of its metadata, as its name or its kind."""
        depth = len(self._open) - self._open.index(record) - 1
        if depth and self._open[-1].title != b"metadata":
            return
        if key == b"kind" and not depth:
            record.kind = record.kind or _plain(value)
        elif key in _NAMES and (rank := (depth, _NAMES.index(key))) < record.rank:
            record.name, record.rank = _plain(value), rank

    def finish(self, end: Position, *, ends_line: bool) -> list[OutlineEntry]:
        """Returns the entries, once the lines have ended at this place; `ends_line`: with a line feed."""
        single = sum(part.what == "block" and part.level == 1 for part in self._parts) == 1
        parts = [part for part in self._parts if part.what != "document" or part.title]
        starts: list[EntryStart] = []
        for part in parts:
            kind = part.kind if part.what == "document" else b""
            title = b" ".join(filter(None, (kind, part.name))) or part.title
            starts.append(EntryStart(part.what, make_title(title), part.level, part.place))
        pairs = zip(parts, reaching(starts, end, ends_line=ends_line), strict=True)
        return [
            replace(entry, detail=make_title(part.kind) or None) if part.what == "document" else entry
            for part, entry in pairs
            if entry.title and not (part.leaf and part.level > 1 and not single)
        ]


def _plain(value: bytes) -> bytes:
    """Returns a scalar on one line, without its quotes and the comment after it."""
    return value.partition(b" #")[0].strip().strip(b"\"'")
