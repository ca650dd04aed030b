"""What `csv` says of the facts of a table."""

import csv
import io
import re
from typing import Final

_NAMES: Final = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}


class TableOracle:
    """Understands how many rows and columns there are, and what is in each."""

    def __init__(self, data: bytes, delimiter: str, *, header: bool = True) -> None:
        """`header`: whether the first row names the columns."""
        self._delimiter = delimiter
        self._header = header
        text = io.StringIO(data.decode("utf-8-sig"), newline="")
        self._rows = [row for row in csv.reader(text, delimiter=delimiter) if row]

    def __call__(self, line: str) -> bool:
        if found := re.fullmatch(r"(?:(\d+) rows? below a header, )?(\d+) columns?, (\w+)-separated", line):
            assert self._header or found[1] is None, "it has no header"
            assert found[1] is None or int(found[1]) == len(self._rows) - 1, (line, len(self._rows))
            assert int(found[2]) == len(self._rows[0])
            assert found[3] == _NAMES[self._delimiter]
            return True
        if line.startswith("Columns: "):
            self._columns(line.removeprefix("Columns: "))
            return True
        return False

    def _columns(self, told: str) -> None:
        assert self._header, "it has no header"
        at = 0
        for number, name in enumerate(self._rows[0][:200]):
            shown = name.strip() or "?"
            assert told.startswith(shown, at), (shown, told[at : at + 80])
            at += len(shown)
            found = re.compile(r"( int| number| text)?(, |$)").match(told, at)
            assert found is not None, told[at : at + 80]
            cells = [row[number].strip() for row in self._rows[1:] if number < len(row) and row[number].strip()]
            _typed((found[1] or "").strip(), cells, name)
            at = found.end()
        more = len(self._rows[0]) - 200
        assert told[at:] == (f"… {more} more" if more > 0 else "")


def _typed(kind: str, cells: list[str], name: str) -> None:
    whole = sum(re.fullmatch(r"[-+]?\d+", cell) is not None for cell in cells)
    number = sum(
        re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)", cell) is not None for cell in cells
    )
    if kind == "int":
        assert whole == len(cells), f"{name} is no int"
    elif kind == "number":
        assert number == len(cells), f"{name} is no number"
    elif kind == "text":
        assert number < len(cells), f"{name} is no text"
    else:
        assert not cells, f"{name} is not empty"
