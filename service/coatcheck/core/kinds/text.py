"""Plain text: how it begins and ends, and what it says in between, as far as that differs."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from coatcheck.core.artifact import Facts, Said, Sample
from coatcheck.core.kinds.cutter import Description, Plan, Spot, Spots
from coatcheck.core.kinds.telling import closing, opening, telling

_BLOCK: Final = 160
"""Bytes of lines that are shown together."""
_FIRST: Final = 8
"""Pieces that come before the last lines."""


class TextCutter:
    """Opaque text, about which nothing else is known."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """Nothing: text speaks for itself."""
        del sample, said
        return Description()

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """How it begins, then the lines that say most different things."""
        del facts
        return Plan(spots=1.0, tail=0.5, hints=0.0, wanted=Spots(_wanted(sample)))


def _wanted(sample: Sample) -> Iterator[Spot]:
    lines = telling(sample.head, block=_BLOCK, early=1.0)
    last = sample.tail or sample.head
    yield opening(sample.head)
    yield from islice(lines, _FIRST)
    yield closing(last, sample.size - len(last))
    yield from lines
