"""Outlines of structured payloads: the shape of JSON, the columns of a table.

The shape of a document has each place once, with its types and members: all records of an array are merged into one
place.
"""

from typing import Final, cast

from msgspec import Struct

from coatcheck.core.outline.model import OutlineEntries, OutlineEntry, make_title
from coatcheck.core.structure import read_table
from coatcheck.core.text.count import plural
from coatcheck.core.views.window import LineExtent

_MAX_DEPTH: Final = 16
"""Levels of a document that are examined; the content of deeper levels is ignored."""
_MAX_ELEMENTS: Final = 200
"""Maximum elements of an array that are merged, evenly spread: types seldom differ, and large arrays take the most
time."""
_TYPES: Final[dict[type[object], str]] = {str: "string", int: "int", float: "number", bool: "bool", type(None): "null"}


class Open(list[object]):
    """A list that was not read to its end, and may have more elements."""


class Node(Struct, eq=False):
    """All values at one place of a document, merged."""

    more: bool = False
    """Whether the longest list at this place was not read to its end."""
    types: dict[str, None] = {}
    """The types of the values at this place, in the order of their first occurrence."""
    keys: "dict[str, Node]" = {}
    item: "Node | None" = None
    """The elements of all lists at this place, merged; None if there are no lists."""
    lengths: tuple[int, int] = (0, 0)
    """Lengths of the shortest and of the longest list at this place."""


def merge(node: Node, value: object, depth: int = 0) -> None:
    """Adds one value to the merged values of a place."""
    name = _TYPES.get(type(value))
    if name is not None:
        node.types[name] = None
    elif isinstance(value, dict):
        node.types["object"] = None
        if depth < _MAX_DEPTH:
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
        else:  # as in `merge`: most values are scalars, and a call for each would double the time
            child.types[name] = None


def _merge_elements(node: Node, elements: list[object], depth: int) -> None:
    size = len(elements)
    low, high = node.lengths if "array" in node.types else (size, size)
    is_open = isinstance(elements, Open)
    node.more = is_open if "array" not in node.types or size > high else node.more
    node.lengths = low if is_open else min(low, size), max(high, size)
    node.types["array"] = None
    item = node.item = node.item or Node()
    if depth >= _MAX_DEPTH:
        return
    step = max(1, size // _MAX_ELEMENTS)
    for element in elements[: _MAX_ELEMENTS * step : step]:
        name = _TYPES.get(type(element))
        if name is None:
            merge(item, element, depth + 1)
        else:
            item.types[name] = None


_MAX_COLUMNS: Final = 1_000
"""Maximum columns that are listed; further columns are only counted."""
_EXAMPLE_CHARS: Final = 40
"""Maximum characters of a column's example."""


def of_table(head: bytes, lines: int) -> OutlineEntries:
    """Returns the columns of a table that begins with `head` and has `lines` lines; no entries if it is no table.

    The first row names the columns, even if it is not a header.
    """
    table = read_table(head)
    if table is None:
        return OutlineEntries([])
    names, *body = table.rows
    first = table.begin + 1
    entries = [
        OutlineEntry(what="rows", title="first row", lines=LineExtent(first, first)),
        OutlineEntry(
            what="rows",
            title="rows",
            lines=LineExtent(first + 1, max(first + 1, lines)),
            detail=f"about {max(0, lines - first):,}",
        ),
    ]
    for at, name in enumerate(names[:_MAX_COLUMNS]):
        example = next((row[at] for row in body if at < len(row) and row[at].strip()), "")
        excerpt = example if len(example) <= _EXAMPLE_CHARS else f"{example[: _EXAMPLE_CHARS - 1]}…"
        detail = f"such as {make_title(excerpt)}" if example else None
        entries.append(OutlineEntry(what="column", title=make_title(name) or f"(column {at + 1})", detail=detail))
    more = len(names) - _MAX_COLUMNS
    return OutlineEntries(entries, more <= 0, (f"{plural(more, 'more column')}.",) if more > 0 else ())
