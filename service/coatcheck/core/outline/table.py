"""The first row of a delimited table, an example from below each of its cells, and the lines of its rows."""

from typing import Final

from coatcheck.core.outline.model import Entry, OutlineEntries, make_title
from coatcheck.core.structure.delimited_tables import read_table
from coatcheck.core.text.plural import plural
from coatcheck.core.views.window import LineExtent

_COLUMNS: Final = 1_000
_EXAMPLE: Final = 40


def of_table(head: bytes, lines: int) -> OutlineEntries:
    """Returns the columns of a table that begins with `head` and has `lines` lines; none if it is not a table.

    A column is named by the first row, which may not be a header.
    """
    table = read_table(head)
    if table is None:
        return OutlineEntries([])
    names, *body = table.rows
    first = table.begin + 1
    entries = [
        Entry(what="rows", title="first row", lines=LineExtent(first, first)),
        Entry(
            what="rows",
            title="rows",
            lines=LineExtent(first + 1, max(first + 1, lines)),
            detail=f"about {max(0, lines - first):,}",
        ),
    ]
    for at, name in enumerate(names[:_COLUMNS]):
        example = next((row[at] for row in body if at < len(row) and row[at].strip()), "")
        excerpt = example if len(example) <= _EXAMPLE else f"{example[: _EXAMPLE - 1]}…"
        detail = f"such as {make_title(excerpt)}" if example else None
        entries.append(Entry(what="column", title=make_title(name) or f"(column {at + 1})", detail=detail))
    more = len(names) - _COLUMNS
    return OutlineEntries(entries, more <= 0, (f"{plural(more, 'more column')}.",) if more > 0 else ())
