"""Histories that a provider would refuse: they are named with pointers, and mended on request."""

import json
import random
from typing import Any

import msgspec
import pytest

from coatcheck.core.context.body.model import Format
from coatcheck.core.context.body.splice import get, render
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.timeline import pair
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.repair.faults import describe_faults, find_faults, without_halves
from coatcheck.core.repair.mend import MISSING, mend
from context.histories import FORMATS, LISTS, Call, Step, Turn, conversation
from context.test_over_http import BUDGET, asked, compact, items, send
from context.test_sdk_types import CHECKS
from support.service import Service

Json = Any
ORPHANED: Json = {
    "model": "gpt-5",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "function_call_output", "call_id": "gone", "output": "x"},
        {"type": "function_call", "id": "fc1", "call_id": "c1", "name": "sh", "arguments": "{}"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "next"}]},
    ],
}
HALVED = (
    b'{"model":"claude-sonnet-4-5","max_tokens":10,"messages":[{"role":"user","content":"go"},{"role":"assistant",'
    b'"content":[{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}]},{"role":"user","content":[{"type":'
    b'"tool_result","tool_use_id":"toolu_1","content":"small \\ud83d cut"}]}]}'
)


BLOCKS = {"anthropic", "bedrock", "pydantic-ai", "gemini", "gemini without ids"}
"""Formats in which calls and outputs are parts of messages."""


def broken(name: str, seed: int) -> tuple[Json, str]:
    """A conversation from which an output, or the message or part with a call, was taken out; and that fault."""
    body = json.loads(json.dumps(FORMATS[name](conversation(seed, 6, open_calls=False))))
    index = index_of(body)
    early = [one for one in pair(index).pairs if one.output_item < len(index.items) - 4]
    one = random.Random(seed).choice(early)
    taken = (one.call if seed % 2 else one.output).at[: 4 if name in BLOCKS else 2]
    del get(body, taken[:-1])[taken[-1]]
    return body, "no call" if seed % 2 else "no output"


@pytest.mark.parametrize("name", FORMATS)
def test_sound_histories_have_no_faults(name: str) -> None:
    for seed in range(8):
        assert find_faults(index_of(FORMATS[name](conversation(seed, 6)))) == []


@pytest.mark.parametrize("name", FORMATS)
def test_a_missing_half_is_named_and_mended_and_the_rest_keeps_its_bytes(service: Service, name: str) -> None:
    kinds: set[str] = set()
    for seed in range(12):
        body, kind = broken(name, seed)
        faults = find_faults(index_of(body))
        assert kind in {fault.kind for fault in faults}, (seed, kind)
        data = json.dumps(body, indent=1).encode()
        same, answer = compact(service, data, session=f"{name} {seed}")
        named = [note for note in answer["report"]["notes"] if "providers refuse it" in note]
        assert named == describe_faults(faults)[: len(named)]
        assert len(named) == min(len(faults), 8)
        assert same == data
        mended, answer = compact(service, data, session=f"{name} {seed}", repair=True)
        assert [note for note in answer["report"]["notes"] if "refuse" in note] == []
        assert len(answer["report"]["repaired"]) == min(len(faults), 8)
        assert answer["report"]["changed"] is True
        value = json.loads(mended)
        assert find_faults(index_of(value)) == []
        CHECKS[name](value)
        kept = set(items(name, data)) & set(items(name, mended))
        assert len(kept) >= len(body[LISTS[name]]) - 2 * len(faults) - 1
        assert compact(service, mended, session=f"{name} {seed}", repair=True)[0] == mended
        kinds |= {fault.kind for fault in faults}
    assert kinds >= {"no output", "no call"}


def test_an_output_apart_from_its_call_is_moved_to_it() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    output = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    asking: Json = [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    body = {"messages": [*asking, {"role": "user", "content": "wait"}, output, {"role": "user", "content": "and?"}]}
    index = index_of(body)
    (fault,) = find_faults(index)
    assert (fault.kind, render(fault.at)) == ("apart", "/messages/3")
    mended = mend(body, index, [fault]).body["messages"]
    assert mended == [*asking, output, {"role": "user", "content": "wait"}, {"role": "user", "content": "and?"}]
    assert body["messages"][3] is output


def test_outputs_added_to_anthropic_come_first_in_the_message_of_the_user() -> None:
    call: Json = {"type": "tool_use", "id": "t1", "name": "run", "input": {}}
    body: Json = {
        "system": "s",
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": "and?"},
        ],
    }
    index = index_of(body)
    mended = mend(body, index, find_faults(index)).body["messages"]
    assert mended[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "t1", "content": MISSING, "is_error": True},
        {"type": "text", "text": "and?"},
    ]


