"""The window is the budget: nothing is touched while there is no pressure, and under it only as much as is needed."""

from typing import Any

import pytest

from coatcheck.core.context.detect import index_of
from coatcheck.core.context.plan import PlanContext, plan
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.signs import is_ours
from coatcheck.core.context.window import ModelWindow, family_percent
from coatcheck.core.repair.faults import find_faults
from context.histories import FORMATS, Call, Step, Turn, apply, chat, compact, counter, dumped, plan_with_cards, stored

Json = Any
WINDOW = ModelWindow(model=262_144)


def text(tokens: int, name: str) -> str:
    """Text of exactly so many tokens, four bytes each, that is like no other."""
    return (f"{name}: " + f"{name} line of output\n" * tokens)[: 4 * tokens]


def outputs(body: Json) -> list[str]:
    return [str(p.text) for item in index_of(body).items for out in item.outputs for p in out.pieces]


def raw(body: Json) -> set[str]:
    """What still stands as it came, by the name that it begins with."""
    return {one.partition(":")[0] for one in outputs(body) if not is_ours(one)} - {"1", "0"}


def step(name: str, tokens: int, tool: str = "bash", **args: Json) -> Step:
    return Step("", [Call(name, tool, args or {"command": f"make {name}"}, text(tokens, name))])


# ----------------------------------------------------------------------------------------------- the founding case


