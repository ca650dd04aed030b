"""Describes delimited tables: the first row, which usually names the columns, and what the rows below it say."""

from typing import Final

from coatcheck.core.kinds.description import NOTHING, Description, PayloadProbe
from coatcheck.core.records.tables import begins_with_values, read_delimited, rows_of
from coatcheck.core.records.tell import RecordFacts, tell
from coatcheck.core.structure.delimited_tables import Table, read_drawn_rows, read_table
from coatcheck.core.text.plural import first_of, format_count

_COLUMNS: Final = 200
_SEPARATORS: Final = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}


def describe_table(payload: PayloadProbe) -> Description:
    """Returns what the rows say, their number, and the first row, header or not, if all are available."""
    sample = payload.sample
    table = read_table(sample.head)
    if table is None:
        return NOTHING
    first = [cell.strip() or "?" for cell in table.rows[0]]
    rows, lines = _rows(sample.head, table) if sample.whole else ([], [])
    headless = len(rows) > 1 and begins_with_values(rows)
    below = max(0, len(rows) - 1 + headless)
    size = f"{format_count(below, 'row')}{'' if headless else ' below the first'}, " if rows else ""
    shape = f"{size}{format_count(len(first), 'column')}, {_SEPARATORS[table.delimiter]}-separated"
    names = () if headless else (f"First row: {first_of(first, _COLUMNS, separator=', ')}",)
    records = RecordFacts()
    if rows:
        begin = 0 if headless else 1
        records = tell([rows_of([""] * len(first) if headless else first, rows[begin:], lines[begin:])])
    return Description(facts=(shape, *records.facts, *names))


def _rows(data: bytes, table: Table) -> tuple[list[list[str]], list[int]]:
    """Returns the rows of a whole table, with their lines; none if quoting is broken, or anything else is in it."""
    text = data.decode("utf-8-sig", "replace")
    if not table.plain:
        return read_drawn_rows(text) if table.delimiter == "|" else ([], [])
    rows, lines = read_delimited(text.split("\n", table.begin)[-1], table.delimiter) or ([], [])
    return rows, [line + table.begin for line in lines]
