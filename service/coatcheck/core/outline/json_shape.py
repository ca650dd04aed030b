"""Outlines of structured payloads: the shape of JSON, the columns of a table, the cells of a notebook.

The shape of a document has every place once, with its types and members: the records of an array are merged.
"""

from typing import Final, cast

import msgspec
from msgspec import Struct

from coatcheck.core.outline.model import MAX_ENTRIES, OutlineEntries, OutlineEntry, make_title
from coatcheck.core.structure import JSON_FAULTS, read_table
from coatcheck.core.text.count import plural
from coatcheck.core.views.window import Extent, LineExtent

MAX_DEPTH: Final = 16
"""Maximum levels of a document below its value that are merged; deeper levels are ignored."""
MAX_ELEMENTS: Final = 200
"""Maximum elements of an array that are merged: half of them from its beginning, the others evenly spread. The types of
elements seldom differ, and merging all of a large array would take long."""
_CONTAINERS: Final = frozenset([dict, list])
_TYPES: Final[dict[type[object], str]] = {str: "string", int: "int", float: "number", bool: "bool", type(None): "null"}


class Open(list[object]):
    """A list that was not read to its end, so that it may have further elements. Cards say so in a separate line."""


class Node(Struct, eq=False):
    """Everything seen at one place of a document, merged."""

    more: bool = False
    """Whether the longest list here was not read to its end."""
    types: dict[str, None] = {}
    """The types of the values here, in the order of their first occurrence."""
    keys: "dict[str, Node]" = {}
    item: "Node | None" = None
    """What the elements of the lists here have in common."""
    lengths: tuple[int, int] = (0, 0)
    """Lengths of the shortest and of the longest list here."""
    is_deeper: bool = False
    """Whether there are values below this place that were not merged, because they are too deep."""
    is_sampled: bool = False
    """Whether a list here has containers, and more elements than are merged."""


