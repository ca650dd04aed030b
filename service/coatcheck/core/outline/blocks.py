"""Parts of files of settings and data: tables of TOML and INI, keys of YAML, families of metrics, records of fields.

Each has a form by which a text is recognised at its beginning, where nothing may contradict it, and lines that begin
its parts. No text is parsed.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, final

from msgspec.structs import replace

from coatcheck.core.outline.line_scanner import LineScanner, StartScanner
from coatcheck.core.outline.model import Entry, EntryStart, OutlineScanner, What, titled
from coatcheck.core.outline.regions import Regions
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.views.window import Position

_LOOK: Final = 16 * 1024
_LEAST: Final = 2
"""Minimum parts of a text; one is no outline."""
_STRANGE: Final = 0.03
"""Maximum share of the lines that fit no form, such as those of a string that spans lines."""
_KEY: Final = r"(?:\"[^\"\n]{1,80}\"|'[^'\n]{1,80}'|[\w./$~<*+][\w./${}<>*+@=()-]{0,80})"
_TABLE: Final = r"\[\[?[^\[\]\n]{1,120}\]\]?[ \t]*(?:[#;].*)?\r?$"
_SETTING: Final = re.compile(rb"[\w\"'.@%*/$-][^=\n]{0,100}?[ \t]*=|[\w.\"'/-]+[ \t]*\r?$|[\w.-]+[ \t]*:[ \t]*\S")
_TABLES: Final = BlockPattern(rf"^(?:{_TABLE}|(?:name|id|title)[ \t]*=[ \t]*\S)")
_LETTER: Final = re.compile(rb"[A-Za-z\x80-\xff]")
_IS_TABLE: Final = re.compile(_TABLE.encode())
_KEYS: Final = BlockPattern(rf"^ {{0,8}}(?:- |{_KEY}:(?:[ \t\r]|$))")
_KEY_LINE: Final = re.compile(rb"( *)(" + _KEY.encode() + rb"):[ \t\r]*(.*)")
_NOTHING: Final = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?\n)*")
_OUTER: Final = re.compile(rb"#|%YAML|---(?:\s|$)|-\s|[\]}]|" + _KEY.encode() + rb":(?:\s|$)")
"""What a line of YAML may be that is not indented."""
_EMPTY: Final = re.compile(rb"(?:[&!]\S+[ \t\r]*)*(?:#.*)?$")
"""What may follow the colon of a key whose value stands below."""
_TYPES: Final = r"(?:counter|gauge|histogram|summary|untyped|unknown|info|stateset|gaugehistogram)"
_METRICS: Final = BlockPattern(r"^# (?:HELP|TYPE|UNIT) [A-Za-z_:][\w:]*(?: |$)")
_TYPED: Final = re.compile(rf"^# TYPE \S+ {_TYPES}\r?$".encode(), re.MULTILINE)
_SAMPLE: Final = re.compile(rb"#|[A-Za-z_:][\w:]*(?:\{[^\n]*\})?[ \t]+[-+\w.]")
_FIELDS: Final = re.compile(
    rb"([A-Za-z][\w-]{0,40})[ \t]*:{1,2}[ \t]*(\S[^\n]{0,200})\n(?:[A-Za-z][\w-]{0,40}[ \t]*:|[ \t]+\S)"
)
"""Matches the first field of a record, if another or the rest of it is below."""
_BLANK: Final = re.compile(rb"\n[ \t\r]*\n\s*")
_FEWEST: Final = 4
"""Minimum records."""
_DIFFERENT: Final = 0.8
"""Minimum share of records whose first fields have a value of their own."""


def _outer(head: bytes) -> Iterator[bytes]:
    """Yields the whole lines at the beginning that are neither blank nor indented."""
    first = head[:_LOOK]
    lines = first[: first.rfind(b"\n") + 1] if len(head) > _LOOK else first
    return (line for line in lines.split(b"\n") if line.strip() and line[:1] not in b" \t")


def blocks_of(head: bytes) -> OutlineScanner | None:
    """Returns what finds the parts of a text that begins with `head`; None if it has none of the forms."""
    if head[:_LOOK].count(b"# TYPE ") >= _LEAST and _is_metrics(head):
        return MetricFamilies()
    if (field := _first_field(head)) is not None:
        return Records(field)
    if (b"\n[" in head[:_LOOK] or head[:1] == b"[") and _is_tables(head):
        return Tables()
    return YamlKeys() if b":" in head[:_LOOK] and _is_mapping(head) else None


def _first_field(head: bytes) -> str | None:
    """Returns the field that each of the records begins with that are between blank lines; None if they are none."""
    paragraphs = _BLANK.split(head[:_LOOK].strip())
    paragraphs = paragraphs[:-1] if len(head) > _LOOK else paragraphs
    fields = [found for each in paragraphs if (found := _FIELDS.match(each)) is not None]
    if len(fields) < max(_FEWEST, len(paragraphs)) or len({each[1] for each in fields}) > 1:
        return None
    return fields[0][1].decode() if len({each[2] for each in fields}) >= _DIFFERENT * len(fields) else None


@final
class Records(LineScanner):
    """Finds records of fields, such as entries of a directory or packages, titled by the value of their first field."""

    longest = 400

    def __init__(self, field: str) -> None:
        super().__init__()
        self.marks = BlockPattern(rf"^{re.escape(field)}[ \t]*::?[ \t]*\S")

    def entry(self, line: bytes) -> tuple[What, str, int]:
        """Returns a record."""
        return "block", titled(line.partition(b":")[2].lstrip(b": \t")), 1


def _is_metrics(head: bytes) -> bool:
    return len(_TYPED.findall(head[:_LOOK])) >= _LEAST and all(map(_SAMPLE.match, _outer(head)))


def _is_tables(head: bytes) -> bool:
    lines = [line for line in _outer(head) if line[:1] not in b"#;]}"]
    tables = sum(_IS_TABLE.match(line) is not None and _LETTER.search(line) is not None for line in lines)
    if tables < _LEAST or (not _IS_TABLE.match(lines[0]) and b"=" not in lines[0]):
        return False
    settings = head[:_LOOK].count(b"=")
    strange = sum(not (_IS_TABLE.match(line) or _SETTING.match(line)) for line in lines)
    return settings * _LEAST >= tables and strange <= _STRANGE * len(lines)


def _is_mapping(head: bytes) -> bool:
    """Returns whether a text begins as one YAML mapping: keys that differ, at least one with a block below."""
    first = head[:_LOOK]
    if b"\n " not in first or b"\n\t" in first:
        return False
    if not all(map(_OUTER.match, _outer(head))):
        return False
    lines = list(_outer(head))
    if not lines or lines[0][:2] == b"- ":
        return False
    found = [match for line in lines if (match := _KEY_LINE.match(line)) is not None]
    if not found or any(line[:3] == b"---" for line in lines[lines.index(found[0][0]) :]):
        return False
    keys = Counter(match[2] for match in found)
    blocks = re.findall(rb"^[^\s#-][^\n]*:[ \t]*\r?\n(?:[ \t]*(?:#[^\n]*)?\n)*(?: +|- )\S", first, re.MULTILINE)
    return bool(blocks) and len(keys) == len(found) and (len(keys) > _LEAST or len(keys) == len(blocks))


class _Detailed(StartScanner):
    """The common part of scanners whose entries have details."""

    def __init__(self) -> None:
        super().__init__()
        self.details: list[str | None] = []

    def add(self, title: bytes | str, level: int, place: Position, detail: str | None = None) -> None:
        """Records where an entry begins."""
        self.starts.append(EntryStart("block", titled(title), level, place))
        self.details.append(detail)

    def finish(self, end: Position, *, ends_line: bool) -> list[Entry]:
        """Returns the entries, once the lines have ended at this place; `ends_line`: with a line feed."""
        entries = super().finish(end, ends_line=ends_line)
        return [replace(entry, detail=detail) for entry, detail in zip(entries, self.details, strict=True)]


@final
class Tables(_Detailed):
    """Finds tables of TOML and INI, titled by their line; a `[[x]]` by its name, with its line as detail."""

    def __init__(self) -> None:
        super().__init__()
        self._regions = Regions("settings")
        self._unnamed = False

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        counted, here = 0, place
        regions = iter(self._regions.of(data))
        region = next(regions, None)
        for start, end, *_ in _TABLES.lines(data):
            while region is not None and region[1] <= start:
                region = next(regions, None)
            if self.full or (region is not None and region[0] <= start):
                continue
            line = data[start:end].strip()
            if line[:1] != b"[":
                if self._unnamed:
                    name = line.partition(b"=")[2].partition(b" #")[0].strip().strip(b"\"'")
                    self.starts[-1] = replace(self.starts[-1], title=titled(name) or self.starts[-1].title)
                self._unnamed = False
                continue
            here, counted = here.after(data[counted:start]), start
            name = line[: line.rindex(b"]") + 1]
            self._unnamed = name.startswith(b"[[")
            self.add(name, 1, here, titled(name) if self._unnamed else None)


@final
class YamlKeys(StartScanner):
    """Finds the keys of one YAML mapping, and in them those with a block below; all of these if there is one key."""

    def __init__(self) -> None:
        super().__init__()
        self._indent = 0
        """Blanks before the keys in the present key; 0 if it has none, or they are not known yet."""
        self._inside = False
        """Whether the present key may have keys."""
        self._tops = 0
        self._leaves: set[int] = set()

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        counted, here, below = 0, place, 0
        for start, end, *_ in _KEYS.lines(data):
            match = None if self.full else _KEY_LINE.match(data, start, end)
            if self._inside and not self._indent and start > below:
                self._inside = _NOTHING.fullmatch(data, below, start) is not None
            if match is None:
                self._inside = self._inside and self._indent > 0  # a list, unless it stands in a key of this one
                continue
            indent, empty = len(match[1]), _EMPTY.match(match[3]) is not None
            if not indent:
                self._tops += 1
                self._inside, self._indent, below = empty, 0, end
            elif not self._inside or (self._indent and indent != self._indent):
                continue
            else:
                self._indent = indent
            if indent and not empty:
                if self._tops > 1:
                    continue
                self._leaves.add(len(self.starts))
            here, counted = here.after(data[counted:start]), start
            self.starts.append(EntryStart("block", titled(match[2].strip(b"\"'")), 1 + bool(indent), here))
        if self._inside and not self._indent:
            self._inside = _NOTHING.fullmatch(data, below) is not None

    def finish(self, end: Position, *, ends_line: bool) -> list[Entry]:
        """Returns the keys, once the lines have ended at this place; `ends_line`: with a line feed."""
        if self._tops > 1:
            self.starts = [each for number, each in enumerate(self.starts) if number not in self._leaves]
        return super().finish(end, ends_line=ends_line)


@final
class MetricFamilies(_Detailed):
    """Finds families of metrics, as Prometheus reads them: titled by their name, with their type as detail."""

    def __init__(self) -> None:
        super().__init__()
        self._name = b""

    def feed(self, data: bytes, place: Position) -> None:
        """Processes whole lines, the first of which begins at this place."""
        counted, here = 0, place
        for start, end, *_ in _METRICS.lines(data):
            if self.full:
                return
            _, word, name, *rest = data[start:end].split(None, 3)
            if name != self._name:
                self._name = name
                here, counted = here.after(data[counted:start]), start
                self.add(name, 1, here)
            if word == b"TYPE" and rest:
                self.details[-1] = titled(rest[0])
