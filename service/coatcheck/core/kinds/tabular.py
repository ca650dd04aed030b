"""Whether a text is a table: delimited values, or the ruled tables that databases and documents print.

Only rows that agree make one. A log with commas, code in lines that end with one, or two words with a bar between
them do not.
"""

import csv
import re
from itertools import pairwise
from typing import Final

_DELIMITERS: Final = ",\t;|"
_LOOK: Final = 16 * 1024
_ROWS: Final = 40
_SPLIT: Final = 200
"""Lines that are looked through for rows: a table may begin with a long comment."""
_LEAST: Final = 3
_RULED: Final = "-+|:= ─━═┌┬┐├┼┤└┴┘╔╦╗╠╬╣╚╩╝╒╤╕╞╪╡╘╧╛┏┳┓┣╋┫┗┻┛┡╇┩╭╮╰╯╠│║┃"
"""What rules are made of: a line of nothing else, with joints, is one."""
_JOINTS: Final = frozenset(_RULED) - frozenset("-:= ─━═")
_DASHES: Final = frozenset("-=─━═")
_CELLS: Final = re.compile(r"[|│║┃]")
_WORDS: Final = re.compile(r"[^\W\d_]{2,}[,;:]? [^\W\d_]+[,;:]? [^\W\d_]{2,}")
_NUMERIC: Final = re.compile(r"\s*(?:[-+]?[\d.,:/%$€eE-]*\d[\d.,:/%-]*|0x[\da-fA-F]+)\s*")
_CODE: Final = re.compile(r"[({\[=<>;][ \t]{0,8}$|^\s*(?:[)}\]]|//|/\*|\* )|;\s*$|[({]\w* ?$")
_INDEXED: Final = re.compile(r"(\d+) {1,}\S")


def tabular(head: bytes) -> bool:
    """Whether the text that begins like this is a table."""
    every = _lines(head)
    lines = every[:_ROWS]
    return len(lines) >= _LEAST and (_ruled(lines) or _delimited(every) or _framed(lines))


def _lines(head: bytes) -> list[str]:
    first = head[:_LOOK]
    lines = first.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").split("\n", _SPLIT)
    if len(lines) > _SPLIT or len(head) > len(first) or not first.endswith(b"\n"):
        lines.pop()  # it may be cut
    return [line.rstrip("\r") for line in lines if line.strip()]


def _ruled(lines: list[str]) -> bool:
    """A rule among the first lines, and rows with as many bars as the rule has joints."""
    at = next((n for n, line in enumerate(lines[:3]) if _is_rule(line)), None)
    if at is None or len(lines) <= at + 1:
        return False
    header = lines[at - 1] if at else lines[at + 1]
    bars = len(_CELLS.findall(header))
    rows = [line for line in lines if not _is_rule(line)]
    same = sum(len(_CELLS.findall(row)) == bars for row in rows)
    return bars > 0 and same >= 0.7 * len(rows)


def _is_rule(line: str) -> bool:
    if line.strip(_RULED):
        return False
    seen = frozenset(line)
    return bool(seen & _JOINTS and seen & _DASHES)


def _delimited(lines: list[str]) -> bool:
    """Rows of one width. Lines that begin with `#` say something about the table."""
    lines = [line for line in lines if not line.startswith("#")][:_ROWS]
    return len(lines) >= _LEAST and any(_by(lines, delimiter) for delimiter in _DELIMITERS if delimiter in lines[0])


def _by(lines: list[str], delimiter: str) -> bool:
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return False
    if not _even(rows, lines, delimiter) or sum(bool(_CODE.search(line)) for line in lines) > _SOME * len(lines):
        return False
    if len(rows[0]) == _PAIR:
        return _pairs(rows, delimiter)
    return delimiter not in ",;" or _listed(rows, lines)


def _even(rows: list[list[str]], lines: list[str], delimiter: str) -> bool:
    """Whether the rows are of one width, or shorter where there are many columns, and begin at the margin."""
    width = max(map(len, rows[:4]))
    same = sum(len(row) == width for row in rows)
    ragged = sum(1 < len(row) <= width for row in rows)
    if width < _PAIR + (delimiter == "|" and any(" |" in line for line in lines)):
        return False
    if same < _NEARLY * len(rows) and (width <= _LEAST or ragged < len(rows)):
        return False
    return delimiter == "\t" or sum(line[:1] in " \t" for line in lines) <= _FEW * len(lines)


def _listed(rows: list[list[str]], lines: list[str]) -> bool:
    """Whether commas part values rather than clauses: few words in a row, and no blank after each."""
    width = len(rows[0])
    wordy = sum(
        len(_WORDS.findall(" ".join(row)[:_LINE])) > 1 + width // 4 and '"' not in line
        for row, line in zip(rows, lines, strict=False)
    )
    spaced = sum(cell[:1] == " " for row in rows for cell in row[1:])
    apart = spaced < sum(len(row) - 1 for row in rows) / 2
    return wordy < len(rows) / 2 and (apart or _numeric(rows) > _FEW)


def _numeric(rows: list[list[str]]) -> float:
    cells = [cell for row in rows[1:] for cell in row]
    return sum(len(cell) <= _SHORT and bool(_NUMERIC.fullmatch(cell)) for cell in cells) / max(1, len(cells))


def _pairs(rows: list[list[str]], delimiter: str) -> bool:
    """Two columns need more to be told from two parts of a line: a header, and short values of one sort."""
    head, body = rows[0], rows[1:]
    numeric = _numeric(rows)
    if numeric >= _NEARLY:
        return True
    if any(not cell.strip() or cell[:1] == " " or _NUMERIC.fullmatch(cell[:_SHORT]) for cell in head):
        return False
    cells = [cell for row in body for cell in row]
    short = sum(len(cell) <= _SHORT and not _WORDS.search(cell) for cell in cells) / max(1, len(cells))
    if delimiter == "\t":
        return short >= _MOSTLY
    uneven = len({len(row[0]) for row in rows}) > 1
    return numeric >= _HALF or (short >= _NEARLY and uneven and (numeric >= _FEW or len(body) > _LEAST + 1))


_PAIR: Final = 2
_SHORT: Final = 40
"""Characters of a cell that is a value rather than a sentence."""
_LINE: Final = 600
_SOME: Final = 0.2
_FEW: Final = 0.3
_HALF: Final = 0.4
_MOSTLY: Final = 0.6
_NEARLY: Final = 0.9
"""Shares of rows and cells."""


def _framed(lines: list[str]) -> bool:
    """A data frame: aligned columns under a header that leaves room for an index."""
    if lines[0][:1] != " " or len(lines[0].split()) < _PAIR:
        return False
    numbers = [int(match.group(1)) for line in lines[1:] if (match := _INDEXED.match(line))]
    if len(numbers) < 0.9 * (len(lines) - 1) or len(numbers) < _LEAST - 1:
        return False
    rising = all(high == low + 1 for low, high in pairwise(numbers))
    return rising and sum(abs(len(line) - len(lines[0])) <= _PAIR for line in lines[1:]) >= 0.7 * (len(lines) - 1)
