"""Rows of tables as records: delimited, or in columns of fixed width below a header."""

import csv
import re
from collections.abc import Sequence
from itertools import chain, count, groupby, zip_longest
from typing import Final

import numpy as np

from coatcheck.core.records.model import FIELDS, LONGEST, Column, RecordList

_MIN_LINES: Final = 4
"""Minimum lines of a table in columns of fixed width."""
_MIN_COLUMNS: Final = 3
"""Minimum columns of such a table. Text in two columns is more often a list of names with remarks."""
_PARTS: Final = 1_000
"""A text is searched for tables only if blank lines divide it into at most this many parts, of 20 microseconds each."""
_TITLE: Final = 3
"""Number of lines at the beginning, one of which must be the header."""
_HEADER: Final = re.compile(
    r"[A-Za-z%#](?:[\w%#()/.+-]|:(?=[A-Za-z]| |$))*(?: (?:[\w%#()/.+-]|:(?=[A-Za-z]| |$))+){0,2}"
)
_HAS_DIGIT: Final = re.compile(r".*\d")
_MAX_WIDTH: Final = 1_000
"""Characters of a line in which columns are searched for. Chosen: terminals are narrower."""
_SAMPLE_LINES: Final = 30
"""Lines at the beginning that decide whether the other lines are examined."""
_ALIKE: Final = 20
"""Number of rows with which the first row is compared."""
_LONG_NUMBER: Final = re.compile(r"[-+]?(?:\d{5,}|\d*\.\d+|\d+\.\d*)", re.ASCII)
"""Matches numbers that cannot be the name of a column. A year can."""
_DATE: Final = re.compile(r"\d{4}([-/.])\d\d\1\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?Z?)?", re.ASCII)


def begins_with_values(rows: Sequence[Sequence[str]]) -> bool:
    """Returns whether the first row has values like the next rows, instead of the names of columns.

    It does if it has a date or a long number in a column in which all filled cells of the next rows have one.
    """
    first, *others = [list(map(str.strip, row)) for row in rows[: 1 + _ALIKE]]
    columns = [[row[at] for row in others if at < len(row)] for at in range(len(first))]
    return any(
        pattern.fullmatch(cell) is not None and all(map(pattern.fullmatch, filter(None, column))) and any(column)
        for cell, column in zip(first, columns, strict=True)
        for pattern in (_DATE, _LONG_NUMBER)
    )


def rows_of(names: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[int]) -> RecordList:
    """Returns rows as records; an empty cell is a missing value.

    Args:
        names: the names of the columns.
        rows: the cells of each row, without the header.
        lines: the number of each row's first line, from 1.
    """
    column_cells = list(zip_longest(*rows))[: min(FIELDS, len(names))]
    columns: dict[str, Column] = {}
    for at, cells in enumerate(column_cells):
        name = " ".join(names[at].split())
        candidates = chain([name], (f"column {number}" for number in count(at + 1)))
        name = next(each for each in candidates if each and each not in columns)
        columns[name] = [cell.strip()[:LONGEST] or None if cell else None for cell in cells]
    return RecordList("row", len(rows), columns, lambda number: f"line {lines[number]}")


def read_delimited(text: str, delimiter: str) -> tuple[list[list[str]], list[int]] | None:
    """Returns the rows of delimited text, and the numbers of their first lines, from 1; None if it cannot be read.

    That is so if its quoting is broken, or if a cell has more than 131,072 characters.
    """
    reader = csv.reader([f"{line}\n" for line in text.split("\n")], delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    before = 0
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(before + 1)
            before = reader.line_num
    except csv.Error:
        return None
    return rows, lines


def read_columns(text: str) -> tuple[list[list[str]], list[int]] | None:
    """Returns the rows of a table in columns of fixed width, with their lines; None for any other text.

    The first row is the header. The table may have a title, and may consist of several parts between blank lines with
    the same header, if these parts are at least half of the text. Columns are separated by positions at which all lines
    have blanks. Text to the right of the header belongs to the last column.
    """
    every = [(number, line.rstrip()) for number, line in enumerate(text.split("\n"), 1)]
    filled = [each for each in every if each[1]]
    if (whole := _read_table(filled)) is not None or (whole := _read_below_title(filled)) is not None:
        return whole
    tables: dict[tuple[str, ...], tuple[list[list[str]], list[int]]] = {}
    parts = [list(part) for is_filled, part in groupby(every, key=lambda each: bool(each[1])) if is_filled]
    for part in parts if len(parts) <= _PARTS else []:
        table = _read_below_title(part)
        if table is not None:
            rows, lines = tables.setdefault(tuple(table[0][0]), ([table[0][0]], [table[1][0]]))
            rows += table[0][1:]
            lines += table[1][1:]
    most = max(tables.values(), key=lambda each: len(each[0]), default=None)
    return most if most is not None and 2 * len(most[0]) >= len(filled) else None


def _read_below_title(numbered: list[tuple[int, str]]) -> tuple[list[list[str]], list[int]] | None:
    """Returns the rows of numbered lines that are one table, except for at most two lines above the header.

    None for any other lines. At least one column must have digits in every row except the header: this distinguishes a
    table from lines that are alike by chance.
    """
    for first in range(_TITLE):
        table = _read_table(numbered[first:])
        columns = [] if table is None else list(zip(*table[0], strict=True))
        if any(not _HAS_DIGIT.match(name) and all(map(_HAS_DIGIT.match, cells)) for name, *cells in columns):
            return table
    return None


def _read_table(numbered: list[tuple[int, str]]) -> tuple[list[list[str]], list[int]] | None:
    lines = [line for _, line in numbered]
    if len(lines) < _MIN_LINES or len(lines[0].split()) < _MIN_COLUMNS or "\t" in lines[0]:
        return None
    if "  " not in lines[0] and "  " not in lines[1]:  # otherwise words of equal length would look like columns
        return None
    spans = _spans(lines[:_SAMPLE_LINES])
    if not spans or not all(_HEADER.fullmatch(lines[0][start:end].strip()) for start, end in spans):
        return None
    spans = _spans(lines)
    rows = [[line[start:end].strip() for start, end in spans] for line in lines]
    if not spans or not all(map(_HEADER.fullmatch, rows[0])):
        return None
    filled = sum(bool(cell) for row in rows[1:] for cell in row)
    if filled < 0.6 * len(spans) * (len(rows) - 1):
        return None
    return rows, [number for number, _ in numbered]


def _spans(lines: list[str]) -> list[tuple[int, int | None]]:
    """Returns the start and the end of each column; an empty list if there are too few columns."""
    width = min(_MAX_WIDTH, len(lines[0]))
    grid = "".join([line[:width].ljust(width) for line in lines]).encode("latin-1", "replace")
    blank = (np.frombuffer(grid, np.uint8).reshape(len(lines), width) == ord(" ")).all(axis=0)
    edges = np.flatnonzero(np.diff(np.concatenate(([True], blank, [True])).astype(np.int8))).tolist()
    starts, ends = edges[::2], [*edges[1:-1:2], None]
    return list(zip(starts, ends, strict=True)) if len(starts) >= _MIN_COLUMNS else []
