"""What is where in a file, a document or an output: its symbols, headings, commits, each with its line."""

import re
from typing import Final

from coatcheck.core.artifact import Said, Sample
from coatcheck.core.extract.headings import extract_headings, reads_as_document
from coatcheck.core.kinds.description import Description
from coatcheck.core.kinds.output_facts import describe_output
from coatcheck.core.outline.landmarks import SOURCE, landmarks
from coatcheck.core.outline.model import Entry
from coatcheck.core.outline.sections import of_sections

_NAMED: Final = 80
_TITLE: Final = 60
"""Characters of a title."""
_LARGEST: Final = 64 * 1024
"""Bytes of the beginning that are looked through, in about 2 ms; of a larger file the outline says where it ends."""
_OUTER: Final = 2
_SUBHEADINGS: Final = re.compile(rb"^\n##{1,3} [A-Z\d]\S*.*\n$", re.MULTILINE)
"""Headings of Markdown below the first level, between empty lines: hardly a comment stands like that."""


def describe_source(sample: Sample, declared: Said) -> Description:
    """Returns symbols or headings at the outer levels with their lines; without any, what an output is told by."""
    data = sample.head
    partial = len(data) > _LARGEST or not sample.whole
    if partial:
        data = data[: data.rfind(b"\n", 0, _LARGEST) + 1]
    names = (declared.title, declared.url)
    entries = _headings(names, data) or [e for e in landmarks(SOURCE, names, data) if e.lines is not None]
    if len(entries) < 2:  # noqa: PLR2004 - one entry is no outline
        return describe_output(sample, declared)
    deepest = _OUTER if sum(entry.level <= _OUTER for entry in entries) <= _NAMED else 1
    outer = [entry for entry in entries if entry.level <= deepest] or entries
    lines = data.count(b"\n")
    where = f" of the first {lines} lines" if partial else ""
    label = "Sections" if outer[0].what == "heading" else "Outline"
    return Description(
        facts=(f"{label}{where} (with lines): {'; '.join(map(_named, outer[:_NAMED]))}",),
        sections=tuple(entry.title for entry in outer[:_NAMED] if entry.what == "heading"),
    )


def _headings(names: tuple[str | None, ...], data: bytes) -> list[Entry]:
    """Returns the headings of a document, by the text itself or by the first of its names; none of a source file."""
    document = len(_SUBHEADINGS.findall(data)) > 1 and not data.startswith(b"#!")
    if not document and not reads_as_document(None, next(filter(None, names), None), data):
        return []
    made = extract_headings(data)
    return [] if made is None else of_sections(made.sections)


def _named(entry: Entry) -> str:
    return f"{entry.title[:_TITLE]} {entry.lines.first if entry.lines else ''}"
