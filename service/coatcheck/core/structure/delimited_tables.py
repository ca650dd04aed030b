"""Delimited tables: the delimiter and the first rows, of CSV and the like or of a table drawn with bars."""

import csv
import re
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

_LOOK: Final = 16 * 1024
_TABLE_LINES: Final = 60
_ROWS: Final = 30
"""Lines that are examined, and rows that are read from them."""
_BARS: Final = frozenset("+│┃║┌┏╔╭")
_AS_BAR: Final = str.maketrans("│┃║", "|||")
_RULE: Final = re.compile(r"[-+|:= ─━═┌-╿]*[-─━═]{2}[-+|:= ─━═┌-╿]*")
_RULES: Final = 3
"""Rules of a table that has none between its rows: more may be rows of dashes."""
_COUNT: Final = re.compile(r"\(?(\d+) rows?(?: in set\b.*|\)|$)")
"""Matches the number of rows, as databases print it below them."""
_NEARLY: Final = 0.9
_DRAWN: Final = 0.7
"""Shares of rows that must be as wide as the header; a drawn table may have a title and a count beside its rows."""
_NUMBER_SHARE: Final = 0.8
"""Share of cells with digits and no blanks from which nothing else is checked."""
_NUMBER: Final = re.compile(r"\s*[-+]?\d[\d.,]*\s*")
_DIGIT: Final = re.compile(r"\d")
_WHOLE: Final = 3
"""Rows of which the last may be left out."""
_SHORT: Final = 40
"""Maximum characters of a cell that is a value rather than a sentence."""
_WORDS: Final = 6
"""Maximum words of a column's name; a clause has more."""


class Table(Struct, frozen=True):
    """The beginning of a table."""

    delimiter: str
    """One of `,`, tab, `;` and `|`."""
    rows: list[list[str]]
    """The header, and the rows below it as far as they were read."""
    plain: bool
    """Whether every line below `begin` belongs to a row: there are no rules and no comments."""
    begin: int = 0
    """Lines above the header, which are comments."""


def read_table(head: bytes) -> Table | None:
    """Returns the table that a text begins with: at least three rows with the same number of cells, more than one."""
    first = head[:_LOOK].removeprefix(b"\xef\xbb\xbf").split(b"\n", _TABLE_LINES)[:_TABLE_LINES]
    if len(first) < _TABLE_LINES:
        first.pop()  # it is empty, or may be cut
    every = b"\n".join(first).decode("utf-8", "replace").splitlines()
    filled = [line for line in every if line.strip()]
    lines = [line for line in filled if line[0] != "#"]
    comments = next((at for at, line in enumerate(first) if line[:1] != b"#"), 0)
    if any(line.lstrip()[:1] in _BARS or "|" in line for line in lines[:2]):
        bar_lines = [line.translate(_AS_BAR).strip().strip("|") for line in lines if not _RULE.fullmatch(line.strip())]
        if 1 < len(bar_lines) < len(lines) and "|" in bar_lines[0]:
            rows = [[cell.strip() for cell in line.split("|")] for line in bar_lines[:_ROWS]]
            return Table("|", rows, plain=False) if _even(rows) >= _DRAWN else None
    table = _widest(lines[:_ROWS], plain=len(lines) + comments == len(filled))
    if table is None or not comments:
        return table
    header = first[comments - 1].decode("utf-8", "replace").strip("# \r").split(table.delimiter)
    columns = zip(*[row for row in table.rows if len(row) == len(header)], strict=True)
    if len(header) == len(table.rows[0]) and any(all(map(_NUMBER.fullmatch, cells)) for cells in columns):
        return replace(table, rows=[header, *table.rows], begin=comments - 1)
    return replace(table, begin=comments)


def read_drawn_rows(text: str) -> tuple[list[list[str]], list[int]]:
    """Returns the rows of a drawn table that is a whole text, the header first, and their lines.

    None if any line is neither a row nor a rule, but for the number of rows at the end, which must be right.
    """
    numbered = [(line, at) for at, line in enumerate(text.translate(_AS_BAR).split("\n"), 1) if line.strip()]
    count = _COUNT.match(numbered[-1][0].strip()) if numbered else None
    every = numbered if count is None else numbered[:-1]
    lines = [each for each in every if not _RULE.fullmatch(each[0].strip())]
    rules, rows = len(every) - len(lines), [line for line, _ in lines]
    if all(line.strip()[:1] == "|" == line.strip()[-1:] for line in rows):
        rows = [line.strip()[1:-1] for line in rows]
    cells = [[cell.strip() for cell in line.split("|")] for line in rows]
    even = cells and _even(cells) == 1 and (rules <= _RULES or rules >= len(rows))
    if not even or (count is not None and int(count[1]) != len(cells) - 1):
        return [], []
    return cells, [number for _, number in lines]


def _even(rows: list[list[str]]) -> float:
    width = len(rows[0])
    return sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0


def _widest(lines: list[str], *, plain: bool) -> Table | None:
    best: Table | None = None
    for delimiter in ",\t;|" if len(lines) > 2 else "":  # noqa: PLR2004 - a header and two rows
        least = lines[0].count(delimiter)
        quoted = any('"' in line for line in lines)
        if not least or (not quoted and sum(line.count(delimiter) >= least for line in lines) < _NEARLY * len(lines)):
            continue
        try:
            rows = list(csv.reader([f"{line}\n" for line in lines], delimiter=delimiter))
            rows = rows[:-1] if quoted and len(rows) > _WHOLE else rows  # its last cell may go on
        except csv.Error:
            continue
        if _even(rows) >= _NEARLY and _is_table(rows, delimiter) and (best is None or len(rows[0]) > len(best.rows[0])):
            best = Table(delimiter, rows, plain)
    return best


def _is_table(rows: list[list[str]], delimiter: str) -> bool:
    """Returns whether delimiters separate values rather than clauses, arguments, or the two halves of a line."""
    header, cells = rows[0], [cell.strip() for row in rows[1:] for cell in row]
    if any(cell.count("(") != cell.count(")") or cell.rstrip()[-1:] in set("{[=") for cell in header):
        return False
    values = sum(len(cell) <= _SHORT and " " not in cell and _DIGIT.search(cell) is not None for cell in cells)
    if values > _NUMBER_SHARE * len(cells):
        return True
    spaced = sum(cell[:1] == " " or (delimiter == "|" and not cell) for cell in header[1:])  # `a || b` is a command
    if delimiter != "\t" and 2 * spaced >= len(header):
        return False
    if len(header) > 2:  # noqa: PLR2004
        return all(len(cell.split()) <= _WORDS for cell in header)
    has_names = all(cell.strip() and cell[0] != " " and _DIGIT.search(cell) is None for cell in header)
    return has_names and sum(len(cell) <= _SHORT for cell in cells) >= _NEARLY * len(cells)
