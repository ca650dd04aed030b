"""What each wire format has that the others have not. Bodies are small and in the providers' own shapes."""

import json
from typing import Any

import pytest

from coatcheck.core.context.body.encoding import serialise_canonical
from coatcheck.core.context.body.splice import splice_inner
from coatcheck.core.context.detect import detect, index_of
from coatcheck.core.context.plan import plan
from coatcheck.core.context.policy import CompactionPolicy, CompactionRule
from coatcheck.core.context.timeline import pair
from coatcheck.core.errors import CoatcheckError, Code
from context.histories import FORMATS, LISTS, apply, artifact_id, compact, conversation, counter, rows_of, stored

LONG = "An output that is long enough to become a card. " * 20
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
ALL = CompactionPolicy(inline_tokens=100, card_tokens=80, argument_tokens=64, protect="none")


def card_of(call_id: str | None, content: Any) -> str:  # noqa: ANN401 - a payload is any JSON
    name = artifact_id(call_id, content)
    return f"[{name} · text · stored outside this conversation; below: facts]\n{len(str(content)):,} characters"


def same_card(call_id: str, first: str, content: str) -> str:
    head = card_of(call_id, content).split("\n")[0]
    return f"{head}\nThe same as {artifact_id(first, content)}, byte for byte."


def marker_of(call_id: str | None, text: str, path: str = "") -> str:
    about = f" of {path}" if path else ""
    ref = artifact_id(call_id, text)
    return f"[… {len(text):,} characters{about}, stored as {ref}; omitted from history, do not copy]"


# ------------------------------------------------------------------------------------------------------------ Anthropic


def result(content: Any, **more: Any) -> Any:  # noqa: ANN401 - blocks of a body are any JSON
    call: Any = {"type": "tool_use", "id": "t1", "name": "run", "input": {}}
    block = {"type": "tool_result", "tool_use_id": "t1", "content": content, **more}
    turn = (("user", "q"), ("assistant", [call]), ("user", [block]))
    return {"system": "s", "messages": [{"role": role, "content": content} for role, content in turn]}


def test_parts_become_cards_one_by_one_and_keep_what_is_around_them() -> None:
    parts = [
        {"type": "text", "text": "1280x720"},
        {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}},
        {"type": "search_result", "source": "u", "title": "T", "content": [{"type": "text", "text": LONG}]},
        {"type": "document", "title": "D", "source": {"type": "text", "media_type": "text/plain", "data": LONG + "!"}},
        IMAGE,
    ]
    new, report = compact(result(parts, is_error=True, cache_control={"type": "ephemeral"}), ALL)
    card, other = card_of("t1", LONG), card_of("t1", LONG + "!")
    assert new["messages"][2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": [
                parts[0],
                {"type": "text", "text": card, "cache_control": {"type": "ephemeral"}},
                {**parts[2], "content": [{"type": "text", "text": card}]},
                {
                    "type": "document",
                    "title": "D",
                    "source": {"type": "text", "media_type": "text/plain", "data": other},
                },
                IMAGE,
            ],
            "is_error": True,
            "cache_control": {"type": "ephemeral"},
        }
    ]
    assert [change.pointer for change in report.changes] == [
        "/messages/2/content/0/content/1/text",
        "/messages/2/content/0/content/2/content/0/text",
        "/messages/2/content/0/content/3/source/data",
    ]


