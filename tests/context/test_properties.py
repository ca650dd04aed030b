"""What compaction promises, for conversations with everything in them: reads, searches, every shape of arguments."""

import copy
import random
from typing import Any

import pytest

from coatcheck.core.context.body.splice import get
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.notice import carrier_of, notice_in
from coatcheck.core.context.plan import PlanContext, plan
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.references import KnownArtifacts
from coatcheck.core.context.signs import SearchText
from coatcheck.core.context.timeline import pair
from context.histories import (
    FORMATS,
    LISTS,
    Call,
    Step,
    Turn,
    apply,
    artifact_id,
    chat,
    compact,
    counter,
    differences,
    dumped,
    moments,
    stored,
    words,
)
from context.test_sdk_types import CHECKS

Json = Any
STORED, GONE, FOUND = artifact_id("a", 1), artifact_id("b", 2), artifact_id("c", 3)
SEARCH = SearchText(FOUND, "tides", 2, ("r1", "r2"))
SUMMARY = (
    f"¦ searched 'tides': 9 results, 2 read\n- The Moon does it. [{FOUND}#r1]\n¦ sources\n{FOUND}#r1 T | https://e.org"
)
KNOWN = KnownArtifacts(readable=frozenset({STORED}), summaries={SEARCH: SUMMARY})
SIZES: dict[str, Any] = {"inline_tokens": 100, "card_tokens": 80, "argument_tokens": 64, "latest_tokens": 1_500}
POLICIES = {
    "quiet": CompactionPolicy(**SIZES),
    "each turn": CompactionPolicy(**SIZES, batch_tokens=0),
    "none": CompactionPolicy(**SIZES, protect="none"),
    "batches": CompactionPolicy(**SIZES, batch_tokens=3_000),
    "step and images": CompactionPolicy(**SIZES, protect="step", media="placeholder"),
    "budget": CompactionPolicy(**SIZES, max_tokens=6_000),
    "tight": CompactionPolicy(**SIZES, max_tokens=2_500),
    "none, budget": CompactionPolicy(**SIZES, protect="none", max_tokens=4_000),
}
SEEDS = range(3)


def call(rng: random.Random, number: int) -> Call:
    """A call of any kind, with an output of any size."""
    name, long = f"call_{number}", words(rng, rng.choice((40, 900, 3_000)))
    shapes: list[Call] = [
        Call(name, "bash", {"command": f"make {number}"}, f"{number}: {long}"),
        Call(name, "read_file", {"path": f"{number}.py"}, f"{number}: {long}"),
        Call(name, "read_artifact", {"artifact_id": STORED}, f"[{STORED} · a.log · lines 1-9 of 90 · text]\n{long}"),
        Call(
            name,
            "mcp__x__read_artifact",
            {"pattern": "e"},
            f"[{GONE} · b.log · matches in lines 1-9 of 9 · raw]\n{long}",
        ),
        Call(
            name,
            "web_search",
            {"query": "tides"},
            f'¦ Search: 9 results for "tides", 2 shown. Stored outside this conversation as {FOUND}; '
            f"cite as {FOUND}#r1\n¦ r1 T | https://e.org\n{long}\n¦ r2 U | https://e.org/2\n{long}",
        ),
        Call(name, "python", {"code": f"{number} = 1\n{long}"}, "ok"),
        Call(name, "Edit", {"file_path": "a.py", "old_string": long, "new_string": f"{number} {long}"}, "ok"),
        Call(name, "write_file", {"path": "b.py", "content": f"{number} {long}"}, rng.choice(("ok", "aborted"))),
        Call(
            name, "rows", {"table": "t", "rows": [{"n": n, "t": f"row {n}"} for n in range(rng.choice((2, 60)))]}, "ok"
        ),
        Call(name, "again", {}, words(random.Random(7), 3_000)),
    ]
    return rng.choice(shapes)


