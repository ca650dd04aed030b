"""Delimited tables: columns with the types of their first values, and a row count."""

import csv
from typing import Final

from coatcheck.core.kinds.description import NOTHING, Description, Payload
from coatcheck.core.outline.table import type_of
from coatcheck.core.structure.delimited import read_table
from coatcheck.core.text.plural import counted

_COLUMNS: Final = 200
_SEPARATORS: Final = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}


def describe_table(payload: Payload) -> Description:
    """Returns column names, with the types of the first rows, and the number of rows where all of them are at hand."""
    sample = payload.sample
    table = read_table(sample.head)
    if table is None:
        return NOTHING
    header, *body = table.rows
    cells = [[row[at] for row in body if at < len(row)] for at in range(len(header))]
    named = [f"{name.strip() or '?'} {type_of(cell)}" for name, cell in zip(header, cells, strict=True)]
    more = f", … {len(named) - _COLUMNS} more" if len(named) > _COLUMNS else ""
    count = _rows(sample.head, table.delimiter) if sample.whole and table.plain else None
    size = "" if count is None else f"{counted(count, 'row')} below a header, "
    shape = f"{size}{counted(len(named), 'column')}, {_SEPARATORS[table.delimiter]}-separated"
    return Description(facts=(shape, f"Columns: {', '.join(named[:_COLUMNS])}{more}"))


def _rows(data: bytes, delimiter: str) -> int | None:
    """Returns how many rows follow the header; None where quoting is broken. A row may span lines."""
    if b'"' not in data:
        return sum(1 for line in data.split(b"\n") if line.strip()) - 1
    lines = (f"{line}\n" for line in data.decode("utf-8", "replace").split("\n"))
    try:
        return sum(1 for row in csv.reader(lines, delimiter=delimiter, strict=True) if any(row)) - 1
    except csv.Error:
        return None
