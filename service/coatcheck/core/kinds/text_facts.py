"""Describes texts: the files of a diff, commits, symbols and headings, and the tallies of an output."""

from collections import Counter
from typing import Final

from msgspec.structs import replace

from coatcheck.core.artifact import PayloadSample
from coatcheck.core.kinds.description import NOTHING, Description, PayloadProbe, first_of, named_parts
from coatcheck.core.kinds.outline_facts import describe_entries, first_lines, headings
from coatcheck.core.outline.commits import is_log, is_oneline
from coatcheck.core.outline.landmarks import DIFF, OUTPUT, PROSE, SOURCE, landmarks
from coatcheck.core.outline.model import MAX_ENTRIES
from coatcheck.core.outline.yaml_documents import is_stream
from coatcheck.core.survey.tallies import Tallies
from coatcheck.core.text.plural import counted

_FILES: Final = 40
_COMMITS: Final = 30
_LOOK: Final = 16 * 1024


def describe_diff(payload: PayloadProbe) -> Description:
    """Returns the files of a complete diff, each once, largest changes first; nothing if one cannot be counted."""
    entries = landmarks(DIFF, (), payload.sample.head) if payload.sample.whole else []
    files: dict[str, tuple[int, int]] = {}
    for entry in entries:
        if entry.what == "file":
            if entry.added is None or entry.removed is None or (entry.title in files and entry.title.endswith("…")):
                return NOTHING
            added, removed = files.get(entry.title, (0, 0))
            files[entry.title] = added + entry.added, removed + entry.removed
    if not files or len(entries) >= MAX_ENTRIES:
        return NOTHING
    total = f"{counted(len(files), 'file')}, +{sum(n for n, _ in files.values())} -{sum(n for _, n in files.values())}"
    largest = sorted(files.items(), key=lambda file: -sum(file[1]))
    lines = [f"{name} +{added} -{removed}" for name, (added, removed) in largest]
    titles = Counter(entry.title for entry in entries)
    sections = named_parts([name for name, _ in largest if titles[name] == 1])  # others are refused as ambiguous
    return Description(facts=(f"{total}: {first_of(lines, _FILES, 'more files')}",), sections=sections)


def describe_output(payload: PayloadProbe) -> Description:
    """Returns commits or tallies of a text that is available in full; for a larger one, its survey has the tallies.

    A document or a source file that a tool printed has no tallies, and is described by its headings or symbols.
    """
    if (listed := _listed(payload)) is not None:
        return listed
    data = payload.sample.head
    if not payload.sample.whole:
        return NOTHING
    tallies = Tallies()
    tallies.feed(data)
    facts = tallies.facts()
    lines, partial = first_lines(payload.sample)
    names = (payload.declared.title, payload.declared.url)
    entries = (
        [] if facts else headings(names, lines) or [e for e in landmarks(OUTPUT, names, lines) if e.what == "symbol"]
    )
    return describe_entries(entries, lines, partial=partial) or Description(facts=facts)


def describe_source(payload: PayloadProbe) -> Description:
    """Returns symbols or headings at the outer levels with their lines; without any, the description of an output."""
    if (listed := _listed(payload)) is not None:
        return listed
    data, partial = first_lines(payload.sample)
    names = (payload.declared.title, payload.declared.url)
    entries = headings(names, data) or [e for e in landmarks(SOURCE, names, data) if e.lines is not None]
    return describe_entries(entries, data, partial=partial) or describe_output(payload)


def _listed(payload: PayloadProbe) -> Description | None:
    """Returns the commits of a Git log, or the documents of a YAML stream; None for any other text."""
    head = payload.sample.head[:_LOOK]
    if is_log(head) or is_oneline(head):
        return _commits(payload.sample)
    return _documents(payload.sample) if is_stream(head) else None


def _commits(sample: PayloadSample) -> Description:
    entries = landmarks(PROSE, (), sample.head) if sample.whole else []
    commits = [entry.title for entry in entries if entry.what == "commit"]
    fact = f"{counted(len(commits), 'commit')}: {first_of(commits, _COMMITS)}"
    return Description(facts=(fact,)) if commits and len(entries) < MAX_ENTRIES else NOTHING


def _documents(sample: PayloadSample) -> Description:
    """Returns where the documents of a YAML stream begin, and how many of each kind a short one has."""
    data, partial = first_lines(sample)
    entries = landmarks(PROSE, (), data)
    described = describe_entries(entries, data, partial=partial) or NOTHING
    if partial or len(entries) >= MAX_ENTRIES:
        return described
    kinds = Counter(entry.detail for entry in entries if entry.detail).most_common()
    counts = f": {', '.join(f'{kind} {count}' for kind, count in kinds)}" if kinds else ""
    return replace(described, facts=(f"{counted(len(entries), 'document')}{counts}", *described.facts))
