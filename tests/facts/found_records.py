"""Lists of records as others find them: values of `json` with their paths, elements of `xml.sax`, PyYAML's nodes."""

import re
import xml.sax
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, cast
from xml.sax.xmlreader import AttributesImpl, Locator

import yaml

from facts.paths import leading_path
from facts.says_records import Records

Fields = dict[str, object]
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PART: Final = re.compile(r".*?(?:\[\*\]|\.\*)")
_LONGEST: Final = 4_096


def step_to(key: str) -> str:
    """A key as a step of a path."""
    quoted = key.replace("\\", "\\\\").replace("'", "\\'")
    for char, short in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\b", "\\b"), ("\f", "\\f")):
        quoted = quoted.replace(char, short)
    return f".{key}" if _PLAIN.fullmatch(key) else f"['{quoted}']"


def fields_of(value: Mapping[str, object]) -> Fields:
    """The scalars in an object by their paths, and those in the first elements of its lists."""
    fields: Fields = {}
    for key, member in value.items():
        _flatten(member, step_to(key), fields)
    return {name.removeprefix("."): each for name, each in fields.items()}


def _flatten(value: object, name: str, fields: Fields) -> None:
    if isinstance(value, dict):
        for key, member in cast("Fields", value).items():
            _flatten(member, f"{name}{step_to(key)}", fields)
    elif isinstance(value, list):
        fields.setdefault(name, None)
        if value:
            _flatten(cast("list[object]", value)[0], f"{name}[0]", fields)
    else:
        shown = value[:_LONGEST] if isinstance(value, str) else value
        fields[name] = fields[f"{name}[0]"] = shown


def columns_of(records: Sequence[Fields]) -> dict[str, list[object]]:
    """The fields of records as columns."""
    names = {name: None for record in records for name in record}
    return {name: [record.get(name) for record in records] for name in names}


class JsonLists:
    """Finds the records at a place of a document."""

    def __init__(self, value: object, failed: Mapping[str, frozenset[int]] | None = None) -> None:
        self._objects = list(_objects(value, "$", ()))
        self._failed = failed or {}
        self.at = cache(self._at)

    def _at(self, place: str) -> Records | None:
        """The objects at a place, in which what is repeated stands once; None if there are none."""
        parts = _PART.findall(place)
        if not parts or "".join(parts) != place:
            return None
        pattern = re.compile(r"\$" + "".join(f"(?:{_pattern(part.removeprefix('$'))})+" for part in parts))
        found = [each for each in self._objects if pattern.fullmatch(each[0])]
        if not found:
            return None
        keyed = place.endswith(".*")
        keys = [{"key": last_key(path)} if keyed else {} for path, _, _ in found]
        records = [key | fields_of(value) for key, (_, value, _) in zip(keys, found, strict=True)]
        known = {id(outer): _texts_in(outer) for outer in {id(outer): outer for _, _, outer in found}.values()}
        above = [known[id(outer)] for _, _, outer in found]
        return Records(place, columns_of(records), [path for path, _, _ in found], above, self._failed.get(place))


def _texts_in(outer: Sequence[Fields]) -> Fields:
    """The texts in what a record is in, as names that it may have."""
    return {
        f"{depth} {name}": each
        for depth, value in enumerate(outer)
        for name, each in fields_of(value).items()
        if isinstance(each, str)
    }


def last_key(path: str) -> object:
    """The name that a path ends with."""
    return leading_path(path)[0][-1]


def _pattern(part: str) -> str:
    if part.endswith("[*]"):
        return f"{re.escape(part[:-3])}\\[\\d+\\]"
    return re.escape(part[:-2]) + r"(?:\.[A-Za-z_]\w*|\['(?:[^'\\]|\\.)*'\])"


def _objects(
    value: object, path: str, above: tuple[Fields, ...], key: str = ""
) -> Iterator[tuple[str, Fields, tuple[Fields, ...]]]:
    if isinstance(value, list):
        for number, each in enumerate(cast("list[object]", value)):
            yield from _objects(each, f"{path}[{number}]", above)
    elif isinstance(value, dict):
        members = cast("Fields", value)
        yield path, members, above
        outer = (members, *above) if path.endswith("]") or key else above
        is_map = len(members) > 2 and all(isinstance(each, dict) for each in members.values())
        for name, each in members.items():
            if isinstance(each, dict | list):
                within = f"{path}{step_to(name)}"
                yield from _objects(cast("object", each), within, outer, name if is_map else "")