def merge(node: Node, value: object, depth: int = 0) -> None:
    """Adds one value to what was seen at this place."""
    name = _TYPES.get(type(value))
    if name is not None:
        node.types[name] = None
    elif isinstance(value, dict):
        node.types["object"] = None
        if depth < MAX_DEPTH:
            _merge_members(node.keys, cast("dict[str, object]", value), depth + 1)
        elif value:
            node.is_deeper = True
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
    node.lengths = low if is_open else min(low, size), max(high, size)
    node.types["array"] = None
    item = node.item = node.item or Node()
    if depth >= MAX_DEPTH:
        node.is_deeper = node.is_deeper or size > 0
        return
    if size > MAX_ELEMENTS:
        node.is_sampled = node.is_sampled or not _CONTAINERS.isdisjoint(map(type, elements))
        half = MAX_ELEMENTS // 2
        elements = [*elements[:half], *elements[half :: -(-(size - half) // half)]]
    for element in elements:
        name = _TYPES.get(type(element))
        if name is None:
            merge(item, element, depth + 1)
        else:
            item.types[name] = None


_MAX_COLUMNS: Final = 1_000
"""Maximum columns that are listed; the others are counted."""
_EXAMPLE_CHARS: Final = 40
"""Maximum characters of a column's example."""


def of_table(head: bytes, lines: int) -> OutlineEntries:
    """Returns the columns of a table that begins with `head` and has `lines` lines; none if it is not a table.

    A column is named by the first row, which may not be a header.
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


_MARK: Final = b'"nbformat"'
_EXCEPTION: Final = 300
"""Maximum characters of an exception."""
_PRINTED: Final = 80
"""Maximum characters of a line that was printed."""
FAILED: Final = "failed: "


class _Output(Struct):
    output_type: str = ""
    ename: str = ""
    evalue: str = ""
    text: str | list[str] = ""
    data: dict[str, msgspec.Raw] = {}


class _Cell(Struct):
    cell_type: str = ""
    source: str | list[str] = ""
    input: str | list[str] = ""
    """The source of code, before format 4."""
    outputs: list[msgspec.Raw] = []


class _Sheet(Struct):
    cells: list[msgspec.Raw] = []


class _Notebook(Struct):
    nbformat: int
    cells: list[msgspec.Raw] = []
    worksheets: list[_Sheet] = []
    """The sheets that contain the cells, before format 4."""


_notebook: Final = msgspec.json.Decoder(_Notebook).decode
_cell: Final = msgspec.json.Decoder(_Cell).decode
_output: Final = msgspec.json.Decoder(_Output).decode
_text: Final = msgspec.json.Decoder(str | list[str]).decode


def of_notebook(data: bytes) -> OutlineEntries | None:
    """Returns the cells of a whole notebook, or None if it is not one."""
    if _MARK not in data:
        return None
    try:
        notebook = _notebook(data)
    except JSON_FAULTS:
        return None
    sheets = {f"$.worksheets[{number}]": sheet.cells for number, sheet in enumerate(notebook.worksheets)}
    parts = {"$": notebook.cells, **sheets}.items()
    raw_cells = [(f"{path}.cells[{nth}]", bytes(raw)) for path, raws in parts for nth, raw in enumerate(raws)]
    paths, cells = [path for path, _ in raw_cells], [cell for _, cell in raw_cells]
    if not cells and (notebook.worksheets or b'"cells"' not in data):
        return None
    at = data.find(cells[0]) if cells else 0
    has_positions = not cells or data.find(cells[0], at + 1) < 0  # a cell whose bytes occur twice has no known place
    entries: list[OutlineEntry] = []
    line, offset = 1, 0
    for number, cell in enumerate(cells[:MAX_ENTRIES]):
        title, detail = _describe_cell(number, cell)
        lines = extent = None
        if has_positions:
            at = data.find(cell, at)
            start, end = _whole_lines(data, at, at + len(cell))
            if end > start:
                line += data.count(b"\n", offset, start)
                offset = start
                extent = Extent(start, end)
                lines = LineExtent(line, line + data.count(b"\n", start, end - 1))
            at += len(cell)
        entries.append(
            OutlineEntry(what="cell", title=title, path=paths[number], detail=detail, lines=lines, bytes=extent)
        )
    return OutlineEntries(entries, len(cells) <= MAX_ENTRIES)


def _whole_lines(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Returns the range of the lines of a cell, in bytes; (0, 0) if these lines also contain something else."""
    first = data.rfind(b"\n", 0, start) + 1
    after = data.find(b"\n", end) + 1 or len(data)
    alone = not data[first:start].strip() and not data[end:after].strip(b", \t\r\n")
    return (first, after) if alone else (0, 0)


def _describe_cell(number: int, raw: bytes) -> tuple[str, str | None]:
    """Returns a cell's title, and how it ended."""
    try:
        cell = _cell(raw)
    except JSON_FAULTS:
        return f"cell {number}", None
    source = cell.source or cell.input
    source = source if isinstance(source, str) else "".join(source)
    first = next((line for line in source.splitlines() if line.strip()), "")
    name = f"cell {number} {cell.cell_type}".rstrip()
    return make_title(f"{name}: {first}" if first else name), _describe_end(cell.outputs)


def _describe_end(outputs: list[msgspec.Raw]) -> str | None:
    """Returns the exception among the outputs of a cell, or else the last short line of text."""
    printed = ""
    for raw in outputs:
        try:
            output = _output(raw)
            text = output.text or (_text(output.data["text/plain"]) if "text/plain" in output.data else "")
        except JSON_FAULTS:
            continue
        if output.output_type in {"error", "pyerr"}:
            return make_title(f"{FAILED}{output.ename}: {output.evalue}".rstrip(": ")[:_EXCEPTION])
        lines = (" ".join(line.split()) for line in (text if isinstance(text, str) else "".join(text)).split("\n"))
        printed = next((line for line in reversed(list(lines)) if 0 < len(line) <= _PRINTED), printed)
    return (
        make_title(f"printed: {printed}") if printed and not printed.startswith("<") else None
    )  # `<…>` is the default name of an object
