"""What a diff changes: its files with the lines that each adds and removes, the largest changes first."""

from typing import Final

from coatcheck.core.artifact import Said, Sample
from coatcheck.core.kinds.description import Description, plural
from coatcheck.core.outline.diff import by_size
from coatcheck.core.outline.landmarks import DIFF, landmarks
from coatcheck.core.outline.model import MAX_ENTRIES

_FILES: Final = 40


def describe_diff(sample: Sample, declared: Said) -> Description:
    """Returns the files of a diff that is at hand whole, and how many lines each adds and removes."""
    del declared
    if not sample.whole:
        return Description()
    entries = landmarks(DIFF, (), sample.head)
    files = [(e.title, e.added or 0, e.removed or 0) for e in by_size(entries) if e.what == "file"]
    if not files or len(entries) >= MAX_ENTRIES:
        return Description()
    total = f"{plural(len(files), 'file')}, +{sum(file[1] for file in files)} -{sum(file[2] for file in files)}"
    lines = [f"{name} +{added} -{removed}" for name, added, removed in files[:_FILES]]
    more = [f"… {len(files) - _FILES} more files"] if len(files) > _FILES else []
    return Description(facts=(f"{total}: {'; '.join(lines + more)}",))
