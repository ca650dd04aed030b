"""A total budget: newest first, pairs whole, the last prompt always, nothing gone without a notice."""

import copy
import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from coatcheck.core.context.detect import index_of
from coatcheck.core.context.notice import (
    OmittedArtifact,
    OmittedHistory,
    carrier_of,
    notice_tokens,
    read,
    render_notice,
)
from coatcheck.core.context.plan import plan
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.timeline import pair
from coatcheck.core.errors import CoatcheckError, Code
from context.histories import (
    FORMATS,
    Call,
    Step,
    Turn,
    apply,
    artifact_id,
    chat,
    compact,
    conversation,
    counter,
    moments,
    stored,
)

BUDGET = CompactionPolicy(inline_tokens=100, card_tokens=80, argument_tokens=64, max_tokens=2_000)
SEEDS = range(3)


@pytest.mark.parametrize("name", FORMATS)
def test_a_cut_body_has_one_notice_and_the_last_prompt(name: str) -> None:
    cut = 0
    for seed in SEEDS:
        told = conversation(seed, 10)
        body = FORMATS[name](told)
        before = copy.deepcopy(body)
        counting = counter()
        planned = plan(body, BUDGET, counting)
        new, report = apply(body, planned, stored(planned), counting)
        assert body == before
        assert report.fits
        assert report.tokens_after <= planned.expected <= 2_000
        cut += report.omitted_now
        old_index, index = index_of(body), index_of(new)
        gone = set(planned.dropped)
        assert sum(carrier_of(item) is not None for item in index.items) == (1 if gone else 0)
        assert not any(one.prompt and other.prompt for one, other in pairwise(index.items)), "two of the user in a row"
        assert [call.call_id for _, call in pair(index).open] == [call.call_id for _, call in pair(old_index).open]
        assert any(told[-1].prompt in text for item in index.items for text in item.texts)
        said = [item for item in index.items if item.role.value != "system"]
        assert said[0].role.value == "user"
    assert cut > 10


@pytest.mark.parametrize("name", FORMATS)
def test_a_growing_history_is_cut_rarely_and_only_further(name: str) -> None:
    cuts = requests = 0
    for seed in SEEDS:
        gone: set[int] = set()
        for told in moments(conversation(seed, 10, open_calls=False)):
            planned = plan(FORMATS[name](told), BUDGET, counter())
            now = set(planned.dropped)
            assert gone <= now
            cuts += gone != now
            requests += 1
            gone = now
    assert 0 < cuts < requests / 4


def test_newest_blocks_stay_as_long_as_they_fit() -> None:
    told = [Turn(f"Question {n} " + "x" * 400, [Step(f"Answer {n}")]) for n in range(40)]
    policy = CompactionPolicy(inline_tokens=100, card_tokens=80, max_tokens=2_000, settle_percent=100)
    counting = counter()
    planned = plan(chat(told), policy, counting)
    new, report = apply(chat(told), planned, {}, counting)
    assert planned.dropped == list(range(1, 1 + len(planned.dropped)))
    room = 2_000 - report.tokens_after
    largest_gone = planned.sizes[planned.dropped[-1]].total
    assert room < largest_gone + notice_tokens(2_000)
    notice = new["messages"][1]["content"].split("\n")
    assert notice[0].startswith(
        f"[{len(planned.dropped)} earlier messages ({(len(planned.dropped) + 1) // 2} of the user)"
    )
    assert [line[:12] for line in notice[2:4]] == [
        "- Question 0",
        f"- Question {(len(planned.dropped) + 1) // 2 - 4}"[:12],
    ]


def test_what_was_stored_of_messages_left_out_is_named_in_the_notice() -> None:
    told = [
        Turn(
            "Read it",
            [Step("", [Call("c0", "run_shell", {"path": "a.md", "n": 1.0}, "z" * 3_000)]), Step("Done " + "w" * 5_000)],
        )
    ]
    told += [Turn(f"More {n} " + "x" * 500, [Step("Yes.")]) for n in range(24)]
    counting = counter()
    body = chat(told)
    planned = plan(body, BUDGET, counting)
    assert [(p.call_id, p.left_out, p.needs_card) for p in planned.payloads_to_store] == [
        ("c0", True, False),
        (None, True, False),
    ]
    kept = stored(planned)
    new, report = apply(chat(told), planned, kept, counting)
    name = kept["p0"].artifact_id
    assert report.omitted is not None
    about = 'run_shell: {"n":1.0,"path":"a.md"} · 750 tokens'
    assert report.omitted.artifacts == (OmittedArtifact(str(name), about),)
    whole = kept["omitted"].artifact_id
    assert report.omitted.stored_as == whole
    lines = new["messages"][1]["content"].split("\n")
    assert lines[1].startswith(f"They are stored as {whole}, one on each line")
    assert lines[-1] == f"- {name} · {about}"
    archive = b"".join(next(p.content for p in planned.payloads_to_store if p.key == "omitted"))
    assert [json.loads(line) for line in archive.splitlines()] == [body["messages"][n] for n in planned.dropped]
    assert report.changes == []


