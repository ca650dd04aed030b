"""What is where in a file: its symbols or headings, each with its line."""

from coatcheck.core.artifact import Said, Sample
from coatcheck.core.kinds.description import Description
from coatcheck.core.kinds.outline_facts import describe_entries, first_lines, headings
from coatcheck.core.kinds.output_facts import describe_output
from coatcheck.core.outline.landmarks import SOURCE, landmarks


def describe_source(sample: Sample, declared: Said) -> Description:
    """Returns symbols or headings at the outer levels with their lines; without any, what an output is told by."""
    data, partial = first_lines(sample)
    names = (declared.title, declared.url)
    entries = headings(names, data) or [e for e in landmarks(SOURCE, names, data) if e.lines is not None]
    return describe_entries(entries, data, partial=partial) or describe_output(sample, declared)
