"""Composes a card: spends a budget on what a reader needs most, and never exceeds it by a token.

Pure: the same payload, metadata, query and budget give the same card, byte for byte. The first line with the ID and the
next call are part of a card of every budget; everything else shrinks with it. The final text is counted as a whole, so
the bound holds for every content, however wrong the estimates were.

If the session was given the same bytes before, the card is two lines (`repeat`). `is_card` recognises a card in a
history by its first line. A payload that imitates that line gains nothing: it is merely left as it is, up to the size
of a card.
"""

import re
from itertools import chain
from typing import Final

from msgspec.structs import replace

from coatcheck.core.artifact import ENGINE, DeclaredMetadata, DetectedMetadata, Marker, Measure
from coatcheck.core.card import render
from coatcheck.core.card.model import Card, CardInput, Excerpt, NextCall, Omission
from coatcheck.core.card.next_step import CLASSES, TOOL, ShownUnits, next_call
from coatcheck.core.card.own_lines import OwnLines
from coatcheck.core.card.render import excerpts_of, omissions, outside
from coatcheck.core.card.text import TEXT_BYTES
from coatcheck.core.choose.select import Selection
from coatcheck.core.choose.units import Units, units_of
from coatcheck.core.choose.worth import failures_of, verdict_of, worth_of
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.ids import is_id
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.media.documents import is_document
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.views.view import Section
from coatcheck_client.contract.inert import MARK, one_line

FAILED: Final = Marker("error", "reported by the tool")
"""Marker of a payload that the provider's result reported as an error."""
MIN_BUDGET: Final = 64
"""Smallest budget of a card, in tokens. Chosen: the first line and the line about what is left out take most of it."""
MAX_BUDGET: Final = 8192
"""Largest budget of a card, in tokens: about what the hosts of agents allow a tool's answer (`MAX_TOKENS`)."""
_QUERY: Final = 200
"""Maximum characters of a query that are used; the rest is ignored."""
_FACTS: Final = 0.8
"""Maximum share that facts get if excerpts are shown too, of the tokens that remain after the names."""
_NAMED_LINES: Final = 3
"""Number of odd lines or answers around which a part to read is searched for."""
_SUMMARY: Final = 3
"""Maximum bytes of a document's summary that is shown whole, per token that is left for excerpts."""
_SPARE: Final = 12
"""Minimum unused tokens for which the excerpts are extended: enough for a line and the line above it."""
_DENSE: Final = 16
"""Maximum bytes of a payload that is tried as a whole, per token that is left for excerpts."""
_ONE_FAILURE_TOKENS: Final = 300
"""Largest budget, in tokens, chosen for an outcome that states exactly one failure. Measured: cards of seven such
outcomes show the same at 300 as at 600 tokens; of 16 outcomes that state no failure or two, four show less at 300."""
_TOKENS_PER_FAILURE: Final = 100
"""Tokens for each different sure failure in a chosen budget. Measured on 167 outcomes in which people marked what they
need: with 100 tokens, the cards show 2 points more of the marks than cards of one fixed budget with the same mean; with
75 tokens 1 point more; with 150 tokens 2 points more, at a cost of 15 % more tokens."""
_MAX_CHOSEN_TOKENS: Final = 2_048
"""Largest chosen budget, in tokens. Measured on 11 outcomes with more failures: the cards show 64 % of what people
marked at 1,024 tokens, 87 % at 2,048, and 94 % at 4,096."""


def cut(inputs: CardInput) -> tuple[Card, str, int]:
    """Returns the card of a payload, the card's text, and the number of tokens in the text.

    Raises:
        CoatcheckError: `invalid_request` if the budget is out of bounds.
    """
    if not MIN_BUDGET <= inputs.budget <= MAX_BUDGET:
        raise CoatcheckError(
            Code.INVALID_REQUEST, f"card_tokens must be between {MIN_BUDGET} and {MAX_BUDGET}, not {inputs.budget}."
        )
    smallest = replace(inputs, budget=MIN_BUDGET)
    composition = _compose(inputs) or _assemble(smallest, None, None)
    if composition[2] <= inputs.budget:
        return composition
    shorter = replace(smallest, facts=replace(inputs.facts, path=None))
    composition = _assemble(shorter, None, None)
    if composition[2] <= inputs.budget:
        return composition
    # The first line can name fields, their times and a form of the payload; the ID and the next call are worth more.
    return _assemble(replace(shorter, facts=replace(shorter.facts, fields=None, form=None)), None, None)


