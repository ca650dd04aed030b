"""The columns of a delimited table with the types of the first rows, and the lines that its rows are on."""

from typing import Final

from coatcheck.core.outline.model import Entry, Found, titled
from coatcheck.core.structure.delimited import read_table
from coatcheck.core.text.plural import plural
from coatcheck.core.window import LineExtent

_COLUMNS: Final = 1_000
_EXAMPLE: Final = 40


def of_table(head: bytes, lines: int) -> Found:
    """The columns of a table that begins with `head` and has so many lines; none when it is no table."""
    table = read_table(head)
    if table is None:
        return Found([])
    names, *body = table.rows
    entries = [
        Entry(what="rows", title="header", lines=LineExtent(1, 1)),
        Entry(what="rows", title="rows", lines=LineExtent(2, max(2, lines)), detail=f"about {max(0, lines - 1):,}"),
    ]
    for at, name in enumerate(names[:_COLUMNS]):
        cells = [row[at] for row in body if at < len(row)]
        detail = type_of(cells)
        example = next((cell for cell in cells if cell.strip()), "")
        if detail == "text" and example:
            detail = f"text, such as {titled(example[:_EXAMPLE].encode())}"
        entries.append(
            Entry(what="column", title=titled(name.encode("utf-8", "replace")) or f"(column {at + 1})", detail=detail)
        )
    more = len(names) - _COLUMNS
    return Found(entries, more <= 0, (f"{plural(more, 'more column')}.",) if more > 0 else ())


def type_of(cells: list[str]) -> str:
    """Returns what the cells of a column are: `int`, `number`, `text`, or `empty`."""
    filled = [cell for cell in cells if cell.strip()]
    if not filled:
        return "empty"
    for name, cast in (("int", int), ("number", float)):
        try:
            for cell in filled:
                cast(cell)
        except ValueError:
            continue
        return name
    return "text"
