"""Delimited tables: the delimiter and the first rows."""

import csv
from typing import Final

_DELIMITERS: Final = ",\t;|"
_LOOK: Final = 16 * 1024
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
