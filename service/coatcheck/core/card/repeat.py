"""What stands for a card that the same session was given before: two lines, with an ID of their own."""

from typing import Final

from msgspec.structs import replace

from coatcheck.core.card import render
from coatcheck.core.card.compose import FAILED, MIN_BUDGET, make_bare_card
from coatcheck.core.card.excerpts import excerpts_of
from coatcheck.core.card.model import Card, CardInput, NextCall
from coatcheck.core.card.next_step import TOOL
from coatcheck.core.choose.units import units_of
from coatcheck.core.choose.worth import verdict_of
from coatcheck.core.text.excerpt import fit_text
from coatcheck_client.contract.inert import MARK, one_line

SMALLEST: Final = 128
"""Tokens of a payload up to which its card is hardly longer than the two lines, which have 60 and a verdict."""
_VERDICT: Final = 40
"""Maximum tokens of the verdict."""
_SAYS: Final = 8
"""Tokens below which a clipped verdict says nothing."""


def repeat(inputs: CardInput, earlier: str) -> tuple[Card, str, int] | None:
    """Returns the two lines that name an earlier artifact of the same bytes, as `cut` returns a card; None: no room.

    The second one has the verdict that the earlier card shows, and the call that reads the payload.
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
    """Returns the line that says how a run ended, as its card shows it, clipped to `room` tokens; None: there is none.

    Where a kind has weights of its own, its text tells no outcome.
    """
    if inputs.spec.weights is not None or room < _SAYS:
        return None
    survey = inputs.survey if inputs.text is None or inputs.text.is_surveyed else None
    units = units_of(inputs.evidence, inputs.sizes.lines, survey, fields=inputs.fields, asides=inputs.asides)
    place = verdict_of(units, document=inputs.facts.document or inputs.spec.prose)
    if place is None:
        return None
    return fit_text(one_line(excerpts_of(units, [place], inputs)[0].text), room, inputs.tokenizer)