def test_images_become_placeholders_when_the_policy_says_so() -> None:
    image = {**IMAGE, "cache_control": {"type": "ephemeral"}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    policy = CompactionPolicy(protect="none", media="placeholder")
    new, report = compact(result([image, linked]), policy)
    assert new["messages"][2]["content"][0]["content"] == [
        {
            "type": "text",
            "text": f"[image/png, 9 bytes, stored as {artifact_id('t1', [image])}; omitted from history, do not copy]",
            "cache_control": {"type": "ephemeral"},
        },
        linked,
    ]
    assert [change.to for change in report.changes] == ["placeholder"]
    assert compact(new, policy)[0] is new


def test_many_small_parts_become_one_card_and_markers() -> None:
    texts = [f"{n} " + "x" * 300 for n in range(5)]
    new, _ = compact(result([{"type": "text", "text": text} for text in texts]), ALL)
    whole = [{"type": "text", "text": text} for text in texts]
    name = artifact_id("t1", whole)
    assert [part["text"] for part in new["messages"][2]["content"][0]["content"]] == [
        card_of("t1", whole),
        *[f"[… {len(text):,} characters, stored as {name}; omitted from history, do not copy]" for text in texts[1:]],
    ]
    assert compact(new, ALL)[0] is new


def test_thinking_after_the_first_change_is_named_with_what_to_send() -> None:
    def thought(n: int) -> Any:  # noqa: ANN401 - a block of a body
        return {"type": "thinking", "thinking": "…", "signature": f"S{n}"}

    call = {"type": "tool_use", "id": "w1", "name": "write_file", "input": {"path": "a", "content": LONG}}
    body = {
        "model": "claude-opus-5-5",
        "thinking": {"type": "enabled", "budget_tokens": 2_000},
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [thought(1), call, thought(2)]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "w1", "content": "ok"}]},
            {"role": "assistant", "content": [thought(3), {"type": "text", "text": "a"}]},
            {"role": "user", "content": "next"},
        ],
    }
    new, report = compact(body, ALL)
    assert new["messages"][1]["content"][1]["input"] == {"path": "a", "content": marker_of("w1", LONG, "a")}
    assert report.first_changed == 1
    assert report.invalid_thinking == ["/messages/1/content/2", "/messages/3/content/0"]
    assert report.send is not None
    assert report.send.headers == {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
    assert report.send.body == {
        "thinking": {
            "type": "enabled",
            "budget_tokens": 2_000,
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        }
    }


def test_what_the_provider_ran_stays_unless_asked_for() -> None:
    fetched = {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": LONG}}
    secret = {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "E" * 2_000}
    blocks: list[Any] = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [secret]},
        {"type": "server_tool_use", "id": "s2", "name": "web_fetch", "input": {"url": "u"}},
        {
            "type": "web_fetch_tool_result",
            "tool_use_id": "s2",
            "content": {"type": "web_fetch_result", "url": "u", "content": fetched},
        },
        {"type": "mcp_tool_use", "id": "s3", "name": "get", "server_name": "x", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "s3", "content": [{"type": "text", "text": LONG}]},
    ]
    body: Any = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": blocks}]}
    new, report = compact(body, ALL)
    assert new is body
    assert [left.why for left in report.left] == ["the provider ran this tool"] * 3
    new, report = compact(body, CompactionPolicy(inline_tokens=100, card_tokens=80, protect="none", server_tools=True))
    assert [change.pointer for change in report.changes] == [
        "/messages/1/content/3/content/content/source/data",
        "/messages/1/content/5/content/0/text",
    ]
    assert new["messages"][1]["content"][1] is blocks[1]


# --------------------------------------------------------------------------------------------------------------- OpenAI


