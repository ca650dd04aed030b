"""The documents of a YAML stream, such as the manifests of a cluster: what stands between lines of `---`."""

import re
from typing import Final, final

from msgspec.structs import replace

from coatcheck.core.outline.line_scanner import StartScanner
from coatcheck.core.outline.model import Entry, EntryStart, titled
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_MARKS: Final = BlockPattern(r"^(?:---(?:\s|$)|kind:[ \t]|metadata:|  name:[ \t])")
_SEPARATOR: Final = re.compile(rb"---(?:\s|$)")
_OUTER: Final = re.compile(rb"(?:---|\.\.\.)(?:\s|$)|#|-\s|[\w.\"'/-]{1,80}:(?:\s|$)|[\]}]")
"""What a line of a stream may be that is not indented."""
_FIRST: Final = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?\n)*([ \t]*[^\s#.][^\n]*)")
"""The first line that is neither empty nor a comment."""
_ENDS_METADATA: Final = re.compile(rb"^[^\s#]", re.MULTILINE)
_LEAST: Final = 2


def is_stream(head: bytes) -> bool:
    """Returns whether a text begins as a YAML stream of several documents, each a mapping or a list."""
    if b"\n---" not in head:
        return False
    lines = [line for line in head[: head.rfind(b"\n") + 1].split(b"\n") if line and not line[:1].isspace()]
    if not all(map(_OUTER.match, lines)):
        return False
    before, documents = b"---", 0
    for line in lines:
        if not line.startswith((b"#", b"...")):
            documents += bool(_SEPARATOR.match(before)) and not _SEPARATOR.match(line)
            before = line
    return documents >= _LEAST


@final
class YamlDocuments(StartScanner):
    """Finds documents, titled by the kind and the name of the resource that each is, else by their first line.

    The `detail` of an entry is its kind. A document that holds nothing has no entry.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kinds: list[str | None] = []
        self._begin(Position(0, 0, 0))

    def _begin(self, place: Position) -> None:
        self._place = place
        self._first = self._kind = self._name = b""
        self._metadata = -1
        """Where in the block at hand the lines below `metadata:` begin; -1 outside of them."""

    def feed(self, data: bytes, place: Position) -> None:
        """Look at whole lines, of which the first begins at this place."""
        counted, here = 0, place
        if not self._first:
            self._look_at_first(data, 0)
        for start, end, *_ in _MARKS.lines(data):
            if self.full:
                return
            if _SEPARATOR.match(data, start):
                here, counted = here.after(data[counted:start]), start
                self._close()
                self._begin(here)
                self._look_at_first(data, end)
            else:
                self._take(data, start, end)
        if self._metadata >= 0:
            self._metadata = -1 if _ENDS_METADATA.search(data, self._metadata) else 0

    def _look_at_first(self, data: bytes, at: int) -> None:
        first = _FIRST.match(data, at)
        if first is not None and not _SEPARATOR.match(first[1]):
            self._first = first[1]

    def _take(self, data: bytes, start: int, end: int) -> None:
        key, _, value = data[start:end].partition(b":")
        if key == b"metadata":
            self._metadata = end
        elif key == b"kind":
            self._kind = self._kind or _plain(value)
        elif self._metadata >= 0 and not self._name and not _ENDS_METADATA.search(data, self._metadata, start):
            self._name = _plain(value)

    def _close(self) -> None:
        if self._first:
            title = b" ".join(filter(None, (self._kind, self._name))) or self._first
            self.starts.append(EntryStart("document", titled(title), 1, self._place))
            self._kinds.append(titled(self._kind) or None)

    def finish(self, end: Position, *, ends_line: bool) -> list[Entry]:
        """Returns the documents, once the lines have ended at this place."""
        if not self.full:
            self._close()
        entries = super().finish(end, ends_line=ends_line)
        return [replace(entry, detail=kind) for entry, kind in zip(entries, self._kinds, strict=True)]


def _plain(value: bytes) -> bytes:
    """Returns a scalar on its line without quotes and the comment behind it."""
    return value.partition(b" #")[0].strip().strip(b"\"'")
