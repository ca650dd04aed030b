"""The shape of a JSON document in lines: every distinct key once, breadth first, with types and array lengths.

Records of an array are merged; an object shaped like one that was described already is named, not repeated.
"""

from collections import deque
from itertools import chain
from typing import Final, cast

from coatcheck.core.artifact import Facts, Said, Sample
from coatcheck.core.kinds.cutter import Description, Plan, Spots
from coatcheck.core.kinds.telling import opening, telling
from coatcheck.core.kinds.values import Reading, read_json

_DEPTH: Final = 16
_ELEMENTS: Final = 200
_LINES: Final = 200
_CHARS: Final = 24_000
_MAP_KEYS: Final = 40
_RECORD: Final = 240
"""Bytes of lines that are shown together."""
_TYPES: Final[dict[type[object], str]] = {str: "string", int: "int", float: "number", bool: "bool", type(None): "null"}


class Open(list[object]):
    """A list that was not read to its end: it has at least these elements. Cards say so in a line of their own."""


class Node:
    """Everything seen at one place of a document, merged."""

    __slots__ = ("item", "keys", "lengths", "more", "types")

    def __init__(self) -> None:
        self.more = False
        """The longest list here was not read to its end."""
        self.types: dict[str, None] = {}
        self.keys: dict[str, Node] = {}
        self.item: Node | None = None
        self.lengths: list[int] = [0, 0]


def merge(node: Node, value: object, depth: int = 0) -> None:
    """Add one value to what was seen at this place."""
    name = _TYPES.get(type(value))
    if name is not None:
        node.types[name] = None
    elif isinstance(value, dict):
        node.types["object"] = None
        if depth < _DEPTH:
            _merge_members(node.keys, cast("dict[str, object]", value), depth + 1)
    elif isinstance(value, list):
        _merge_elements(node, cast("list[object]", value), depth)
    else:
        node.types["value"] = None


def _merge_members(keys: dict[str, Node], members: dict[str, object], depth: int) -> None:
    for key, member in members.items():
        child = keys.get(key)
        if child is None:
            child = keys[key] = Node()
        name = _TYPES.get(type(member))
        if name is None:
            merge(child, member, depth)
        else:  # as merge does; most values are scalars, and a call for each would double the time
            child.types[name] = None


