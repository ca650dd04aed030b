"""Outlines a YAML stream: its documents, titled by kind and name."""

import re
from typing import Final, final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.outline.line_scanner import StartScanner
from coatcheck.core.outline.model import EntryStart, OutlineEntry, make_title, reaching
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_HEAD_BYTES: Final = 16 * 1024
"""Bytes at the beginning of a text that are examined to recognise a stream."""
_MIN_DOCUMENTS: Final = 2
"""Minimum number of documents in a stream."""
_SEPARATOR: Final = re.compile(rb"---(?:\s|$)")
_KEY: Final = rb"(?:\"[^\"\n]{1,80}\"|'[^'\n]{1,80}'|[\w./$~<*+{][\w./${}<>*+@=()-]{0,80}):(?:\s|$)"
_OUTER: Final = re.compile(rb"#|%YAML|(?:---|\.\.\.)(?:\s|$)|-\s|[\]}]|" + _KEY)
"""Matches a line of YAML that is not indented."""
_LINES: Final = BlockPattern(r"^(?:[^\s#%]|  (?:name|id|title):[ \t])")
"""Matches lines that are not indented, and indented lines with a name."""
_MEMBER: Final = re.compile(rb"( *)([\w.]+):[ \t]*(.*)")
_NAMES: Final = (b"name", b"id", b"title")


def is_stream(head: bytes) -> bool:
    """Returns whether a text begins as several YAML documents."""
    first = head[:_HEAD_BYTES]
    whole = first[: first.rfind(b"\n") + 1] if len(head) > _HEAD_BYTES else first
    lines = [line for line in whole.split(b"\n") if line.strip() and line[:1] not in b" \t"]
    if b"\n---" not in head or not all(map(_OUTER.match, lines)):
        return False
    separators = [bool(_SEPARATOR.match(line)) for line in lines if not line.startswith((b"#", b"...", b"%"))]
    documents = sum(before and not here for before, here in zip([True, *separators], separators, strict=False))
    return documents >= _MIN_DOCUMENTS


class _Document(Struct, eq=False):
    """A document, its title, and the position where it begins."""

    place: Position
    first: bytes = b""
    """The first line of the document: its title if it has neither a name nor a kind."""
    kind: bytes = b""
    name: bytes = b""
    rank: tuple[int, int] = (9, 0)
    """Indentation of the name, and index of its key in `_NAMES`: the lowest rank wins."""


@final
class YamlDocuments(StartScanner):
    """Finds documents; the `detail` of an entry is the document's kind. An empty document has no entry.

    The name of a document is a member of the document itself, or of its `metadata`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._documents = [_Document(Position(0, 0, 0))]
        self._key = b""
        """The last key on a line that is not indented."""

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines; the first line begins at `place`."""
        offset, here = 0, place
        for start, end, *_ in _LINES.lines(data):
            here, offset = here.after(data[offset:start]), start
            if _SEPARATOR.match(data, start):
                self._documents.append(_Document(here))
            else:
                self._take(self._documents[-1], data[start:end].rstrip())

    def _take(self, document: _Document, line: bytes) -> None:
        document.first = document.first or line.removeprefix(b"...")
        match = _MEMBER.match(line)
        if match is None:
            return
        indent, key, value = len(match[1]), match[2], match[3].partition(b" #")[0].strip().strip(b"\"'")
        self._key = self._key if indent else key
        if key == b"kind" and not indent:
            document.kind = document.kind or value
        elif key in _NAMES and (not indent or self._key == b"metadata"):
            rank = indent, _NAMES.index(key)
            if rank < document.rank:
                document.name, document.rank = value, rank

    def finish(self, end: Position, *, ends_line: bool) -> list[OutlineEntry]:
        """Returns the entries after the last line, which ended at `end`; `ends_line`: with a line feed."""
        documents = [document for document in self._documents if document.first]
        titles = [b" ".join(filter(None, (each.kind, each.name))) or each.first for each in documents]
        self.starts = [
            EntryStart("document", make_title(title), 1, each.place)
            for title, each in zip(titles, documents, strict=True)
        ]
        entries = reaching(self.starts, end, ends_line=ends_line)
        kinds = [make_title(each.kind) or None for each in documents]
        return [replace(entry, detail=kind) for entry, kind in zip(entries, kinds, strict=True)]
