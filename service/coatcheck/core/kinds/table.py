"""Delimited tables: columns, a row count, first and last rows."""

import csv
from typing import Final

from coatcheck.core.artifact import Facts, Said, Sample
from coatcheck.core.kinds.cutter import Description, Plan, plural

_DELIMITERS: Final = ",\t;|"
_LOOK: Final = 16 * 1024
_COLUMNS: Final = 200
_ROWS: Final = 30
"""Rows that are read."""


def columns(head: bytes) -> tuple[str, list[list[str]]] | None:
    """The delimiter and the first rows, if the text is a table: at least three rows of the same width, over one."""
    first = b"\n".join(head[:_LOOK].split(b"\n", _ROWS * 2)[: _ROWS * 2])
    lines = first.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").splitlines()
    if len(head) > len(first) == _LOOK and lines:
        lines.pop()
    lines = [line for line in lines if line.strip()][:_ROWS]
    if len(lines) < 3:  # noqa: PLR2004 - a header and two rows
        return None
    best: tuple[int, str, list[list[str]]] | None = None
    for delimiter in _DELIMITERS:
        if delimiter not in lines[0]:
            continue
        try:
            rows = list(csv.reader(lines, delimiter=delimiter))
        except csv.Error:
            continue
        width = len(rows[0])
        same = sum(len(row) == width for row in rows)
        prose = sum(len(cell) for cell in rows[0]) > 40 * width
        if width > 1 and same >= 0.9 * len(rows) and not prose and (best is None or width > best[0]):
            best = (width, delimiter, rows)
    return None if best is None else best[1:]


def _type(values: list[str]) -> str:
    filled = [value for value in values if value.strip()]
    if not filled:
        return "empty"
    for name, cast in (("int", int), ("number", float)):
        try:
            for value in filled:
                cast(value)
        except ValueError:
            continue
        return name
    return "text"


class TableCutter:
    """CSV and its relatives."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """Column names with the types of the first rows; how many rows, counted or estimated from their length."""
        del said
        found = columns(sample.head)
        if found is None:
            return Description()
        delimiter, rows = found
        cells = [[row[at] if at < len(row) else "" for row in rows[1:]] for at in range(len(rows[0]))]
        named = [f"{name.strip() or '?'} {_type(cell)}" for name, cell in zip(rows[0], cells, strict=True)]
        newlines = sample.head.count(b"\n")
        count = newlines + (not sample.head.endswith(b"\n")) - 1
        about = ""
        if not sample.whole:
            count = round(count * sample.size / max(len(sample.head), 1))
            about = "about "
        more = f", … {len(named) - _COLUMNS} more" if len(named) > _COLUMNS else ""
        separator = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}[delimiter]
        return Description(
            shape=(
                f"{about}{plural(count, 'row')} of {len(named)} columns ({separator}-separated, with a header)",
                f"Columns: {', '.join(named[:_COLUMNS])}{more}",
            )
        )

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """More of the first rows than of the last."""
        del sample, facts
        return Plan(shape=0.4, tail=0.3, hints=0.0)