def test_arguments_in_strings_keep_every_other_byte() -> None:
    text = 'naïve \\ "text"\n' * 40
    given = '{ "n": 1.0, "big": 12345678901234567890, "path":"a" , "content": ' + json.dumps(text) + ' ,"e":1e5}'
    new, report = compact(chat_of(*called("c1", "write_file", "ok", given)), ALL)
    arguments = new["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert arguments == given.replace(json.dumps(text), json.dumps(marker_of("c1", text, "a")))
    assert report.changes[0].pointer == "/messages/1/tool_calls/0/function/arguments/content"


def test_a_value_that_is_there_twice_is_written_anew_in_the_same_style() -> None:
    text = json.dumps({"a": "same", "b": "same", "c": "ö"}, ensure_ascii=False)
    assert splice_inner(text, {("a",): "X", ("b",): "Y"}) == '{"a": "X", "b": "Y", "c": "ö"}'
    odd = '{"f":1e5,"g":1.10,"big":1e999,"dup":1,"dup":2,"h":"\\u003c\\/","a":"\\u003cs","b":"<s"}'
    assert splice_inner(odd, {("a",): "… X"}) == odd.replace('"\\u003cs"', '"\\u2026 X"')
    assert splice_inner('{"a":"s","b":"s","c":"\\ud800"}', {("a",): "X"}) == '{"a":"X","b":"s","c":"\\ud800"}'


def test_free_text_of_a_custom_tool_becomes_a_marker_by_a_rule() -> None:
    patch = "*** Begin Patch\n" + "+line\n" * 200
    call = {"id": "c1", "type": "custom", "custom": {"name": "apply_patch", "input": patch}}
    body = chat_of(*called("c1", "apply_patch", "Done."))
    body["messages"][1]["tool_calls"] = [call]
    assert compact(body, ALL)[0] is body
    policy = CompactionPolicy(
        protect="none", argument_tokens=64, arguments=(CompactionRule(tools=("apply_patch",), fields=("*",)),)
    )
    new, _ = compact(body, policy)
    assert new["messages"][1]["tool_calls"][0]["custom"]["input"] == marker_of("c1", patch)


def test_the_legacy_function_call_pairs_by_its_name() -> None:
    arguments = json.dumps({"content": LONG})
    call = {"role": "assistant", "content": None, "function_call": {"name": "write_file", "arguments": arguments}}
    new, _ = compact(chat_of(call, {"role": "function", "name": "write_file", "content": LONG}), ALL)
    assert new["messages"][1]["function_call"]["arguments"] == json.dumps({"content": marker_of(None, LONG)})
    assert new["messages"][2] == {"role": "function", "name": "write_file", "content": card_of(None, LONG)}


def test_every_kind_of_responses_output_is_replaced_where_its_text_is() -> None:
    local = json.dumps({"output": LONG, "metadata": {"exit_code": 1.0}})
    items: list[Any] = [
        {"role": "user", "content": "q"},
        {"type": "local_shell_call", "call_id": "c1", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "id": "c1", "output": local},
        {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c2", "output": [{"stdout": LONG, "stderr": "e", "outcome": {}}]},
        {"type": "custom_tool_call", "call_id": "c3", "name": "patch", "input": "x"},
        {
            "type": "custom_tool_call_output",
            "call_id": "c3",
            "output": [
                {"type": "input_text", "text": LONG, "prompt_cache_breakpoint": {"mode": "explicit"}},
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0KGgo="},
            ],
        },
        {"type": "future_call", "call_id": "c4", "payload": LONG},
        {"type": "future_call_output", "call_id": "c4", "result": LONG},
        {"type": "mcp_call", "id": "m1", "server_label": "j", "name": "get", "arguments": "{}", "output": LONG},
    ]
    new, report = compact({"input": items}, ALL)
    changed = list(items)
    changed[2] = {
        **items[2],
        "output": local.replace(json.dumps(LONG), json.dumps(card_of("c1", LONG), ensure_ascii=True)),
    }
    changed[4] = {**items[4], "output": [{**items[4]["output"][0], "stdout": same_card("c2", "c1", LONG)}]}
    same = same_card("c3", "c1", LONG)
    changed[6] = {**items[6], "output": [{**items[6]["output"][0], "text": same}, items[6]["output"][1]]}
    assert new == {"input": changed}
    assert [left.why for left in report.left] == ["the provider ran this tool"]


def test_a_tool_that_promised_a_shape_and_exempt_tools_are_left_alone() -> None:
    tools = [{"type": "function", "name": "shaped", "parameters": {}, "output_schema": {"type": "object"}}]
    names = ("shaped", "$web_search", "mcp__kimi__$Web_Search")
    items = [
        {"role": "user", "content": "q"},
        *({"type": "function_call", "call_id": name, "name": name, "arguments": "{}"} for name in names),
        *({"type": "function_call_output", "call_id": name, "output": LONG} for name in names),
    ]
    body = {"tools": tools, "input": items}
    new, report = compact(body, ALL)
    assert new is body
    declares, exempt = "the tool declares the schema of its output", "the tool is exempt"
    assert [left.why for left in report.left] == [declares, exempt, exempt]


def test_history_that_the_provider_keeps_is_said_to_be_out_of_sight() -> None:
    body = {
        "previous_response_id": "resp_1",
        "input": [{"type": "function_call_output", "call_id": "c", "output": LONG}],
    }
    new, report = compact(body, ALL)
    assert new["input"][0]["output"] == card_of("c", LONG)
    assert "previous_response_id" in report.notes[0]
    assert compact({"input": "only text"}, ALL)[0] == {"input": "only text"}


# --------------------------------------------------------------------------------------------------------------- Gemini


def contents_of(calls: list[Any], answers: list[Any]) -> Any:  # noqa: ANN401 - contents of a body
    turn = (("user", [{"text": "q"}]), ("model", calls), ("user", answers))
    return [{"role": role, "parts": parts} for role, parts in turn]


@pytest.mark.parametrize("snake", [False, True], ids=["camel", "snake"])
def test_gemini_responses_keep_their_keys_and_their_casing(snake: bool) -> None:
    call, answer = ("function_call", "function_response") if snake else ("functionCall", "functionResponse")
    nested = {"items": ["long text " * 30] * 4}

    def contents(output: str, value: Any) -> Any:  # noqa: ANN401 - any JSON
        response = {"stdout": output, "code": 0, "d": value}
        return contents_of([{call: {"name": "run", "args": {}}}], [{answer: {"name": "run", "response": response}}])

    new, _ = compact({"contents": contents(LONG, nested)}, ALL)
    assert new == {"contents": contents(card_of(None, LONG), card_of(None, str(serialise_canonical(nested))))}


def test_a_gemini_response_of_many_small_values_becomes_one_card_under_the_key_that_providers_read() -> None:
    many = {f"k{n}": "x" * 60 for n in range(30)}
    named = {"id": "f1", "name": "run"}
    contents = contents_of(
        [{"functionCall": {**named, "args": {}}}], [{"functionResponse": {**named, "response": many}}]
    )
    new, _ = compact({"contents": contents}, ALL)
    assert new["contents"][2]["parts"][0]["functionResponse"]["response"] == {
        "output": card_of("f1", str(serialise_canonical(many)))
    }
    assert compact(new, ALL)[0] is new
    contents[2]["parts"][0]["functionResponse"]["response"] = {**many, "error": "no"}
    new, _ = compact({"contents": contents}, ALL)
    assert list(new["contents"][2]["parts"][0]["functionResponse"]["response"]) == ["error"]


def test_gemini_calls_without_ids_pair_by_name_in_order() -> None:
    def call(text: str) -> Any:  # noqa: ANN401 - a part of a body
        return {"functionCall": {"name": "write_file", "args": {"content": text}}}

    answers = [{"functionResponse": {"name": "write_file", "response": {"output": "ok"}}}] * 2
    contents = contents_of([call(LONG), call(LONG + "2")], answers)
    body = {"contents": [*contents, {"role": "model", "parts": [call(LONG + "3")]}]}
    new, report = compact(body, ALL)
    assert [p["functionCall"]["args"]["content"] for p in new["contents"][1]["parts"]] == [
        marker_of(None, LONG),
        marker_of(None, LONG + "2"),
    ]
    assert new["contents"][3] is body["contents"][3]
    assert [left.why for left in report.left] == ["the call has no output yet"]


def test_gemini_calls_with_ids_pair_with_responses_that_have_none() -> None:
    def turn(number: int) -> list[Any]:
        call = {"id": f"fc{number}", "name": "write_file", "args": {"content": LONG}}
        response = {"name": "write_file", "response": {"output": "ok"}}
        return contents_of([{"functionCall": call}], [{"functionResponse": response}])

    body = {"contents": [*turn(1), *turn(2), {"role": "user", "parts": [{"text": "x"}]}]}
    new, report = compact(body, ALL)
    written = [new["contents"][at]["parts"][0]["functionCall"]["args"]["content"] for at in (1, 4)]
    assert written == [marker_of("fc1", LONG), marker_of("fc2", LONG)]
    assert report.left == []
    parallel = [{"functionCall": {"id": f"fc{n}", "name": "get", "args": {"n": n}}} for n in range(2)]
    answers = [{"functionResponse": {"name": "get", "response": {"output": str(n)}}} for n in range(2)]
    answers[1]["functionResponse"]["id"] = "fc0"
    given = [{"role": "model", "parts": parallel}, {"role": "user", "parts": answers}]
    pairs = pair(index_of({"contents": given}))
    assert (pairs.open, pairs.orphans) == ([], [])


@pytest.mark.parametrize("name", FORMATS)
def test_the_list_of_messages_alone_is_taken_in_every_format(name: str) -> None:
    body = FORMATS[name](conversation(3))
    items = body[LISTS[name]]
    assert index_of(items).format == index_of(body).format
    assert compact(items, ALL)[0] == compact(body, ALL)[0][LISTS[name]]


# ------------------------------------------------------------------------------------------------------------ LangChain


@pytest.mark.parametrize("dumped", [False, True], ids=["dict", "dumpd"])
def test_every_copy_of_langchain_arguments_changes_together(dumped: bool) -> None:
    args = {"path": "a.md", "content": LONG}
    text = json.dumps(args)

    def message(content: Any, raw: str, args: Any) -> Any:  # noqa: ANN401 - any JSON
        data: dict[str, Any] = {
            "content": [
                {"type": "text", "text": "Writing."},
                {"type": "tool_use", "id": "c1", "name": "write_file", "input": args, "partial_json": raw},
                {"type": "function_call", "id": "fc", "call_id": "c1", "name": "write_file", "arguments": raw},
                {"type": "tool_call", "id": "c1", "name": "write_file", "args": args},
            ],
            "tool_calls": [{"name": "write_file", "args": args, "id": "c1", "type": "tool_call"}],
            "invalid_tool_calls": [{"name": "write_file", "args": raw, "id": "c1", "error": "e"}],
            "additional_kwargs": {
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "write_file", "arguments": raw}}],
                "function_call": {"name": "write_file", "arguments": raw},
            },
            "type": "ai",
        }
        answer = {"content": content, "tool_call_id": "c1", "artifact": {"raw": LONG}, "type": "tool"}
        if dumped:
            kinds: list[tuple[str, Any]] = [("AIMessage", data), ("ToolMessage", answer)]
            return [
                {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": kwargs}
                for kind, kwargs in kinds
            ]
        return [{"type": "ai", "data": data}, {"type": "tool", "data": answer}]

    new, report = compact(message(LONG, text, args), ALL)
    marker = marker_of("c1", LONG, "a.md")
    raw = text.replace(json.dumps(LONG), json.dumps(marker))
    assert new == message(card_of("c1", LONG), raw, {"path": "a.md", "content": marker})
    assert report.first_changed == 0
    assert len({change.artifact_id for change in report.changes}) == 1


# ------------------------------------------------------------------------------------------------------- what is spared


def chat_of(*tools: Any) -> Any:  # noqa: ANN401 - messages of a body
    return {"messages": [{"role": "user", "content": "q"}, *tools]}


def called(call_id: str, name: str, output: str | None, arguments: str = "{}") -> list[Any]:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    made: list[Any] = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    return made if output is None else [*made, {"role": "tool", "tool_call_id": call_id, "content": output}]


def test_the_latest_turn_is_spared_but_for_what_would_break_the_request() -> None:
    policy = CompactionPolicy(inline_tokens=100, card_tokens=80, latest_tokens=1_000, batch_tokens=0)
    huge = LONG * 8
    body = chat_of(*called("c1", "run", LONG), {"role": "user", "content": "and?"}, *called("c2", "run", LONG))
    body["messages"] += called("c3", "run", huge)
    new, report = compact(body, policy)
    outputs = [m["content"] for m in new["messages"] if m["role"] == "tool"]
    assert outputs == [card_of("c1", LONG), LONG, card_of("c3", huge)]
    assert [left.why for left in report.left] == ["protected: the model still works with it"]


def test_outputs_that_the_model_has_not_seen_are_of_the_latest_turn_though_the_user_spoke_since() -> None:
    body = chat_of(*called("c1", "run", LONG), {"role": "user", "content": "stop!"})
    assert compact(body, CompactionPolicy(inline_tokens=100, card_tokens=80))[0] is body


def test_protecting_the_step_spares_only_what_came_back_last() -> None:
    body = chat_of(*called("c1", "run", LONG), *called("c2", "run", LONG))
    new, _ = compact(body, CompactionPolicy(inline_tokens=100, card_tokens=80, protect="step"))
    assert [m["content"] for m in new["messages"] if m["role"] == "tool"] == [card_of("c1", LONG), LONG]


def test_reads_cards_and_markers_are_left() -> None:
    name = artifact_id("x", "y")
    read = f"[{name} · import.log · lines 1-200 of 4812 · raw]\n{LONG}"
    marker = marker_of("c2", LONG)
    body = chat_of(
        *called("c1", "read_artifact", read),
        *called("c2", "mcp__coatcheck__read_artifact", LONG),
        *called("c3", "run", card_of("c3", LONG) + LONG),
        *called("c4", "write_file", "ok", json.dumps({"content": marker})),
    )
    new, report = compact(body, ALL)
    assert new is body
    assert [left.why for left in report.left] == [
        "was read back from an artifact",
        "protected: the model still works with it",
    ]


def test_a_marker_that_the_model_copies_into_a_new_call_is_pointed_out() -> None:
    copied = json.dumps({"content": f"before {marker_of('c2', LONG)} after"})
    _, report = compact(chat_of(*called("c9", "write_file", None, copied)), ALL)
    assert report.copied == ["/messages/1/tool_calls/0/function/arguments"]


def test_what_could_not_be_stored_is_cut_and_says_so_and_arguments_stay() -> None:
    text = "\n".join(f"line {n} of the output" for n in range(400))
    arguments = json.dumps({"content": LONG})
    body = chat_of(*called("c1", "run", text), *called("c2", "write_file", "ok", arguments))
    counting = counter()
    new, report = apply(body, plan(body, ALL, counting), {}, counting)
    cut = new["messages"][2]["content"]
    assert counting.text(cut) <= 80
    assert cut.startswith("line 0 of the output\n")
    assert cut.endswith("line 399 of the output")
    assert "could not be stored and cannot be read back" in cut
    assert new["messages"][3] is body["messages"][3]
    assert [(change.to, change.artifact_id) for change in report.changes] == [("cut", None)]
    assert [left.why for left in report.left] == ["could not be stored"]
    again = plan(new, ALL, counting)
    assert [payload.kind for payload in again.payloads] == ["arguments"]


def test_of_many_parts_that_could_not_be_stored_the_first_and_the_last_stay_or_are_cut() -> None:
    texts = [" ".join(f"word{number}_{at}" for at in range(90)) for number in range(12)]
    texts[-1] = f"{texts[-1]} {texts[-1]}"
    counting = counter()
    body = result([{"type": "text", "text": text} for text in texts])
    new, report = apply(body, plan(body, CompactionPolicy(protect="none"), counting), {}, counting)
    first, *between, last = (part["text"] for part in new["messages"][2]["content"][0]["content"])
    assert first == texts[0]
    assert between == [
        f"[… {len(text)} characters could not be stored and cannot be read back]" for text in texts[1:-1]
    ]
    head, line, tail = last.split("\n")
    assert texts[-1].startswith(head)
    assert texts[-1].endswith(tail)
    assert line.startswith(
        f"[… {len(texts[-1]) - len(head) - len(tail):,} bytes left out here: they could not be stored"
    )
    assert [change.to for change in report.changes] == ["cut"] * 11


def test_what_could_not_be_stored_stays_whole_if_a_cut_would_not_be_shorter() -> None:
    text = json.dumps([{"x": number, "y": "abc def"} for number in range(60)])
    counting = counter()
    tokens = counting.piece(text) - 1
    body = chat_of(*called("c1", "run", text))
    policy = CompactionPolicy(inline_tokens=tokens, card_tokens=tokens, protect="none")
    new, report = apply(body, plan(body, policy, counting), {}, counting)
    assert new is body
    assert [left.why for left in report.left] == ["could not be stored"]


# ------------------------------------------------------------------------------------------------------------ detection


@pytest.mark.parametrize("row", rows_of("detected"), ids=str)
def test_formats_are_known_by_their_structure(row: Any) -> None:  # noqa: ANN401 - any JSON
    assert detect(row["body"]).value == row["format"]


@pytest.mark.parametrize("row", rows_of("refused"), ids=lambda row: row["why"])
def test_what_is_no_body_of_a_format_is_refused_with_the_first_message_that_does_not_fit(row: Any) -> None:  # noqa: ANN401
    with pytest.raises(CoatcheckError) as refused:
        compact(row["body"], CompactionPolicy(), row["named"])
    assert (refused.value.code, refused.value.extra["pointer"]) == (Code.UNKNOWN_FORMAT, row["pointer"])


def test_a_format_that_does_not_exist_is_refused_by_its_field() -> None:
    with pytest.raises(CoatcheckError) as refused:
        compact({"messages": []}, CompactionPolicy(), "morse")
    assert (refused.value.code, refused.value.extra["field"]) == (Code.INVALID_REQUEST, "format")


def test_a_plan_names_each_payload_once_however_many_places_it_has() -> None:
    body = chat_of(*called("c1", "run", LONG))
    planned = plan(body, ALL, counter())
    assert [(p.key, p.kind, p.why, p.message, p.tool, p.call_id) for p in planned.payloads] == [
        ("p0", "output", "oversized", 2, "run", "c1")
    ]
    assert list(stored(planned)) == ["p0"]


# --------------------------------------------------------------------------------------------- Bedrock and pydantic-ai


def test_texts_of_documents_and_searches_in_bedrock_s_results_become_cards_and_json_stays_an_object() -> None:
    shapes = [
        {"document": {"name": "d", "format": "txt", "source": {"text": LONG + "1"}}},
        {"document": {"name": "e", "source": {"content": [{"text": LONG + "2"}]}}},
        {"searchResult": {"source": "https://e.org", "title": "T", "content": [{"text": LONG + "3"}]}},
        {"json": {"out": LONG + "4", "n": 1}},
        {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}},
    ]
    call: Any = {"toolUse": {"toolUseId": "t1", "name": "run", "input": {}}}
    body: Any = {
        "messages": [
            {"role": "user", "content": [{"text": "q"}]},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": shapes}}]},
        ]
    }
    new, report = compact(body, ALL)
    given = new["messages"][2]["content"][0]["toolResult"]["content"]
    assert given[0]["document"] == {"name": "d", "format": "txt", "source": {"text": card_of("t1", LONG + "1")}}
    assert given[1]["document"]["source"]["content"] == [{"text": card_of("t1", LONG + "2")}]
    assert given[2]["searchResult"]["content"] == [{"text": card_of("t1", LONG + "3")}]
    assert given[3]["json"] == {"out": card_of("t1", LONG + "4"), "n": 1}
    assert given[4] is shapes[4]
    assert report.after.media > 0


