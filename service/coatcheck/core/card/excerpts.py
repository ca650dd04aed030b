"""Excerpts and omissions: which parts of a payload a card shows, and what that leaves out; together, all of it."""

from typing import Literal, final

from coatcheck.core.artifact import Measure, Sample
from coatcheck.core.card.choose import Chooser, shown
from coatcheck.core.card.model import ByteRange, Excerpt, Omission
from coatcheck.core.card.places import Places
from coatcheck.core.card.terms import spots_for
from coatcheck.core.kinds.cutter import Plan, Spot
from coatcheck.core.tokens import Tokenizer


@final
class Excerpts:
    """Chooses for one card, any number of times with different room."""

    def __init__(
        self,
        sample: Sample,
        evidence: Sample,
        measure: Measure,
        plan: Plan,
        query: str | None,
        tokenizer: Tokenizer,
        *,
        brief: bool,
        view: Literal["raw", "text"] = "raw",
    ) -> None:
        """Make it; `evidence` is the part of the sample that excerpts are chosen from, from its start on."""
        self._measure = measure
        self._plan = plan
        self._view: Literal["raw", "text"] = view
        self._masked = sample.masked
        self._places = Places(sample, measure)
        self._chooser = Chooser(evidence, self._places, measure.tokens, tokenizer, brief=brief)
        self._chosen: list[Spot] = []
        self._room = 0
        self._extra = spots_for(query, evidence) if query and plan.ends else ()

    def choose(self, room: int, *, more: bool = False, fill: bool = True) -> list[Excerpt]:
        """Excerpts for about `room` tokens, the lines between them included.

        Args:
            room: tokens.
            more: go on from those chosen last.
            fill: spend what is left over on longer ones; not worth it where more will be chosen.
        """
        self._room = room
        if not self._plan.ends:
            return []
        self._chosen = self._chooser.choose(self._plan, room, self._extra, self._chosen if more else None, fill=fill)
        return [self._excerpt(spot) for spot in self._split(self._chosen)]

    def shrink(self, by: int) -> list[Excerpt]:
        """The excerpts chosen last for `by` tokens less. Asked often enough, none are left."""
        self._chosen = self._chooser.shrink(self._chosen, by)
        return [self._excerpt(spot) for spot in self._split(self._chosen)]

    def spare(self) -> int:
        """About how many tokens of the room that was given are not used."""
        return self._room - self._chooser.cost(self._chosen)

    def omitted(self, excerpts: list[Excerpt]) -> list[Omission]:
        """What the excerpts do not show."""
        edges = [0, *(edge for e in excerpts for edge in (e.bytes.start, e.bytes.end)), self._measure.size]
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return [self._omission(start, end) for start, end in pairs if end > start]

    def line_start(self, offset: int) -> int | None:
        """Where the line begins that this edge of an excerpt lies in; None where that is not known."""
        return self._places.line_start(offset)

    def starts_line(self, offset: int) -> bool:
        """Whether a line begins at this edge of an excerpt."""
        return self._places.starts_line(offset)

    def _split(self, spots: list[Spot]) -> list[Spot]:
        """No excerpt runs across the place where bytes were dropped: what meets there never stood together."""
        at = self._measure.dropped_at if self._measure.dropped else 0
        whole: list[Spot] = []
        for spot in spots:
            whole += [Spot(spot.start, at), Spot(at, spot.end)] if spot.start < at < spot.end else [spot]
        return whole

    def _excerpt(self, spot: Spot) -> Excerpt:
        data = self._places.slice(spot.start, spot.end)
        text = shown(data, self._masked)
        start = not self._places.starts_line(spot.start)
        end = not self._places.starts_line(spot.end)
        return Excerpt(
            text=text,
            view=self._view,
            bytes=ByteRange(spot.start, spot.end),
            lines=self._places.lines(spot.start, spot.end),
            exact=_same(text, data),
            cut=_cut(start=start, end=end),
        )

    def _omission(self, start: int, end: int) -> Omission:
        lines = self._places.lines(start, end)
        whole = lines.last - lines.first + 1
        whole -= not self._places.starts_line(start)
        whole -= not self._places.starts_line(end)
        return Omission(bytes=ByteRange(start, end), lines=lines, whole_lines=max(0, whole))


def _same(text: str, data: bytes) -> bool:
    try:
        return text == data.decode()
    except UnicodeDecodeError:
        return False


def _cut(*, start: bool, end: bool) -> Literal["", "start", "end", "both"]:
    if start and end:
        return "both"
    return "start" if start else "end" if end else ""
