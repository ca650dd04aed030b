"""What `csv` says of the facts of a table."""

import csv
import io
import re
from collections.abc import Sequence
from typing import Final

from facts.says_records import Records, RecordsOracle

_NAMES: Final = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}


class TableOracle:
    """Understands how many rows and columns there are, what is in the first row, and what the others say."""

    def __init__(self, data: bytes, delimiter: str, lines: Sequence[int] = ()) -> None:
        """`lines`: where the rows are, if not where `csv` reads them."""
        self._delimiter = delimiter
        text = io.StringIO(data.decode("utf-8-sig"), newline="")
        reader = csv.reader(text, delimiter=delimiter)
        self._rows: list[list[str]] = []
        self._lines: list[int] = []
        before = 0
        for row in reader:
            if row:
                self._rows.append(row)
                self._lines.append(lines[len(self._lines)] if lines else before + 1)
            before = reader.line_num

    def __call__(self, line: str) -> bool:
        if found := re.fullmatch(r"(?:(\d+) rows?( below the first)?, )?(\d+) columns?, (\w+)-separated", line):
            if found[1] is not None and found[2] is None:  # no row is a header
                self._rows.insert(0, [""] * len(self._rows[0]))
                self._lines.insert(0, 0)
            assert found[1] is None or int(found[1]) == len(self._rows) - 1, (line, len(self._rows))
            assert int(found[3]) == len(self._rows[0])
            assert found[4] == _NAMES[self._delimiter]
            return True
        if line.startswith("First row: "):
            self._first(line.removeprefix("First row: "))
            return True
        return RecordsOracle(rows_of(self._rows[0], self._rows[1:], self._lines[1:]))(line)

    def _first(self, told: str) -> None:
        cells = [cell.strip() or "?" for cell in self._rows[0]]
        more = [f"… {len(cells) - 200} more"] if len(cells) > 200 else []
        assert told == ", ".join([*cells[:200], *more])


def rows_of(
    names: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[int], failed: frozenset[int] | None = None
) -> Records:
    """Rows as records, in which a blank cell is none; columns without a name of their own have that of their number."""
    columns: dict[str, list[object]] = {}
    for at, cell in enumerate(names):
        name = " ".join(cell.split())
        cells: list[object] = [row[at].strip()[:4_096] or None if at < len(row) else None for row in rows]
        columns[name if name and name not in columns else f"column {at + 1}"] = cells
    return Records("row", columns, [f"line {line}" for line in lines], failed=failed)