def test_pydantic_ai_keeps_bytes_typed_outputs_and_instructions_as_they_are() -> None:
    binary = {"kind": "binary", "data": "iVBORw0KGgo=", "media_type": "image/png"}
    contents: list[Any] = [LONG, {"rows": [LONG]}, [LONG + "!", binary], binary]
    calls = [{"tool_name": "run", "args": "{}", "tool_call_id": f"c{n}", "part_kind": "tool-call"} for n in range(5)]
    parts: list[Any] = [
        {"tool_name": "run", "content": content, "tool_call_id": f"c{n}", "part_kind": "tool-return"}
        for n, content in enumerate(contents)
    ]
    typed = {
        "tool_name": "search_tools",
        "content": {"tools": [LONG]},
        "tool_kind": "tool-search",
        "tool_call_id": "c4",
    }
    parts.append({**typed, "part_kind": "tool-return"})
    asked = [
        {"content": "Be brief.", "part_kind": "system-prompt"},
        {"content": ["q", binary], "part_kind": "user-prompt"},
    ]
    history = [
        {"kind": "request", "parts": asked, "instructions": "Old."},
        {"kind": "response", "parts": calls},
        {"kind": "request", "parts": parts, "instructions": "New."},
    ]
    new, report = compact(history, ALL)
    got = [part["content"] for part in new[2]["parts"]]
    assert got[0] == card_of("c0", LONG)
    assert got[1] == card_of("c1", str(serialise_canonical(contents[1])))
    assert got[2] == [card_of("c2", LONG + "!"), binary]
    assert got[3:] == [binary, typed["content"]]
    assert new[0] is history[0]
    assert index_of(history).system == ["New."]
    assert [item.pinned for item in index_of(history).items] == [True, False, False]
    assert [item.prompt for item in index_of(history).items] == [True, False, False]
    assert report.before.media > 0
