"""Measures how full a context is: how much stays in it, how much leaves with this turn, and when to compact.

    next_turn = baseline + persisted           this_turn = next_turn + transient

`baseline` is the instructions and tool declarations; `persisted` is the history with the summaries that stay.
`transient` is the tool payload of the latest turn that will not stay: tokens that the caller reports in addition to the
body and, only if the caller compacts, the tokens by which this turn's outputs exceed the cards that replace them.
`persisted` and `transient` are counted apart: if a meter added them, it would show tokens as used up although they are
free again in the next turn.

All numbers are estimates of one tokenizer, multiplied by one factor: it comes from the provider's last real usage if
the caller has it, else from the model's family. Numbers are rounded half up everywhere, and sums are sums of the
rounded parts. Only `parts` and the payload of web searches are not multiplied: a search is limited in the tokenizer's
own tokens.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.context.apply import CompactedBody
from coatcheck.core.context.body.encoding import Value, too_deep
from coatcheck.core.context.counting import MESSAGE_TOKENS, ContextTokens, Counter
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.plan import CompactionPlan, PlanContext, plan
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.references import search_answers
from coatcheck.core.context.replaceable import ReplacementCandidate
from coatcheck.core.context.timeline import Timeline, pair
from coatcheck.core.context.window import (
    ModelWindow,
    UsableWindow,
    family_percent,
    percent,
    room_of,
    scale_tokens,
    window_of,
)
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.event import UsageDelta
from coatcheck.core.search.model import SearchLimits
from coatcheck.core.text.count import short_number

SCALE: Final = 1_000
"""Ratios are in thousandths: this number means that an estimate is unchanged."""
_NO_USAGE: Final = "`usage` contains no plausible number of input tokens; the estimate stands."
_REPORTED_TURNS: Final = 20
"""Maximum turns that a measurement lists one by one, the latest ones. Chosen, not measured."""
_MIN_RATIO, _MAX_RATIO = 500, 3_000
"""Range of the ratio of reported usage to estimate, in thousandths. Outside this range, the usage is not this
body's."""


class SearchCaps(Struct, frozen=True):
    """Maximum tokens of the answers of web searches: their `max_total_tokens`."""

    usual: int = SearchLimits().max_total_tokens
    """Maximum of the next search, and of a search whose own maximum is not known."""
    by_artifact: Mapping[str, int] = {}
    """Maximum of a search, by the ID of the artifact that contains the provider's response."""


class MeasureRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the caller knows about a body's context in addition to the body."""

    window: ModelWindow | None = None
    real_tokens: int | None = None
    """All input tokens that the provider counted for the last answered request; 0 if the reported number is
    implausible. None: no usage is known."""
    covers: int | None = None
    """How many of the body's messages the last answered request had; None: those before the model's last step."""
    transient_tokens: int = 0
    """Tokens of this turn's tool payload that are not in the body."""
    persisted_tokens: int = 0
    """Tokens of summaries that the next turn will have but that are not in the body yet."""
    outputs_stay: bool | None = False
    """Whether nothing is compacted at the end of the turn, so that every output stays as it is. None: unknown; then
    only the texts of web searches are expected to become summaries, since these texts are made for one turn."""
    search_caps: SearchCaps = SearchCaps()
    compact_percent: int = 80
    """Percentage of the usable window from which compaction is advised."""


class WindowShare(Struct, frozen=True):
    """Tokens, and their share of the usable window; percentages are None without a window."""

    tokens: int
    percent: float | None
    left_tokens: int | None = None
    left_percent: float | None = None


class TurnTokens(Struct, frozen=True, kw_only=True):
    """The present size of one turn of a history: the user's message, and everything up to the user's next message."""

    turn: int
    """Number of the turn in the body, from 1."""
    message: int
    """Number of the turn's first message in the body, from 0."""
    tokens: int
    outputs: int
    """Part of `tokens` that outputs of tools take, including cards."""


class SearchPayload(Struct, frozen=True, kw_only=True):
    """The texts of web searches in the latest turn, in tokens of the service's tokenizer, not scaled."""

    searches: int
    tokens: int
    cap: int
    """The sum of the `max_total_tokens` of these searches; if there is none, that of the next search."""


