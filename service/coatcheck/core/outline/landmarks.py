"""What is where in bytes at hand, whatever kind they are: the one door to all ways of finding entries.

Pure and bounded: cards call it while a payload is stored.
"""

import re
from itertools import pairwise
from typing import Final

from coatcheck.core.artifact import Kind
from coatcheck.core.extract.headings import extract_headings
from coatcheck.core.outline.commits import Oneline, is_log, is_oneline
from coatcheck.core.outline.diff import Diff
from coatcheck.core.outline.languages import PREFIX, language_of
from coatcheck.core.outline.model import Entry, Found, Scanner
from coatcheck.core.outline.notebook import of_notebook
from coatcheck.core.outline.output import Phases
from coatcheck.core.outline.sections import of_sections
from coatcheck.core.outline.shape import of_json
from coatcheck.core.outline.symbols import Symbols
from coatcheck.core.outline.table import of_table
from coatcheck.core.window import Place

_BEGINNING: Final = Place(0, 0, 0)
_HEAD: Final = 16 * 1024
_LINES: Final = 40
"""Lines that tell whether a text is source as tools print it."""
_LEAST: Final = 3
_PREFIX: Final = re.compile(PREFIX.encode())


def landmarks(kind: Kind, names: tuple[str | None, ...], data: bytes) -> list[Entry]:
    """Returns the entries of a whole payload, in its order: none where there is nothing that is known.

    Lines and bytes count in `data`. `names` are what its file may be called: titles, URLs.
    """
    if kind is Kind.JSON:
        return json_entries(data, whole=True).entries
    if kind is Kind.TABLE:
        return of_table(data, data.count(b"\n") + (not data.endswith(b"\n"))).entries
    if kind in {Kind.TEXT, Kind.CODE_OR_FILE}:
        url = next(filter(None, names), None)
        made = extract_headings(kind, None, url, data)
        if made is not None:
            return of_sections(made.sections)
    scanner = scanner_for(kind, names, data[:_HEAD])
    if scanner is None or not data:
        return []
    scanner.feed(data, _BEGINNING)
    return scanner.finish(_BEGINNING.after(data), ends_line=data.endswith(b"\n"))


def json_entries(head: bytes, *, whole: bool) -> Found:
    """Returns the cells of a notebook that is whole, or the places of a document that begins with `head`."""
    return (of_notebook(head) if whole else None) or of_json(head, whole=whole)


def scanner_for(kind: Kind, names: tuple[str | None, ...], head: bytes) -> Scanner | None:
    """Returns what finds entries in a payload of this kind that begins with `head`; None: nothing does."""
    if kind is Kind.DIFF:
        return Diff()
    if kind in {Kind.LOG, Kind.COMMAND_OUTPUT, Kind.TEXT, Kind.CODE_OR_FILE}:
        if is_log(head):
            return Diff()
        if is_oneline(head):
            return Oneline()
    if kind is Kind.CODE_OR_FILE or (kind is not Kind.JSON and _is_printed_source(head)):
        return Symbols(language_of(names, head))
    return Phases() if kind in {Kind.LOG, Kind.COMMAND_OUTPUT} else None


def _is_printed_source(head: bytes) -> bool:
    """Whether every line is numbered one after the other, or has a path and a number, as grep writes them."""
    lines = head.split(b"\n")[: _LINES + 1][:-1]
    found = [_PREFIX.match(line) for line in lines if line not in {b"", b"--"}]
    if len(found) < _LEAST:
        return False
    if all(match is not None and match["path"] is not None for match in found):
        return language_of((), head) != "any"
    numbers = [int(match["counted"]) for match in found if match is not None and match["counted"]]
    return len(numbers) == len(found) and all(b == a + 1 for a, b in pairwise(numbers))
