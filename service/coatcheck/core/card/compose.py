"""Composes a card: spends a budget on what a reader needs most, and never exceeds it by a token.

Pure: the same payload, metadata, query and budget give the same card, byte for byte. The first line with the ID and the
next call are there at every budget; everything else shrinks. The final text is counted as a whole, so the bound holds
for every content, whatever the estimates were.
"""

from typing import Final

from msgspec.structs import replace

from coatcheck.core.artifact import ENGINE, DeclaredMetadata, DetectedMetadata, Marker, Measure, PayloadSample
from coatcheck.core.card import render
from coatcheck.core.card.excerpts import excerpts_of, omissions
from coatcheck.core.card.model import Card, CardInput, Excerpt, NextCall, Omission
from coatcheck.core.card.next_step import TOOL, Rest, Shown, next_call
from coatcheck.core.card.own_lines import OwnLines
from coatcheck.core.card.text import CardSource
from coatcheck.core.choose.select import Selection
from coatcheck.core.choose.units import units_of
from coatcheck.core.choose.worth import worth_of
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.media.documents import is_document
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
            Code.INVALID_REQUEST, f"card_tokens must be between {MIN_BUDGET} and {MAX_BUDGET}, not {budget}."
        )
    made = CardInput(
        id=artifact_id,
        declared=declared,
        measure=measure,
        facts=facts,
        evidence=sample if text is None else text.evidence,
        shown=measure if text is None else text.sizes(),
        survey=survey if text is None else None,
        text=text,
        query=" ".join((query or "").split())[:_QUERY] or None,
        budget=budget,
        tokenizer=tokenizer,
        stored=stored,
        tools=tools,
    )
    return _composed(made) or _assembled(replace(made, budget=MIN_BUDGET), None, None)


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


def _composed(made: CardInput) -> tuple[Card, str, int] | None:
    """Composes our own lines, then excerpts with what is left; drops what is worth least until it fits.

    Returns None if only the first line and the next call do, which fit into 64 tokens for every payload.
    """
    own = OwnLines(made)
    last, _ = _last(made, None, [], omissions([], made.shown))
    most = made.budget - made.tokenizer.count(f"\n{last}")
    listed = made.spec.readable and made.spec.facts_share == 1 and made.facts.shape
    excerpted = made.readable and made.measure.size > 0 and not listed
    own.fill(most, min(_FACTS, made.spec.facts_share) if excerpted else made.spec.facts_share)
    room = most - own.cost
    shown = _choose(made, room) if excerpted else None
    while True:
        card, text, count = _assembled(made, own, shown)
        if count <= made.budget:
            return card, text, count
        if shown is not None and shown.whole:  # made inert, it is longer than before
            shown = _choose(made, room, whole=False)
        elif shown is None or not shown.drop(count - made.budget):
            shown = None
            if not own.drop():
                return None


def _choose(made: CardInput, room: int, *, whole: bool = True) -> Shown | None:
    size, tokens = made.shown.size, made.shown.tokens
    units = units_of(made.evidence, made.shown.lines, made.survey) if room > 0 else ()
    if not units:
        return None
    if whole and made.evidence.whole and tokens.exact and tokens.count <= room - 4 and size <= room * _DENSE:
        return Shown(units)
    reach = room * min(8.0, max(1.5, size / max(tokens.count, 1)))
    novelty = made.facts.novelty
    worth = worth_of(units, reach, made.spec.weights, made.shown.lines, query=made.query, compared=novelty)
    return Shown(units, worth, Selection(units, worth, room, made.tokenizer))


def _assembled(made: CardInput, own: OwnLines | None, shown: Shown | None) -> tuple[Card, str, int]:
    """Returns the card, its text and the text's tokens; without `own` lines, it has only the first, without sizes."""
    own = own or OwnLines(made, smallest=True)
    excerpts = [] if shown is None else excerpts_of(shown.units, shown.places, made)
    omitted = omissions(excerpts, made.shown)
    last, following = _last(made, shown, excerpts, omitted)
    text = "\n".join([*own.lines, *render.excerpt_lines(excerpts, made.shown), last])
    card = replace(
        named(made.id, made.declared, made.measure, made.facts),
        text=None if made.text is None else made.text.measure,
        sha256=None if made.readable else made.measure.sha256.hex(),
        shape=own.facts,
        excerpts=excerpts,
        omitted=omitted,
        next=following,
    )
    return card, text, made.tokenizer.count(text)


def _last(
    made: CardInput, shown: Shown | None, excerpts: list[Excerpt], omitted: list[Omission]
) -> tuple[str, NextCall | None]:
    """Returns the last line, and the call that it names."""
    if not made.measure.size:
        return render.EMPTY, None
    if not made.readable:
        document = made.stored and made.tools and is_document(made.facts.media_type)
        following = NextCall(TOOL, {"artifact_id": made.id}) if document else None
        return render.unreadable_line(following) if made.stored else render.lost_line(brief=made.brief), following
    if not omitted:
        return render.end_line(made.measure, text=made.text is not None), None
    rest = shown.rest() if shown is not None and made.evidence.whole else Rest()
    told = render.left_out(excerpts, omitted, made.measure, "" if made.brief else rest.words)
    if not made.stored:
        return f"{told} {render.lost_line(brief=made.brief)}", None
    if not made.tools:
        return f"{told} {render.KEPT}", None
    following = next_call(made, shown, omitted, rest, _section(made, excerpts))
    return f"{told} {render.next_line(following, brief=made.brief)}", following


def _section(made: CardInput, excerpts: list[Excerpt]) -> str | None:
    """Returns what names the largest part that no excerpt shows; None if none is known, or there is no room."""
    if not excerpts and made.brief:
        return None
    if made.text is not None:
        return made.text.unseen([(each.bytes.start, each.bytes.end) for each in excerpts])
    text = "\n".join(each.text for each in excerpts)
    return next((title for title in made.facts.sections if title not in text), None)
