"""The ways of finding entries in a payload, one per sort of payload.

The row of a kind names one of them (`core/kinds/spec.py`). Pure and bounded: cards use it while a payload is stored.
"""

import re
from itertools import pairwise
from typing import Final

from coatcheck.core.outline.commits import Oneline, is_log, is_oneline
from coatcheck.core.outline.diff import Diff
from coatcheck.core.outline.languages import PREFIX, language_by_directive, language_of
from coatcheck.core.outline.model import Entry, Landmarks, OutlineEntries, OutlineScanner
from coatcheck.core.outline.notebook import of_notebook
from coatcheck.core.outline.output import Phases
from coatcheck.core.outline.shape import of_json
from coatcheck.core.outline.symbols import Symbols
from coatcheck.core.outline.table import of_table
from coatcheck.core.outline.yaml_parts import YamlParts, yaml_form
from coatcheck.core.structure.line_style import style_of
from coatcheck.core.views.window import Position

_BEGINNING: Final = Position(0, 0, 0)
_HEAD: Final = 16 * 1024
_LINES: Final = 40
"""Lines that tell whether a text is source as tools print it."""
_LEAST: Final = 3
_WIDE: Final = 160
"""Bytes of a line that are examined."""
_DEFINED: Final = 2
"""Definitions at the beginning of a text from which it is considered source."""
_PREFIX: Final = re.compile(PREFIX.encode())


def landmarks(landmark_rules: Landmarks, names: tuple[str | None, ...], data: bytes) -> list[Entry]:
    """Returns the entries of a whole payload, in order; none if nothing is recognised.

    Args:
        landmark_rules: how entries are found in such a payload.
        names: possible names of its file: titles, URLs.
        data: all of it; lines and bytes refer to it.
    """
    if landmark_rules.structure is not None:
        return landmark_rules.structure(data, data.count(b"\n") + (not data.endswith(b"\n")), whole=True).entries
    scanner = landmark_rules.scanner(names, data[:_HEAD])
    if scanner is None or not data:
        return []
    scanner.feed(data, _BEGINNING)
    return scanner.finish(_BEGINNING.after(data), ends_line=data.endswith(b"\n"))


def _json(head: bytes, _lines: int, *, whole: bool) -> OutlineEntries:
    """Returns the cells of a complete notebook, or the places of a document that begins with `head`."""
    return (of_notebook(head) if whole else None) or of_json(head, whole=whole)


def _table(head: bytes, lines: int, *, whole: bool) -> OutlineEntries:
    del whole
    return of_table(head, lines)


def _find_list_scanner(head: bytes) -> OutlineScanner | None:
    """Returns what finds a text's commits, documents or keys, if it has such parts."""
    if is_log(head):
        return Diff()
    if is_oneline(head):
        return Oneline()
    form = yaml_form(head)
    return YamlParts(form) if form else None


def _source(names: tuple[str | None, ...], head: bytes) -> OutlineScanner | None:
    """Returns a scanner for symbols if a text reads as source or has a directive, and its beginning defines something.

    Source may begin with a comment of many lines, which read as prose.
    """
    lines = [line[:_WIDE] for line in head.split(b"\n")[:_LINES] if line and not line.isspace()]
    if len(lines) < _LEAST:
        return None
    style = style_of(b"\n".join(lines).decode("utf-8", "ignore").encode(), len(lines))
    if style != "code" and language_by_directive(head) is None:
        return None
    language = language_of(names, head)
    return Symbols(language) if _finds(Symbols(language), head) else None


def _finds(scanner: OutlineScanner, head: bytes) -> bool:
    """Returns whether a scanner finds enough in the whole lines of a beginning that it alone describes the text."""
    scanner.feed(head[: head.rfind(b"\n") + 1], _BEGINNING)
    return len(scanner.finish(_BEGINNING.after(head), ends_line=False)) >= _DEFINED


def _find_source_scanner(names: tuple[str | None, ...], head: bytes) -> OutlineScanner | None:
    return Symbols(language_of(names, head)) if _is_printed_source(head) else None


JSON: Final = Landmarks(structure=_json, whole_bytes=8 * 1024 * 1024, beside_sections=True)
"""Cells of a notebook, otherwise paths with their types."""
TABLE: Final = Landmarks(structure=_table)
"""Columns, and the lines of the rows."""
DIFF: Final = Landmarks(scanner=lambda _names, _head: Diff())
"""Files and hunks, and commits if there are any."""
SOURCE: Final = Landmarks(scanner=lambda names, head: _find_list_scanner(head) or Symbols(language_of(names, head)))
"""Symbols; commits of a Git log; documents of a YAML stream; keys of a YAML mapping."""
OUTPUT: Final = Landmarks(
    scanner=lambda names, head: (
        _find_list_scanner(head) or _find_source_scanner(names, head) or _source(names, head) or Phases()
    )
)
"""Phases; what SOURCE has, if the text is source as tools print it, with or without line numbers."""
PROSE: Final = Landmarks(scanner=lambda names, head: _find_list_scanner(head) or _find_source_scanner(names, head))
"""Commits of a Git log; documents of a YAML stream; symbols of printed source."""
PRINTED: Final = Landmarks(scanner=_find_source_scanner)
"""Only symbols of printed source: for kinds that have sections, if this payload has none."""


def _is_printed_source(head: bytes) -> bool:
    """Returns whether every line is numbered in sequence, or has a path and a number, like output of grep."""
    lines = head.split(b"\n")[: _LINES + 1][:-1]
    matches = [_PREFIX.match(line) for line in lines if line not in {b"", b"--"}]
    if len(matches) < _LEAST:
        return False
    if all(match is not None and match["path"] is not None for match in matches):
        return language_of((), head) != "any"
    numbers = [int(match["counted"]) for match in matches if match is not None and match["counted"]]
    return len(numbers) == len(matches) and all(b == a + 1 for a, b in pairwise(numbers))
