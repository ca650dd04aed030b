"""Cutting a card: spend a budget on what a reader needs most, and never a token more.

Pure: the same payload, words, query and budget give the same card, byte for byte. The first line with the ID and the
next call survive at every budget; everything else shrinks. The final text is counted whole, so the bound holds for
every content, whatever the sums before it said.
"""

from typing import Final

from coatcheck.core.artifact import ENGINE, Facts, Kind, Marker, Measure, Said, Sample
from coatcheck.core.card import render
from coatcheck.core.card.excerpts import Excerpts
from coatcheck.core.card.fixed import Fixed, FixedLines
from coatcheck.core.card.model import ByteRange, Card, Excerpt, LineRange, NextCall, Omission
from coatcheck.core.card.text import Text, plan_text
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.kinds import CUTTERS
from coatcheck.core.kinds.cutter import Plan
from coatcheck.core.kinds.documents import is_document
from coatcheck.core.tokens import Tokenizer

FAILED: Final = Marker("error", "reported by the tool")
"""What the provider's result said, as data."""
MIN_BUDGET: Final = 64
MAX_BUDGET: Final = 8192

_PAGE_LINES: Final = 200
_QUERY: Final = 200
"""Characters of a query that are looked at."""
_TRIES: Final = 6
_REWRITTEN: Final = frozenset({Kind.JSON, Kind.WEB_PAGE, Kind.SEARCH_RESULTS})
"""Kinds whose text view, which the tool reads, may be another text than the payload that a card was cut from."""


def plan(sample: Sample, facts: Facts) -> Plan:
    """What the excerpts of every card of a payload are chosen from. Needs no sizes; the same at every budget."""
    return CUTTERS[facts.kind].plan(sample, facts)


def cut(
    artifact_id: str,
    said: Said,
    measure: Measure,
    facts: Facts,
    sample: Sample,
    *,
    budget: int,
    query: str | None,
    tokenizer: Tokenizer,
    planned: Plan | None = None,
    text: Text | None = None,
    stored: bool = True,
) -> tuple[Card, str, int]:
    """The card of a payload, its text, and how many tokens the text is.

    Args:
        artifact_id: the ID a reader will use.
        said: what the caller said of the payload.
        measure: its sizes.
        facts: what `recognise` found.
        sample: its ends, or all of it.
        budget: 64 to 8,192 tokens; the text is never more, in the tokenizer's encoding.
        query: if given, excerpts are the passages that answer it before what the kind would choose.
        tokenizer: what counts.
        planned: what `plan` answered, where the caller had time to ask before the sizes were known.
        text: its text view, if excerpts, what is left out and the next call are to be in that.
        stored: whether the payload can be read further; otherwise the card says that it cannot.

    Raises:
        CoatcheckError: `invalid_request` for a budget out of bounds.
    """
    if not MIN_BUDGET <= budget <= MAX_BUDGET:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"card_tokens must be between {MIN_BUDGET} and {MAX_BUDGET}, not {budget}.",
        )
    return _Cutting(
        artifact_id,
        said,
        measure,
        facts,
        sample,
        planned or plan(sample, facts),
        budget,
        query,
        tokenizer,
        text=text,
        stored=stored,
    ).run()