@pytest.mark.parametrize("parallel", [False, True], ids=["one after the other", "in parallel"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_first_turn_of_forty_outputs_fits_its_window_by_a_bare_call(name: str, parallel: bool) -> None:
    calls = [Call(f"c{n}", "fetch", {"url": f"https://example.org/{n}"}, text(8_000, f"c{n}")) for n in range(40)]
    steps = [Step("", calls)] if parallel else [Step("", [call]) for call in calls]
    body = FORMATS[name]([Turn("Research this.", steps)])
    body.pop("model", None)
    new, report = compact(body, CompactionPolicy(), window=WINDOW)
    assert report.tokens_before > 320_000
    assert report.fits is True
    assert report.budget is not None
    assert report.tokens_after <= report.budget.start
    assert report.budget.source == "window"
    assert report.omitted is None
    assert len(index_of(new).items) == len(index_of(body).items)
    assert "Research this." in dumped(new)
    kept = raw(new)
    assert kept == {f"c{n}" for n in range(40 - len(kept), 40)}, "the oldest went, and no more than needed"
    at_most = report.tokens_after + 600 * len(report.changes)
    assert at_most > report.budget.target - 8_000
    assert compact(new, CompactionPolicy(), window=WINDOW)[0] is new


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_the_window_of_a_known_model_is_the_budget(name: str) -> None:
    steps = [step(f"c{n}", 8_000) for n in range(140)]
    body = FORMATS[name]([Turn("Research this.", steps)])
    body["model"] = "gemini-3.5-pro" if name == "gemini" else body["model"]
    _, report = compact(body, CompactionPolicy())
    assert report.budget is not None
    assert report.budget.source == "model"
    assert report.fits is True
    body["model"] = "nobody-knows-1"
    if name not in {"anthropic", "gemini"}:
        assert compact(body, CompactionPolicy())[1].budget is None


# ---------------------------------------------------------------------------------------------------- no pressure


@pytest.mark.parametrize("name", FORMATS)
def test_without_pressure_nothing_recent_is_touched(name: str) -> None:
    """A test run, and a file that was read: the user's next message is about them."""
    told = [
        Turn("Fix it", [step("run", 9_000), step("file", 9_500, "read_file", path="a.py"), Step("It is in a.py.")]),
        Turn("Then do.", []),
    ]
    for window in (None, WINDOW):
        body = FORMATS[name](told)
        assert compact(body, CompactionPolicy(), window=window)[0] is body


@pytest.mark.parametrize("name", FORMATS)
def test_old_outputs_go_together_and_rarely(name: str) -> None:
    told = [Turn(f"Do {n}", [step(f"c{n}", 4_000), Step("Done.")]) for n in range(40)]
    before: list[str] = []
    changes = 0
    new: Json = None
    for count in range(1, 41):
        new, _ = compact(FORMATS[name](told[:count]), CompactionPolicy())
        now = [dumped(one) for one in _messages(new)]
        changes += now[: len(before)] != before
        before = now
    assert 3 < changes < 8
    assert len(raw(new)) < 10


def _messages(body: Json) -> list[Json]:
    at = index_of(body).list_at or ()
    for key in at:
        body = body[key]
    return body


# -------------------------------------------------------------------------------------------------------- the order


@pytest.mark.parametrize("name", FORMATS)
def test_under_pressure_the_least_needed_goes_first(name: str) -> None:
    """What one call brings back, by age alone: outputs, files and arguments alike; never the last step."""
    script = text(6_000, "script")
    told = [
        Turn("One", [step("old", 6_000), step("oldfile", 6_000, "read_file", path="b.py"), Step("Yes.")]),
        Turn("Two", [Step("", [Call("script", "python", {"code": script}, "ok")]), Step("Yes.")]),
        Turn("Three", [step("newfile", 6_000, "read_file", path="a.py"), step("early", 6_000), step("last", 6_000)]),
    ]
    body = FORMATS[name](told)
    order: list[str] = []
    for most in range(52_000, 9_000, -1_500):
        new, report = compact(body, CompactionPolicy(max_tokens=most, settle_percent=95))
        assert report.fits, most
        assert report.omitted is None
        gone = {"old", "oldfile", "newfile", "early", "last"} - raw(new)
        gone |= set() if "script: script line" in dumped(new) else {"script"}
        order += sorted(gone - set(order))
    assert order == ["old", "oldfile", "script", "newfile", "early"]
    assert "last" in raw(compact(body, CompactionPolicy(max_tokens=9_500, settle_percent=95))[0])


@pytest.mark.parametrize("name", FORMATS)
def test_a_growing_history_under_its_window_is_always_within_it_and_changes_rarely(name: str) -> None:
    steps = [
        step(f"c{n}", 600 + 300 * (n % 7), "read_file" if n % 3 == 0 else "bash", path=f"{n}.py") for n in range(90)
    ]
    body = FORMATS[name]([])
    window = ModelWindow(model=400 * family_percent(body, index_of(body)))
    before: list[str] = []
    kept = 0
    for count in range(len(steps)):
        body = FORMATS[name]([Turn("Work through it.", steps[:count])])
        body.pop("model", None)
        new, report = compact(body, CompactionPolicy(), window=window)
        assert report.fits is True
        assert "Work through it." in dumped(new)
        now = [dumped(one) for one in _messages(new)]
        kept += now[: len(before)] == before
        before = now
    assert kept >= 0.85 * len(steps)


# --------------------------------------------------------------------------------------------------- stuck, and said


@pytest.mark.parametrize("name", FORMATS)
def test_what_cannot_fit_says_what_would_have_to_go_and_by_how_much_it_misses(name: str) -> None:
    told = [Turn("Old", [Step("answer")]), Turn("A prompt " + "x" * 60_000, [])]
    body = FORMATS[name](told)
    body.pop("model", None)
    window = ModelWindow(model=4_000)
    new, report = compact(body, CompactionPolicy(), window=window)
    assert report.fits is False
    assert report.budget is not None
    assert report.over is not None
    assert report.over.tokens == report.tokens_after - report.budget.limit
    assert report.over.largest[0].why.startswith("a message of the user")
    assert report.over.largest[0].message == len(index_of(body).items) - 1
    assert report.tokens_after <= report.tokens_before
    assert compact(new, CompactionPolicy(), window=window)[0] is new


def test_a_window_smaller_than_the_instructions_leaves_the_prompt_and_says_so() -> None:
    body = {"messages": [{"role": "system", "content": "s" * 40_000}, {"role": "user", "content": "Hi."}]}
    new, report = compact(body, CompactionPolicy(), window=ModelWindow(model=3_000))
    assert new is body
    assert report.over is not None
    assert report.over.largest[0].why.startswith("instructions")
    assert any("instructions are never changed" in one.why for one in report.left)


def test_a_notice_that_would_be_larger_than_what_it_stands_for_is_not_written() -> None:
    told = [Turn("Hi", [Step("Hello.")]), Turn("y" * 7_900, [])]
    body = {"messages": chat(told)["messages"]}
    new, report = compact(body, CompactionPolicy(max_tokens=2_000, settle_percent=90))
    assert new is body
    assert report.omitted is None


def test_the_plan_counts_on_exactly_what_comes_out() -> None:
    body = FORMATS["openai-chat"]([Turn("Go", [step(f"c{n}", 3_000) for n in range(20)])])
    counting = counter()
    context = PlanContext(window=ModelWindow(model=30_000))
    planned = plan_with_cards(body, CompactionPolicy(), counting, context)
    _, report = compact(body, CompactionPolicy(), window=ModelWindow(model=30_000))
    assert report.tokens_after == planned.expected, "with the true lengths of cards"
    _, unknown = apply(body, assumed := plan(body, CompactionPolicy(), counting, context), stored(assumed), counting)
    assert unknown.tokens_after < assumed.expected, "and at most that where they are not known"


@pytest.mark.parametrize("name", FORMATS)
def test_no_message_is_left_out_of_a_body_that_fits_its_window(name: str) -> None:
    """What is said alone is more than the share from which a body is compacted, and less than the window."""
    talk = [Turn(f"Question {n}? " + "q" * 1_600, [step(f"c{n}", 300), Step("a" * 1_600)]) for n in range(40)]
    body = FORMATS[name]([*talk, Turn("And now?", [])])
    body.pop("model", None)
    body.pop("modelId", None)
    for message in body.get("messages", []):
        message.pop("model_name", None)
    tokens = compact(body, CompactionPolicy())[1].tokens_before - 250 * 40
    tokens = tokens * family_percent(body, index_of(body)) // 100
    window = ModelWindow(model=tokens * 115 // 100, output_reserve=900)
    new, report = compact(body, CompactionPolicy(), window=window)
    assert report.budget is not None
    assert report.budget.start < report.tokens_after <= report.budget.limit
    assert report.fits is True
    assert report.omitted is None
    assert compact(new, CompactionPolicy(), window=window)[0] is new
    _, tight = compact(body, CompactionPolicy(), window=ModelWindow(model=tokens * 90 // 100, output_reserve=900))
    assert tight.omitted_now > 0


@pytest.mark.parametrize("answered", [39, 40])
@pytest.mark.parametrize("name", FORMATS)
def test_a_last_step_whose_outputs_still_arrive_fits_by_a_bare_call(name: str, answered: int) -> None:
    calls = [
        Call(f"c{n}", "fetch", {"url": f"https://example.org/{n}"}, text(7_200, f"c{n}") if n < answered else None)
        for n in range(40)
    ]
    body = {**FORMATS[name]([Turn("Research this.", [Step("", calls)])]), "model": "kimi-for-coding"}
    new, report = compact(body, CompactionPolicy())
    assert report.fits is True
    assert report.omitted is None
    assert "Research this." in dumped(new)
    assert report.changes
    assert find_faults(index_of(body)) == find_faults(index_of(new)) == []
    assert compact(new, CompactionPolicy())[0] is new
