"""What `csv` says of the facts of a table."""

import csv
import io
import json
import re
from collections import Counter
from typing import Final

_NAMES: Final = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}


class TableOracle:
    """Understands how many rows and columns there are, and what is in the first row."""

    def __init__(self, data: bytes, delimiter: str) -> None:
        self._delimiter = delimiter
        text = io.StringIO(data.decode("utf-8-sig"), newline="")
        self._rows = [row for row in csv.reader(text, delimiter=delimiter) if row]

    def __call__(self, line: str) -> bool:
        if found := re.fullmatch(r"(?:(\d+) rows?( below the first)?, )?(\d+) columns?, (\w+)-separated", line):
            if found[1] is not None and found[2] is None:  # no row is a header
                self._rows.insert(0, [""] * len(self._rows[0]))
            assert found[1] is None or int(found[1]) == len(self._rows) - 1, (line, len(self._rows))
            assert int(found[3]) == len(self._rows[0])
            assert found[4] == _NAMES[self._delimiter]
            return True
        if found := re.fullmatch(r"Ranges(?: of the first (\d+) rows)?: (.*)", line):
            self._ranges(found[2], self._held(found[1]))
            return True
        if found := re.match(r"Counts of ", line):
            self._counts(line)
            return True
        if line.startswith("First row: "):
            self._first(line.removeprefix("First row: "))
            return True
        return False

    def _first(self, told: str) -> None:
        cells = [cell.strip() or "?" for cell in self._rows[0]]
        more = [f"… {len(cells) - 200} more"] if len(cells) > 200 else []
        assert told == ", ".join([*cells[:200], *more])

    def _held(self, most: str | None) -> dict[str, list[list[str]]]:
        """The cells below the first row that are not blank, by the name of their column, which several may have."""
        names, *body = self._rows
        assert most is None or int(most) <= len(body)
        held: dict[str, list[list[str]]] = {}
        for at, name in enumerate(names):
            cells = [row[at].strip() for row in body[: None if most is None else int(most)] if at < len(row)]
            for shown in {name.strip(), f"column {at + 1}"}:
                held.setdefault(shown, []).append([cell for cell in cells if cell])
        return held

    def _ranges(self, told: str, held: dict[str, list[list[str]]]) -> None:
        for item in told.split("; "):
            name, least, greatest = next(
                (name, *item.removeprefix(f"{name} ").split(" to "))
                for name in sorted(held, key=len, reverse=True)
                if item.startswith(f"{name} ")
            )
            assert any(_is_range(cells, least, greatest) for cells in held[name]), item

    def _counts(self, line: str) -> None:
        """Each value that is told is there as often, none that is left out is more frequent, and so many are."""
        decoder = json.JSONDecoder()
        found = re.match(r"Counts of (.*?)(?: of the first (\d+) rows)?: (?=\")", line)
        assert found is not None, line
        told: dict[str, int] = {}
        at, more = found.end(), 0
        while at < len(line):
            if left := re.compile(r"… (\d+) more values$").match(line, at):
                more = int(left[1])
                break
            value, at = decoder.raw_decode(line, at)
            count = re.compile(r" (\d+)(?:, |$)").match(line, at)
            assert count is not None, line
            told[value], at = int(count[1]), count.end()
        wanted = [Counter(cells) for cells in self._held(found[2])[found[1]]]
        first = [dict(each.most_common(len(told))) for each in wanted]
        assert any(
            {value: each[value] for value in told} == told
            and len(each) == len(told) + more
            and sorted(top.values()) == sorted(told.values())
            for each, top in zip(wanted, first, strict=True)
        ), line


def _is_range(cells: list[str], least: str, greatest: str) -> bool:
    try:
        numbers = list(map(float, cells))
    except ValueError:
        return (min(cells), max(cells)) == (least, greatest) and all(re.match(r"\d{4}\D\d\d\D\d\d", c) for c in cells)
    return (
        bool(numbers)
        and (min(numbers), max(numbers)) == (float(least), float(greatest))
        and {least, greatest} <= {*cells}
    )