class ContextMeasurement(Struct, frozen=True, kw_only=True):
    """The measurement of one body."""

    line: str
    """The measurement in one line for a status bar: `context 41 % now, 12 % next turn; 184k left`. The tokens left are
    those of this turn. Without a window, tokens replace percentages."""
    lines: list[str]
    """The measurement in three lines: what is left in the next turn, what is left in this turn, and the payload of web
    searches. The percentages are `left_percent` of `next_turn` and `this_turn`, rounded half up to whole numbers.
    Without a window, the lines contain the tokens used. Numbers have no separators."""
    assumes: Literal["outputs_stay", "summaries", "policy"]
    """What `next_turn` assumes about this turn's outputs at the end of the turn. `outputs_stay`: all stay. `summaries`:
    all stay except texts of web searches, which become their summaries. `policy`: the policy is applied as if the
    window were under no pressure."""

    format: str
    tokenizer: str
    baseline: WindowShare
    persisted: WindowShare
    transient: WindowShare
    next_turn: WindowShare
    this_turn: WindowShare
    search_payload: SearchPayload
    parts: ContextTokens
    """The tokens of the body as it is, not multiplied by the factor."""
    turns: list[TurnTokens]
    """The latest 20 turns, oldest first."""
    scale: float
    scaled_by: str
    """Origin of the factor: `usage` or `family`."""
    window: UsableWindow | None
    should_compact: bool | None
    because: str | None
    """Which of `next_turn` and `this_turn` is large enough to compact; None if neither is."""
    notes: list[str]


def measure(
    body: Value,
    ask: MeasureRequest,
    policy: CompactionPolicy,
    counter: Counter,
    context: PlanContext = PlanContext(),  # noqa: B008 - frozen
) -> ContextMeasurement:
    """Returns the measurement of a body under a policy, from the plan of a compaction that is not carried out.

    Args:
        body: a decoded request body in any format, or only its list of messages.
        ask: what the caller knows in addition to the body.
        policy: how the caller compacts.
        counter: counts tokens.
        context: what the store knows about the history; the window of `ask` replaces its window.

    Raises:
        CoatcheckError: `unknown_format` for a body of no known format; `invalid_request` for a policy that contradicts
            itself, a window with nothing left in it, or a `covers` of more messages than the body has;
            `invalid_content` for a body that is nested too deeply.
    """
    index = context.index or index_of(body)
    context = replace(context, index=index, window=ask.window, compact_percent=ask.compact_percent)
    planned = plan(body, policy, counter, context)
    try:
        flight = _sum_savings(planned.replaceable, _flying(planned, planned.line.turn(planned.line.size), ask))
        ratio = _ratio(body, planned, ask, notes := list(index.notes))
        return _measure_windows(planned, flight, ask, counter, _room(body, ask), ratio, notes)
    except RecursionError as e:
        raise too_deep() from e


def _room(body: Value, ask: MeasureRequest) -> UsableWindow | None:
    window = window_of(body, ask.window)
    return None if window is None else room_of(window)


class Meters(Struct, frozen=True):
    """The measurements of a body before and after its compaction, with the same factor."""

    before: ContextMeasurement
    after: ContextMeasurement


def measure_both(compacted: CompactedBody, ask: MeasureRequest, counter: Counter) -> Meters:
    """Returns the measurements of a body before and after a compaction, from the numbers that the compaction counted.

    The usage of `ask` is compared with the compacted body, which is the one that is sent: the provider's last usage was
    about such a body. `covers` counts messages of the given body.

    Raises:
        CoatcheckError: `invalid_request` for a window with nothing left in it, or a `covers` of more messages than the
            given body has.
    """
    plan = compacted.plan
    check_covers(ask, len(plan.sizes))
    if ask.covers is not None:
        # One message, with the notice, takes the place of all those that are gone.
        gone = bisect_left(compacted.removed_messages, ask.covers)
        ask = replace(ask, covers=ask.covers - gone + (gone > 0))
    room = _room(compacted.body, ask)
    # Outputs that the compaction has replaced or left out are no longer transient.
    numbers = _flying(plan, plan.line.turn(plan.line.size), ask)
    staying = [at for at in numbers - plan.replaced if plan.replaceable[at].message not in plan.dropped]
    line = plan.line if compacted.index is plan.index else Timeline(compacted.index, pair(compacted.index))
    after = replace(plan, index=compacted.index, line=line, sizes=compacted.sizes)
    notes = list(compacted.index.notes)
    ratio = _ratio(compacted.body, after, ask, notes)
    return Meters(
        _measure_windows(
            plan, _sum_savings(plan.replaceable, numbers), ask, counter, room, ratio, list(plan.index.notes)
        ),
        _measure_windows(after, _sum_savings(plan.replaceable, staying), ask, counter, room, ratio, notes),
    )


