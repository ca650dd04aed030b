"""Describes delimited tables: the first row, which usually names the columns, and how many are below it."""

import csv
import re
from typing import Final

from coatcheck.core.kinds.description import NOTHING, Description, PayloadProbe
from coatcheck.core.structure.delimited_tables import drawn_rows, read_table
from coatcheck.core.text.plural import counted, first_of

_COLUMNS: Final = 200
_BEGINNING: Final = 128 * 1024
"""Bytes that are examined of a table that is not available in full: about 7 ms."""
_ALIKE: Final = 20
"""Rows that the first one is compared with."""
_LONG_NUMBER: Final = re.compile(r"[-+]?(?:\d{5,}|\d*\.\d+|\d+\.\d*)", re.ASCII)
"""Matches numbers that name no column, as years do."""
_DATE: Final = re.compile(r"\d{4}([-/.])\d\d\1\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?Z?)?", re.ASCII)
_SEPARATORS: Final = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}


def describe_table(payload: PayloadProbe) -> Description:
    """Returns the first row, header or not, and the number of rows if all are available."""
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
    headless = len(rows) > 1 and _begins_with_values(rows)
    below = max(0, len(rows) - 1 + headless)
    size = f"{counted(below, 'row')}{'' if headless else ' below the first'}, " if rows and sample.whole else ""
    shape = f"{size}{counted(len(first), 'column')}, {_SEPARATORS[table.delimiter]}-separated"
    names = () if headless else (f"First row: {first_of(first, _COLUMNS, separator=', ')}",)
    return Description(facts=(shape, *names))


def _begins_with_values(rows: list[list[str]]) -> bool:
    """Returns whether the first row is one like the next: a date or a long number where they have these."""
    first, *others = [list(map(str.strip, row)) for row in rows[: 1 + _ALIKE]]
    columns = [[row[at] for row in others if at < len(row)] for at in range(len(first))]
    return any(
        pattern.fullmatch(cell) is not None and all(map(pattern.fullmatch, filter(None, column))) and any(column)
        for cell, column in zip(first, columns, strict=True)
        for pattern in (_DATE, _LONG_NUMBER)
    )


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
