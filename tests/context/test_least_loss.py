"""The least loss: nothing is left out that would fit, whatever the budget is."""

from typing import Any

import pytest

from coatcheck.core.context.counting import Counter
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.plan import CompactionPlan, PlanContext, payload_of, plan
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.replace import TrueLengths, with_same
from coatcheck.core.context.replaceable import PlannedPayload, Replacement, ReplacementCandidate
from coatcheck.core.context.timeline import pair
from context.histories import FORMATS, apply, compact, counter, plan_with_cards, stored
from context.test_properties import KNOWN, SIZES, rich

Json = Any
BODIES = 200
"""Generated bodies, over all formats."""
SHARES = 4
"""Budgets of each body, in percent of its size; 100 are all of them."""


SMALL: dict[str, Any] = {**SIZES, "inline_tokens": 200}
ALL: dict[str, Any] = {**SMALL, "latest_tokens": None}


def policy(budget: int) -> CompactionPolicy:
    return CompactionPolicy(**SMALL, max_tokens=budget)


def least(body: Json, counting: Counter) -> list[int]:
    """What remains of a body at each request when everything that the design lets go has gone.

    A request was sent before each run of the model, and one is sent now. Of what had arrived by then these may go:
    arguments of calls that were answered, outputs, searches and reads of earlier steps, outputs of the step before the
    request, and the middle of long messages but the latest of the user. Reads of that step may not: the model would
    only ask for them again. Each is counted with the text that stands there afterwards.
    """
    planned = plan(body, CompactionPolicy(**ALL), counting, PlanContext(known_artifacts=KNOWN))
    items, candidates = planned.index.items, planned.replaceable
    spoken = [number for number, item in enumerate(items) if item.model]
    runs = [number for number in spoken if number - 1 not in spoken]
    answered = {
        call: one.output_item for one in pair(planned.index).pairs for call in [(one.call_item, one.call.call_id)]
    }
    lengths = TrueLengths(body, candidates, counting, 80)
    shown: dict[str, int] = {}
    saved: list[int] = []
    for number, one in enumerate(candidates):
        same = shown.setdefault(str(one.content), number) if one.becomes_card else number
        replacement = Replacement(number, None if same == number else same)
        if one.becomes_card:
            payload = payload_of(planned.index, candidates, replacement)
            lengths.learn(replacement, with_same(payload, stored([payload, *_first(planned, candidates, same)])))
        saved.append(max(lengths.saving(replacement) or 0, 0))
    sizes: list[int] = []
    for moment in [*(run for run in runs if run), len(items)]:
        total = planned.fixed.total + sum(size.total for size in planned.sizes[:moment])
        step = max((run for run in runs if run < moment), default=moment)
        prompt = max((number for number, item in enumerate(items[:moment]) if item.prompt), default=-1)
        for one, gain in zip(candidates, saved, strict=True):
            match one.kind:
                case "message":
                    may_go = one.message < max(step, prompt) and one.message != prompt
                case "arguments":
                    may_go = answered.get((one.message, one.call_id), moment) < moment
                case "read" | "search":
                    may_go = one.message < step
                case _:
                    may_go = True
            total -= gain if one.message < moment and may_go else 0
        sizes.append(total)
    return sizes


def _first(planned: CompactionPlan, candidates: list[ReplacementCandidate], number: int) -> list[PlannedPayload]:
    return [payload_of(planned.index, candidates, Replacement(number))]


@pytest.mark.parametrize("name", FORMATS)
def test_no_block_is_left_out_where_replacing_suffices(name: str) -> None:
    each = -(-BODIES // len(FORMATS))
    suffices = cuts = 0
    for seed in range(each):
        body = FORMATS[name](rich(100 + seed, 4))
        counting = counter()
        sizes = least(body, counting)
        kept: list[tuple[int, int]] = []
        all_sizes = [size.total for size in plan(body, policy(10**6), counting).sizes]
        before, largest = sum(all_sizes), max(all_sizes)
        for share in sorted(1 + (seed * 7 + n * 100 // SHARES) % 100 for n in range(SHARES)):
            budget = max(before * share // 100, 2_000)
            planned = plan_with_cards(body, policy(budget), counting, PlanContext(known_artifacts=KNOWN))
            new, report = apply(body, planned, stored(planned), counting)
            assert report.tokens_after <= report.tokens_before
            assert pair(index_of(new)).orphans == []
            if report.omitted is None:
                assert report.tokens_after == planned.expected, (seed, share)
            if max(sizes) <= budget:
                suffices += 1
                assert report.fits, (seed, share, report.over)
                assert report.omitted is None, (seed, share, max(sizes), budget)
            else:
                cuts += report.omitted is not None
            for smaller, tokens in kept:
                slack = budget * 4 // 10 + largest  # a margin, and the last thing that went
                assert report.tokens_after >= tokens - slack, (seed, share, smaller, budget)
            kept.append((budget, report.tokens_after))
            again, _ = compact(new, policy(budget), known=KNOWN)
            assert again is new, (seed, share)
    assert suffices > 5
    assert cuts > 5