def check_covers(ask: MeasureRequest, messages: int) -> None:
    """Checks that a body with that many messages has those that the last answered request had.

    Raises:
        CoatcheckError: `invalid_request` for a usage with a `covers` of more messages.
    """
    if ask.real_tokens and ask.covers is not None and ask.covers > messages:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"`covers` says that a request had {ask.covers:,} messages of this body, which has {messages:,}.",
            field="covers",
        )


def _flying(plan: CompactionPlan, start: int, ask: MeasureRequest) -> set[int]:
    """Returns the numbers of the candidates from message `start` on that are replaced once their turn is over."""
    if ask.outputs_stay:
        return set()
    numbers = {at for at, one in enumerate(plan.replaceable) if one.message >= start and one.is_transient(plan.policy)}
    return numbers if ask.outputs_stay is False else {at for at in numbers if plan.replaceable[at].kind == "search"}


def _sum_savings(candidates: list[ReplacementCandidate], numbers: Iterable[int]) -> int:
    return sum(candidates[number].saves for number in numbers)


def _measure_windows(
    of: CompactionPlan,
    flight: int,
    ask: MeasureRequest,
    counter: Counter,
    room: UsableWindow | None,
    scale: tuple[int, str],
    notes: list[str],
) -> ContextMeasurement:
    """Returns the measurement of a body. `flight` is the tokens that leave with this turn."""
    # Each part is rounded before it is added, so that the shown parts add up to the shown sums.
    ratio, by = scale
    baseline = scale_tokens(of.fixed.total, ratio, SCALE)
    persisted = scale_tokens(sum(size.total for size in of.sizes) - flight + ask.persisted_tokens, ratio, SCALE)
    transient = scale_tokens(flight + ask.transient_tokens, ratio, SCALE)
    usable = None if room is None else room.usable
    following, current = baseline + persisted, baseline + persisted + transient
    because = None
    if usable is not None:
        # Percentages are compared as integers, since 80 % of a window is rarely a whole number.
        full = usable * ask.compact_percent
        because = "next_turn" if following * 100 >= full else "this_turn" if current * 100 >= full else None
    now, then = _part(current, usable, includes_rest=True), _part(following, usable, includes_rest=True)
    payload = _search_payload(of, ask.search_caps, counter)
    stay = "summaries" if ask.outputs_stay is None and flight else "outputs_stay"
    return ContextMeasurement(
        line=_line(now, then),
        lines=_lines(now, then, payload.tokens, payload.cap),
        assumes="policy" if ask.outputs_stay is False else stay,
        format=of.index.format.value,
        tokenizer=counter.tokenizer.name,
        baseline=_part(baseline, usable),
        persisted=_part(persisted, usable),
        transient=_part(transient, usable),
        next_turn=then,
        this_turn=now,
        search_payload=payload,
        parts=ContextTokens.sum([of.fixed, *of.sizes]),
        turns=_turns(of, ratio),
        scale=ratio / SCALE,
        scaled_by=by,
        window=room,
        should_compact=None if room is None else because is not None,
        because=because,
        notes=notes,
    )


def _search_payload(of: CompactionPlan, caps: SearchCaps, counter: Counter) -> SearchPayload:
    searches = [(ref, counter.output(output) - MESSAGE_TOKENS) for ref, output in search_answers(of.index, of.line)]
    limits = [caps.by_artifact.get(ref or "", caps.usual) for ref, _ in searches]
    return SearchPayload(
        searches=len(searches), tokens=sum(tokens for _, tokens in searches), cap=sum(limits) if limits else caps.usual
    )


