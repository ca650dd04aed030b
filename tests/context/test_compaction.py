"""What compaction promises for any conversation in any format, without a budget."""

import json

import pytest

from coatcheck.core.context.body.encoding import plain
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.plan import plan
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.signs import is_ours
from context.histories import (
    FORMATS,
    LISTS,
    Call,
    Step,
    Turn,
    chat,
    compact,
    conversation,
    counter,
    dumped,
    moments,
)

SMALL = CompactionPolicy(inline_tokens=100, card_tokens=80, argument_tokens=64, latest_tokens=1_000, batch_tokens=0)
QUIET = CompactionPolicy(inline_tokens=100, card_tokens=80, argument_tokens=64, latest_tokens=1_000)
POLICIES = {
    "turn": SMALL,
    "quiet": QUIET,
    "step": CompactionPolicy(inline_tokens=100, card_tokens=80, argument_tokens=64, protect="step", latest_tokens=None),
    "none": CompactionPolicy(inline_tokens=100, card_tokens=80, argument_tokens=64, protect="none"),
    "batches": CompactionPolicy(inline_tokens=100, card_tokens=80, argument_tokens=64, batch_tokens=3_000),
}
SEEDS = range(3)


@pytest.mark.parametrize("name", FORMATS)
def test_every_old_output_over_the_threshold_is_a_card_and_no_argument_stays_long(name: str) -> None:
    for seed in SEEDS:
        told = conversation(seed, open_calls=False)
        new, _ = compact(FORMATS[name](told), POLICIES["none"])
        counting = counter()
        for item in index_of(new).items:
            for output in item.outputs:
                assert all(counting.piece(p.text) <= 100 or is_ours(str(p.text)) for p in output.pieces)
        assert not any(
            call.args["content"] in dumped(new) or json.dumps(call.args["content"])[1:-1] in dumped(new)
            for turn in told
            for step in turn.steps
            for call in step.calls
            if len(call.args.get("content", "")) > 500
        )


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_history_gives_the_same_bytes_in_a_hundred_runs(name: str) -> None:
    text = dumped(FORMATS[name](conversation(3)))
    assert len({dumped(compact(json.loads(text), SMALL)[0]) for _ in range(100)}) == 1


@pytest.mark.parametrize("name", FORMATS)
def test_unprotected_histories_only_ever_grow_at_their_end(name: str) -> None:
    """With protect=none an output is a card from its first request on: the prompt's cached prefix never breaks."""
    for seed in SEEDS:
        policy = CompactionPolicy(inline_tokens=100, card_tokens=80, protect="none", arguments=())
        before: list[str] = []
        for told in moments(conversation(seed, open_calls=False)):
            new, _ = compact(FORMATS[name](told), policy)
            now = [dumped(item) for item in new[LISTS[name]]]
            assert now[: len(before)] == before
            before = now


def test_batches_change_the_past_less_often() -> None:
    def breaks(policy: CompactionPolicy) -> int:
        count, before = 0, list[str]()
        for told in moments(conversation(8, 12, open_calls=False)):
            new, _ = compact(chat(told), policy)
            now = [dumped(item) for item in new["messages"]]
            count += now[: len(before)] != before
            before = now
        return count

    eager, batched = breaks(SMALL), breaks(POLICIES["batches"])
    assert 0 < batched < eager / 2


def test_what_waits_goes_when_repeating_it_has_cost_what_replacing_it_costs() -> None:
    """Behind a large output one that is small makes the change cheap; a large one makes it wait for longer."""
    text = "".join(f"line {n} of what a tool said\n" for n in range(4_000))

    def requests_until_it_goes(behind: int) -> int:
        told = [
            Turn("Look.", [Step("", [Call("c1", "bash", {"command": "make"}, text)]), Step("Done.")]),
            Turn("x" * behind, [Step("Yes.")]),
            Turn("Go on.", [Step("", [Call(f"n{n}", "bash", {}, "ok")]) for n in range(120)]),
        ]
        for count, now in enumerate(moments(told)):
            new, _ = compact(chat(now), CompactionPolicy(latest_tokens=None))
            if count and text[:2_000] not in new["messages"][3]["content"]:
                return count
        return 1_000

    near, far = requests_until_it_goes(100), requests_until_it_goes(400_000)
    assert near < 10 < far < 60


def test_written_files_wait_with_the_rest() -> None:
    """A file that was written changes no prefix by itself; with `batch_tokens: 0` it goes when its turn is over."""
    code = "def work():\n" + "    return 'some code that is long enough to matter'\n" * 60
    told = [Turn("Write.", [Step("", [Call("c1", "write_file", {"path": "a.py", "content": code}, "ok")])])]
    told += [Turn(f"Next {n}.", [Step("Yes.")]) for n in range(6)]
    assert compact(chat(told), CompactionPolicy())[1].changed is False
    assert compact(chat(told), CompactionPolicy(batch_tokens=0))[1].changed is True


def test_what_is_planned_says_where_from_and_for_whom() -> None:
    told = conversation(1)
    planned = plan(chat(told), POLICIES["none"], counter())
    calls = {call.id: call for turn in told for step in turn.steps for call in step.calls}
    assert planned.payloads
    for payload in planned.payloads:
        call = calls[str(payload.call_id)]
        assert payload.tool == call.name
        assert plain(payload.content) == (call.output if payload.kind == "output" else call.args["content"])
        assert payload.role == ("tool" if payload.kind == "output" else "assistant")
        assert payload.needs_card == (payload.kind == "output")
        assert [pointer.split("/")[1] for pointer in payload.pointers] == ["messages"]
