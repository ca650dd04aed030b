"""Delimited tables: columns, a row count, first and last rows."""

import csv
from typing import Final

from coatcheck.core.artifact import Said, Sample
from coatcheck.core.kinds.description import Description, plural
from coatcheck.core.structure.delimited import columns

_COLUMNS: Final = 200


def _type(values: list[str]) -> str:
    filled = [value for value in values if value.strip()]
    if not filled:
        return ""
    for name, cast in (("int", int), ("number", float)):
        try:
            for value in filled:
                cast(value)
        except ValueError:
            continue
        return name
    return "text"


def describe_table(sample: Sample, declared: Said) -> Description:
    """Returns column names, with the types of the first rows, and the number of rows where all of them are at hand."""
    del declared
    found = columns(sample.head)
    if found is None:
        return Description()
    delimiter, rows = found
    cells = [[row[at] if at < len(row) else "" for row in rows[1:]] for at in range(len(rows[0]))]
    named = [f"{name.strip() or '?'} {_type(cell)}".rstrip() for name, cell in zip(rows[0], cells, strict=True)]
    more = f", … {len(named) - _COLUMNS} more" if len(named) > _COLUMNS else ""
    separator = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}[delimiter]
    count = _rows(sample.head, delimiter) if sample.whole else None
    size = "" if count is None else f"{plural(count, 'row')} below a header, "
    return Description(
        facts=(
            f"{size}{plural(len(named), 'column')}, {separator}-separated",
            f"Columns: {', '.join(named[:_COLUMNS])}{more}",
        )
    )


def _rows(data: bytes, delimiter: str) -> int | None:
    """How many rows follow the header; None where the text breaks the rules of quoting. A row may span lines."""
    if b'"' not in data:
        return sum(1 for line in data.split(b"\n") if line.strip()) - 1
    lines = (f"{line}\n" for line in data.decode("utf-8", "replace").split("\n"))
    try:
        return sum(1 for row in csv.reader(lines, delimiter=delimiter, strict=True) if any(row)) - 1
    except csv.Error:
        return None
