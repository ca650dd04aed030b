"""Describes delimited tables: the first row, which usually names the columns, and what is in the rows below it."""

import csv
from typing import Final

from coatcheck.core.kinds.description import NOTHING, Description, PayloadProbe
from coatcheck.core.structure.column_values import begins_with_values, column_facts
from coatcheck.core.structure.delimited_tables import drawn_rows, read_table
from coatcheck.core.text.plural import counted, first_of

_COLUMNS: Final = 200
_BEGINNING: Final = 128 * 1024
"""Bytes that are examined of a table that is not available in full: about 7 ms."""
_SEPARATORS: Final = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}


def describe_table(payload: PayloadProbe) -> Description:
    """Returns the first row, header or not, what its columns hold, and the number of rows if all are available."""
    sample = payload.sample
    table = read_table(sample.head)
    if table is None:
        return NOTHING
    first = [cell.strip() or "?" for cell in table.rows[0]]
    rows: list[list[str]] = []
    if table.plain:
        rows = _rows(sample.head, table.delimiter, whole=sample.whole)
    elif table.delimiter == "|" and sample.whole:
        rows = drawn_rows(sample.head.decode("utf-8-sig", "replace"))
    headless = len(rows) > 1 and begins_with_values(rows)
    if headless:
        rows.insert(0, [""] * len(rows[0]))
    below = max(0, len(rows) - 1)
    size = f"{counted(below, 'row')}{'' if headless else ' below the first'}, " if rows and sample.whole else ""
    shape = f"{size}{counted(len(first), 'column')}, {_SEPARATORS[table.delimiter]}-separated"
    names = () if headless else (f"First row: {first_of(first, _COLUMNS, separator=', ')}",)
    held = column_facts(rows, "" if sample.whole else f" of the first {below} rows") if rows else []
    return Description(facts=(shape, *names, *held))


def _rows(data: bytes, delimiter: str, *, whole: bool) -> list[list[str]]:
    """Returns the rows, of the beginning of a table those before the last; none if quoting is broken."""
    text = data if whole else data[: data.rfind(b"\n", 0, _BEGINNING)]
    lines = [f"{line}\n" for line in text.decode("utf-8-sig", "replace").split("\n")]
    rows: list[list[str]] = []
    try:
        rows.extend(row for row in csv.reader(lines, delimiter=delimiter, strict=True) if row)
    except csv.Error:
        return [] if whole else rows[:-1]
    return rows
