"""The places of a JSON document, outermost first: each with its path, its type and its members.

Records of an array are one place, `[*]`, with the members of all that were looked at. Paths are RFC 9535, so that each
can be read as it stands.
"""

from collections import deque
from typing import Final

from coatcheck.core.jsonpath.location import bracketed
from coatcheck.core.kinds.json_shape import Node, merge
from coatcheck.core.kinds.values import read_json
from coatcheck.core.outline.model import MAX_ENTRIES, Entry, Found, titled

_MEMBERS: Final = 40
"""Members of one object that are named; an object of more that are alike is a map, whose values are one place."""
_MAP: Final = 60


def of_json(head: bytes, *, whole: bool) -> Found:
    """The places of a document that begins with `head`; none when it does not begin like JSON."""
    reading = read_json(head, whole=whole)
    if reading is None:
        return Found([])
    root = Node()
    merge(root, reading.value)
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
                title=titled(path.encode("utf-8", "replace")),
                level=level,
                path=path,
                detail=titled(_described(node).encode("utf-8", "replace")),
            )
        )
        if node.item is not None:
            queue.append((f"{path}[*]", level + 1, node.item))
        children = [(f"{path}{_step(key)}", level + 1, child) for key, child in node.keys.items()]
        queue.extend(children[:_MAP])
        all_named = all_named and len(children) <= _MAP
    notices: list[str] = []
    if reading.lines:
        notices.append(f"JSON lines: an array of its lines; the first {reading.lines} were looked at.")
    elif not reading.complete:
        notices.append("Not all of it was looked at: from its beginning.")
    return Found(entries, reading.complete and all_named and not queue, tuple(notices))


def _step(key: str) -> str:
    return f".{key}" if key.isascii() and key.isidentifier() else bracketed(key)


def _described(node: Node) -> str:
    parts: list[str] = []
    if node.item is not None:
        low, high = node.lengths
        parts.append(f"array of {low if low == high else f'{low}-{high}'} {_types(node.item)}".strip())
    if node.keys:
        named = [f"{key} {_types(child)}" for key, child in list(node.keys.items())[:_MEMBERS]]
        more = f", … {len(node.keys) - _MEMBERS} more" if len(node.keys) > _MEMBERS else ""
        parts.append(f"object: {', '.join(named)}{more}")
    elif "object" in node.types:
        parts.append("object")
    return " or ".join(parts)


def _types(node: Node) -> str:
    return "|".join(node.types)
