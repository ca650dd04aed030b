"""Delimited tables with quotes, blank lines, odd rows and none of a header; and tables that are drawn."""

import csv
import io
import random
import re
from collections.abc import Callable, Iterator

from coatcheck.core.artifact import DeclaredMetadata, Kind
from facts.cases import Case
from facts.says_output import lines_of
from facts.says_tables import TableOracle

_TABLE = (Kind.TABLE,)


def _written(rng: random.Random, rows: list[list[object]], delimiter: str, end: str = "\n") -> bytes:
    out = io.StringIO(newline="")
    csv.writer(
        out, delimiter=delimiter, lineterminator=end, quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    ).writerows(rows)
    return out.getvalue().encode()


def _said(rng: random.Random) -> DeclaredMetadata:
    return rng.choice([DeclaredMetadata(), DeclaredMetadata(media_type="text/csv"), DeclaredMetadata(kind=Kind.TABLE)])


def quoted(rng: random.Random, count: int, *, nothing: bool = False) -> Iterator[Case]:
    """Values with quotes, delimiters and line ends in them, blank lines, and perhaps rows of nothing."""
    for _ in range(count):
        width, delimiter = rng.randint(2, 9), rng.choice(",;\t|")
        rows: list[list[object]] = [[f"column {n}" if rng.random() < 0.2 else f"col_{n}" for n in range(width)]]
        for n in range(rng.randint(3, 120)):
            rows.append(
                [rng.choice([n, n / 2, f"word{n}", 'a "quoted"\nword', "x, y; z", "", "größe"]) for _ in range(width)]
            )
            if nothing:
                rows.append([""] * width)
            elif not any(rows[-1]):
                rows[-1][0] = n
        data = _written(rng, rows, delimiter, rng.choice(["\n", "\n", "\r\n"]))
        if rng.random() < 0.1:
            data += b"\n\n"
        if rng.random() < 0.1:
            data = b"\xef\xbb\xbf" + data
        yield Case(data, (TableOracle(data, delimiter),), DeclaredMetadata(kind=Kind.TABLE))


def plain(rng: random.Random, count: int, *, odd: bool = False) -> Iterator[Case]:
    """Numbers and words; `odd`: words among the numbers far below."""
    for _ in range(count):
        width, delimiter = rng.randint(3, 12), rng.choice(",;\t")
        makers: list[Callable[[int], object]] = [rng.choice([int, float, str]) for _ in range(width)]
        rows: list[list[object]] = [["id", *(f"field_{n}" for n in range(1, width))]]
        rows += [
            [made(n) if made is not str else f"w{n}" for made in makers]
            for n in range(rng.randint(60 if odd else 4, 300))
        ]
        if odd:  # the exception below what is looked at first
            rows[-3] = ["n/a"] * width
        data = _written(rng, rows, delimiter)
        yield Case(data, (TableOracle(data, delimiter),), _said(rng))


def held(rng: random.Random, count: int) -> Iterator[Case]:
    """Measurements with dates, states and blanks, some of a column that is not what its first rows are."""
    for _ in range(count):
        rows: list[list[object]] = [["day", "state", "value; max", "code", "value"]]
        codes = [f"C{n}" for n in range(rng.randint(7, 40))]
        for n in range(rng.randint(4, 400)):
            day = f"2026-{1 + n // 28 % 12:02d}-{1 + n % 28:02d}"
            state = rng.choice(["up", "up", 'say "x", 3', "down"])
            code = codes[min(int(rng.expovariate(0.4)), len(codes) - 1)]
            rows.append([day, state, rng.choice(["", -n, n / 8, 1e9]), code, rng.choice([f"{n:03d}", "+1.5", "2e3"])])
        if rng.random() < 0.3:
            rows.insert(rng.randint(2, len(rows)), ["2026-13", "", "n/a", "", "-"])
        data = _written(rng, rows, rng.choice(",\t"))
        yield Case(data, (TableOracle(data, "\t" if b"\t" in data else ","),), _said(rng))


def headless(rng: random.Random, count: int) -> Iterator[Case]:
    """Rows of numbers without a header."""
    for _ in range(count):
        rows: list[list[object]] = [[n, n * 3, n / 4, rng.randrange(9)] for n in range(rng.randint(4, 90))]
        data = _written(rng, rows, ",")
        yield Case(data, (TableOracle(data, ","),), _said(rng))


def wide(rng: random.Random, count: int) -> Iterator[Case]:
    """Hundreds of columns."""
    for _ in range(count):
        width = rng.randint(190, 400)
        rows: list[list[object]] = [[f"c{n}" for n in range(width)], *([n] * width for n in range(5))]
        data = _written(rng, rows, ",")
        yield Case(data, (TableOracle(data, ","),), _said(rng))


def drawn(rng: random.Random, count: int) -> Iterator[Case]:
    """Tables of Markdown, of databases, and of data frames: what they are ruled with is no row."""
    for number in range(count):
        names = ["id", "name", "amount"]
        rows = [[str(n), rng.choice(["ann", "bob", "eve"]), f"{n * 7 / 2:.2f}"] for n in range(rng.randint(3, 40))]
        sizes = [max(len(row[at]) for row in [names, *rows]) for at in range(3)]
        if number % 3 == 0:
            text = "\n".join(f"| {' | '.join(row)} |" for row in [names, ["---"] * 3, *rows])
        elif number % 3 == 1:
            lines = [
                " " + " | ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True))
                for row in [names, *rows]
            ]
            text = "\n".join(
                [lines[0], "-" + "-+-".join("-" * size for size in sizes), *lines[1:], f"({len(rows)} rows)"]
            )
        else:
            lines = [
                str(n).ljust(4) + "  ".join(cell.rjust(size) for cell, size in zip(row, sizes, strict=True))
                for n, row in enumerate(rows)
            ]
            text = "\n".join(
                ["    " + "  ".join(name.rjust(size) for name, size in zip(names, sizes, strict=True)), *lines]
            )
        lines = [at for at, line in enumerate(text.split("\n"), 1) if not re.fullmatch(r"[-+| ]+|\(.*", line)]
        cells = "\n".join("|".join(row) for row in [names, *rows]).encode()
        yield Case(f"{text}\n".encode(), (TableOracle(cells, "|", lines), lines_of(text)))
