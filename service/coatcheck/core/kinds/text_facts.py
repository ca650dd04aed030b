"""What stands where in a text: the files of a diff, commits, symbols and headings; and what an output adds up to."""

import re
from typing import Final

from coatcheck.core.artifact import Kind
from coatcheck.core.kinds.description import NOTHING, Description, Payload, first_of
from coatcheck.core.outline.commits import is_log, is_oneline
from coatcheck.core.outline.diff import by_size
from coatcheck.core.outline.landmarks import landmarks
from coatcheck.core.outline.model import MAX_ENTRIES, Entry
from coatcheck.core.survey.tallies import Tallies
from coatcheck.core.text.plural import counted

_FILES: Final = 40
_COMMITS: Final = 30
_NAMED: Final = 80
"""Symbols and headings."""
_TITLE: Final = 60
"""Characters of a title."""
_LOOK: Final = 16 * 1024
_LARGEST: Final = 64 * 1024
"""Bytes of the beginning that are looked through, in about 2 ms; of a larger file the outline says where it ends."""
_OUTER: Final = 2
_SUBHEADINGS: Final = re.compile(rb"^\n##{1,3} [A-Z\d]\S*.*\n$", re.MULTILINE)
"""Headings of Markdown below the first level, between empty lines: hardly a comment stands like that."""


def describe_diff(payload: Payload) -> Description:
    """Returns the files of a diff that is at hand whole, the largest changes first, with lines added and removed."""
    if not payload.sample.whole:
        return NOTHING
    entries = landmarks(Kind.DIFF, (), payload.sample.head)
    files = [(e.title, e.added or 0, e.removed or 0) for e in by_size(entries) if e.what == "file"]
    if not files or len(entries) >= MAX_ENTRIES:
        return NOTHING
    total = f"{counted(len(files), 'file')}, +{sum(file[1] for file in files)} -{sum(file[2] for file in files)}"
    lines = [f"{name} +{added} -{removed}" for name, added, removed in files]
    return Description(facts=(f"{total}: {first_of(lines, _FILES, 'more files')}",))


def describe_output(payload: Payload) -> Description:
    """Returns commits or tallies of a text that is at hand whole; of a larger one its survey has the tallies."""
    data = payload.sample.head
    if not payload.sample.whole:
        return NOTHING
    if is_log(data[:_LOOK]) or is_oneline(data[:_LOOK]):
        commits = [entry.title[:_TITLE] for entry in landmarks(Kind.TEXT, (), data) if entry.what == "commit"]
        fact = f"{counted(len(commits), 'commit')}: {first_of(commits, _COMMITS)}"
        return Description(facts=(fact,)) if commits else NOTHING
    tallies = Tallies()
    tallies.feed(data)
    return Description(facts=tallies.facts())


def describe_source(payload: Payload) -> Description:
    """Returns symbols or headings at the outer levels with their lines; without any, what an output is told by."""
    data = payload.sample.head
    partial = len(data) > _LARGEST or not payload.sample.whole
    if partial:
        data = data[: data.rfind(b"\n", 0, _LARGEST) + 1]
    names = (payload.declared.title, payload.declared.url)
    kind = Kind.TEXT if len(_SUBHEADINGS.findall(data)) > 1 and not data.startswith(b"#!") else Kind.CODE_OR_FILE
    entries = [e for e in landmarks(kind, names, data) if e.lines is not None]
    if len(entries) < 2:  # noqa: PLR2004 - one entry is no outline
        return describe_output(payload)
    deepest = _OUTER if sum(entry.level <= _OUTER for entry in entries) <= _NAMED else 1
    outer = [entry for entry in entries if entry.level <= deepest] or entries
    lines = data.count(b"\n")
    where = f" of the first {lines} lines" if partial else ""
    label = "Sections" if outer[0].what == "heading" else "Outline"
    return Description(
        facts=(f"{label}{where} (with lines): {'; '.join(map(_named, outer[:_NAMED]))}",),
        sections=tuple(entry.title for entry in outer[:_NAMED] if entry.what == "heading"),
    )


def _named(entry: Entry) -> str:
    return f"{entry.title[:_TITLE]} {entry.lines.first if entry.lines else ''}"
