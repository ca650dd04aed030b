"""Places in a JSON body, and changes of values there without copying the rest.

A pointer is a tuple of keys and indices; `render` writes it as RFC 6901. `apply_edits` copies each container on the
way to an edit once, and shares everything else with the given body, which it never changes.
"""

from collections.abc import Mapping
from typing import Any

from coatcheck.core.context.body.shape import Value, as_list, as_object

Pointer = tuple[str | int, ...]

_MISSING = object()


def render(pointer: Pointer) -> str:
    """Returns the pointer as RFC 6901 writes it: `/messages/3/content`."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in pointer)


def get(body: Value, pointer: Pointer, default: Value = None) -> Value:
    """Returns the value at a pointer; `default` if there is none."""
    value = body
    for step in pointer:
        if isinstance(step, str):
            value = as_object(value).get(step, _MISSING)
        else:
            items = as_list(value)
            value = items[step] if 0 <= step < len(items) else _MISSING
        if value is _MISSING:
            return default
    return value


def apply_edits(body: Value, edits: Mapping[Pointer, Value]) -> Value:
    """Returns the body with other values at these pointers; what no edit reaches is the same object as before.

    Every pointer must name an existing value, and none may lead through another.
    """
    tree: dict[str | int, Any] = {}
    for pointer, new in edits.items():
        if not pointer:
            return new
        node = tree
        for step in pointer[:-1]:
            node = node.setdefault(step, {})
        node[pointer[-1]] = _Leaf(new)
    return _apply(body, tree) if tree else body


class _Leaf:
    """A new value, distinguishable from the containers on the way to one."""

    def __init__(self, value: Value) -> None:
        self.value = value


def _apply(value: Value, tree: dict[str | int, Any]) -> Value:
    copy: Value = value.copy()
    for step, below in tree.items():
        copy[step] = below.value if isinstance(below, _Leaf) else _apply(copy[step], below)
    return copy
