"""The cells of a Jupyter notebook: index, type, first line, and its exception or the last line of what it printed."""

from typing import Final

import msgspec
from msgspec import Struct

from coatcheck.core.outline.model import MAX_ENTRIES, Entry, OutlineEntries, make_title
from coatcheck.core.views.window import Extent, LineExtent

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
    """Hold the cells, before format 4."""


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
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    sheets = {f"$.worksheets[{number}]": sheet.cells for number, sheet in enumerate(notebook.worksheets)}
    raw_cells = [
        (f"{path}.cells[{nth}]", bytes(raw))
        for path, raws in {"$": notebook.cells, **sheets}.items()
        for nth, raw in enumerate(raws)
    ]
    paths, cells = [path for path, _ in raw_cells], [cell for _, cell in raw_cells]
    if not cells and (notebook.worksheets or b'"cells"' not in data):
        return None
    at = data.find(cells[0]) if cells else 0
    has_positions = not cells or data.find(cells[0], at + 1) < 0  # of equal bytes, it is unknown which are the cell
    entries: list[Entry] = []
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
        entries.append(Entry(what="cell", title=title, path=paths[number], detail=detail, lines=lines, bytes=extent))
    return OutlineEntries(entries, len(cells) <= MAX_ENTRIES)


def _whole_lines(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Returns the lines of a cell, if it shares none with another; otherwise nothing."""
    first = data.rfind(b"\n", 0, start) + 1
    after = data.find(b"\n", end) + 1 or len(data)
    alone = not data[first:start].strip() and not data[end:after].strip(b", \t\r\n")
    return (first, after) if alone else (0, 0)


def _describe_cell(number: int, raw: bytes) -> tuple[str, str | None]:
    """Returns a cell's title, and how it ended."""
    try:
        cell = _cell(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return f"cell {number}", None
    source = cell.source or cell.input
    source = source if isinstance(source, str) else "".join(source)
    first = next((line for line in source.splitlines() if line.strip()), "")
    name = f"cell {number} {cell.cell_type}".rstrip()
    return make_title(f"{name}: {first}" if first else name), _describe_end(cell.outputs)


def _describe_end(outputs: list[msgspec.Raw]) -> str | None:
    """Returns the exception in what a cell put out, or the last short line of text."""
    printed = ""
    for raw in outputs:
        try:
            output = _output(raw)
            text = output.text or (_text(output.data["text/plain"]) if "text/plain" in output.data else "")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        if output.output_type in {"error", "pyerr"}:
            return make_title(f"{FAILED}{output.ename}: {output.evalue}".rstrip(": ")[:_EXCEPTION])
        lines = (" ".join(line.split()) for line in (text if isinstance(text, str) else "".join(text)).split("\n"))
        printed = next((line for line in reversed(list(lines)) if 0 < len(line) <= _PRINTED), printed)
    return (
        make_title(f"printed: {printed}") if printed and not printed.startswith("<") else None
    )  # an object's own name
