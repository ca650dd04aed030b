"""The places of a JSON document, outermost first: each with its path, its type and its members.

Records of an array form one place, `[*]`, with the members of all that were examined. Paths are RFC 9535, so that each
can be read directly.
"""

from collections import deque
from typing import Final, cast

from coatcheck.core.jsonpath.location import step
from coatcheck.core.outline.json_shape import Node, Open, merge
from coatcheck.core.outline.model import MAX_ENTRIES, Entry, OutlineEntries, make_title
from coatcheck.core.structure.json_values import JsonReading, read_json
from coatcheck.core.text.plural import plural

_MEMBERS: Final = 40
"""Members of one object that are named; an object with more similar ones is a map, whose values form one place."""
_MAP: Final = 60


def of_json(head: bytes, *, whole: bool) -> OutlineEntries:
    """Returns the places of a document that begins with `head`; none if it does not begin like JSON."""
    reading = read_json(head, whole=whole)
    if reading is None:
        return OutlineEntries([])
    complete = reading.complete or (
        whole and reading.lines > 0 and reading.lines == sum(map(bool, map(bytes.strip, head.split(b"\n"))))
    )
    root = Node()
    merge(root, reading.value if complete else _cut_short(reading))
    entries: list[Entry] = []
    queue: deque[tuple[str, int, Node]] = deque([("$", 1, root)])
    all_named = True
    while queue and len(entries) < MAX_ENTRIES:
        path, level, node = queue.popleft()
        if "object" not in node.types and "array" not in node.types:
            continue
        entries.append(
            Entry(
                what="value",
                title=make_title(path),
                level=level,
                path=path,
                detail=make_title(_describe_node(node)),
            )
        )
        if node.item is not None:
            queue.append((f"{path}[*]", level + 1, node.item))
        children = [(f"{path}{step(key)}", level + 1, child) for key, child in node.keys.items()]
        queue.extend(children[:_MAP])
        all_named = all_named and len(children) <= _MAP
    notices: list[str] = []
    if reading.lines:
        amount = "all" if complete else "the first"
        notices.append(f"JSON lines: an array of its lines; {amount} {reading.lines:,} were looked at.")
    elif not complete:
        notices.append("Only its beginning was looked at.")
    return OutlineEntries(entries, complete and all_named and not queue, tuple(notices))


def _cut_short(reading: JsonReading) -> object:
    """Returns the value with open lists where they may continue.

    Of JSON lines, each was read whole, but there are more.
    """
    if reading.lines and isinstance(reading.value, list):
        return Open(cast("list[object]", reading.value))
    return _mark_open(reading.value)


def _mark_open(value: object) -> object:
    """Returns what was read of a document that ends too early: its last lists may continue."""
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
