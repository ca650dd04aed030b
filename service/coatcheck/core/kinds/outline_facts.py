"""An outline as a fact on a card: the entries of the outer levels, each with its line."""

from collections import Counter
from typing import Final

from coatcheck.core.artifact import PayloadSample
from coatcheck.core.extract.headings import extract_headings, reads_as_document
from coatcheck.core.kinds.description import Description, first_of, named_parts
from coatcheck.core.outline.model import Entry
from coatcheck.core.outline.sections import of_sections

_NAMED: Final = 80
_INNER: Final = 30
"""Entries of the outer levels that a card can name about; of more, the outermost are named alone."""
_FEW: Final = 3
"""Entries of the outermost level that alone would be no outline: a title, and a version or two."""
_LARGEST: Final = 64 * 1024
"""Bytes at the beginning that are examined, in about 2 ms; for a larger file, the outline says where it ends."""
_OUTER: Final = 2


def first_lines(sample: PayloadSample) -> tuple[bytes, bool]:
    """Returns the whole lines that are examined, of at most 64 KiB, and whether there are more."""
    data = sample.head
    if len(data) <= _LARGEST and sample.whole:
        return data, False
    return data[: data.rfind(b"\n", 0, _LARGEST) + 1], True


def headings(names: tuple[str | None, ...], data: bytes) -> list[Entry]:
    """Returns the headings of a document, which the text itself or the first of its names identifies.

    None of anything else.
    """
    if not reads_as_document(None, next(filter(None, names), None), data):
        return []
    made = extract_headings(data)
    return [] if made is None else of_sections(made.sections)


def describe_entries(entries: list[Entry], data: bytes, *, partial: bool) -> Description | None:
    """Returns a fact that names entries of the outer levels; None if there are fewer than two."""
    if len(entries) < 2:  # noqa: PLR2004 - one entry is no outline
        return None
    top = sum(entry.level == 1 for entry in entries)
    deepest = _OUTER if top <= _FEW or sum(entry.level <= _OUTER for entry in entries) <= _INNER else 1
    outer = [entry for entry in entries if entry.level <= deepest] or entries
    lines = data.count(b"\n")
    where = f" of the first {lines} lines" if partial else ""
    label = "Sections" if outer[0].what == "heading" else "Outline"
    return Description(
        facts=(f"{label}{where} (with lines): {first_of(list(map(_named, outer)), _NAMED)}",),
        sections=_parts(outer, entries),
    )


def _parts(outer: list[Entry], entries: list[Entry]) -> tuple[str, ...]:
    """Returns unambiguous titles of outer entries without other outer entries inside, longest first."""
    titles = Counter([entry.title for entry in entries])
    levels = [*[entry.level for entry in outer[1:]], 0]
    inner = [entry for entry, level in zip(outer, levels, strict=True) if level <= entry.level]
    alone = [(entry.lines.last - entry.lines.first, entry.title) for entry in inner if entry.lines is not None]
    return named_parts([title for _, title in sorted(alone, reverse=True) if titles[title] == 1])


def _named(entry: Entry) -> str:
    return f"{entry.title} {entry.lines.first if entry.lines else ''}"