def _merge_elements(node: Node, elements: list[object], depth: int) -> None:
    size = len(elements)
    low, high = node.lengths if "array" in node.types else (size, size)
    cut = isinstance(elements, Open)
    node.more = cut if "array" not in node.types or size > high else node.more
    node.lengths = [low if cut else min(low, size), max(high, size)]
    node.types["array"] = None
    item = node.item = node.item or Node()
    if depth >= _DEPTH:
        return
    step = max(1, size // _ELEMENTS)
    for element in elements[: _ELEMENTS * step : step]:
        name = _TYPES.get(type(element))
        if name is None:
            merge(item, element, depth + 1)
        else:
            item.types[name] = None


def shape_lines(reading: Reading) -> list[str]:
    """One line for each place that holds an object or a list, the outermost first."""
    root = Node()
    merge(root, reading.value)
    lines: list[str] = []
    known: dict[frozenset[str], str] = {}
    queue: deque[tuple[str, Node]] = deque([("$", root)])
    total = 0
    if root.item is not None and not root.item.keys:
        lines.append(f"$ {_array(root)}")
    while queue and len(lines) < _LINES and total < _CHARS:
        path, node = queue.popleft()
        if node.item is not None:
            queue.append((f"{path}[*]", node.item))
        if not node.keys:
            continue
        if len(node.keys) > _MAP_KEYS and _alike(node):
            line, children = _map_line(path, node)
        else:
            line, children = _object_line(path, node, known)
        queue.extend(children)
        if node is root.item:
            line = f"$ array of {_length(root)}: {line.removeprefix(path).lstrip()}"
        lines.append(line)
        total += len(line)
    return lines


def _length(node: Node) -> str:
    low, high = node.lengths
    return str(high) if low == high else f"{low}-{high}"


def _array(node: Node) -> str:
    """`array(2) of array(0-3) of int`: lengths stand in round brackets, which no path has."""
    item = node.item
    if item is None or not item.types:
        return f"array({_length(node)})"
    types = " or ".join(_array(item) if name == "array" else name for name in item.types)
    return f"array({_length(node)}) of {types}"


def _object_line(path: str, node: Node, known: dict[frozenset[str], str]) -> tuple[str, list[tuple[str, Node]]]:
    names = frozenset(node.keys)
    like = _like(names, known)
    known.setdefault(names, path)
    children = [(_join(path, key), child) for key, child in node.keys.items() if child.keys or _listy(child)]
    if like is None:
        return f"{path} {_members(node, node.keys)}", children
    other, base = like
    parts = [f"{path} like {other}"]
    missing = sorted(base - names)
    extra = [key for key in node.keys if key not in base]
    if missing:
        parts.append(f"without {' '.join(map(_quoted, missing))}")
    if extra:
        parts.append(f"and {_members(node, extra)}")
    return ", ".join(parts), children


def _like(names: frozenset[str], known: dict[frozenset[str], str]) -> tuple[str, frozenset[str]] | None:
    """A described object that shares at least three quarters of the keys, the closest one."""
    best: tuple[float, str, frozenset[str]] | None = None
    for base, path in known.items():
        both = len(names & base)
        share = both / max(len(names | base), 1)
        if both > 1 and share >= 0.75 and (best is None or share > best[0]):  # noqa: PLR2004
            best = (share, path, base)
    return None if best is None else best[1:]


def _listy(node: Node) -> bool:
    return node.item is not None and bool(node.item.keys or node.item.item)


def _members(node: Node, keys: object) -> str:
    """`string a b; int c`: keys grouped by type, in the order of first appearance. Commas would cost a token a key."""
    groups: dict[str, list[str]] = {}
    for key in cast("list[str]", keys):
        child = node.keys[key]
        kinds = [kind for kind in child.types if kind != "null"] or ["null"]
        name = _quoted(key)
        if kinds == ["array"]:
            groups.setdefault(_array(child), []).append(name)
        else:
            groups.setdefault(" or ".join(kinds), []).append(name)
    return "; ".join(f"{kind} {' '.join(names)}" for kind, names in groups.items())


def _alike(node: Node) -> bool:
    children = list(node.keys.values())
    first = frozenset(children[0].types)
    return all(frozenset(child.types) == first for child in children)


def _map_line(path: str, node: Node) -> tuple[str, list[tuple[str, Node]]]:
    keys = list(node.keys)
    merged = Node()
    for child in node.keys.values():
        _absorb(merged, child)
    kinds = " or ".join(merged.types)
    line = f"{path} {len(keys)} keys, each {kinds}: {' '.join(map(_quoted, keys[:5]))} … {_quoted(keys[-1])}"
    return line, [(f"{path}.*", merged)] if merged.keys or _listy(merged) else []


def _absorb(into: Node, node: Node) -> None:
    into.types.update(node.types)
    into.more = into.more or node.more
    into.lengths = [min(into.lengths[0], node.lengths[0]), max(into.lengths[1], node.lengths[1])]
    for key, child in node.keys.items():
        _absorb(into.keys.setdefault(key, Node()), child)
    if node.item is not None:
        into.item = into.item or Node()
        _absorb(into.item, node.item)


def _quoted(key: str) -> str:
    if len(key) <= 80 and key.isidentifier():  # noqa: PLR2004 - as below; nearly every key
        return key
    clipped = key if len(key) <= 80 else key[:79] + "…"  # noqa: PLR2004 - longer keys are data
    return clipped if clipped and not set(clipped) & set(' ,;"[]{}\n\r\t') else f'"{clipped}"'


def _join(path: str, key: str) -> str:
    return f"{path}.{_quoted(key)}"


class JsonCutter:
    """JSON and NDJSON: the shape first, then the document's own beginning and end."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """Keys, types and lengths; from the first 64 KB where the document is over 512 KB, and it says so."""
        del said
        reading = read_json(sample.head, whole=sample.whole)
        if reading is None:
            return Description()
        lines = shape_lines(reading)
        if reading.lines:
            lines.insert(0, f"NDJSON, one document a line; the first {reading.lines} are:")
        elif not sample.whole:
            lines.insert(0, "from the first 64 KB:")
        elif not reading.complete:
            lines.insert(0, "not well-formed JSON; as far as it can be read:")
        return Description(shape=tuple(lines))

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """Shape before text: names tell a reader what to ask for. Then how it begins, and lines whose values differ."""
        del facts
        if b"\n" not in sample.head:
            return Plan(shape=0.85, tail=0.0, hints=0.0)
        wanted = Spots(chain((opening(sample.head),), telling(sample.head, block=_RECORD)))
        return Plan(shape=0.85, spots=0.85, tail=0.3, hints=0.0, wanted=wanted)
