"""Tables in the forms that databases and programs print, with made contents."""

import csv
import io
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from coatcheck.core.artifact import Kind
from kinds.corpus import Source

Rows = list[list[str]]
_NAMES: Final = [
    "id",
    "name",
    "price",
    "city",
    "country",
    "created_at",
    "status",
    "owner",
    "email",
    "qty",
    "rate",
    "notes",
    "region",
    "sku",
]
_CELLS: Final = [
    "Oslo",
    "Lima",
    "Cairo",
    "open",
    "closed",
    "Ann Lee",
    "Bo Chen",
    "red",
    "blue",
    "3 Main St",
    "n/a",
    "",
    "pending",
    "EU-West",
]


def _table(rng: Random) -> Rows:
    names = rng.sample(_NAMES, rng.randrange(2, 10))
    forms = [rng.randrange(4) for _ in names]

    def cell(form: int) -> str:
        if form == 0:
            return str(rng.randrange(10**5))
        if form == 1:
            return f"{rng.random() * 1000:.2f}"
        if form == 2:
            return f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
        return rng.choice(_CELLS)

    return [names, *([cell(form) for form in forms] for _ in range(rng.choice((5, 30, 200, 1500))))]


def _delimited(delimiter: str, quoting: int = csv.QUOTE_MINIMAL) -> Callable[[Rows], str]:
    def render(rows: Rows) -> str:
        out = io.StringIO()
        csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows(rows)  # pyright: ignore[reportArgumentType]
        return out.getvalue()

    return render


def _widths(rows: Rows) -> list[int]:
    return [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]


def _psql(rows: Rows) -> str:
    widths = _widths(rows)
    head, *body = [" " + " | ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([head, "-" + "-+-".join("-" * n for n in widths) + "-", *body, f"({len(body)} rows)", ""])


def _box(rows: Rows) -> str:
    widths = _widths(rows)
    rule = "+" + "+".join("-" * (n + 2) for n in widths) + "+"
    head, *body = ["| " + " | ".join(c.ljust(n) for c, n in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([rule, head, rule, *body, rule, f"{len(body)} rows in set (0.01 sec)", ""])


def _unicode_box(rows: Rows) -> str:
    widths = _widths(rows)
    head, *body = ["│ " + " │ ".join(c.ljust(n) for c, n in zip(row, widths, strict=True)) + " │" for row in rows]
    rules = [left + mid.join("─" * (n + 2) for n in widths) + right for left, mid, right in ("┌┬┐", "├┼┤", "└┴┘")]
    return "\n".join([rules[0], head, rules[1], *body, rules[2], ""])


def _markdown(rows: Rows) -> str:
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|" + "|".join(" --- " for _ in rows[0]) + "|", *body, ""])


def _frame(rows: Rows) -> str:
    """As a data frame prints itself: aligned, an index in front."""
    widths = _widths(rows)
    lines = ["  ".join(cell.rjust(n) for cell, n in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([f"     {lines[0]}", *(f"{n:<5}{line}" for n, line in enumerate(lines[1:])), ""])


FORMS: Final[dict[str, Callable[[Rows], str]]] = {
    "csv": _delimited(","),
    "csv, quoted": _delimited(",", csv.QUOTE_ALL),
    "tsv": _delimited("\t"),
    "semicolons": _delimited(";"),
    "bars": _delimited("|"),
    "psql": _psql,
    "mysql": _box,
    "duckdb": _unicode_box,
    "markdown table": _markdown,
    "data frame": _frame,
}


def tables(each: int = 8) -> Iterator[Source]:
    """Some of every form."""
    for form, render in FORMS.items():
        for number in range(each):
            text = render(_table(Random(f"{form}/{number}")))
            yield Source(Kind.TABLE, f"table: {form}", f"{form}/{number}", text.encode())
