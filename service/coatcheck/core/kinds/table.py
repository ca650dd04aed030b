"""Describes delimited tables: the first row, which usually names the columns, and the number of rows below it."""

import csv
from typing import Final

from coatcheck.core.kinds.description import NOTHING, Description, PayloadProbe
from coatcheck.core.structure.delimited_tables import read_table
from coatcheck.core.text.plural import counted, first_of

_COLUMNS: Final = 200
_SEPARATORS: Final = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}


def describe_table(payload: PayloadProbe) -> Description:
    """Returns the first row, header or not, and the number of rows below it if all are available."""
    sample = payload.sample
    table = read_table(sample.head)
    if table is None:
        return NOTHING
    first = [cell.strip() or "?" for cell in table.rows[0]]
    count = _rows(sample.head, table.delimiter) if sample.whole and table.plain else None
    size = "" if count is None else f"{counted(count - 1, 'row')} below the first, "
    shape = f"{size}{counted(len(first), 'column')}, {_SEPARATORS[table.delimiter]}-separated"
    return Description(facts=(shape, f"First row: {first_of(first, _COLUMNS, separator=', ')}"))


def _rows(data: bytes, delimiter: str) -> int | None:
    """Returns the number of rows; None if quoting is broken. A row may span lines."""
    lines = (f"{line}\n" for line in data.decode("utf-8-sig", "replace").split("\n"))
    try:
        return sum(map(bool, csv.reader(lines, delimiter=delimiter, strict=True)))
    except csv.Error:
        return None