def session_lines(usage: UsageDelta) -> list[str]:
    """Returns the three lines of the session's last measurement; an empty list if it has none."""
    persisted, transient = usage.persisted_tokens, usage.transient_tokens
    payload, cap = usage.search_tokens, usage.search_cap
    if persisted is None or transient is None or payload is None or cap is None:
        return []
    then = _part(persisted, usage.window_tokens, includes_rest=True)
    return _lines(_part(persisted + transient, usage.window_tokens, includes_rest=True), then, payload, cap)


def _lines(now: WindowShare, then: WindowShare, payload: int, cap: int) -> list[str]:
    return [
        f"Next turn: {_format_left(then)} (persisted only)",
        f"This turn (with tools): {_format_left(now)}",
        f"web payload this turn: ~{payload} tokens (capped at {cap})",
    ]


def _format_left(share: WindowShare) -> str:
    return f"{share.tokens} tokens used" if share.left_percent is None else f"{_whole(share.left_percent)}% left"


def _line(now: WindowShare, then: WindowShare) -> str:
    if now.percent is None or then.percent is None:
        return f"context {short_number(now.tokens)} tokens now, {short_number(then.tokens)} next turn"
    shares = f"context {_whole(now.percent)} % now, {_whole(then.percent)} % next turn"
    return f"{shares}; {short_number(now.left_tokens or 0)} left"


def _whole(share: float) -> int:
    """Returns a percentage without decimals, rounded half up."""
    return scale_tokens(round(share * 10), 1, 10)


def _turns(of: CompactionPlan, ratio: int) -> list[TurnTokens]:
    """Returns the latest turns; messages before the user's first message belong to the first turn."""
    starts = [0, *of.line.prompts[1:]] if of.sizes else []
    turns: list[TurnTokens] = []
    for number in range(max(len(starts) - _REPORTED_TURNS, 0), len(starts)):
        start, end = starts[number], starts[number + 1] if number + 1 < len(starts) else len(of.sizes)
        total = ContextTokens.sum(of.sizes[start:end])
        tokens, outputs = scale_tokens(total.total, ratio, SCALE), scale_tokens(total.outputs, ratio, SCALE)
        turns.append(TurnTokens(turn=number + 1, message=start, tokens=tokens, outputs=outputs))
    return turns


def _part(tokens: int, usable: int | None, *, includes_rest: bool = False) -> WindowShare:
    if usable is None:
        return WindowShare(tokens, None)
    share = percent(tokens, usable)
    if not includes_rest:
        return WindowShare(tokens, share)
    return WindowShare(tokens, share, max(usable - tokens, 0), max(round(100 - share, 1), 0.0))


def _ratio(body: Value, of: CompactionPlan, ask: MeasureRequest, notes: list[str]) -> tuple[int, str]:
    """Returns the factor for estimates, in thousandths, and its origin."""
    # Without a usage, the factor is that of the model's family.
    family = 10 * family_percent(body, of.index)
    if ask.real_tokens is None:
        return family, "family"
    if ask.real_tokens == 0:
        notes.append(_NO_USAGE)
        return family, "family"
    check_covers(ask, len(of.sizes))
    # By default, the last answered request had all messages before the model's last step, which is its answer.
    covered = ask.covers
    if covered is None:
        covered = of.line.step(of.line.size) if of.line.runs else 0
    # The usage and the estimate must be about the same messages: a ratio outside the range means that the usage is of
    # another body or another model.
    estimate = of.fixed.total + sum(size.total for size in of.sizes[:covered])
    ratio = scale_tokens(ask.real_tokens, SCALE, estimate) if covered > 0 and estimate > 0 else 0
    if _MIN_RATIO <= ratio <= _MAX_RATIO:
        return ratio, "usage"
    notes.append(
        f"The usage of {ask.real_tokens:,} tokens does not belong to this body's first {covered:,} messages "
        f"(estimated at {estimate:,}); the estimate stands."
    )
    return family, "family"
