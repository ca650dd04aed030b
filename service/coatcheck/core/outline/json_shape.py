"""The shape of a JSON document: every place with its types and members, the records of an array merged into one."""

from typing import Final, cast

_DEPTH: Final = 16
_ELEMENTS: Final = 200
_TYPES: Final[dict[type[object], str]] = {str: "string", int: "int", float: "number", bool: "bool", type(None): "null"}


class Open(list[object]):
    """A list that was not read to its end: it has at least these elements. Cards say so in a separate line."""


class Node:
    """Everything seen at one place of a document, merged."""

    __slots__ = ("item", "keys", "lengths", "more", "types")

    def __init__(self) -> None:
        self.more = False
        """Whether the longest list here was not read to its end."""
        self.types: dict[str, None] = {}
        self.keys: dict[str, Node] = {}
        self.item: Node | None = None
        self.lengths: list[int] = [0, 0]


def merge(node: Node, value: object, depth: int = 0) -> None:
    """Adds one value to what was seen at this place."""
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
        else:  # like merge; most values are scalars, and a call for each would double the time
            child.types[name] = None


def _merge_elements(node: Node, elements: list[object], depth: int) -> None:
    size = len(elements)
    low, high = node.lengths if "array" in node.types else (size, size)
    is_open = isinstance(elements, Open)
    node.more = is_open if "array" not in node.types or size > high else node.more
    node.lengths = [low if is_open else min(low, size), max(high, size)]
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
