"""What a kind supplies: a description made once at ingest, and a plan for the excerpts of every card after.

A kind never renders and never counts tokens; it names what matters, in bytes of the payload, most important first.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol, final

from msgspec import Struct

from coatcheck.core.artifact import Facts, Said, Sample


class Description(Struct, frozen=True, kw_only=True):
    """What a kind could read off the sample. Values are verbatim: whoever shows them makes them inert."""

    shape: tuple[str, ...] = ()
    title: str | None = None
    url: str | None = None
    language: str | None = None
    media_type: str | None = None


class Spot(Struct, frozen=True):
    """A half-open byte range of the payload worth showing."""

    start: int
    end: int


@final
class Spots:
    """Spots in order, found one after the other as somebody asks for them: a card shows the first few of very many.

    Any number of readers, one at a time.
    """

    def __init__(self, source: Iterable[Spot]) -> None:
        self._source = iter(source)
        self._found: list[Spot] = []

    def __iter__(self) -> Iterator[Spot]:
        """From the first one, however many were asked for before."""
        place = 0
        while True:
            if place == len(self._found):
                spot = next(self._source, None)
                if spot is None:
                    return
                self._found.append(spot)
            yield self._found[place]
            place += 1


class Plan(Struct, frozen=True, kw_only=True):
    """How to spend a card's budget.

    Shares need not add up to one; what one leaves over, the next may use, in the order shape, hints, spots, tail, head.
    """

    shape: float = 0.2
    spots: float = 0.0
    tail: float = 0.5
    """Of what is left for the two ends, the share of the tail."""
    wanted: Iterable[Spot] = ()
    """Most important first; `Spots`, or a tuple: it may be read again."""
    ends: bool = True
    """False: no verbatim excerpt at all, as for binary payloads."""
    hints: float = 0.1
    outline: bool = False
    """The shape tells where things are rather than what they are: of little use while most of the text fits."""


class Cutter(Protocol):
    """One kind's knowledge. Both methods are pure, bounded by the sample, and raise for no content."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """Structure, title and the like, at ingest."""
        ...

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """What to show, at every cut."""
        ...


def plural(number: int, noun: str) -> str:
    """`1 line`, `2000 lines`: for cards, in which a comma would cost a token; sentences have `core.text.plural`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