class _Elements(xml.sax.ContentHandler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[tuple[str, ...], int, Fields, list[Fields]]] = []
        self._open: list[tuple[str, int, Fields, list[str]]] = [("", 0, {}, [])]
        self.locator: Locator | None = None

    def setDocumentLocator(self, locator: Locator) -> None:
        self.locator = locator

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        assert self.locator is not None
        values: Fields = dict(attrs.items())
        tags = [each[0] for each in self._open[1:]] + [name]
        path = tuple(tag for at, tag in enumerate(tags) if not at or tags[at - 1] != tag)
        self.records.append((path, self.locator.getLineNumber() or 0, values, [each[2] for each in self._open[:0:-1]]))
        self._open.append((name, 0, values, []))

    def characters(self, content: str) -> None:
        self._open[-1][3].append(content)

    def endElement(self, name: str) -> None:
        _, _, values, parts = self._open.pop()
        text = "".join(parts).strip()
        if values and text:
            values.setdefault("text", text)
        siblings = self._open[-1][2].setdefault(name, [])
        if isinstance(siblings, list):
            cast("list[object]", siblings).append(values or text or True)


def xml_lists(text: bytes, failed: Mapping[str, frozenset[int]] | None = None) -> list[Records]:
    """The elements of a document by what they are in; those in others of the same name are one list with them."""
    handler = _Elements()
    xml.sax.parseString(text, handler)  # noqa: S317 - made by these tests
    lists: dict[tuple[str, ...], list[tuple[int, Fields, list[Fields]]]] = {}
    for path, line, values, above in handler.records:
        if values:
            lists.setdefault(path, []).append((line, values, above))
    return [
        Records(
            path[-1],
            columns_of([_undotted(values) for _, values, _ in each]),
            [f"line {line}" for line, _, _ in each],
            [_texts_in(outer) for _, _, outer in each],
            (failed or {}).get(path[-1]),
        )
        for path, each in lists.items()
    ]


def _undotted(value: Mapping[str, object]) -> Fields:
    plain: Fields = {}
    for name, each in fields_of(value).items():
        shown = re.sub(r"\['((?:[^'\\]|\\.)*)'\]", r".\1", name).replace("[0]", "").removeprefix(".")
        if plain.get(shown) is None:
            plain[shown] = each
    return plain


def yaml_lists(text: str, failed: Mapping[str, frozenset[int]] | None = None) -> list[Records]:
    """The lists of mappings in YAML, all of whose scalars are texts."""
    loader = yaml.BaseLoader(text)
    documents: list[yaml.Node] = []
    while loader.check_node():
        documents.append(cast("yaml.Node", loader.get_node()))
    lists: dict[str, list[tuple[int, Fields, tuple[Fields, ...]]]] = {}
    if len(documents) > 1:
        for node in documents:
            _collect(node, "item", (), lists)
    else:
        _nodes(documents[0], "item", (), lists)
    return [
        Records(
            place,
            columns_of([_undotted(values) for _, values, _ in each]),
            [f"line {line}" for line, _, _ in each],
            [_texts_in(outer) for _, _, outer in each],
            (failed or {}).get(place),
        )
        for place, each in lists.items()
    ]


def _collect(
    node: yaml.Node,
    name: str,
    above: tuple[Fields, ...],
    lists: dict[str, list[tuple[int, Fields, tuple[Fields, ...]]]],
) -> None:
    if isinstance(node, yaml.MappingNode):
        values = cast("Fields", _plain(node))
        lists.setdefault(name, []).append((node.start_mark.line + 1, values, above))
        _nodes(node, name, (values, *above), lists)


def _nodes(
    node: yaml.Node,
    name: str,
    above: tuple[Fields, ...],
    lists: dict[str, list[tuple[int, Fields, tuple[Fields, ...]]]],
) -> None:
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            _collect(each, name, above, lists)
    elif isinstance(node, yaml.MappingNode):
        for key, each in node.value:
            _nodes(each, key.value, above, lists)


def _plain(node: yaml.Node) -> object:
    if isinstance(node, yaml.MappingNode):
        return {key.value: _plain(each) for key, each in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each) for each in node.value]
    scalar = cast("yaml.ScalarNode", node)
    return None if scalar.style is None and scalar.value in {"", "~", "null"} else scalar.value


def pair_lists(text: str) -> list[Records]:
    """The records of a text that begin with each key of its `Key: value` lines."""
    pairs = [
        (found[1].strip(), (found[2] or "").strip() or None, number)
        for number, line in enumerate(text.split("\n"), 1)
        if (found := re.fullmatch(r"([A-Za-z][\w .()/%@+-]*?)\s*:(?:\s+(.*))?", line.rstrip("\r")))
    ]
    lists: list[Records] = []
    for first in {key: None for key, _, _ in pairs}:
        records: list[Fields] = []
        lines: list[int] = []
        for key, value, number in pairs:
            if key == first:
                records.append({})
                lines.append(number)
            if records:
                records[-1].setdefault(key, value)
        lists.append(Records("item", columns_of(records), [f"line {line}" for line in lines]))
    return lists
