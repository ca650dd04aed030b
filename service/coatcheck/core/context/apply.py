"""Second phase of a compaction: the new body, and the report. The body that was given is never changed.

What no change reaches is the same object in both. Refuses a plan of another body. `carry_out` also says what it did as
edits, for whoever has the body as bytes and changes nothing else of them (`splice`).
"""

from collections.abc import Mapping
from typing import cast

from msgspec import Struct

from coatcheck.core.context import notice, thinking
from coatcheck.core.context.candidates import Left
from coatcheck.core.context.counting import Counter, Sizes
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.model import Format, HistoryIndex
from coatcheck.core.context.notice import Omitted
from coatcheck.core.context.plan import CompactionPlan, PlannedPayload
from coatcheck.core.context.pointer import Pointer, edited, get, render
from coatcheck.core.context.replace import StoredPayload, Swap, edits, swaps
from coatcheck.core.context.report import Cache, Change, Report
from coatcheck.core.context.shape import Value, as_list
from coatcheck.core.context.signs import is_own_tool
from coatcheck.core.errors import CoatcheckError, Code

_UNTOUCHED = "Nothing changed: the prompt's cache stays valid."
_REWRITTEN = (
    "The prompt is different from message {number} on, so its cached prefix ends there. It stays the same from now on "
    "as long as the same policy compacts the same history. To change nothing that was sent already, store outputs when "
    "they arrive, or compact with protect=none from the first request on."
)
_NO_TOOL = (
    "The body declares no read_artifact, so the model cannot read what the cards name. Declare it from the first "
    "request on: tools are part of the cached prefix, and of what thinking is bound to."
)
_THINKING = (
    "Thinking blocks after the first change are bound to what was there before. Send `send` with this and every later "
    "request of the conversation, or the models that check it refuse them."
)
_OVER = (
    "The body is still over max_tokens: what remains may not be left out: instructions, tools, the last prompt, the "
    "last step, open calls."
)


class CompactedBody(Struct, frozen=True, kw_only=True):
    """A plan carried out."""

    body: Value
    report: Report
    edits: dict[Pointer, Value]
    """The values that are set, by their places in the body that was given."""
    note: Value = None
    """The message that stands where the first one stood that was left out; None where nothing is left out."""
    gone: tuple[int, ...] = ()
    """Numbers of the messages that are not there any more, notices of before among them."""
    index: HistoryIndex
    """Of the new body."""
    sizes: list[Sizes]
    """Of its messages."""


def carry_out(
    body: Value, plan: CompactionPlan, stored: Mapping[str, StoredPayload], counter: Counter
) -> CompactedBody:
    """Carry a plan out.

    Args:
        body: the body that the plan was made of.
        plan: from `plan`.
        stored: what became of each payload, by its key. What is missing could not be stored: an output is then cut
            head and tail and says so, arguments and images stay.
        counter: the one that planned.

    Raises:
        CoatcheckError: `invalid_request` when the plan is of another body.
    """
    _same(body, plan)
    made: list[tuple[PlannedPayload, StoredPayload | None, Swap]] = []
    left = list(plan.left)
    for payload in plan.payloads:
        if payload.left_out:
            continue
        kept = stored.get(payload.key)
        replacements = swaps(body, payload, kept, plan.policy.card_tokens, counter.tokenizer)
        made += [(payload, kept, swap) for swap in replacements]
        if not replacements:
            left.append(Left(payload.pointers[0], payload.tokens, "could not be stored", payload.message))
    set_ = edits(body, [swap for _, _, swap in made])
    new = edited(body, set_)
    omitted, note, shifts = None, None, list(range(len(plan.index.items)))
    if plan.dropped:
        omitted = _omitted(body, plan, stored, counter)
        new, note, shifts = _shortened(new, plan, omitted)
    elif plan.notices:
        omitted = notice.notice_in(plan.index.items[plan.notices[0]])
    index, sizes = plan.index, plan.sizes
    if new is not body:
        index = index_of(new, plan.format)
        sizes = [counter.item(new, item) for item in index.items]
    changes = [_change(plan, shifts, payload, kept, swap, counter) for payload, kept, swap in made]
    items = plan.index.items
    positions = [
        thinking.position(payload.message, items[payload.message].at, place.at)
        for payload, _, _ in made
        for place in payload.places
    ]
    after = Sizes.sum([plan.fixed, *sizes])
    gone = tuple(sorted({*plan.dropped, *plan.notices})) if plan.dropped else ()
    # An edit inside a message that goes all the same changes nothing.
    at = plan.index.list_at
    set_ = {where: value for where, value in set_.items() if not gone or at is None or where[len(at)] not in gone}
    return CompactedBody(
        body=new,
        report=_report(body, plan, changes, left, omitted, shifts, positions, after),
        edits=set_,
        note=note,
        gone=gone,
        index=index,
        sizes=sizes,
    )


