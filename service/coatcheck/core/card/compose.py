"""Composes a card: spends a budget on what a reader needs most, and never exceeds it by a token.

Pure: the same payload, metadata, query and budget give the same card, byte for byte. The first line with the ID and the
next call are there at every budget; everything else shrinks. The final text is counted as a whole, so the bound holds
for every content, whatever the estimates were.
"""

from bisect import bisect_left
from typing import Final

from msgspec.structs import replace

from coatcheck.core.artifact import ENGINE, DeclaredMetadata, DetectedMetadata, Marker, Measure, PayloadSample
from coatcheck.core.card import render
from coatcheck.core.card.excerpts import excerpt, omissions, regions_of, runs_of
from coatcheck.core.card.model import ByteRange, Card, Excerpt, LineRange, NextCall, Omission
from coatcheck.core.card.next_step import TOOL, Rest, RestFinder, longest_of, next_call, richest
from coatcheck.core.card.own_lines import OwnLines, OwnLinesBuilder
from coatcheck.core.card.text import CardSource
from coatcheck.core.choose.select import Selection
from coatcheck.core.choose.units import Units
from coatcheck.core.choose.worth import OUTCOME, Worth, worth_of
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.media.documents import is_document
from coatcheck.core.survey.region import Region
from coatcheck.core.survey.survey import Survey
from coatcheck.core.tokens import Tokenizer

FAILED: Final = Marker("error", "reported by the tool")
"""What the provider's result said."""
MIN_BUDGET: Final = 64
MAX_BUDGET: Final = 8192
_QUERY: Final = 200
"""Characters of a query that are used."""
_FACTS: Final = 0.8
"""Maximum share of the tokens after the names that facts get beside excerpts."""
_DENSE: Final = 16
"""Maximum bytes per token in a payload that is tried as a whole."""


def cut(
    artifact_id: str,
    declared: DeclaredMetadata,
    measure: Measure,
    facts: DetectedMetadata,
    sample: PayloadSample,
    *,
    budget: int,
    query: str | None,
    tokenizer: Tokenizer,
    survey: Survey | None = None,
    text: CardSource | None = None,
    stored: bool = True,
    tools: bool = True,
) -> tuple[Card, str, int]:
    """Returns the card of a payload, its text, and the text's number of tokens.

    Args:
        artifact_id: the ID that a reader will use.
        declared: what the caller declared about the payload.
        measure: its sizes.
        facts: what `recognise` found.
        sample: its ends, or all of it.
        budget: 64 to 8,192 tokens in the tokenizer's encoding, which the text never exceeds.
        query: if given, what answers it is worth more.
        tokenizer: counts tokens.
        survey: what was found between the ends of a payload that is not completely in the sample.
        text: its text view, if excerpts, omissions and the next call are to refer to that.
        stored: whether the payload can be read further; otherwise the card says that it cannot.
        tools: whether the reader has the declared tool; otherwise the card names none.

    Raises:
        CoatcheckError: `invalid_request` for a budget out of bounds.
    """
    if not MIN_BUDGET <= budget <= MAX_BUDGET:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"card_tokens must be between {MIN_BUDGET} and {MAX_BUDGET}, not {budget}.",
        )
    words = " ".join(query.split())[:_QUERY] if query else None
    cutting = _Cutting(artifact_id, declared, measure, facts, sample, survey, text, budget, tokenizer, stored, tools)
    return cutting.run(words or None)


def named(artifact_id: str, declared: DeclaredMetadata, measure: Measure, facts: DetectedMetadata) -> Card:
    """Returns the names and sizes of a payload: a card that shows none of it."""
    return Card(
        id=artifact_id,
        kind=facts.kind,
        media_type=facts.media_type,
        title=declared.title or facts.title,
        url=declared.url or facts.url,
        canonical_url=facts.url if declared.url else None,
        tool_name=declared.tool_name,
        tool_call_id=declared.tool_call_id,
        command=declared.command,
        compared_to=declared.compared_to,
        size=measure.size,
        chars=measure.chars,
        lines=measure.lines,
        tokens=measure.tokens,
        sha256=None if spec_of(facts.kind).readable else measure.sha256.hex(),
        markers=(FAILED, *facts.markers) if declared.failed else facts.markers,
        redacted=facts.redacted,
        dropped=measure.dropped,
        dropped_at=measure.dropped_at,
        engine=ENGINE,
    )


