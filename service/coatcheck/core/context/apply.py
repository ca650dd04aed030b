"""Second phase of a compaction: makes the new body and the report. The given body is never changed.

Parts that no change reaches are the same objects in both bodies. `carry_out` also returns its changes as edits, for
callers that have the body as bytes and must keep every other byte (`splice_body`).
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final, cast

from msgspec import Struct, structs

from coatcheck.core.context import notice, timeline
from coatcheck.core.context.body.encoding import Value, as_list
from coatcheck.core.context.body.model import HistoryIndex, Item, Role
from coatcheck.core.context.body.splice import Pointer, apply_edits, get, render
from coatcheck.core.context.counting import ContextTokens, Counter
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.notice import OmittedArtifact, OmittedHistory, carrier_of, notice_tokens
from coatcheck.core.context.plan import OMITTED, CompactionPlan
from coatcheck.core.context.references import standing
from coatcheck.core.context.replace import StoredPayload, Swap, edits, swaps, with_same
from coatcheck.core.context.replaceable import PlannedPayload, UnreplacedItem
from coatcheck.core.context.report import BodyChange, BudgetExcess, CompactionReport, PromptCacheEffect
from coatcheck.core.text.long_text import is_text

_UNTOUCHED = "Nothing changed: the prompt's cache stays valid."
_REWRITTEN = (
    "The prompt is different from message {number} on, so its cached prefix ends there. It stays the same from now on "
    "as long as the same policy compacts the same history. To change nothing that was sent already, store outputs when "
    "they arrive, or compact with protect=none from the first request on."
)
_NO_TOOL = (
    "The body declares no read_artifact, so the cards name no call of it and the model cannot read on. Declare it from "
    "the first request on (tools are part of the cached prefix, and of what thinking is bound to), or say with "
    "`tools: read_artifact` that the model has it from elsewhere."
)
_THINKING = (
    "Thinking blocks after the first change are bound to what was there before. Send `send` with this and every later "
    "request of the conversation, or the models that check it refuse them."
)
_OVER = (
    "The body is still {misses:,} tokens over its limit of {limit:,}: what remains may not be left out (instructions, "
    "tools, the last prompt, the last step, open calls). `over.largest` says what would have to go."
)
_LARGER = "The compacted body was not smaller, so the body is unchanged."
_MAX_LARGEST = 8
"""Maximum number of items that a report names if a body exceeds its budget, the largest ones. Chosen, not measured."""


class CompactedBody(Struct, frozen=True, kw_only=True):
    """The new body of a compaction, and what was changed in it."""

    body: Value
    report: CompactionReport
    edits: dict[Pointer, Value]
    """The values to set, by their places in the given body."""
    note: Value = None
    """The message with the notice, which replaces the messages that were left out; None if none were."""
    removed_messages: tuple[int, ...] = ()
    """Numbers of the messages of the given body that are gone or replaced: those left out, earlier notices, and the
    message to which the new notice was added."""
    index: HistoryIndex
    """The index of the new body."""
    sizes: list[ContextTokens]
    """The tokens of each message of the new body."""
    plan: CompactionPlan
    """The plan that was carried out. It changes nothing if the given one would not have made the body smaller."""


def carry_out(
    body: Value, plan: CompactionPlan, stored_payloads: Mapping[str, StoredPayload], counter: Counter
) -> CompactedBody:
    """Carries out a plan.

    If the new body would not be smaller, returns the given body unchanged, with a note in the report.

    Args:
        body: the body from which the plan was made.
        plan: the plan of the first phase (`plan`).
        stored_payloads: the stored payloads, by their keys. A payload that is missing could not be stored: a long
            output is then cut to its two ends and says so, if that makes it shorter; a short output, an argument, an
            image or a message stays whole.
        counter: the counter that was used for planning.
    """
    result = _carry_out(body, plan, stored_payloads, counter)
    is_smaller = result.report.tokens_after < result.report.tokens_before
    if is_smaller or not (result.edits or result.removed_messages):
        return result
    # The planned changes would have made the body larger: it stays as it is, and the report says so.
    unreplaced = [
        UnreplacedItem(payload.pointers[0], payload.tokens, "the body would not be smaller without it", payload.message)
        for payload in plan.payloads
        if payload.pointers
    ]
    empty_plan = structs.replace(
        plan, payloads=[], dropped=[], dropped_bytes=[], replaced=set(), leftovers=[*plan.leftovers, *unreplaced]
    )
    result = _carry_out(body, empty_plan, {}, counter)
    return structs.replace(result, report=structs.replace(result.report, notes=[*result.report.notes, _LARGER]))


def _carry_out(
    body: Value, plan: CompactionPlan, stored_payloads: Mapping[str, StoredPayload], counter: Counter
) -> CompactedBody:
    planned_swaps: list[tuple[PlannedPayload, StoredPayload | None, Swap]] = []
    leftovers = list(plan.leftovers)
    for payload in plan.payloads:
        if payload.left_out:
            continue
        stored_payload = with_same(payload, stored_payloads)
        replacements = swaps(body, payload, stored_payload, plan.policy.card_tokens, counter.tokenizer)
        planned_swaps += [(payload, stored_payload, swap) for swap in replacements]
        if not replacements:
            leftovers.append(
                UnreplacedItem(payload.pointers[0], payload.tokens, "could not be stored", payload.message)
            )
    # All values are set at once in the given body, because pointers stay valid only until messages are removed.
    set_ = edits(body, [swap for _, _, swap in planned_swaps])
    items = plan.index.items
    positions = [
        timeline.position(payload.message, items[payload.message].at, place.at)
        for payload, _, _ in planned_swaps
        for place in payload.sites
    ]
    carriers = {number: carrier for number in plan.line.carriers if (carrier := carrier_of(items[number])) is not None}
    host = _host(body, plan) if plan.dropped else None
    if plan.dropped:  # the next notice takes over the content of earlier ones
        old = {number: one for number, one in carriers.items() if number not in {*plan.dropped, *plan.notices}}
        for number, one in old.items():
            # Some providers refuse an empty text, so a part that is only a notice is removed.
            if one.words or number == host:
                set_[one.piece.at] = one.words
            else:
                set_ = _without_part(body, set_, one.piece.at)
        positions += [timeline.position(number, items[number].at, one.piece.at) for number, one in old.items()]
    new = apply_edits(body, set_)
    omitted: OmittedHistory | None = None
    note: Value = None
    removed_messages: list[int] = []
    if plan.dropped:
        omitted = _describe_omission(body, plan, stored_payloads, counter, [one.notice for one in carriers.values()])
        new, note, removed_messages = _shorten_body(new, plan, omitted, host)
        positions.append((removed_messages[0], -1))
    elif carriers:
        omitted = next(iter(carriers.values())).notice
    # A body that did not change need not be counted again.
    index, sizes = plan.index, plan.sizes
    if new is not body:
        index = index_of(new, plan.format)
        sizes = [counter.item(new, item) for item in index.items]
    changes = [_change(plan, removed_messages, *change, counter) for change in planned_swaps]
    after = ContextTokens.sum([plan.fixed, *sizes])
    # Edits inside a message that is left out have no effect, so they are not returned.
    at = plan.index.list_at
    gone = set(removed_messages)
    return CompactedBody(
        body=new,
        report=_report(body, plan, changes, leftovers, omitted, removed_messages, positions, after),
        edits={where: value for where, value in set_.items() if at is None or where[len(at)] not in gone},
        note=note,
        removed_messages=tuple(removed_messages),
        index=index,
        sizes=sizes,
        plan=plan,
    )


def _describe_omission(
    body: Value,
    plan: CompactionPlan,
    stored_payloads: Mapping[str, StoredPayload],
    counter: Counter,
    older: list[OmittedHistory],
) -> OmittedHistory:
    items, tokenizer = plan.index.items, counter.tokenizer
    removed_payloads = [one for one in plan.payloads if one.left_out and one.sites]
    # Reads come last: an artifact is described by the call that made it, and by a call that read it only if the first
    # call is unknown.
    removed_payloads.sort(key=lambda one: one.kind == "read")
    descriptions: dict[str, str] = {}
    for one in removed_payloads:
        stored_payload = with_same(one, stored_payloads)
        if stored_payload is not None and stored_payload.is_stored and stored_payload.artifact_id:
            descriptions.setdefault(
                stored_payload.artifact_id, notice.about(one.tool, one.command, f"{one.tokens:,} tokens")
            )
    earlier_descriptions = {one.id: one.about for one in standing(body, plan.index, plan.dropped)}
    read_ids = {one.artifact_id for one in removed_payloads if one.kind == "read"}
    # An artifact of an earlier compaction keeps its description, unless a payload that is stored now has the same ID.
    about = descriptions | {
        ref: words for ref, words in earlier_descriptions.items() if ref not in descriptions or ref in read_ids
    }
    artifacts = [OmittedArtifact(ref, words) for ref, words in about.items()]
    dropped = set(plan.dropped)
    blocks = [[items[at] for at in block.items] for block in plan.line.blocks if block.items[0] in dropped]
    sizes = list(zip((items[number] for number in plan.dropped), plan.dropped_bytes, strict=True))
    left_out = notice.merge_notices(older, notice.describe_omission(sizes, blocks, artifacts, tokenizer))
    whole = stored_payloads.get(OMITTED)
    if whole is not None and whole.is_stored:
        left_out = structs.replace(left_out, stored_as=whole.artifact_id)
    tokens = notice_tokens(plan.budget.target) if plan.budget is not None else 0
    return notice.fit_notice(left_out, tokens, tokenizer, can_read=plan.index.can_read)


def _shorten_body(
    body: Value, plan: CompactionPlan, omitted: OmittedHistory, host: int | None
) -> tuple[Value, Value, list[int]]:
    """Returns the shortened body, the message with the notice, and the numbers of the messages that it replaces.

    The message with the notice takes the place of the first of them. It is the message `host` with the notice added,
    or a new message if that is None.
    """
    at = cast("Pointer", plan.index.list_at)
    items = as_list(get(body, at))
    removed_messages = {*plan.dropped, *plan.notices}
    text = notice.render_notice(omitted, can_read=plan.index.can_read)
    # No two messages of the user may follow each other, so the notice joins a message of the user beside its place.
    if host is None:
        note: Value = notice.message(plan.format, text, items[min(removed_messages)])
    else:
        place = _place_of_notice(plan.index.items[host])
        old = get(body, place)
        parts = [*as_list(old), notice.text_part(plan.format, text)]
        new = parts if isinstance(old, list) else notice.append_notice(str(old), text)
        note = apply_edits(items[host], {place[len(at) + 1 :]: new})
        removed_messages.add(host)
    first = min(removed_messages)
    after = [item for number, item in enumerate(items) if number > first and number not in removed_messages]
    return apply_edits(body, {at: [*items[:first], note, *after]}), note, sorted(removed_messages)


def _host(body: Value, plan: CompactionPlan) -> int | None:
    """Returns the number of a user's message beside the notice's place that can hold the notice; None if none can."""
    items, removed_messages = plan.index.items, {*plan.dropped, *plan.notices}
    first = min(removed_messages)
    after = next((number for number in range(first, len(items)) if number not in removed_messages), None)
    for number in (first - 1, after):
        if number is not None and number >= 0:
            item = items[number]
            value = get(body, _place_of_notice(item))
            if item.role is Role.USER and not item.pinned and value and (is_text(value) or isinstance(value, list)):
                return number
    return None


def _place_of_notice(item: Item) -> Pointer:
    """Returns the pointer to a message's last text or, if that is empty, to where a list of its parts would be."""
    if item.pieces and item.pieces[-1].text:
        return item.pieces[-1].at
    return item.media[-1].at[:-1] if item.media else (*item.at, "content")