class _Cutting:
    """One card being cut."""

    def __init__(
        self,
        artifact_id: str,
        said: Said,
        measure: Measure,
        facts: Facts,
        sample: Sample,
        planned: Plan,
        budget: int,
        query: str | None,
        tokenizer: Tokenizer,
        *,
        text: Text | None,
        stored: bool,
    ) -> None:
        self._id = artifact_id
        self._stored = stored
        self._said = said
        self._measure = measure
        self._facts = facts
        self._budget = budget
        self._tokenizer = tokenizer
        self._text = text
        self._plan = planned if text is None else plan_text(facts.kind, planned)
        self._shown = measure if text is None else text.sizes()
        """Of the view that excerpts are cut from."""
        seen = sample if text is None else text.sample
        words = " ".join(query.split())[:_QUERY] if query else None
        self._excerpts = Excerpts(
            seen,
            seen if text is None else text.evidence,
            self._shown,
            self._plan,
            words or None,
            tokenizer,
            brief=budget < render.BRIEF,
            view="raw" if text is None else "text",
        )
        self._fixed = FixedLines(said, measure, facts, self._plan, budget, tokenizer, text)
        self._readable = facts.kind not in {Kind.IMAGE, Kind.BINARY}
        self._shows = self._readable and measure.size > 0 and self._plan.ends

    def run(self) -> tuple[Card, str, int]:
        """Fixed lines, then excerpts with what is left, then a recount; shrink until it fits."""
        measure = self._shown
        everything = Omission(
            bytes=ByteRange(0, measure.size), lines=LineRange(1, measure.lines), whole_lines=measure.lines
        )
        last = self._last(self._next([everything]), lost=not self._stored)
        if self._readable and measure.size:
            last = render.rest([], [everything], measure) + last
        most = self._budget - self._tokenizer.count(f"\n{last}")
        fixed = self._fixed.first(self._id, room=self._budget, excerpts=self._shows, stored=self._stored)
        self._fixed.build(fixed, most, text=self._readable)
        kept = self._fixed.kept(most - fixed.cost)
        excerpts = self._choose(most - fixed.cost - kept, fill=not kept)
        if kept:
            self._fixed.add_hints(fixed, excerpts, kept)
            excerpts = self._choose(most - fixed.cost, more=True)
        before = fixed.cost
        if self._fixed.add_markers(fixed, excerpts, most) and excerpts:
            more = fixed.cost - before - self._excerpts.spare()
            excerpts = self._excerpts.shrink(more) if more > 0 else excerpts
        for _ in range(_TRIES + len(fixed.lines)):
            card, text = self._assemble(fixed, excerpts)
            count = self._tokenizer.count(text)
            if count <= self._budget:
                return card, text, count
            if excerpts:
                excerpts = self._excerpts.shrink(count - self._budget + 2)
            elif not fixed.drop():
                break
        return self._smallest()

    def _smallest(self) -> tuple[Card, str, int]:
        """ID and next call: what fits into 64 tokens for every payload."""
        card, text = self._assemble(self._fixed.first(self._id, room=0, excerpts=False, stored=self._stored), [])
        return card, text, self._tokenizer.count(text)

    def _choose(self, room: int, *, more: bool = False, fill: bool = True) -> list[Excerpt]:
        return self._excerpts.choose(room, more=more, fill=fill) if self._shows else []

    def _next(self, omitted: list[Omission]) -> NextCall | None:
        if not omitted or not self._stored:
            return None
        arguments: dict[str, str | int] = {"artifact_id": self._id}
        largest = max(omitted, key=lambda gap: gap.bytes.end - gap.bytes.start)
        inside = not self._excerpts.starts_line(largest.bytes.start)
        if inside and not largest.whole_lines:  # its line's number would only show again what stands before the gap
            begins = self._excerpts.line_start(largest.bytes.start)
            if begins is None or (self._text is None and self._facts.kind in _REWRITTEN):
                return NextCall("read_artifact", {**arguments, "pattern": "…"})
            place = f"{largest.lines.first}+{largest.bytes.start - begins}"
            return NextCall("read_artifact", {**arguments, "offset": place})
        arguments["offset"] = largest.lines.first + inside
        if self._budget >= render.BRIEF and self._text is None:  # lines of a text are paragraphs: the reader knows best
            arguments["limit"] = _PAGE_LINES
        return NextCall("read_artifact", arguments)

    def _document(self) -> NextCall | None:
        """The call that reads the text of a payload that is none itself, such as a PDF document."""
        document = self._stored and is_document(self._facts.media_type)
        return NextCall("read_artifact", {"artifact_id": self._id}) if document else None

    def _last(self, next_call: NextCall | None, *, lost: bool) -> str:
        if not self._measure.size:
            return render.empty_line()
        if lost:
            return render.lost_line(brief=self._budget < render.BRIEF)
        if not self._readable:
            return render.unreadable_line(self._id if self._document() else None)
        if next_call is None:
            return render.end_line(self._measure, text=self._text is not None)
        return render.next_line(next_call, searchable=self._budget >= render.BRIEF)

    def _assemble(self, fixed: Fixed, excerpts: list[Excerpt]) -> tuple[Card, str]:
        measure = self._shown
        omitted = self._excerpts.omitted(excerpts)
        next_call = self._next(omitted) if self._readable else self._document()
        lines = list(fixed.lines)
        lines += render.excerpt_lines(excerpts, omitted, measure, brief=self._budget < render.BRIEF)
        told = omitted and self._readable and len(lines) > 1
        lost = not self._stored and (bool(omitted) or not self._readable)
        last = self._last(next_call, lost=lost)
        lines.append(render.rest(excerpts, omitted, measure) + last if told else last)
        return self._card(fixed, excerpts, omitted, next_call), "\n".join(lines)

    def _card(self, fixed: Fixed, excerpts: list[Excerpt], omitted: list[Omission], next_call: NextCall | None) -> Card:
        said, facts, measure = self._said, self._facts, self._measure
        return Card(
            id=self._id,
            kind=facts.kind,
            media_type=facts.media_type,
            title=said.title or facts.title,
            url=said.url or facts.url,
            canonical_url=facts.url if said.url else None,
            tool_name=said.tool_name,
            tool_call_id=said.tool_call_id,
            size=measure.size,
            chars=measure.chars,
            lines=measure.lines,
            tokens=measure.tokens,
            text=None if self._text is None else self._text.measure,
            sha256=None if self._readable else measure.sha256.hex(),
            markers=(FAILED, *facts.markers) if said.failed else facts.markers,
            shape=fixed.shape,
            hints=fixed.hints,
            excerpts=excerpts,
            omitted=omitted,
            redacted=facts.redacted,
            dropped=measure.dropped,
            dropped_at=measure.dropped_at,
            next=next_call,
            engine=ENGINE,
        )