class _Cutting:
    """One card being composed."""

    def __init__(
        self,
        artifact_id: str,
        declared: DeclaredMetadata,
        measure: Measure,
        facts: DetectedMetadata,
        sample: PayloadSample,
        survey: Survey | None,
        text: CardSource | None,
        budget: int,
        tokenizer: Tokenizer,
        stored: bool,
        tools: bool,
    ) -> None:
        self._id = artifact_id
        self._declared = declared
        self._measure = measure
        self._facts = facts
        self._budget = budget
        self._brief = budget < render.BRIEF
        self._tokenizer = tokenizer
        self._text = text
        self._spec = spec_of(facts.kind)
        self._shown = measure if text is None else text.sizes()
        """Sizes of the view that excerpts are cut from."""
        self._sample = sample if text is None else text.evidence
        self._survey = survey if text is None else None
        self._readable = self._spec.readable or text is not None
        self._own = OwnLinesBuilder(
            declared, measure, facts, budget, tokenizer, None if text is None else text.measure, text=self._readable
        )
        self._stored = stored
        self._tools = tools
        listed = self._spec.readable and self._spec.facts_only and facts.shape
        self._excerpted = self._readable and measure.size > 0 and not listed
        self._facts_share = (
            self._spec.facts_share if listed or not self._excerpted else min(_FACTS, self._spec.facts_share)
        )

    def run(self, query: str | None) -> tuple[Card, str, int]:
        """Composes our own lines, then excerpts with what is left.

        Counts, and drops what is worth least until it fits.
        """
        own = self._own.first(self._id, stored=self._stored)
        everything = self._everything()
        last = self._last([], [everything] if self._readable and self._measure.size else [], None)[0]
        most = self._budget - self._tokenizer.count(f"\n{last}")
        self._own.build(own, most, self._facts_share)
        room = most - own.cost
        chosen = self._choose(room, query) if self._excerpted else None
        while True:
            text, shown, omitted, following = self._assemble(own, chosen)
            count = self._tokenizer.count(text)
            if count <= self._budget:
                return self._card(own, shown, omitted, following), text, count
            if chosen is not None and chosen.worth is None:  # made inert, it is longer than before
                chosen = self._choose(room, query, whole=False)
            elif chosen is None or not chosen.drop(count - self._budget):
                chosen = None
                if not own.drop():
                    return self._smallest()

    def _everything(self) -> Omission:
        m = self._shown
        return Omission(bytes=ByteRange(0, m.size), lines=LineRange(1, m.lines), whole_lines=m.lines)

    def _smallest(self) -> tuple[Card, str, int]:
        """Returns ID and next call, which fit into 64 tokens for every payload."""
        self._brief = True
        own = self._own.first(self._id, smallest=True, stored=self._stored)
        text, shown, omitted, following = self._assemble(own, None)
        return self._card(own, shown, omitted, following), text, self._tokenizer.count(text)

    def _choose(self, room: int, query: str | None, *, whole: bool = True) -> "_Chosen | None":
        if room <= 0:
            return None
        tokens = self._shown.tokens
        regions = regions_of(self._sample, self._shown.lines, () if self._survey is None else self._survey.fragments)
        units = Units(regions)
        if not len(units):
            return None
        for shape, count in () if self._survey is None else self._survey.counts:
            if shape in units.count:
                units.count[shape] = max(units.count[shape], count)
        if (
            whole
            and self._sample.whole
            and tokens.exact
            and tokens.count <= room - 4
            and self._shown.size <= room * _DENSE
        ):
            return _Chosen(regions, units, None, None)
        density = min(8.0, max(1.5, self._shown.size / max(tokens.count, 1)))
        worth = worth_of(
            units, room * density, self._spec.weights, self._shown.lines, query=query, compared=self._facts.novelty
        )
        return _Chosen(regions, units, worth, Selection(units, worth, room, self._tokenizer))

    def _assemble(
        self, own: OwnLines, chosen: "_Chosen | None"
    ) -> tuple[str, list[Excerpt], list[Omission], NextCall | None]:
        """Returns the text, what it shows, what it leaves out, and the call that it names."""
        excerpts = [] if chosen is None else self._excerpts(chosen)
        if self._readable and self._measure.size:
            omitted = omissions(excerpts, self._shown)
        else:
            omitted = [self._everything()] if self._measure.size else []
        last, following = self._last(excerpts, omitted if self._readable else [], chosen)
        lines = [*own.lines, *render.excerpt_lines(excerpts, self._shown), last]
        return "\n".join(lines), excerpts, omitted, following

    def _excerpts(self, chosen: "_Chosen") -> list[Excerpt]:
        dropped_at = self._measure.dropped_at if self._measure.dropped else None
        runs = runs_of(chosen.units, chosen.places, dropped_at)
        view = "raw" if self._text is None else "text"
        return [excerpt(chosen.units, run, chosen.regions, self._sample.masked, view) for run in runs]

    def _last(
        self, excerpts: list[Excerpt], omitted: list[Omission], chosen: "_Chosen | None"
    ) -> tuple[str, NextCall | None]:
        """Returns the last line, and the call that it names."""
        if not self._measure.size:
            return render.empty_line(), None
        if not self._readable:
            return self._last_of_bytes()
        if not omitted:
            return render.end_line(self._measure, text=self._text is not None), None
        rest = chosen.rest() if chosen is not None and self._sample.whole else Rest()
        told = render.left_out(excerpts, omitted, self._measure, "" if self._brief else rest.words)
        if not self._stored:
            return f"{told} {render.lost_line(brief=self._brief)}", None
        if not self._tools:
            return f"{told} {render.kept_line()}", None
        section = self._section(excerpts)
        limited = self._text is None and not self._brief
        start = None if chosen is None else chosen.line_start(longest_of(omitted).bytes.start)
        following = next_call(
            self._id,
            omitted,
            rest,
            lines=self._shown.lines,
            section=section,
            path=self._facts.path,
            rich=lambda: None if chosen is None else chosen.richest(),
            limited=limited,
            line_start=start,
        )
        return f"{told} {render.next_line(following, brief=self._brief)}", following

    def _section(self, excerpts: list[Excerpt]) -> str | None:
        """Returns what names the largest part that no excerpt shows; None if none is known, or there is no room."""
        if not excerpts and self._brief:
            return None
        if self._text is not None:
            return self._text.unseen([(each.bytes.start, each.bytes.end) for each in excerpts])
        shown = "\n".join(each.text for each in excerpts)
        return next((title for title in self._facts.sections if title not in shown), None)

    def _last_of_bytes(self) -> tuple[str, NextCall | None]:
        if not self._stored:
            return render.lost_line(brief=self._brief), None
        readable = self._tools and is_document(self._facts.media_type)
        document = NextCall(TOOL, {"artifact_id": self._id}) if readable else None
        return render.unreadable_line(document), document

    def _card(
        self, own: OwnLines, excerpts: list[Excerpt], omitted: list[Omission], following: NextCall | None
    ) -> Card:
        return replace(
            named(self._id, self._declared, self._measure, self._facts),
            text=None if self._text is None else self._text.measure,
            sha256=None if self._readable else self._measure.sha256.hex(),
            shape=own.facts,
            excerpts=excerpts,
            omitted=omitted,
            next=following,
        )


