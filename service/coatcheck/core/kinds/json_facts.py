"""What a JSON document holds: the short values near its top, and every distinct key once, breadth first, by path."""

from collections import deque
from typing import Final, cast

from msgspec.json import encode

from coatcheck.core.artifact import Said, Sample
from coatcheck.core.jsonpath.location import bracketed
from coatcheck.core.kinds.description import NOTHING, Description, plural
from coatcheck.core.outline.model import Entry
from coatcheck.core.outline.notebook import of_notebook
from coatcheck.core.structure.json_shape import Node, merge
from coatcheck.core.structure.json_values import read_json

_CELLS: Final = 40
_DEEPEST: Final = 6
_LINES: Final = 120
_CHARS: Final = 16_000
_VALUE: Final = 80
"""Characters of a value that is short."""
_SCALARS: Final = 24
_NESTED: Final = 12
"""Members of an object below the top whose values are named too."""
_MAP: Final = 40
"""Members from which an object whose members are alike is a map: its keys are data."""


def describe_json(sample: Sample, declared: Said) -> Description:
    """Returns short values near the top, then keys by path; from the beginning of a document that is not at hand."""
    del declared
    reading = read_json(sample.head, whole=sample.whole)
    if reading is None:
        return NOTHING
    facts: list[str] = []
    value = reading.value
    if reading.complete and (notebook := of_notebook(sample.head)) is not None:
        return _cells(notebook.entries)
    if reading.lines:
        facts.append(f"JSON lines; keys of the first {reading.lines}:" if not reading.complete else "JSON lines:")
    elif not reading.complete:
        facts.append(
            "Keys of its beginning:" if not sample.whole else "Not well-formed JSON; keys as far as it can be read:"
        )
    elif (found := scalars(value)) is not None:
        facts.append(found)
    facts += key_lines(value, complete=reading.complete)
    return Description(facts=tuple(facts), path=next_path(value))


def _cells(entries: list[Entry]) -> Description:
    """Returns the cells of a notebook, as `section` takes them, and what failed in them."""
    shown = [f"{entry.title}{f' ({entry.detail})' if entry.detail else ''}" for entry in entries[:_CELLS]]
    more = [f"… {len(entries) - _CELLS} more"] if len(entries) > _CELLS else []
    return Description(facts=(f"Notebook, {plural(len(entries), 'cell')}: {'; '.join([*shown, *more])}",))


def next_path(value: object) -> str | None:
    """Returns where most of a document is: the first element of its longest list, or its largest member."""
    path = "$"
    inner = value
    for _ in range(_DEEPEST):
        if isinstance(inner, list):
            return f"{path}[0]" if cast("list[object]", inner) else None
        members = cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
        if not members:
            break
        key = max(members, key=lambda name: _extent(members[name]))
        if not _extent(members[key]):
            break
        path = f"{path}{step(key)}"
        inner = members[key]
    return path if path != "$" else None


def _extent(value: object) -> int:
    if isinstance(value, list):
        return 2 * len(cast("list[object]", value))
    return len(cast("dict[str, object]", value)) if isinstance(value, dict) else 0


def step(key: str) -> str:
    """Returns the step of a JSONPath to a member."""
    return f".{key}" if key.isascii() and key.isidentifier() else bracketed(key)


def scalars(value: object) -> str | None:
    """Returns the short values of an object and of small objects in it, as `status="failed", error.code=7`."""
    if not isinstance(value, dict):
        return None
    parts: list[str] = []
    members = cast("dict[str, object]", value)
    nested = len(members) <= _MAP
    for key, member in members.items():
        if nested and isinstance(member, dict) and len(cast("dict[str, object]", member)) <= _NESTED:
            for inner, scalar in cast("dict[str, object]", member).items():
                _add(parts, f"{key}.{inner}", scalar)
        else:
            _add(parts, key, cast("object", member))
    return ", ".join(parts[:_SCALARS]) or None


def _add(parts: list[str], name: str, value: object) -> None:
    if isinstance(value, dict | list):
        return
    shown = encode(value).decode()
    if len(shown) <= _VALUE and len(name) <= _VALUE:
        parts.append(f"{name}={shown}")


def key_lines(value: object, *, complete: bool) -> list[str]:
    """Returns a line for each place that holds an object, outermost first, with the keys that no line named before."""
    root = Node()
    merge(root, value)
    lines: list[str] = []
    queue: deque[tuple[str, Node]] = deque([("$", root)])
    named: set[str] = set()
    total = 0
    while queue and len(lines) < _LINES and total < _CHARS:
        path, node = queue.popleft()
        parts: list[str] = []
        if node.item is not None:
            queue.append((f"{path}[*]", node.item))
            if path == "$":
                parts.append(_length(node, complete=complete))
        if node.keys:
            parts.append(_keys(path, node, named, queue, complete=complete))
        line = f"{path}: {'; '.join(part for part in parts if part)}"
        if any(parts):
            lines.append(line)
            total += len(line)
    return lines


def _length(node: Node, *, complete: bool) -> str:
    low, high = node.lengths
    if node.more or not complete or low != high:
        return ""
    return plural(high, "element")


def _keys(path: str, node: Node, named: set[str], queue: deque[tuple[str, Node]], *, complete: bool) -> str:
    keys = node.keys
    if len(keys) > _MAP and _alike(node):
        merged = Node()
        for child in keys.values():
            _absorb(merged, child)
        queue.append((f"{path}.*", merged))
        first = list(keys)[:3]
        count = plural(len(keys), "key") if complete else "keys"
        return f"{count} such as {', '.join(map(_quoted, first))}"
    fresh = [key for key in keys if key not in named]
    named.update(keys)
    for key, child in keys.items():
        if child.keys or child.item is not None:
            queue.append((f"{path}{step(key)}", child))
    return ", ".join(_member(key, keys[key], complete=complete) for key in fresh)


def _member(key: str, node: Node, *, complete: bool) -> str:
    low, high = node.lengths
    exact = complete and node.item is not None and not node.more and low == high and high > 0
    return f"{_quoted(key)}[{high}]" if exact else _quoted(key)


def _alike(node: Node) -> bool:
    children = list(node.keys.values())
    first = frozenset(children[0].types)
    return all(frozenset(child.types) == first for child in children)


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
    clipped = key if len(key) <= _VALUE else f"{key[: _VALUE - 1]}…"
    return clipped if clipped and not set(clipped) & set(' ,;:"[]{}\n\r\t') else f'"{clipped}"'
