"""What `csv` says of the facts of a table."""

import csv
import io
import re
from typing import Final

_NAMES: Final = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}


class TableOracle:
    """Understands how many rows and columns there are, and what is in the first row."""

    def __init__(self, data: bytes, delimiter: str) -> None:
        self._delimiter = delimiter
        text = io.StringIO(data.decode("utf-8-sig"), newline="")
        self._rows = [row for row in csv.reader(text, delimiter=delimiter) if row]

    def __call__(self, line: str) -> bool:
        if found := re.fullmatch(r"(?:(\d+) rows? below the first, )?(\d+) columns?, (\w+)-separated", line):
            assert found[1] is None or int(found[1]) == len(self._rows) - 1, (line, len(self._rows))
            assert int(found[2]) == len(self._rows[0])
            assert found[3] == _NAMES[self._delimiter]
            return True
        if line.startswith("First row: "):
            self._first(line.removeprefix("First row: "))
            return True
        return False

    def _first(self, told: str) -> None:
        cells = [cell.strip() or "?" for cell in self._rows[0]]
        more = [f"… {len(cells) - 200} more"] if len(cells) > 200 else []
        assert told == ", ".join([*cells[:200], *more])