class _Chosen:
    """What a card shows of a text: all of it, or a selection."""

    def __init__(self, regions: list[Region], units: Units, worth: Worth | None, selection: Selection | None) -> None:
        self.regions = regions
        self.units = units
        self.worth = worth
        self._selection = selection
        self._finder: RestFinder | None = None

    def rest(self) -> Rest:
        """Returns what is left out that matters; nothing if everything is shown."""
        if self.worth is None:
            return Rest()
        flags = self.worth.flags if self.worth.weights is OUTCOME else {}  # a document only writes about failures
        self._finder = self._finder or RestFinder(self.units, flags)
        return self._finder.without(self.places)

    @property
    def places(self) -> list[int]:
        """Numbers of the units that are shown."""
        return list(range(len(self.units))) if self._selection is None else self._selection.places

    def richest(self) -> LineRange | None:
        """Returns the lines that say most among those not shown; None if none are known to say anything."""
        return None if self._selection is None else richest(self.units, self._selection.unseen(), self.places)

    def line_start(self, offset: int) -> int | None:
        """Returns where the line begins that continues at `offset`, the end of a shown unit; None if unknown."""
        units = self.units
        place = bisect_left(units.end, offset)
        if place == len(units) or units.end[place] != offset or units.closes[place]:
            return None
        while not units.opens[place] and units.follows(place):
            place -= 1
        return units.start[place] if units.opens[place] else None

    def drop(self, tokens: int) -> bool:
        """Shows `tokens` fewer tokens; returns False if nothing is left."""
        return self._selection is not None and self._selection.drop(tokens)
