"""Whatever is large in a body is replaced when it must be, or named with the reason why it stays."""

import json
from typing import Any

import pytest

from coatcheck.core.context.body.encoding import as_object
from coatcheck.core.context.body.splice import get, render
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.signs import is_ours, marker_in
from context.histories import FORMATS, Call, Step, Turn, chat, compact, conversation, counter, dumped
from context.test_sdk_types import CHECKS

Json = Any
PRESSED = CompactionPolicy(inline_tokens=100, card_tokens=80, argument_tokens=64, max_tokens=2_000)
CALM = CompactionPolicy(inline_tokens=100, card_tokens=80, argument_tokens=64)
AT_ONCE = CompactionPolicy(inline_tokens=100, card_tokens=80, argument_tokens=64, batch_tokens=0)
ROWS = [{"id": n, "name": f"row {n}", "tags": ["a", "b"]} for n in range(200)]
LONG = "def work():\n" + "    return 'some code that is long enough to matter'\n" * 60


def told(*calls: Call) -> list[Turn]:
    return [Turn("Do it", [Step("", [call]) for call in calls] + [Step("Done.")]), Turn("And?", [])]


# --------------------------------------------------------------------------------------------------------- arguments

ARGUMENTS: dict[str, Json] = {
    "python": {"code": LONG},
    "bash": {"command": f"cat > a.py <<'EOF'\n{LONG}EOF"},
    "Edit": {"file_path": "a.py", "old_string": LONG, "new_string": LONG.replace("work", "play")},
    "str_replace": {"path": "a.py", "old_str": "x", "new_str": LONG},
    "multi_edit": {"path": "a.py", "edits": [{"old": f"line {n}", "new": f"other {n}"} for n in range(200)]},
    "insert_rows": {"table": "t", "rows": {str(n): n * 1.5 for n in range(500)}},
    "many": {"path": "a.py", **{f"field{n}": f"a short text, number {n} of many" for n in range(120)}},
}


@pytest.mark.parametrize("tool", ARGUMENTS)
@pytest.mark.parametrize("name", FORMATS)
def test_long_arguments_of_any_finished_call_become_markers_under_pressure(name: str, tool: str) -> None:
    history = told(Call("c1", tool, ARGUMENTS[tool], "ok"))
    history[-1] = Turn("And? " + words_of(5_400), [])
    body = FORMATS[name](history)
    calm, quiet = compact(body, CALM)
    assert calm is body
    assert any(one.why == "stays while the window is not at stake" for one in quiet.left)
    new, report = compact(body, PRESSED)
    assert report.fits is True
    assert report.omitted is None
    assert {change.why for change in report.changes} == {"completed call"}
    assert counter().json(new) < counter().json(body) / 1.3
    CHECKS[name](new)
    for item in index_of(new).items:
        for call in item.calls:
            for site in call.sites:
                value = get(new, site.at)
                arguments = json.loads(value) if isinstance(value, str) else value
                assert isinstance(arguments, dict)
                assert marker_in(dumped(arguments).replace("\\u2026", "…"))
                named = [key for key in ("path", "file_path") if key in ARGUMENTS[tool]]
                assert all(as_object(arguments).get(key) == "a.py" for key in named)
    assert compact(new, PRESSED)[0] is new