def _same(body: Value, plan: CompactionPlan) -> None:
    at = plan.index.list_at
    fits = at is None or len(as_list(get(body, at))) == len(plan.index.items)
    missing = object()
    if fits and all(get(body, place.at, missing) is not missing for p in plan.payloads for place in p.places):
        return
    raise CoatcheckError(Code.INVALID_REQUEST, "The plan was made of another body. Plan again.", field="plan")


def _omitted(body: Value, plan: CompactionPlan, stored: Mapping[str, StoredPayload], counter: Counter) -> Omitted:
    ids = [
        kept.artifact_id
        for payload in plan.payloads
        if payload.left_out and (kept := stored.get(payload.key)) is not None and kept.stored and kept.artifact_id
    ]
    items = plan.index.items
    gone = [(items[number], get(body, items[number].at)) for number in plan.dropped]
    older = [before for number in plan.notices if (before := notice.notice_in(items[number])) is not None]
    return notice.joined(older, notice.omitted(gone, ids, counter.tokenizer))


def _shortened(body: Value, plan: CompactionPlan, omitted: Omitted) -> tuple[Value, Value, list[int]]:
    """The body without what is left out, with the notice; that notice; and each message's new number."""
    at = cast("Pointer", plan.index.list_at)
    items = as_list(get(body, at))
    gone = {*plan.dropped, *plan.notices}
    first = min(gone)
    note = notice.message(plan.format, notice.written(omitted), items[first])
    kept: list[Value] = []
    shifts: list[int] = []
    for number, item in enumerate(items):
        if number == first:
            kept.append(note)
        shifts.append(len(kept))
        if number not in gone:
            kept.append(item)
    return edited(body, {at: kept}), note, shifts


def _change(
    plan: CompactionPlan,
    shifts: list[int],
    payload: PlannedPayload,
    kept: StoredPayload | None,
    swap: Swap,
    counter: Counter,
) -> Change:
    shares = max(len(payload.places), 1)
    same = payload.kind == "arguments"
    return Change(
        pointer=render(_moved(plan, payload.message, swap.place.at, shifts)) + render(swap.place.inside),
        message=payload.message,
        to=swap.to,
        why=payload.why,
        tool=payload.tool,
        call_id=payload.call_id,
        artifact_id=kept.artifact_id if kept is not None else None,
        tokens_before=(payload.tokens if same else payload.tokens // shares) if swap.place.counted else 0,
        tokens_after=counter.text(swap.text) if swap.place.counted else 0,
    )


def _moved(plan: CompactionPlan, item: int, at: Pointer, shifts: list[int]) -> Pointer:
    """A pointer into the given body as one into the new body."""
    base = plan.index.list_at
    return at if base is None else (*base, shifts[item], *at[len(base) + 1 :])


def _report(
    body: Value,
    plan: CompactionPlan,
    changes: list[Change],
    left: list[Left],
    omitted: Omitted | None,
    shifts: list[int],
    positions: list[thinking.Position],
    after: Sizes,
) -> Report:
    first = min([*positions, *([(min(plan.dropped), -1)] if plan.dropped else [])], default=None)
    invalid: list[str] = []
    if first is not None:
        gone = {*plan.dropped, *plan.notices}
        invalid = [render(_moved(plan, item, at, shifts)) for item, at in thinking.invalid(plan.index, first, gone)]
    limit = plan.policy.max_tokens
    fits = None if limit is None else after.total <= limit
    return Report(
        format=plan.format.value,
        changed=first is not None,
        first_changed=None if first is None else first[0],
        changes=changes,
        left=left,
        copied=plan.copied,
        omitted=omitted,
        omitted_now=len(plan.dropped),
        before=plan.before,
        after=after,
        tokens_before=plan.before.total,
        tokens_after=after.total,
        fits=fits,
        invalid_thinking=invalid,
        send=thinking.send(plan.format, body) if invalid else None,
        cache=_cache(plan, first, after),
        notes=_notes(plan, changes, invalid, fits),
    )


def _cache(plan: CompactionPlan, first: thinking.Position | None, after: Sizes) -> Cache:
    if first is None:
        return Cache(kept_tokens=after.total, rewritten_tokens=0, advice=_UNTOUCHED)
    kept = plan.before.total - sum(size.total for size in plan.sizes)
    kept += sum(size.total for size in plan.sizes[: first[0]])
    return Cache(
        kept_tokens=kept, rewritten_tokens=max(after.total - kept, 0), advice=_REWRITTEN.format(number=first[0])
    )


def _notes(plan: CompactionPlan, changes: list[Change], invalid: list[str], fits: bool | None) -> list[str]:
    notes = list(plan.index.notes)
    declares = any(is_own_tool(name) for name in plan.index.tool_names())
    if not declares and plan.format is not Format.LANGCHAIN and any(change.artifact_id for change in changes):
        notes.append(_NO_TOOL)
    if invalid:
        notes.append(_THINKING)
    if fits is False:
        notes.append(_OVER)
    return notes