def test_a_notice_reads_back_as_what_was_written() -> None:
    one, two = artifact_id("a", 1), artifact_id("b", 2)
    refs = (OmittedArtifact(one, "bash: make · 300 lines"), OmittedArtifact(two, ""))
    said = OmittedHistory(
        1_234, 56, 7_890_123, ("First", "Second"), refs, 1_300, artifact_id("c", 3), ("So it is", "- art_1")
    )
    assert all(read(render_notice(said, can_read=can)) == said for can in (True, False))
    assert read(render_notice(OmittedHistory(1, 0, 7), can_read=True)) == OmittedHistory(1, 0, 7)
    assert read("Hello " + render_notice(said, can_read=True)) is None


def test_hostile_words_of_a_user_stay_inside_a_notices_bound() -> None:
    told = [Turn("\u0001💥\n</system>" * 900 + f"{n}", [Step("ok")]) for n in range(30)]
    new, report = compact(chat(told), BUDGET)
    notice = new["messages"][1]["content"].rpartition("\n\n")[2]
    assert report.omitted_now > 0
    assert counter().text(notice) <= notice_tokens(1_600)
    assert "</system>" not in notice
    assert len(notice.split("\n")) == 8


def test_calls_that_wait_for_their_output_are_never_left_out() -> None:
    body = chat([Turn("q", [Step("", [Call("open", "run_shell", {}, None)])])])
    body["messages"] += chat([Turn(f"{n} " + "x" * 700, [Step("ok")]) for n in range(20)])["messages"][1:]
    new, report = compact(body, BUDGET)
    assert report.omitted_now > 10
    assert [m["tool_calls"][0]["id"] for m in new["messages"] if "tool_calls" in m] == ["open"]


def test_an_output_that_comes_late_goes_with_its_call() -> None:
    """Responses pairs over the whole list: what stands between an asynchronous call and its output is another block."""
    items: list[Any] = [
        {"role": "user", "content": "start"},
        {"type": "function_call", "call_id": "late", "name": "job", "arguments": "{}"},
        {"role": "user", "content": "meanwhile " + "x" * 10_000},
        {"role": "assistant", "content": "yes " + "x" * 1_000},
        {"type": "function_call_output", "call_id": "late", "output": "done"},
        {"role": "assistant", "content": "finished " + "x" * 1_000},
        {"role": "user", "content": "last " + "x" * 6_000},
    ]
    policy = CompactionPolicy(inline_tokens=2_000, card_tokens=80, max_tokens=4_000, settle_percent=80)
    assert plan({"input": items}, policy, counter()).dropped == [0, 2]
    new, _ = compact({"input": items}, policy)
    assert pair(index_of(new)).orphans == []
    assert pair(index_of(new)).open == []


def test_a_history_in_which_no_model_has_spoken_is_brought_into_its_budget() -> None:
    said = [{"role": "user", "content": f"msg {number} " + "word " * 300} for number in range(30)]
    new, report = compact({"messages": said}, CompactionPolicy(max_tokens=2_000))
    assert report.fits
    assert report.omitted_now > 20
    assert new["messages"][-1] == said[-1]
    longer = [*said, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}]
    assert compact({"messages": longer}, CompactionPolicy(max_tokens=2_000))[0]["messages"][:-2] == new["messages"]


def test_a_limit_for_what_is_protected_is_at_least_what_stays_inline() -> None:
    body = chat(conversation(4))
    above = CompactionPolicy(inline_tokens=20_000, card_tokens=80)
    assert (
        compact(body, above)[0]
        == compact(body, CompactionPolicy(inline_tokens=20_000, card_tokens=80, latest_tokens=20_000))[0]
    )


def test_policy_with_cards_larger_than_texts_is_refused() -> None:
    with pytest.raises(CoatcheckError) as refused:
        plan(chat([]), CompactionPolicy(card_tokens=2_000), counter())
    assert (refused.value.code, refused.value.extra["field"]) == (Code.INVALID_REQUEST, "card_tokens")


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_tokens", 100), ("inline_tokens", 1), ("settle_percent", 5), ("batch_tokens", -1)],
)
def test_policy_field_out_of_bounds_is_refused(field: str, value: int) -> None:
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert({field: value}, CompactionPolicy)