def words_of(size: int) -> str:
    return "prompt " * (size // 7)


@pytest.mark.parametrize(
    "arguments",
    [
        f'{{"code": "{"never closed " * 300}',
        "[" * 4_000 + "]" * 4_000,
        '"' + "x" * 4_000 + '"',
        '{"a":' * 3_000 + "1" + "}" * 3_000,
    ],
    ids=["broken", "deep list", "a string", "deep object"],
)
def test_arguments_that_are_no_object_are_replaced_by_one_that_is(arguments: str) -> None:
    body = chat(told(Call("c1", "run", {}, "ok")))
    body["messages"][2]["tool_calls"][0]["function"]["arguments"] = arguments
    body["messages"][-1]["content"] += words_of(5_400)
    new, report = compact(body, PRESSED)
    assert report.fits is True
    assert report.omitted is None
    assert marker_in(json.loads(new["messages"][2]["tool_calls"][0]["function"]["arguments"])["omitted"])
    assert compact(new, PRESSED)[0] is new


def test_a_megabyte_of_deep_arguments_is_taken_in_stride() -> None:
    deep: Json = "leaf " * 4
    for n in range(40):
        deep = {f"level {n}": deep, "more": [f"text {n}"] * 400}
    body = chat(told(Call("c1", "run", {"path": "a.json", "tree": [deep] * 5}, "ok")))
    assert len(dumped(body)) > 1_000_000
    new, report = compact(body, PRESSED)
    assert report.fits is True
    assert len(dumped(new)) < 2_000
    assert '\\"path\\": \\"a.json\\"' in dumped(new)


SYNTHETIC = [
    "Tool call write_file with id c1 was cancelled - another message came in before it could be completed.",
    "[Request interrupted by user for tool use]",
    "The user doesn't want to proceed with this tool use. The tool use was rejected.",
    "[System: Tool execution skipped/interrupted by user. No result provided for tool 'write_file'.]",
    "Tool not executed - a final result was already processed.",
    "aborted",
    "[Operation Cancelled] Reason: User did not allow tool call",
]


@pytest.mark.parametrize("said", SYNTHETIC)
@pytest.mark.parametrize("name", FORMATS)
def test_a_result_that_a_host_made_up_completes_no_call(name: str, said: str) -> None:
    body = FORMATS[name](told(Call("c1", "write_file", {"path": "a.py", "content": LONG}, said)))
    new, report = compact(body, AT_ONCE)
    assert new is body
    assert [one.why for one in report.left] == ["the call was not carried out"]
    done, _ = compact(FORMATS[name](told(Call("c1", "write_file", {"path": "a.py", "content": LONG}, "ok"))), AT_ONCE)
    assert LONG[20:60] not in dumped(done)


# ------------------------------------------------------------------------------------------------ outputs, messages


@pytest.mark.parametrize("value", [{"rows": ROWS}, ROWS, [1.5] * 2_000], ids=["object", "list", "numbers"])
@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic", "langchain"])
def test_outputs_that_are_objects_or_lists_become_cards(name: str, value: Json) -> None:
    body = FORMATS[name](told(Call("c1", "query", {}, "x")))
    at = next(output.pieces[0].at for item in index_of(body).items for output in item.outputs)
    holder = get(body, at[:-1])
    holder[at[-1]] = value
    new, report = compact(body, CompactionPolicy(protect="none"))
    assert is_ours(get(new, at))
    assert [change.pointer for change in report.changes] == [render(at)]
    assert compact(new, CompactionPolicy(protect="none"))[0] is new


@pytest.mark.parametrize("name", FORMATS)
def test_long_messages_are_shortened_to_both_ends_under_pressure_but_never_the_last_prompt(name: str) -> None:
    first = "The first words. " + words_of(6_000) + "The last words."
    answer = "My answer begins. " + words_of(6_000) + "My answer ends."
    history = [Turn(first, [Step(answer)]), Turn("Then " + words_of(5_000), [])]
    body = FORMATS[name](history)
    new, report = compact(body, PRESSED)
    assert {change.to for change in report.changes} == {"ends"}
    assert report.omitted is None
    said = dumped(new)
    ends = ("The first words.", "The last words.", "My answer begins.", "My answer ends.", history[1].prompt)
    assert [words for words in ends if words not in said] == []
    assert said.count("bytes of this message left out; all of it is stored as art_") == 2
    CHECKS[name](new)
    assert compact(new, PRESSED)[0] is new


def test_a_text_that_something_points_into_is_left() -> None:
    part = {"type": "output_text", "text": words_of(4_000), "annotations": [{"type": "url_citation", "start_index": 5}]}
    items = [
        {"role": "user", "content": "q"},
        {"type": "message", "role": "assistant", "content": [part]},
        {"role": "user", "content": "Then " + words_of(5_000)},
    ]
    _, report = compact({"input": items}, PRESSED)
    assert "something points into this text, or it is signed" in [one.why for one in report.left] or report.omitted


@pytest.mark.parametrize("policy", [CALM, CompactionPolicy(inline_tokens=100, card_tokens=80, max_tokens=6_000)])
@pytest.mark.parametrize("name", FORMATS)
def test_what_stays_large_is_always_named(name: str, policy: CompactionPolicy) -> None:
    for seed in range(3):
        body = FORMATS[name](conversation(seed, 5))
        new, report = compact(body, policy)
        if report.omitted is not None:
            continue
        named = {one.pointer for one in report.left}
        counting = counter()
        for item in index_of(new).items:
            pieces = [piece for output in item.outputs for piece in output.pieces]
            for piece in pieces:
                if counting.piece(piece.text) > policy.inline_tokens and not is_ours(str(piece.text)):
                    assert any(render(piece.at) == one or one.startswith(render(piece.at)) for one in named), piece
            for piece in item.pieces:
                if counting.text(piece.text) > 2 * policy.inline_tokens:
                    assert render(piece.at) in named