def rich(seed: int, turns: int = 6) -> list[Turn]:
    """A random conversation with everything in it."""
    rng = random.Random(f"rich {seed}")
    number = 0
    told: list[Turn] = []
    for at in range(turns):
        steps: list[Step] = []
        for _ in range(rng.randint(0, 4)):
            calls: list[Call] = []
            for _ in range(rng.choice((1, 1, 1, 3))):
                number += 1
                calls.append(call(rng, number))
            steps.append(Step(rng.choice(("", "Looking.")), calls))
        steps.append(Step(f"Answer {at}. {words(rng, rng.choice((9, 9, 2_500)))}"))
        told.append(Turn(f"Question {at}: {words(rng, rng.choice((10, 200, 2_500)))}", steps))
    return told


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", FORMATS)
def test_pairs_order_bytes_and_size_hold_and_again_changes_nothing(name: str, policy: str) -> None:
    for seed in SEEDS:
        body = FORMATS[name](rich(seed))
        before = copy.deepcopy(body)
        counting = counter()
        planned = plan(body, POLICIES[policy], counting, PlanContext(known_artifacts=KNOWN))
        new, report = apply(body, planned, stored(planned), counting)
        assert body == before
        assert report.tokens_after <= report.tokens_before
        assert len(dumped(new)) <= len(dumped(body))
        assert report.tokens_after <= planned.expected or not report.changed
        old_index, index = index_of(body), index_of(new)
        gone: set[int] = set(planned.dropped) if report.omitted_now else set()
        kept = [item for number, item in enumerate(old_index.items) if number not in gone]
        now = [item for item in index.items if notice_in(item) is None]
        assert [_names(item) for item in kept] == [_names(item) for item in now]
        assert [[dumped(get(body, one.at)) for one in item.opaque] for item in kept] == [
            [dumped(get(new, one.at)) for one in item.opaque] for item in now
        ]
        pairs, old_pairs = pair(index), pair(old_index)
        assert pairs.orphans == []
        assert len(pairs.open) == len(old_pairs.open)
        if not gone:
            expected = {outer(change.pointer, new) for change in report.changes}
            assert set(differences(body, new)) == expected
            assert (report.first_changed is not None) == report.changed == bool(report.changes)
        assert not any(payload.kind in {"read", "search"} for payload in planned.payloads_to_store)
        CHECKS[name](new)
        again, second = compact(new, POLICIES[policy], known=KNOWN)
        assert again is new, second.changes
        assert report.fits in {None, True} or report.over is not None


def _names(item: Json) -> Json:
    calls = [(one.call_id, one.name, one.keys) for one in item.calls]
    return item.role, item.prompt, calls, [(one.call_id, one.failed) for one in item.outputs]


def outer(pointer: str, body: Json) -> str:
    """The place in the body itself of a change that may be inside a JSON string."""
    at = body
    steps = pointer.split("/")[1:]
    for number, step in enumerate(steps):
        if isinstance(at, str):
            return "/" + "/".join(steps[:number])
        at = get(at, (int(step),) if isinstance(at, list) else (step,))
    return pointer


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", FORMATS)
def test_a_longer_history_keeps_every_earlier_decision(name: str, policy: str) -> None:
    for seed in range(2):
        made: dict[tuple[int, str], str] = {}
        dropped: set[int] = set()
        for told in moments(rich(seed)):
            body = FORMATS[name](told)
            planned = plan(body, POLICIES[policy], counter(), PlanContext(known_artifacts=KNOWN))
            now = {(one.message, at): one.why for one in planned.payloads for at in one.pointers}
            assert dropped <= set(planned.dropped)
            dropped = set(planned.dropped)
            assert {key: now.get(key) for key in made if key[0] not in dropped} == {
                key: why for key, why in made.items() if key[0] not in dropped
            }
            made = now


@pytest.mark.parametrize("name", FORMATS)
def test_a_caller_who_keeps_the_compacted_body_stays_within_the_budget(name: str) -> None:
    for seed in SEEDS:
        body: Json = None
        sent = 0
        for told in moments(rich(seed, 8)):
            whole = FORMATS[name](told)
            messages = whole[LISTS[name]]
            grown = whole if body is None else {**whole, LISTS[name]: [*body[LISTS[name]], *messages[sent:]]}
            body, report = compact(grown, POLICIES["budget"], known=KNOWN)
            sent = len(messages)
            left_out = 0 if report.omitted is None else report.omitted.messages
            here = sum(notice_in(item) is None for item in index_of(body).items)
            assert left_out + here == sent
            assert pair(index_of(body)).orphans == []
            assert sum(carrier_of(item) is not None for item in index_of(body).items) == (left_out > 0)
            assert report.fits is True


def test_ten_thousand_messages_cost_in_proportion() -> None:
    told = rich(5, 1_600)
    body = chat(told)
    assert len(body["messages"]) > 10_000
    new, report = compact(body, POLICIES["budget"], known=KNOWN)
    assert report.fits is True
    assert report.omitted_now > 8_000
    assert pair(index_of(new)).orphans == []
    CHECKS["openai-chat"](new)
    _, calm = compact(body, POLICIES["quiet"], known=KNOWN)
    assert calm.fits is True
    assert calm.omitted_now < report.omitted_now