def _without_part(body: Value, edits_: Mapping[Pointer, Value], at: Pointer) -> dict[Pointer, Value]:
    """Returns edits that also remove the part of a message at or around `at`, without edits inside each other."""
    step = max(number for number, key in enumerate(at) if isinstance(key, int))
    parts_at = at[:step]
    within = {where[step:]: value for where, value in edits_.items() if where[:step] == parts_at}
    parts = as_list(apply_edits(get(body, parts_at), within))
    others = {where: value for where, value in edits_.items() if where[:step] != parts_at}
    return others | {parts_at: [part for number, part in enumerate(parts) if number != at[step]]}


def _change(
    plan: CompactionPlan,
    removed_messages: list[int],
    payload: PlannedPayload,
    stored_payload: StoredPayload | None,
    swap: Swap,
    counter: Counter,
) -> BodyChange:
    shares = max(len(payload.sites), 1)
    same = payload.kind == "arguments"
    return BodyChange(
        pointer=render(_move_pointer(plan, payload.message, swap.place.at, removed_messages))
        + render(swap.place.inside),
        message=payload.message,
        to=swap.to,
        why=payload.why,
        tool=payload.tool,
        call_id=payload.call_id,
        artifact_id=stored_payload.artifact_id if stored_payload is not None else None,
        tokens_before=(payload.tokens if same else payload.tokens // shares) if swap.place.is_counted else 0,
        tokens_after=counter.text(swap.text) if swap.place.is_counted else 0,
    )


def _move_pointer(plan: CompactionPlan, item: int, at: Pointer, removed_messages: list[int]) -> Pointer:
    """Converts a pointer into the given body to one into the new body."""
    base = plan.index.list_at
    if base is None or not removed_messages or item < removed_messages[0]:
        return at
    # The notice takes the place of the first removed message. A message that holds the notice counts as removed as
    # well.
    removed_count = bisect_left(removed_messages, item)
    is_removed = item in removed_messages[removed_count : removed_count + 1]
    return (*base, removed_messages[0] if is_removed else item - removed_count + 1, *at[len(base) + 1 :])


def _report(
    body: Value,
    plan: CompactionPlan,
    changes: list[BodyChange],
    leftovers: list[UnreplacedItem],
    omitted: OmittedHistory | None,
    removed_messages: list[int],
    positions: list[timeline.Position],
    after: ContextTokens,
) -> CompactionReport:
    # Thinking is bound to everything before it, so the first change decides which blocks are invalid.
    first = min(positions, default=None)
    invalid: list[str] = []
    if first is not None:
        invalid = [
            render(_move_pointer(plan, item, at, removed_messages))
            for item, at in timeline.invalid(plan.index, first, {*plan.dropped, *plan.notices})
        ]
    budget = plan.budget
    # Compaction cannot reach its limit if the parts that must stay are larger.
    misses = 0 if budget is None else after.total - budget.limit
    over = _over(plan, leftovers, misses) if misses > 0 else None
    fits = None if budget is None else over is None
    return CompactionReport(
        format=plan.format.value,
        changed=first is not None,
        first_changed=None if first is None else first[0],
        changes=changes,
        left=leftovers,
        copied=plan.copied,
        omitted=omitted,
        omitted_now=len(plan.dropped),
        before=plan.before,
        after=after,
        tokens_before=plan.before.total,
        tokens_after=after.total,
        fits=fits,
        budget=budget,
        over=over,
        invalid_thinking=invalid,
        send=timeline.send(plan.format, body) if invalid else None,
        cache=_cache(plan, first, after),
        notes=_notes(plan, changes, invalid, over),
    )


def _cache(plan: CompactionPlan, first: timeline.Position | None, after: ContextTokens) -> PromptCacheEffect:
    if first is None:
        return PromptCacheEffect(kept_tokens=after.total, rewritten_tokens=0, advice=_UNTOUCHED)
    kept_tokens = plan.before.total - sum(size.total for size in plan.sizes)
    kept_tokens += sum(size.total for size in plan.sizes[: first[0]])
    return PromptCacheEffect(
        kept_tokens=kept_tokens,
        rewritten_tokens=max(after.total - kept_tokens, 0),
        advice=_REWRITTEN.format(number=first[0]),
    )


def _notes(plan: CompactionPlan, changes: list[BodyChange], invalid: list[str], over: BudgetExcess | None) -> list[str]:
    notes = list(plan.index.notes)
    if not plan.index.can_read and (plan.dropped or any(change.artifact_id for change in changes)):
        notes.append(_NO_TOOL)
    if invalid:
        notes.append(_THINKING)
    if over is not None and plan.budget is not None:
        notes.append(_OVER.format(misses=over.tokens, limit=plan.budget.limit))
    return notes


def _over(plan: CompactionPlan, leftovers: list[UnreplacedItem], misses: int) -> BudgetExcess:
    """Returns by how many tokens a body exceeds its limit, and the largest parts that stay in it."""
    dropped = {*plan.dropped, *plan.notices}
    parts = [UnreplacedItem("", plan.fixed.system, "instructions"), UnreplacedItem("", plan.fixed.tools, "tools")]
    for number, (item, size) in enumerate(zip(plan.index.items, plan.sizes, strict=True)):
        if number not in dropped:
            parts.append(UnreplacedItem(render(item.at), size.total, _ROLES.get(item.role, "a message"), number))
    reasons = {one.message: one.why for one in leftovers}
    parts.sort(key=lambda one: -one.tokens)
    largest = [
        structs.replace(one, why=f"{one.why}: {reasons[one.message]}") if one.message in reasons else one
        for one in parts[:_MAX_LARGEST]
        if one.tokens
    ]
    return BudgetExcess(tokens=misses, largest=largest)


_ROLES: Final = {
    Role.SYSTEM: "instructions",
    Role.USER: "a message of the user",
    Role.ASSISTANT: "a message of the model",
    Role.TOOL: "what a tool gave back",
}
