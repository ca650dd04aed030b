"""Excerpts and omissions: which parts of a payload a card shows, and what that leaves out; together, all of it."""

from typing import Final, Literal, final

from coatcheck.core.artifact import Measure, Sample
from coatcheck.core.card.choose import BRIEF_SEAM, SEAM, Chooser, shown
from coatcheck.core.card.model import ByteRange, Excerpt, Omission
from coatcheck.core.card.places import Places
from coatcheck.core.card.terms import rate, spots_for
from coatcheck.core.kinds.cutter import Passage, Plan, Spot
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.text.inert import inert
from coatcheck.core.tokens import Tokenizer

_LAST_SEAM: Final = 16
"""Tokens kept for the line after the last excerpt."""
_WORTH: Final = 24
"""Tokens under which the start of a passage is not shown."""
_CHARS: Final = 16
"""Characters a token may stand for in readable text; more of a passage is not even looked at."""


@final
class Excerpts:
    """Chooses for one card, any number of times with different room."""

    def __init__(
        self, sample: Sample, measure: Measure, plan: Plan, query: str | None, tokenizer: Tokenizer, *, brief: bool
    ) -> None:
        self._measure = measure
        self._plan = plan
        self._query = query
        self._tokenizer = tokenizer
        self._places = Places(sample, measure)
        self._chooser = Chooser(sample, self._places, measure.tokens, tokenizer, BRIEF_SEAM if brief else SEAM)
        self._chosen: list[Spot] = []
        self._room = 0
        self._extra = spots_for(query, sample) if query and plan.ends and not plan.passages else ()

    def choose(self, room: int) -> list[Excerpt]:
        """Excerpts for about `room` tokens, the lines between them included."""
        self._room = room
        if not self._plan.ends:
            return []
        if self._plan.passages:
            return self._passages(self._plan.passages, room - SEAM)
        self._chosen = self._chooser.choose(self._plan, room - _LAST_SEAM, self._extra)
        return [self._excerpt(spot) for spot in self._split(self._chosen)]

    def shrink(self, by: int) -> list[Excerpt]:
        """The excerpts chosen last for `by` tokens less. Asked often enough, none are left."""
        if self._plan.passages:
            return self.choose(self._room - by)
        self._chosen = self._chooser.shrink(self._chosen, by)
        return [self._excerpt(spot) for spot in self._split(self._chosen)]

    def spare(self) -> int:
        """About how many tokens of the room that was given are not used."""
        return 0 if self._plan.passages else self._room - _LAST_SEAM - self._chooser.cost(self._chosen)

    def omitted(self, excerpts: list[Excerpt]) -> list[Omission]:
        """What the excerpts do not show."""
        edges = [0, *(edge for e in excerpts for edge in (e.bytes.start, e.bytes.end)), self._measure.size]
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return [self._omission(start, end) for start, end in pairs if end > start]

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
        text = shown(data)
        start = not self._places.starts_line(spot.start)
        end = not self._places.starts_line(spot.end)
        return Excerpt(
            text=text,
            view="raw",
            bytes=ByteRange(spot.start, spot.end),
            lines=self._places.lines(spot.start, spot.end),
            exact=_same(text, data),
            cut=_cut(start=start, end=end),
        )

    def _passages(self, passages: tuple[Passage, ...], room: int) -> list[Excerpt]:
        """The readable text of the passages that fit, in the order of the page; those that answer the query first."""
        runs: list[list[tuple[Passage, str]]] = []
        previous = -2
        for place, text in sorted(self._fitting(passages, room)):
            if place != previous + 1:
                runs.append([])
            runs[-1].append((passages[place], text))
            previous = place
        return [self._run(run) for run in runs]

    def _fitting(self, passages: tuple[Passage, ...], room: int) -> list[tuple[int, str]]:
        order = list(range(len(passages)))
        if self._query:
            scores = rate(self._query, [passage.text for passage in passages])
            if any(scores):
                order.sort(key=lambda place: (-scores[place], place))
        chosen: dict[int, str] = {}
        for place in order:
            seam = 0 if not self._query or place - 1 in chosen or place + 1 in chosen else SEAM
            text = inert(passages[place].text[: room * _CHARS])
            cost = self._tokenizer.count(f"\n{text}") + seam
            if cost > room:
                text = fit_text(text, room - seam - 1, self._tokenizer) if room > _WORTH + seam else ""
                if text:
                    chosen[place] = text
                break
            room -= cost
            chosen[place] = text
        return list(chosen.items())

    def _run(self, run: list[tuple[Passage, str]]) -> Excerpt:
        start, end = run[0][0].start, run[-1][0].end
        return Excerpt(
            text="\n".join(text for _, text in run),
            view="text",
            bytes=ByteRange(start, end),
            lines=self._places.lines(start, end),
            exact=False,
            cut=_cut(start=not self._places.starts_line(start), end=not self._places.starts_line(end)),
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
