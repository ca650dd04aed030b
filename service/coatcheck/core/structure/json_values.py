"""JSON read as far as it goes: whole when it is whole and well-formed, otherwise its longest readable start.

Never raises and never recurses into a document's depth. NaN, duplicate keys, trailing data, a BOM and 100,000 open
brackets give what could be read before them.
"""

from collections.abc import Iterator
from typing import Any, Final, cast

import ijson
import msgspec
from msgspec import Struct

_BOM: Final = b"\xef\xbb\xbf"
_DEPTH: Final = 24
_EVENTS: Final = 40_000
START_BYTES: Final = 64 * 1024
"""Of a document that cannot be decoded whole, this much of its start is read, in about 10 ms."""


class Reading(Struct, frozen=True):
    """A value, and whether it is the entire document."""

    value: object
    complete: bool
    lines: int = 0
    """For NDJSON: how many documents were read; 0 for one document."""
    events: int = 0
    """Of a document that is not whole: how many keys, values and brackets were read before it ended or broke."""


def read_json(data: bytes, *, whole: bool) -> Reading | None:
    """What JSON says, or None if it does not begin like JSON."""
    text = data.removeprefix(_BOM).lstrip(b" \t\r\n")
    if text[:1] not in {b"{", b"["}:
        return None
    if whole:
        try:
            return Reading(msgspec.json.decode(text), complete=True)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            pass
    lines = _read_lines(text[: 4 * START_BYTES])
    if lines is not None:
        return lines
    return _read_start(text[:START_BYTES])


def _read_lines(text: bytes) -> Reading | None:
    """NDJSON: at least two lines that are documents each."""
    values: list[object] = []
    if b"\n" not in text[:START_BYTES]:
        return None
    for line in text.split(b"\n", 1_000)[:1_000]:
        if not line.strip():
            continue
        try:
            values.append(msgspec.json.decode(line))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            break
    return Reading(values, complete=False, lines=len(values)) if len(values) > 1 else None


class _Stop(Exception):  # noqa: N818 - ends a loop, is no error
    """Enough was read."""


def _read_start(text: bytes) -> Reading | None:
    """The value of the longest prefix that parses, containers deeper than 24 left empty."""
    builder = _Builder()
    try:
        for event, value in _events(text):
            builder.take(event, value)
    except (ijson.JSONError, _Stop, UnicodeDecodeError, ValueError):
        pass
    return None if builder.root is None else Reading(builder.root, complete=False, events=builder.events)


def _events(text: bytes) -> Iterator[tuple[str, object]]:
    source = cast("Any", ijson).basic_parse(_Source(text), buf_size=16 * 1024, use_float=True)
    return cast("Iterator[tuple[str, object]]", source)


class _Source:
    """Bytes as the parser wants them: something with `read`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes; empty at the end."""
        end = len(self._data) if size < 0 else self._at + size
        piece = self._data[self._at : end]
        self._at += len(piece)
        return piece


class _Builder:
    def __init__(self) -> None:
        self.root: object | None = None
        self._stack: list[dict[str, object] | list[object]] = []
        self._keys: list[str] = []
        self._depth = 0
        self.events = 0

    def take(self, event: str, value: object) -> None:
        self.events += 1
        if self.events > _EVENTS:
            raise _Stop
        if event in {"start_map", "start_array"}:
            self._open({} if event == "start_map" else [])
        elif event in {"end_map", "end_array"}:
            if self._depth <= _DEPTH:
                self._stack.pop()
                self._keys.pop()
            self._depth -= 1
        elif self._depth > _DEPTH:
            return
        elif event == "map_key":
            self._keys[-1] = cast("str", value)
        else:
            self._put(value)

    def _open(self, container: dict[str, object] | list[object]) -> None:
        self._depth += 1
        if self._depth <= _DEPTH:
            self._put(container)
            self._stack.append(container)
            self._keys.append("")

    def _put(self, value: object) -> None:
        if not self._stack:
            self.root = value
            return
        parent = self._stack[-1]
        if isinstance(parent, list):
            parent.append(value)
        else:
            parent[self._keys[-1]] = value