def choose_budget(inputs: CardInput) -> int:
    """Returns the budget that suits a payload; `inputs` has the usual budget and no query.

    The budget of an outcome grows with the number of different failures that it states, and is small if there is
    exactly one. A text that fits into the usual budget, and one that states no failure, gets the usual budget.
    """
    usual = inputs.budget
    if not inputs.allows_excerpts or inputs.spec.weights is not None or inputs.sizes.tokens.count <= usual:
        return usual
    units = _collect_units(inputs, inputs.asides)
    sure, failures = failures_of(units, document=inputs.facts.document or inputs.spec.prose) or (0, 0)
    if failures == 1:
        return min(usual, _ONE_FAILURE_TOKENS)
    return max(usual, min(sure * _TOKENS_PER_FAILURE, _MAX_CHOSEN_TOKENS))


def make_bare_card(artifact_id: str, declared: DeclaredMetadata, measure: Measure, facts: DetectedMetadata) -> Card:
    """Returns a card with the names and sizes of a payload, and without any of its content."""
    fetch = facts.fetch_of(declared)
    return Card(
        id=artifact_id,
        kind=facts.kind,
        media_type=facts.media_type,
        title=fetch.title,
        url=fetch.url,
        canonical_url=facts.url if declared.url else None,
        status=fetch.status,
        final_url=fetch.final_url,
        content_type=fetch.content_type,
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


def _compose(inputs: CardInput) -> tuple[Card, str, int] | None:
    """Composes the service's own lines, fills the rest with excerpts, and drops the least valuable until the card fits.

    Returns None if only the first line and the next call would fit. These need at most 64 tokens if the call has no
    path.
    """
    own = OwnLines(inputs)
    # The last line is longest if nothing is shown: its tokens are set aside before anything else is added.
    last, _ = _render_last_line(inputs, None, [], omissions([], inputs.sizes))
    most = inputs.budget - inputs.tokenizer.count(f"\n{last}")
    own.fill(most, min(_FACTS, inputs.facts_share) if inputs.allows_excerpts else inputs.facts_share)
    room = most - own.cost
    shown_units = _choose(inputs, room) if inputs.allows_excerpts else None
    extended = False
    while True:
        # Prices were estimates: the text is counted as a whole, then extended at most once, or reduced until it fits.
        card, text, count = _assemble(inputs, own, shown_units)
        if count <= inputs.budget:
            spare = inputs.budget - count
            if not extended and shown_units is not None and spare >= _SPARE and shown_units.extend(spare):
                extended = True
                continue
            return card, text, count
        if shown_units is not None and shown_units.whole:  # its text became longer by being made inert
            shown_units = _choose(inputs, room, whole=False)
        elif shown_units is not None:
            shown_units = shown_units if shown_units.drop(count - inputs.budget) else None
        elif not own.drop():
            return None


def _choose(inputs: CardInput, room: int, *, whole: bool = True) -> ShownUnits | None:
    asides = inputs.asides
    size, tokens = inputs.sizes.size - sum(aside.end - aside.start for aside in asides), inputs.sizes.tokens
    units = _collect_units(inputs, asides) if room > 0 else ()
    if not units:
        return None
    if whole and inputs.evidence.whole and tokens.exact and size <= room * _DENSE:
        count = inputs.tokenizer.count(units.block.decode("utf-8", "replace")) if asides else tokens.count
        if count <= room - 4:
            return ShownUnits(units)
    if inputs.query and asides:  # the answer may be in an aside too
        units = _collect_units(inputs, ())
    reach = room * min(8.0, max(1.5, inputs.sizes.size / max(tokens.count, 1)))
    query, novelty = " ".join((inputs.query or "").split())[:_QUERY], inputs.facts.novelty
    first = inputs.text.sections[:1] if inputs.text is not None and inputs.spec.text_view == "document" else ()
    summary = first[0].start if first and first[0].start <= room * _SUMMARY else 0
    worth = worth_of(
        units,
        reach,
        inputs.spec.weights,
        inputs.sizes.lines - sum(aside.lines for aside in asides),
        document=inputs.facts.document or inputs.spec.prose,
        query=query,
        compared=novelty,
        summary=summary,
        asides=asides if inputs.query else (),
        is_view=inputs.text is not None,
    )
    return ShownUnits(units, Selection(units, worth, room, inputs.tokenizer))


def _collect_units(inputs: CardInput, asides: tuple[Section, ...]) -> Units:
    """Returns the units that may be shown, without those of `asides`."""
    survey = inputs.survey if inputs.text is None or inputs.text.is_surveyed else None
    sought = bool(inputs.query) or inputs.facts.novelty is not None
    return units_of(inputs.evidence, inputs.sizes.lines, survey, sought=sought, fields=inputs.fields, asides=asides)


def _assemble(inputs: CardInput, own: OwnLines | None, shown_units: ShownUnits | None) -> tuple[Card, str, int]:
    """Returns the card, its text and the text's tokens.

    If `own` is None, only the first line, without sizes, stands above the excerpts and the last line.
    """
    own = own or OwnLines(inputs, smallest=True)
    excerpts = [] if shown_units is None else excerpts_of(shown_units.units, shown_units.positions, inputs)
    omitted = omissions(excerpts, inputs.sizes)
    last, following = _render_last_line(inputs, shown_units, excerpts, omitted)
    text = "\n".join([*own.lines, *render.excerpt_lines(excerpts, inputs.sizes), last])
    card = replace(
        make_bare_card(inputs.id, inputs.declared, inputs.measure, inputs.facts),
        text=None if inputs.text is None else inputs.text.measure,
        sha256=None if inputs.readable else inputs.measure.sha256.hex(),
        shape=own.facts,
        excerpts=excerpts,
        omitted=omitted,
        next=following,
    )
    return card, text, inputs.tokenizer.count(text)


def _render_last_line(
    inputs: CardInput, shown_units: ShownUnits | None, excerpts: list[Excerpt], omitted: list[Omission]
) -> tuple[str, NextCall | None]:
    """Returns the last line of the card, and the call that this line names, if any."""
    if not inputs.measure.size:
        return render.EMPTY, None
    if not inputs.readable:
        # The extraction of text from a smaller payload was tried before its card was made.
        untried = TEXT_BYTES < inputs.measure.size <= inputs.spec.view_bytes
        document = untried and inputs.is_stored and inputs.tools and is_document(inputs.facts.media_type)
        following = NextCall(TOOL, {"artifact_id": inputs.id}) if document else None
        line = (
            render.unreadable_line(following) if inputs.is_stored else render.render_unstored_line(brief=inputs.brief)
        )
        return line, following
    rest = outside(omitted, inputs.asides) if inputs.asides else omitted
    if not rest:
        return render.end_line(inputs), None
    section = _choose_section(inputs, shown_units, excerpts)
    part = section is not None or inputs.facts.path is not None
    sought, words = (None, "") if shown_units is None else shown_units.rest(CLASSES[:1] if part else CLASSES)
    words = words if inputs.evidence.whole and not inputs.brief else ""
    if not inputs.is_stored and inputs.survey is None and not (inputs.evidence.whole or inputs.brief):
        words = render.COUNTED
    omission_line = render.render_omission(inputs, excerpts, omitted if inputs.brief else rest, words)
    if not inputs.is_stored:
        return f"{omission_line} {render.render_unstored_line(brief=inputs.brief)}", None
    if not inputs.tools:
        return f"{omission_line} {render.KEPT}", None
    following = next_call(inputs, shown_units, rest, sought, section)
    call_line = f" {render.next_line(following, brief=inputs.brief)}" if following else ""
    return f"{omission_line}{call_line}", following


def _choose_section(
    inputs: CardInput, shown_units: ShownUnits | None, excerpts: list[Excerpt]
) -> tuple[str, int, int] | None:
    """Returns the part to read next: around the answer to the query or an odd line, otherwise the largest.

    Parts that excerpts mostly show are passed over. The tuple has the part's name, the line after what is shown of its
    beginning (0 if nothing is shown), and how many of its lines are left. Returns None if no such part is known, or if
    the card is brief and shows no excerpt.
    """
    if not excerpts and inputs.brief:
        return None
    inner = [] if inputs.text is None else inputs.text.inner
    spans = inputs.facts.section_lines if inputs.text is None else [(each.line, each.lines) for each in inner]
    lines = shown_units.singular if shown_units is not None and (inputs.query or inputs.spec.weights is None) else []
    around = (
        nth for line in lines[:_NAMED_LINES] for nth, (first, count) in enumerate(spans) if 0 <= line - first < count
    )
    number = next(
        (nth for nth in chain(around, range(len(spans))) if not _is_mostly_shown(excerpts, *spans[nth])), None
    )
    if number is None:
        return None
    name = inputs.facts.sections[number] if inputs.text is None else inputs.text.name_of(inner[number])
    first, count = spans[number]
    last = next((each.lines.last for each in excerpts if each.lines.first <= first + 1 <= each.lines.last), 0)
    inside = last and first + count - 1 <= inputs.sizes.lines
    return (name, last + 1, first + count - last - 1) if inside else (name, 0, count)


def _is_mostly_shown(excerpts: list[Excerpt], first: int, count: int) -> bool:
    """Returns whether excerpts show at least half of the `count` lines from line `first` on."""
    spans = ((max(first, each.lines.first), min(first + count - 1, each.lines.last)) for each in excerpts)
    return 2 * sum(max(0, end - start + 1) for start, end in spans) >= count


SMALLEST: Final = 128
"""Maximum tokens of a payload that always gets a card of its own, because such a card is hardly longer than the two
lines of `repeat`, which take 60 tokens and a verdict."""
_VERDICT: Final = 40
"""Maximum tokens of the verdict."""
_SAYS: Final = 8
"""Minimum tokens for a verdict: clipped to fewer, it would say nothing."""


def repeat(inputs: CardInput, earlier: str) -> tuple[Card, str, int] | None:
    """Returns a card of two lines that names an earlier artifact of the same bytes, in the form that `cut` returns.

    The second line has the verdict that the earlier card shows, and the call that reads the payload. Returns None if
    the two lines do not fit into the budget.
    """
    call = NextCall(TOOL, {"artifact_id": inputs.id})
    same = f"{MARK} Same as {earlier}, byte for byte"
    failed = f" {MARK} {FAILED.name} {FAILED.value}" if inputs.declared.failed else ""
    status = render.status_line(inputs.facts.fetch_of(inputs.declared))
    failed += f" {MARK} {status}" if status else ""
    last = f" {render.next_line(call, brief=False)}"
    text = f"{render.first_line(inputs, sized=True)}\n{same}{failed}{last}"
    count = inputs.tokenizer.count(text)
    if count > inputs.budget:
        text = f"{render.first_line(replace(inputs, budget=MIN_BUDGET), sized=False)}\n{same}{failed}{last}"
    elif (verdict := _verdict(inputs, min(inputs.budget - count - 4, _VERDICT))) is not None:
        text = f"{text.removesuffix(last)} {MARK} {verdict}{last}"
    count = inputs.tokenizer.count(text)
    card = replace(make_bare_card(inputs.id, inputs.declared, inputs.measure, inputs.facts), next=call)
    return (card, text, count) if count <= inputs.budget else None


def _verdict(inputs: CardInput, room: int) -> str | None:
    """Returns the line that says how a run ended, clipped to `room` tokens; None if there is none.

    A kind that has weights of its own has no such line: its text is no outcome.
    """
    if inputs.spec.weights is not None or room < _SAYS:
        return None
    survey = inputs.survey if inputs.text is None or inputs.text.is_surveyed else None
    units = units_of(inputs.evidence, inputs.sizes.lines, survey, fields=inputs.fields, asides=inputs.asides)
    place = verdict_of(units, document=inputs.facts.document or inputs.spec.prose)
    if place is None:
        return None
    return fit_text(one_line(excerpts_of(units, [place], inputs)[0].text), room, inputs.tokenizer)


_CARD_LINE: Final = re.compile(
    r"\[(art_[0-9]{18}) · [a-z_]{1,40} · (?:[^\n]{1,400} · )?"
    r"(?:stored outside this conversation|NOT STORED)(?:; below: [^\n]{1,200})?\](?=\r?\n|\Z)"
)
MAX_CARD_CHARS: Final = 32 * MAX_BUDGET
"""Maximum characters of a text that is taken for a card: a card of the largest budget that consists of blanks, 32 to a
token."""


def is_card(text: str) -> bool:
    """Returns whether a text is a card: it begins with a card's first line and a possible ID, and is short enough."""
    match = _CARD_LINE.match(text) if len(text) <= MAX_CARD_CHARS else None
    return match is not None and is_id(match[1])
