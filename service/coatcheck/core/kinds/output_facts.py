"""What an output adds up to: levels, statuses of requests, findings by rule, lines by file, commits, headings."""

from typing import Final

from coatcheck.core.artifact import Said, Sample
from coatcheck.core.kinds.description import Description, plural
from coatcheck.core.kinds.outline_facts import describe_entries, first_lines, headings
from coatcheck.core.outline.commits import is_log, is_oneline
from coatcheck.core.outline.landmarks import PROSE, landmarks
from coatcheck.core.survey.tallies import Tallies

_LOOK: Final = 16 * 1024
_COMMITS: Final = 30
_TITLE: Final = 60
"""Characters of a commit's title."""


def describe_output(sample: Sample, declared: Said) -> Description:
    """Returns tallies of a text that is at hand whole; of a larger one its survey has them.

    A document that a tool printed has nothing to be tallied, and is told by its headings.
    """
    if not sample.whole:
        return Description()
    head = sample.head[:_LOOK]
    if is_log(head) or is_oneline(head):
        return _commits(sample.head)
    tallies = Tallies()
    tallies.feed(sample.head)
    facts = tallies.facts()
    data, partial = first_lines(sample)
    entries = [] if facts else headings((declared.title, declared.url), data)
    return describe_entries(entries, data, partial=partial) or Description(facts=facts)


def _commits(data: bytes) -> Description:
    commits = [entry.title[:_TITLE] for entry in landmarks(PROSE, (), data) if entry.what == "commit"]
    if not commits:
        return Description()
    more = f"; … {len(commits) - _COMMITS} more" if len(commits) > _COMMITS else ""
    return Description(facts=(f"{plural(len(commits), 'commit')}: {'; '.join(commits[:_COMMITS])}{more}",))
