"""The account of a context: what persists and what is only in flight, apart, in tokens and percent."""

import json
from typing import Any

import pytest

from coatcheck.core.context.apply import carry_out
from coatcheck.core.context.counting import Counter
from coatcheck.core.context.measure import MeasureRequest, measure, measure_both
from coatcheck.core.context.plan import plan
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.replace import StoredPayload
from coatcheck.core.context.window import ModelWindow, input_tokens
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.count import short_number
from context.histories import Bytes, Call, Step, Turn, chat, compact, counter, messages, stored

LONG = "word " * 4_000  # 5,000 tokens of four bytes
POLICY = CompactionPolicy(batch_tokens=0)


def body_of(output: str, *, later: bool = False) -> Any:  # noqa: ANN401 - any JSON
    told = [Turn("q", [Step("", [Call("c1", "run", {}, output)])])]
    if later:
        told[0].steps.append(Step("a"))
        told.append(Turn("q2", []))
    return chat(told)


def unnamed(body: Any) -> Any:  # noqa: ANN401 - any JSON
    """The body without its model, whose window is known."""
    return {key: value for key, value in body.items() if key != "model"}


def test_the_sums_are_sums_and_only_this_turns_payload_is_transient() -> None:
    got = measure(body_of(LONG), MeasureRequest(window=ModelWindow(model=20_000)), POLICY, counter())
    assert got.next_turn.tokens == got.baseline.tokens + got.persisted.tokens
    assert got.this_turn.tokens == got.next_turn.tokens + got.transient.tokens
    assert got.transient.tokens == 5_000 - 200, "a card of an 80th of the budget"
    assert got.this_turn.tokens == got.parts.total
    settled = measure(body_of(LONG, later=True), MeasureRequest(), POLICY, counter())
    assert settled.transient.tokens == 0
    assert settled.persisted.tokens > 5_000


def test_what_the_next_turn_is_said_to_cost_is_what_it_costs_after_compaction() -> None:
    before = measure(body_of(LONG), MeasureRequest(), POLICY, counter())
    new, _ = compact(body_of(LONG, later=True), POLICY)
    after = measure(new, MeasureRequest(), POLICY, counter())
    added = measure(body_of("", later=True), MeasureRequest(), POLICY, counter()).parts.total
    added -= measure(body_of(""), MeasureRequest(), POLICY, counter()).parts.total
    assert after.next_turn.tokens <= before.next_turn.tokens + added


@pytest.mark.parametrize(
    ("tokens", "short"),
    [(0, "0"), (999, "999"), (1_000, "1.0k"), (9_949, "9.9k"), (9_950, "10k"), (999_499, "999k"), (999_500, "1.0M")],
)
def test_numbers_for_status_bars_have_three_digits(tokens: int, short: str) -> None:
    assert short_number(tokens) == short


def test_a_line_for_a_status_bar_says_both_shares_and_what_is_left() -> None:
    got = measure(body_of(LONG), MeasureRequest(window=ModelWindow(model=20_000)), POLICY, counter())
    left = got.this_turn.left_tokens
    assert left is not None
    assert got.line == f"context 25 % now, 1 % next turn; {left / 1000:.0f}k left"
    full = measure(body_of(LONG), MeasureRequest(window=ModelWindow(model=4_000)), POLICY, counter())
    assert full.line == "context 126 % now, 4 % next turn; 0 left"
    nameless = measure(unnamed(body_of(LONG)), MeasureRequest(), POLICY, counter())
    assert nameless.line == "context 5.0k tokens now, 625 next turn"


def test_the_answer_says_what_it_assumes_of_the_next_turn() -> None:
    stays = measure(body_of(LONG), MeasureRequest(outputs_stay=True), POLICY, counter())
    cards = measure(body_of(LONG), MeasureRequest(), POLICY, counter())
    assert (stays.assumes, stays.next_turn, stays.transient.tokens) == ("outputs_stay", stays.this_turn, 0)
    assert (cards.assumes, cards.next_turn.tokens < cards.this_turn.tokens) == ("policy", True)


