"""Command output and logs: how it ends, what failed, how it begins; then the lines that say most different things."""

from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest
from typing import Final

from coatcheck.core.artifact import Facts, Said, Sample
from coatcheck.core.kinds.cutter import Description, Plan, Spot, Spots
from coatcheck.core.kinds.failure import failures
from coatcheck.core.kinds.listing import list_lines
from coatcheck.core.kinds.repeats import REPEATED, repeats
from coatcheck.core.kinds.telling import closing, opening, telling

_LATE: Final = 20 * 1024
"""Bytes at either end that are searched for telling lines, where nothing failed."""
_BLOCK: Final = 120
"""Bytes of lines that are shown together, where nothing failed."""
_VERDICT: Final = 110
"""Bytes of the last lines that come before all else."""
_CLOSING: Final = 240
"""Bytes of the last lines that come after the first failures."""
_BEGINNING: Final = 100
"""Bytes of the first lines that come with it: where something failed they say little."""
_FIRST: Final = 3
"""Lines about failures that come before the payload's first lines."""


class OutputCutter:
    """What a command or a program printed."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """What a list holds, or which lines it keeps repeating."""
        del said
        return Description(shape=list_lines(sample) or repeats(sample))

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """The end, because that is where outputs conclude; what failed; a little of the beginning."""
        listed = bool(facts.shape) and REPEATED not in facts.shape[0]
        last = sample.tail or sample.head
        share = 0.3 if listed else 0.1
        return Plan(shape=share, spots=0.85, tail=0.9, wanted=Spots(_wanted(sample, last)), hints=0.05)


def _wanted(sample: Sample, last: bytes) -> Iterator[Spot]:
    at = sample.size - len(last)
    yield closing(last, at, _VERDICT)
    failed = failures(last, at)
    if not sample.whole:
        failed = _in_turn(failed, failures(sample.head))
    first = list(islice(failed, _FIRST))
    yield from first
    yield closing(last, at, _CLOSING)
    yield opening(sample.head, _BEGINNING)
    yield from failed
    if first:
        return
    if sample.size <= 2 * _LATE:  # both ends together are all of it
        yield from telling(sample.head, block=_BLOCK)
        return
    late = telling(last[-_LATE:], at + max(0, len(last) - _LATE), block=_BLOCK)
    yield from _in_turn(late, telling(sample.head[:_LATE], block=_BLOCK))


def _in_turn(first: Iterable[Spot], second: Iterable[Spot]) -> Iterator[Spot]:
    """One of each, while there are both."""
    for pair in zip_longest(first, second):
        yield from (spot for spot in pair if spot is not None)