def test_an_output_is_added_after_the_last_message_of_the_model_where_several_count_as_one() -> None:
    calls: Json = [{"type": "tool_use", "id": f"t{n}", "name": "run", "input": {}} for n in range(3)]
    outputs: Json = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "x"} for n in (2, 0)]
    asking: Json = [{"role": "assistant", "content": calls[:2]}, {"role": "assistant", "content": calls[2:]}]
    body: Json = {"system": "s", "messages": [*asking, {"role": "user", "content": outputs}]}
    body["messages"].append({"role": "assistant", "content": "done"})
    missing = {"type": "tool_result", "tool_use_id": "t1", "content": MISSING, "is_error": True}
    assert mended_messages(body) == [*asking, {"role": "user", "content": [*outputs, missing]}, body["messages"][-1]]
    del body["messages"][2]
    body["messages"][2:] = [{"role": "user", "content": "go on"}]
    three = [{**missing, "tool_use_id": f"t{n}"} for n in range(3)]
    text = {"type": "text", "text": "go on"}
    assert mended_messages(body) == [*asking, {"role": "user", "content": [*three, text]}]


def mended_messages(body: Json, key: str = "messages") -> Json:
    """The messages of a body without its faults."""
    index = index_of(body)
    mended = mend(body, index, find_faults(index)).body
    assert find_faults(index_of(mended)) == []
    return mended[key]


@pytest.mark.parametrize("name", ["openai-chat", "bedrock", "gemini", "gemini without ids", "langchain"])
def test_only_the_last_message_of_the_model_waits_where_each_needs_its_outputs(name: str) -> None:
    steps = [Step("Looking.", [Call(f"c{n}", f"run{n}", {}, None)]) for n in range(2)]
    body = FORMATS[name]([Turn("Do it", steps)])
    asking = body[LISTS[name]]
    *before, first, output, last = mended_messages(body, LISTS[name])
    assert [*before, first, last] == asking
    assert MISSING in json.dumps(output)


@pytest.mark.parametrize("name", ["openai-chat", "bedrock", "gemini", "gemini without ids", "langchain"])
def test_no_call_stays_open_beside_one_whose_output_is_moved_to_it(name: str) -> None:
    calls = [Call(f"c{n}", f"run{n}", {}, None if n else "seen") for n in range(2)]
    body = FORMATS[name]([Turn("Do it", [Step("Looking.", calls), Step("More.")])])
    *asking, output, more = body[LISTS[name]]
    messages = mended_messages({**body, LISTS[name]: [*asking, more, output]}, LISTS[name])
    assert messages[: len(asking)] == asking
    outputs = json.dumps(messages[len(asking) : messages.index(more)])
    assert [part in outputs for part in ("seen", MISSING)] == [True, True]


@pytest.mark.parametrize("name", ["bedrock", "gemini", "gemini without ids"])
def test_outputs_in_messages_of_their_own_are_put_together_in_their_order(name: str) -> None:
    calls = [Call(f"c{n}", "run", {"n": n}, f"seen {n}") for n in range(3)]
    whole = FORMATS[name]([Turn("Do it", [Step("Looking.", calls), Step("Fine.")])])
    key, parts = LISTS[name], "content" if name == "bedrock" else "parts"
    *asking, outputs, answer = whole[key]
    ranges = [outputs[parts][:1], outputs[parts][1:2], outputs[parts][2:]]  # the last one with a part that is no output
    apart = [{"role": "user", parts: each} for each in ranges]
    body = {**whole, key: [*asking, *apart, answer]}
    assert [fault.kind for fault in find_faults(index_of(body))] == ["apart", "apart"]
    (together,) = mended_messages(body, key)[len(asking) : -1]
    assert together[parts] == outputs[parts]