def test_turns_add_up_to_the_history_and_only_the_latest_are_listed() -> None:
    told = [Turn(f"q{n}", [Step("", [Call(f"c{n}", "run", {}, "word " * n)]), Step("a")]) for n in range(30)]
    all_of_it = measure(chat(told), MeasureRequest(), POLICY, counter())
    assert [one.turn for one in all_of_it.turns] == list(range(11, 31))
    few = measure(chat(told[:20]), MeasureRequest(), POLICY, counter())
    assert sum(one.tokens for one in few.turns) == few.parts.total - few.baseline.tokens
    assert sum(one.outputs for one in few.turns) == few.parts.outputs
    messages_of = chat(told[:20])["messages"]
    assert [messages_of[one.message]["content"] for one in few.turns[1:]] == [f"q{n}" for n in range(1, 20)]
    assert measure({"messages": []}, MeasureRequest(), POLICY, counter()).turns == []


def test_what_is_beside_the_body_is_added_where_it_belongs() -> None:
    plain = measure(body_of("ok"), MeasureRequest(), POLICY, counter())
    got = measure(body_of("ok"), MeasureRequest(transient_tokens=700, persisted_tokens=90), POLICY, counter())
    assert got.transient.tokens == plain.transient.tokens + 700
    assert got.persisted.tokens == plain.persisted.tokens + 90


def test_windows_say_what_takes_the_rest() -> None:
    window = ModelWindow(
        model=400_000, shown=272_000, output_reserve=32_000, safety_margin=8_000, compaction_limit=200_000
    )
    got = measure(body_of("ok"), MeasureRequest(window=window), POLICY, counter()).window
    assert got is not None
    assert [(one.name, one.tokens) for one in got.taken] == [
        ("not offered by the host", 128_000),
        ("output reserve", 32_000),
        ("safety margin", 8_000),
        ("beyond the host's compaction limit", 32_000),
    ]
    assert (got.model, got.shown, got.usable) == (400_000, 272_000, 200_000)
    assert got.model - sum(one.tokens for one in got.taken) == got.usable


def test_percentages_are_of_what_is_usable_and_half_up() -> None:
    total = measure(body_of("ok"), MeasureRequest(), POLICY, counter()).this_turn.tokens
    got = measure(body_of("ok"), MeasureRequest(window=ModelWindow(model=total * 8)), POLICY, counter())
    assert (got.this_turn.percent, got.this_turn.left_percent) == (12.5, 87.5)
    assert got.this_turn.left_tokens == total * 7
    over = measure(body_of("ok"), MeasureRequest(window=ModelWindow(model=total - 1)), POLICY, counter())
    assert (over.this_turn.left_tokens, over.this_turn.left_percent) == (0, 0.0)