def test_an_output_is_added_to_its_own_step_where_outputs_may_be_anywhere() -> None:
    calls: Json = [{"type": "function_call", "call_id": f"c{n}", "name": "run", "arguments": "{}"} for n in range(3)]
    output = {"type": "function_call_output", "call_id": "c0", "output": "x"}
    body = {"input": [*calls[:2], output, calls[2]]}
    assert mended_messages(body, "input") == [
        *calls[:2],
        output,
        {"type": "function_call_output", "call_id": "c1", "output": MISSING},
        calls[2],
    ]


def test_a_call_in_flight_and_what_the_provider_keeps_are_no_faults() -> None:
    flying: Json = {"input": [ORPHANED["input"][0], ORPHANED["input"][2]]}
    assert find_faults(index_of(flying)) == []
    assert [fault.kind for fault in find_faults(index_of(ORPHANED))] == ["no call", "no output"]
    assert find_faults(index_of({**ORPHANED, "previous_response_id": "resp_1"})) == []
    search: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    results: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    call: Json = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}}
    searching: Json = [{"role": "user", "content": "go"}, {"role": "assistant", "content": [search, results, call]}]
    assert find_faults(index_of({"system": "s", "messages": searching})) == []


def test_one_call_id_in_every_turn_pairs_turn_by_turn() -> None:
    call = {"id": "same", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    turn: Json = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "same", "content": "x"},
    ]
    assert find_faults(index_of({"messages": turn * 5})) == []


def test_many_faults_are_counted_not_listed() -> None:
    outputs: Json = [{"type": "function_call_output", "call_id": f"c{n}", "output": "x"} for n in range(500)]
    notes = describe_faults(find_faults(index_of({"input": outputs})))
    assert len(notes) == 10
    assert notes[-2] == "492 more like these."


def test_orphans_and_unanswered_calls_are_named_and_measured_alike(service: Service) -> None:
    data = json.dumps(ORPHANED).encode()
    same, answer = compact(service, data)
    assert same == data
    assert answer["report"]["notes"] == [
        "/input/1 answers a call that is not in this history; providers refuse it.",
        "/input/2 is a call without an output, though the history goes on after it; providers refuse it.",
        "`repair: true` mends these.",
    ]
    measured = send(service, asked(data), "/v1/context/measure").json()
    assert measured["notes"] == answer["report"]["notes"]
    mended, answer = compact(service, data, repair=True)
    assert answer["report"]["repaired"] == [
        "/input/1 was left out: its call is not in this history.",
        "/input/2 was given an output that says that none was recorded.",
    ]
    added = {"type": "function_call_output", "call_id": "c1", "output": MISSING}
    given = ORPHANED["input"]
    assert json.loads(mended)["input"] == [given[0], given[2], added, given[3]]


def test_half_a_surrogate_pair_is_named_by_its_place_and_mended(service: Service) -> None:
    response = send(service, asked(HALVED))
    assert HALVED in response.content
    notes = response.json()["report"]["notes"]
    assert notes[0] == (
        "/messages/2/content/0/content contains half of a surrogate pair, which is no character; providers refuse it."
    )
    measured = send(service, asked(HALVED), "/v1/context/measure").json()
    assert measured["notes"] == notes
    mended, answer = compact(service, HALVED, repair=True)
    assert mended == HALVED.replace(b"\\ud83d", b"\\ufffd")
    assert answer["report"]["repaired"] == [
        "/messages/2/content/0/content contained half of a surrogate pair; U+FFFD replaced it."
    ]
    assert compact(service, mended, repair=True)[1]["report"]["repaired"] == []


@pytest.mark.parametrize("value", ["1", '"\\udfff a"', '{"\\ud800":[]}'])
def test_half_a_surrogate_pair_in_a_key_is_named_and_mended(service: Service, value: str) -> None:
    data = f'{{"messages":[{{"role":"user","content":"hi","x":{{"a\\ud800":{value}}}}}]}}'.encode()
    named = ["/messages/0/x/a\ufffd", *(["/messages/0/x/a\ufffd/\ufffd"] if "{" in value else [])]
    says = " contains half of a surrogate pair, which is no character; providers refuse it."
    for path in ("compact", "measure"):
        response = send(service, asked(data), f"/v1/context/{path}")
        assert response.status_code == 200, response.text
        answer = response.json()
        assert answer.get("report", answer)["notes"][: len(named) + 1] == [
            *(at + says for at in named),
            "`repair: true` mends these.",
        ]
    mended, answer = compact(service, data, repair=True)
    assert mended == data.replace(b"\\ud800", b"\\ufffd").replace(b"\\udfff", b"\\ufffd")
    assert answer["report"]["repaired"] == [
        f"{at} contained half of a surrogate pair; U+FFFD replaced it." for at in named
    ]