def test_compaction_is_advised_from_eighty_percent_exactly() -> None:
    total = measure(body_of("ok"), MeasureRequest(), POLICY, counter()).this_turn.tokens
    body = body_of("ok" + "x" * (4 * (-total % 4)))
    total += -total % 4
    assert measure(body, MeasureRequest(), POLICY, counter()).this_turn.tokens == total
    at = measure(body, MeasureRequest(window=ModelWindow(model=total * 5 // 4)), POLICY, counter())
    under = measure(body, MeasureRequest(window=ModelWindow(model=total * 5 // 4 + 1)), POLICY, counter())
    assert (at.should_compact, at.because) == (True, "next_turn")
    assert (under.should_compact, under.because) == (False, None)


def test_a_large_output_in_flight_is_the_reason_that_is_named() -> None:
    got = measure(body_of(LONG), MeasureRequest(window=ModelWindow(model=6_000)), POLICY, counter())
    assert (got.should_compact, got.because) == (True, "this_turn")
    assert measure(unnamed(body_of(LONG)), MeasureRequest(), POLICY, counter()).should_compact is None


def test_real_usage_scales_every_number() -> None:
    told = [Turn("q " + "x" * 4_000, [Step("a " + "y" * 400)]), Turn("more", [])]
    plain = measure(chat(told), MeasureRequest(), POLICY, counter())
    first = measure(chat([Turn("q " + "x" * 4_000, [])]), MeasureRequest(), POLICY, counter()).this_turn.tokens
    got = measure(chat(told), MeasureRequest(real_tokens=first * 3 // 2), POLICY, counter())
    assert (got.scaled_by, got.scale) == ("usage", round(first * 3 // 2 / first, 3))
    assert got.this_turn.tokens == pytest.approx(plain.this_turn.tokens * 1.5, abs=2)
    assert got.notes == []


def test_usage_of_another_history_is_not_believed() -> None:
    got = measure(body_of("ok"), MeasureRequest(real_tokens=900_000), POLICY, counter())
    assert got.scaled_by == "family"
    assert "900,000" in got.notes[0]


@pytest.mark.parametrize(
    ("model", "scale"),
    [("claude-opus-5-5", 1.75), ("claude-opus-4-7", 1.75), ("claude-sonnet-4-5", 1.35), ("claude-3-7-sonnet", 1.35)],
)
def test_models_with_other_tokenizers_are_scaled_by_their_family(model: str, scale: float) -> None:
    body = messages([Turn("q", [])])
    body["model"] = model
    got = measure(body, MeasureRequest(), POLICY, counter())
    assert (got.scale, got.scaled_by) == (scale, "family")


def test_json_in_a_string_costs_a_fifth_more_and_base64_is_not_text() -> None:
    counting = Counter(Bytes())
    text = json.dumps({"a": "b" * 993})
    assert (counting.piece(text), counting.piece("x" + text[1:])) == (302, 251)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}}
    got = measure({"messages": [{"role": "user", "content": [image]}]}, MeasureRequest(), POLICY, counter())
    assert (got.parts.media, got.parts.total) == (1_000, 1_003)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 1}, 5),
        ({"input_tokens": 5, "input_tokens_details": {"cached_tokens": 3}}, 5),
        ({"input_tokens": 5, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 8}, 83),
        ({"promptTokenCount": 9}, 9),
        ({"input_tokens": None}, None),
        ({}, None),
    ],
    ids=["chat", "responses", "anthropic", "gemini", "null", "empty"],
)
def test_usage_is_read_in_every_providers_shape(usage: dict[str, Any], tokens: int | None) -> None:
    assert input_tokens(usage) == tokens


def test_a_window_with_nothing_left_is_refused() -> None:
    with pytest.raises(CoatcheckError) as refused:
        measure(body_of("ok"), MeasureRequest(window=ModelWindow(model=1_000, output_reserve=1_000)), POLICY, counter())
    assert refused.value.code is Code.INVALID_REQUEST


def test_a_request_cannot_have_covered_more_than_there_is() -> None:
    body = {"messages": [{"role": "user", "content": "word " * 500}]}
    with pytest.raises(CoatcheckError) as refused:
        measure(body, MeasureRequest(real_tokens=900, covers=1_000), CompactionPolicy(), counter())
    assert (refused.value.code, refused.value.extra["field"]) == (Code.INVALID_REQUEST, "covers")


def test_a_usage_covers_messages_of_the_given_body_though_some_are_left_out() -> None:
    body = unnamed(chat([Turn(f"q{n} " + "x" * 400, [Step(f"a{n} " + "y" * 400)]) for n in range(40)]))
    counting = counter()
    planned = plan(body, CompactionPolicy(max_tokens=4_000), counting)
    compacted = carry_out(body, planned, stored(planned), counting)
    total, gone = len(body["messages"]), len(compacted.removed_messages)
    assert 30 < gone < total
    for covers, left in ((total, total - gone + 1), (total - 3, total - gone - 2)):
        estimate = planned.fixed.total + sum(size.total for size in compacted.sizes[:left])
        ask = MeasureRequest(real_tokens=2 * estimate, covers=covers)
        meters = measure_both(compacted, ask, counting)
        assert (meters.after.scaled_by, meters.after.scale, meters.before.scale) == ("usage", 2.0, 2.0)
    with pytest.raises(CoatcheckError, match=f"which has {total}"):
        measure_both(compacted, MeasureRequest(real_tokens=9_000, covers=total + 1), counting)


def test_a_body_that_stays_as_it_was_is_measured_as_before() -> None:
    body = body_of("alpha beta gamma " * 30)
    policy = CompactionPolicy(inline_tokens=64, card_tokens=64, protect="none", batch_tokens=0)
    planned = plan(body, policy, counting := counter())
    cards = {key: StoredPayload(one.artifact_id, "a card of many words " * 90) for key, one in stored(planned).items()}
    compacted = carry_out(body, planned, cards, counting)
    assert compacted.report.changed is False
    assert [item.pointer for item in compacted.report.left] == list(planned.payloads[0].pointers)
    meters = measure_both(compacted, MeasureRequest(), counting)
    assert meters.before.transient.tokens > 0
    assert meters.after == meters.before