MIXED = [(one, other) for one in FORMATS for other in FORMATS if one.split()[0] != other.split()[0]]


@pytest.mark.parametrize(("name", "other"), MIXED)
def test_two_formats_in_one_body_are_refused_with_a_pointer(name: str, other: str) -> None:
    told = [Turn("Do it", [Step("Looking.", [Call("c1", "run", {"n": 1}, "seen")])])]
    body, more = FORMATS[name](told), FORMATS[other](told)
    key, others = LISTS[name], LISTS[other]
    count = len(body[key])
    with pytest.raises(CoatcheckError) as refused:
        _ = index_of({**body, key: [*body[key], *more[others]]}, Format(name.split(maxsplit=1)[0]))
    assert refused.value.code is Code.UNKNOWN_FORMAT
    assert count <= int(str(refused.value.extra["pointer"]).split("/")[2]) < count + len(more[others])
    if key != others:
        with pytest.raises(CoatcheckError) as refused:
            _ = index_of({**body, others: more[others]})
        assert refused.value.code is Code.UNKNOWN_FORMAT
        assert refused.value.extra["pointer"] in {f"/{key}", f"/{others}"}


@pytest.mark.parametrize(
    ("written", "mended"),
    [
        ('{"a":"x\\ud83d y"}', '{"a":"x\\ufffd y"}'),
        ('{"a":"\\uDE00"}', '{"a":"\\ufffd"}'),
        ('{"a":"\\ud83d\\ude00"}', None),
        ('{"a":"\\\\ud83d"}', None),
        ('{"a":"\\\\\\ud83d\\ud83d\\ude00"}', '{"a":"\\\\\\ufffd\\ud83d\\ude00"}'),
    ],
)
def test_half_a_surrogate_pair_in_arguments_is_named_and_mended(
    service: Service, written: str, mended: str | None
) -> None:
    body = FORMATS["openai-chat"]([Turn("Do it", [Step("", [Call("c1", "run", {}, "seen")])])])
    function = body["messages"][2]["tool_calls"][0]["function"]
    function["arguments"] = written
    data = json.dumps(body).encode()
    _, answer = compact(service, data)
    at = "/messages/2/tool_calls/0/function/arguments"
    named = [note for note in answer["report"]["notes"] if note.startswith(at)]
    assert len(named) == (mended is not None)
    new, answer = compact(service, data, repair=True)
    function["arguments"] = mended or written
    assert json.loads(new) == body
    assert any(one.startswith(f"{at} contained half") for one in answer["report"]["repaired"]) is (mended is not None)


@pytest.mark.parametrize("member", ['"path":"a\\ud800"', '"a\\udfff":1', '"n":1e999,"path":"caf\u00e9"'])
def test_arguments_that_are_replaced_as_a_whole_stay_json_that_can_be_sent(service: Service, member: str) -> None:
    done = Turn("Do it", [Step("", [Call("c1", "run", {}, "seen")]), Step("fine")])
    body = FORMATS["openai-chat"]([done, Turn("next", [Step("fine")]), Turn("last", [])])
    function = body["messages"][2]["tool_calls"][0]["function"]
    function["arguments"] = "{" + member + "".join(f',"k{n}":"value {n}"' for n in range(900)) + "}"
    new, answer = compact(service, json.dumps(body).encode(), policy={**BUDGET, "protect": "none"})
    assert [change["to"] for change in answer["report"]["changes"]] == ["marker"]
    arguments = json.loads(new)["messages"][2]["tool_calls"][0]["function"]["arguments"]
    kept = msgspec.json.decode(str(without_halves(arguments)))
    assert "omitted" in kept
    assert len(kept) > 5
