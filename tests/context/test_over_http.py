"""Compaction over HTTP, from a service that runs as it is run: what a body keeps, what is stored, what can be read."""

import base64
import json
import random
import re
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from coatcheck.core.card.compose import is_card
from context.histories import FORMATS, LISTS, Call, Step, Turn, conversation, differences, moments
from context.test_sdk_types import CHECKS
from support.service import Service, serving

Json = Any
CARDS: Json = {"inline_tokens": 100, "card_tokens": 80, "argument_tokens": 64, "protect": "none"}
BUDGET: Json = {"inline_tokens": 100, "card_tokens": 80, "argument_tokens": 64, "max_tokens": 2_000}
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


def asked(body: bytes, **more: Json) -> bytes:
    """A request around the bytes of a body."""
    return b'{"body":' + body + b"," + json.dumps(more).encode()[1:] if more else b'{"body":' + body + b"}"


def send(service: Service, data: bytes, path: str = "/v1/context/compact") -> httpx.Response:
    """What the service answers to JSON."""
    return service.client.post(path, content=data, headers={"content-type": "application/json"})


def compact(service: Service, body: bytes, **more: Json) -> tuple[bytes, Json]:
    """The compacted body as it came, and the rest of the answer."""
    response = send(service, asked(body, **more))
    assert response.status_code == 200, response.text
    answer = _RAW.decode(response.content)
    return bytes(answer.pop("body")), {name: json.loads(bytes(value)) for name, value in answer.items()}


def written(rng: random.Random, body: Json) -> bytes:
    """A body as some client writes it, with numbers and escapes of its own."""
    text = json.dumps(body, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 2)))
    return text.replace('"n": 1.0', rng.choice(('"n": 1e5', '"n": 1.0', '"n": 12345678901234567890123'))).encode()


def items(name: str, body: bytes) -> list[bytes]:
    """The messages of a body, each as it is written."""
    return [bytes(raw) for raw in _LIST.decode(_RAW.decode(body)[LISTS[name]])]


# ------------------------------------------------------------------------------------------------------- what is kept


@pytest.mark.parametrize("name", FORMATS)
def test_only_what_the_report_names_is_different_and_the_rest_keeps_its_bytes(service: Service, name: str) -> None:
    changed = 0
    for seed in range(4):
        rng = random.Random(seed)
        body = FORMATS[name](conversation(seed, open_calls=False))
        data = written(rng, body)
        new, answer = compact(service, data, session=f"{name} {seed}", policy=CARDS)
        report = answer["report"]
        old_value, new_value = json.loads(data), json.loads(new)
        told = {change["pointer"] for change in report["changes"]}
        found = set(differences(old_value, new_value))
        assert all(any(at == one or one.startswith(f"{at}/") for one in told) for at in found)
        touched = {change["message"] for change in report["changes"]}
        pairs = list(zip(items(name, data), items(name, new), strict=True))
        assert [number for number, (one, other) in enumerate(pairs) if one != other] == sorted(touched)
        assert report["first_changed"] == min(touched, default=None)
        assert answer["warnings"] == []
        CHECKS[name](old_value)
        CHECKS[name](new_value)
        again, second = compact(service, new, session=f"{name} {seed}", policy=CARDS)
        assert again == new
        assert second["report"]["changed"] is False
        assert second["payloads"] == []
        changed += len(told)
    assert changed > 10


@pytest.mark.parametrize("name", FORMATS)
def test_a_history_that_grows_keeps_what_was_decided_and_what_is_stored(service: Service, name: str) -> None:
    told = conversation(5, 4, open_calls=False)
    session = f"growing {name}"
    before: list[bytes] = []
    known: dict[str, Json] = {}
    for moment in moments(told):
        data = json.dumps(FORMATS[name](moment)).encode()
        new, answer = compact(service, data, session=session, policy=CARDS)
        now = items(name, new)
        assert now[: len(before)] == before
        before = now
        for payload in answer["payloads"]:
            stored = service.get(f"/v1/artifacts/{payload['id']}")
            assert stored == known.setdefault(payload["id"], stored)
    assert len(known) > 3


def test_a_budget_leaves_the_oldest_out_and_says_so(service: Service) -> None:
    for name in ("openai-chat", "openai-responses", "anthropic", "gemini", "langchain"):
        data = json.dumps(FORMATS[name](conversation(3, 9, open_calls=False))).encode()
        new, answer = compact(service, data, session="over", policy=BUDGET)
        report = answer["report"]
        assert report["omitted_now"] > 0
        kept = items(name, new)
        old = items(name, data)
        assert len(kept) == len(old) - report["omitted_now"] + 1
        assert kept[-1] == old[-1]
        untouched = [one for one in kept if one in old]
        assert untouched == sorted(untouched, key=old.index)
        assert sum(b"left out of this history to fit its budget" in one for one in kept) == 1
        CHECKS[name](json.loads(new))
        assert compact(service, new, session="over", policy=BUDGET)[0] == new


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_left_out_can_be_read_message_by_message(service: Service, name: str) -> None:
    data = json.dumps(FORMATS[name](conversation(3, 9, open_calls=False))).encode()
    session = f"left out {name}"
    new, answer = compact(service, data, session=session, policy=BUDGET)
    omitted = answer["report"]["omitted"]
    whole = omitted["stored_as"]
    assert whole in new.decode()
    assert [one["id"] for one in answer["payloads"] if one["pointer"] is None] == [whole]
    assert session in json.dumps(service.get(f"/v1/artifacts/{whole}"))
    old = items(name, data)
    lines = service.client.get(f"/v1/artifacts/{whole}/content").content.split(b"\n")
    assert len(lines) == omitted["messages"] == answer["report"]["omitted_now"]
    assert all(json.loads(line) in [json.loads(one) for one in old] for line in lines)
    assert omitted["bytes"] == sum(map(len, lines))
    for number in (1, len(lines)):
        call = {"name": "read_artifact", "arguments": {"artifact_id": whole, "offset": number, "limit": 1}}
        text = service.client.post("/v1/tools/call", json=call).json()["text"]
        assert f"lines {number}-{number} of {len(lines)}" in text
        assert lines[number - 1].decode()[:60] in text
    for one in omitted["artifacts"]:
        assert one["id"] in json.dumps(service.get(f"/v1/artifacts/{one['id']}"))
        assert "tokens" in one["about"]
    more = json.loads(new)
    more[LISTS[name]] += FORMATS[name](conversation(4, 6, open_calls=False))[LISTS[name]]
    _, later = compact(service, json.dumps(more).encode(), session=session, policy=BUDGET)
    again = later["report"]["omitted"]
    assert again["messages"] > omitted["messages"]
    archive = service.client.get(f"/v1/artifacts/{again['stored_as']}/content").content.decode()
    assert whole in archive.split("\n")[0], "the earlier notice is in it, and names the earlier artifact"


# ------------------------------------------------------------------------------------------------------ odd bodies


def chat(output: str, arguments: str = "{}") -> str:
    call = '{"id":"c1","type":"function","function":{"name":"run","arguments":' + json.dumps(arguments) + "}}"
    return (
        '{ "temperature":1.0,"seed":12345678901234567890123, "x":{"z":1e5,"a":[ ]},"messages":[{"role":"user",'
        '"content":"caf\\u00e9 \\/"},{"role":"assistant","content":null,"tool_calls":['
        + call
        + ']},{"role":"tool","content":"old","tool_call_id":"c1","extra":1E2,"content":'
        + output
        + "}] }"
    )


def test_a_card_says_of_a_call_what_the_history_says(service: Service) -> None:
    rng = random.Random(5)
    output = "".join(f"line {n}: value {rng.randrange(10**6)}\n" for n in range(200))
    tools = ("alpha", "beta", "gamma")
    calls: Json = [{"functionCall": {"name": name, "args": {}}} for name in tools]
    answers = [{"functionResponse": {"name": name, "response": {"output": output}}} for name in tools]
    contents: Json = [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": calls},
        {"role": "user", "parts": answers},
    ]
    policy = {**CARDS, "inline_tokens": 400, "card_tokens": 300}
    for _ in range(3):
        data, _ = compact(service, json.dumps({"contents": contents}).encode(), session="tools", policy=policy)
        shown = [part["functionResponse"]["response"]["output"] for part in json.loads(data)["contents"][2]["parts"]]
        assert [f"Tool: {name}" in card for name, card in zip(tools, shown, strict=True)] == [True] * 3
        assert len({card[:24] for card in shown}) == 1  # one artifact


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_stored_of_an_output_says_what_its_call_said(service: Service, name: str) -> None:
    session, arguments = f"commands-{name}", {"command": "make\nall", "timeout": 5}
    call = Call("c1", "run", arguments, "a line of it\n" * 400)
    body = json.dumps(FORMATS[name]([Turn("q", [Step("", [call])])])).encode()
    compact(service, body, session=session, policy=CARDS)
    listed = service.client.get("/v1/artifacts", params={"session": session}).json()["items"]
    assert [each["command"] for each in listed] == ["make\nall"]


def test_the_same_history_gives_the_same_bytes_whatever_was_said_before_and_deleted_since(service: Service) -> None:
    output = "".join(f"line {n} of an output\n" for n in range(300))
    said = {"content": output, "tool_call_id": "c1", "session": "said", "title": "A title", "url": "https://x.example/"}
    stored = service.client.post("/v1/artifacts", json=said).json()["id"]
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    body: Json = {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": output},
        ]
    }
    first, _ = compact(service, json.dumps(body).encode(), session="said", policy=CARDS)
    assert stored in first.decode()
    assert service.client.delete(f"/v1/artifacts/{stored}").status_code in {200, 204}
    assert compact(service, json.dumps(body).encode(), session="said", policy=CARDS)[0] == first


def test_nesting_that_a_thread_takes_and_the_rest_does_not_is_refused(service: Service) -> None:
    pad = "x" * 100_000
    for depth in range(940, 1_000, 2):
        deep = b"[" * depth + b"]" * depth
        said = {
            "messages": [{"role": "user", "content": f"m{n} " + "w " * 400, "odd": "@"} for n in range(9)],
            "pad": pad,
        }
        response = send(service, asked(json.dumps(said).encode().replace(b'"@"', deep), policy={"max_tokens": 2_000}))
        assert response.status_code in {200, 400}, (depth, response.text)
        event = {
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_response": {"stdout": "line\n" * 3_000, "stderr": pad, "x": "@"},
        }
        response = send(service, json.dumps(event).encode().replace(b'"@"', deep), "/v1/hooks/claude-code")
        assert response.status_code in {200, 400}, (depth, response.text)


def test_every_byte_around_a_card_is_the_callers(service: Service) -> None:
    output = json.dumps("a line of output\n" * 200)
    new, answer = compact(service, chat(output).encode(), policy=CARDS)
    (change,) = answer["report"]["changes"]
    card = json.loads(new)["messages"][2]["content"]
    assert new == chat(json.dumps(card, ensure_ascii=False)).encode()
    assert change["artifact_id"] in card
    assert service.content(change["artifact_id"]) == b"a line of output\n" * 200


def test_halves_of_surrogate_pairs_stay_in_the_body_and_are_warned_of(service: Service) -> None:
    body = chat(json.dumps("output\n" * 300)[:-1] + '\\ud83d"').replace("\\u00e9", "\\ude00")
    response = send(service, asked(body.encode(), policy=CARDS))
    answer = json.loads(response.content)
    assert answer["body"]["messages"][0]["content"] == "caf\ude00 /"
    assert response.content.startswith(b'{"body":' + body.encode()[:200])
    assert [warning["code"] for warning in answer["warnings"]] == ["lone_surrogates_replaced"]
    stored = service.content(answer["payloads"][0]["id"])
    assert stored == b"output\n" * 300 + "\ufffd".encode()


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b'{"body":{"prompt":"no history"}}', 400, "unknown_format"),
        (b'{"body":{"messages":[]},"policy":{"card_tokens":900,"inline_tokens":500}}', 400, "invalid_request"),
        (b'{"body":{"messages":[]},"policy":{"card_token":900}}', 400, "invalid_request"),
        (b'{"body":{"messages":[]},"format":"morse"}', 400, "invalid_request"),
        (b'{"body":{"messages":[]},"window":{"model":100,"output_reserve":100}}', 400, "invalid_request"),
        (b'{"body":{"messages":[}}', 400, "invalid_json"),
        (b'{"body":{"messages":' + b"[" * 30_000 + b"]" * 30_000 + b"}}", 400, "invalid_json"),
        (b"{}", 400, "invalid_request"),
    ],
    ids=["no history", "policy", "unknown field", "format", "window", "not JSON", "deep", "no body"],
)
def test_what_cannot_be_compacted_is_refused_by_a_permanent_code(
    service: Service, sent: bytes, status: int, code: str
) -> None:
    for path in ("/v1/context/compact", "/v1/context/measure"):
        response = send(service, sent, path)
        assert (response.status_code, response.json()["code"]) == (status, code), response.text


def test_a_usage_of_more_messages_than_there_are_is_refused_before_anything_is_stored(service: Service) -> None:
    data = json.dumps(FORMATS["openai-chat"](conversation(3, 12, open_calls=False))).encode()
    more = {"session": "covers", "usage": 9_000, "policy": BUDGET}
    response = send(service, asked(data, covers=5_000, **more))
    assert (response.status_code, response.json()["field"]) == (400, "covers")
    assert service.client.get("/v1/artifacts", params={"session": "covers"}).json()["items"] == []
    answer = compact(service, data, covers=len(json.loads(data)["messages"]), **more)[1]
    assert answer["report"]["omitted_now"] > 1
    assert service.client.get("/v1/artifacts", params={"session": "covers"}).json()["items"]


def test_a_body_over_the_limit_of_json_is_refused(service: Service, tmp_path: Path) -> None:
    _ = service
    with serving(tmp_path / "data", json_limit=100_000) as small:
        for path in ("/v1/context/compact", "/v1/context/measure"):
            response = send(small, asked(b'"' + b"x" * 100_000 + b'"'), path)
            assert (response.status_code, response.json()["code"]) == (413, "body_too_large")


# ------------------------------------------------------------------------------------------------------ the first case


def prose(rng: random.Random, tokens: int) -> str:
    words = ("the", "quick", "import", "failed", "order", "42", "page")
    return "\n".join(" ".join(rng.choice(words) for _ in range(19)) + f" {n}." for n in range(tokens // 22))


def test_a_first_turn_of_research_fits_and_every_cut_is_read_back_through_the_tool(service: Service) -> None:
    rng = random.Random(925)
    outputs = [prose(rng, 8_000) for _ in range(40)]
    outputs.insert(17, prose(rng, 925_000))
    calls = [Call(f"c{n}", "read_page", {"url": f"https://example.org/{n}"}, text) for n, text in enumerate(outputs)]
    told = [Turn("Research this: which page says 42?", [Step("", [call]) for call in calls])]
    data = json.dumps(FORMATS["openai-chat"](told)).encode()
    new, answer = compact(service, data, session="research", policy={"max_tokens": 262_144})
    report = answer["report"]
    assert report["tokens_before"] > 1_200_000
    assert report["tokens_after"] <= 262_144
    assert report["fits"] is True
    assert report["omitted"] is None
    old, kept = items("openai-chat", data), items("openai-chat", new)
    assert len(kept) == len(old)
    assert kept[1] == old[1]
    assert all(kept[number] == old[number] for number in range(2, len(old), 2))  # the model's own words
    cards = {change["call_id"]: change["artifact_id"] for change in report["changes"]}
    assert "c17" in cards
    for call_id, artifact_id in cards.items():
        text = outputs[int(call_id[1:])]
        assert service.content(artifact_id) == text.encode()
        last = text.count("\n") + 1
        call = {"name": "read_artifact", "arguments": {"artifact_id": artifact_id, "offset": last - 1, "limit": 2}}
        read = service.client.post("/v1/tools/call", json=call).json()
        assert "\n".join(text.split("\n")[-2:]) in read["text"]
    assert compact(service, new, session="research", policy={"max_tokens": 262_144})[0] == new
    usage = service.get("/v1/sessions/research/usage")
    assert usage["artifacts"] == len(cards)
    assert usage["reads"] == len(cards)
    assert usage["unsent_tokens"] == report["tokens_before"] - report["tokens_after"]


def test_cards_are_the_same_from_a_process_that_never_saw_the_payloads(tmp_path: Path) -> None:
    rng = random.Random(7)
    outputs = {
        "read_page": "<html><head><title>T</title></head><body><nav>menu</nav><article>"
        + "".join(f"<h2>Part {n}</h2><p>{prose(rng, 300)}</p>" for n in range(12))
        + "</article></body></html>",
        "query": json.dumps({"rows": [{"id": n, "name": f"row {n}", "tags": ["a", "b"]} for n in range(900)]}),
        "web_search": json.dumps(
            {
                "results": [
                    {"title": f"T{n}", "url": f"https://example.org/{n}", "content": prose(rng, 500)} for n in range(9)
                ]
            }
        ),
        "make": prose(rng, 4_000) + "\nERROR: order 42 failed\nexit code 1\n",
        "export": "id,name,size\n" + "".join(f"{n},name {n},{n * 17}\n" for n in range(2_000)),
    }
    calls = [Call(f"c{n}", name, {}, text) for n, (name, text) in enumerate(outputs.items())]
    data = json.dumps(FORMATS["anthropic"]([Turn("Go.", [Step("", [call]) for call in calls])])).encode()
    given: list[bytes] = []
    for _ in range(2):
        with serving(tmp_path / "data") as running:
            given += [compact(running, data, session="s", policy={"protect": "none"})[0] for _ in range(2)]
    assert len(set(given)) == 1
    assert given[0].count(b"stored outside this conversation") == len(outputs)


SHOT = b"\x89PNG\r\n\x1a\n" + random.Random(8).randbytes(40_000)
WIDE: Json = {**CARDS, "inline_tokens": 300, "card_tokens": 300}
CODE = base64.b64encode(SHOT).decode()


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_in_an_output_become_an_artifact_that_its_text_names(service: Service, name: str) -> None:
    output = json.dumps({"page": "https://example.org/ü", "picture": {"mimeType": "image/png", "data": CODE}})
    told = [Turn("Look", [Step("", [Call("c1", "browse", {"url": "x"}, output)]), Step("Done.")]), Turn("And?", [])]
    session = f"encoded {name}"
    data = json.dumps(FORMATS[name](told)).encode()
    new, answer = compact(service, data, session=session, policy=WIDE)
    text = new.decode()
    found = re.search(r"\[image/png, 40 kB, (art_[0-9]{18})\]", text)
    assert found is not None, text
    assert text.count(CODE[100:140]) == data.count(b'"artifact"'), "which no model is sent"
    assert service.content(found[1]) == SHOT
    assert service.get(f"/v1/artifacts/{found[1]}")["artifact"]["media_type"] == "image/png"
    assert {found[1]} < {payload["id"] for payload in answer["payloads"]}
    assert compact(service, data, session=session, policy=WIDE)[0] == new
    assert compact(service, new, session=session, policy=WIDE)[0] == new


def test_an_embedded_resource_is_stored_and_an_image_stays(service: Service) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": CODE}}
    held = {
        "uri": "file:///May.pdf",
        "mimeType": "application/pdf",
        "blob": base64.b64encode(b"%PDF-1.7 " + SHOT).decode(),
    }
    page = {"uri": "file:///log", "mimeType": "text/plain", "text": "a line of the log\n" * 900}
    blocks = [{"type": "resource", "resource": held}, image, {"type": "resource", "resource": page}]
    told = [Turn("Look", [Step("", [Call("c1", "browse", {"url": "x"}, "-")]), Step("Done.")]), Turn("And?", [])]
    body = FORMATS["anthropic"](told)
    said = (block for each in body["messages"] for block in each["content"] if "type" in block)
    result: Json = next(block for block in said if block["type"] == "tool_result")
    result["content"] = blocks
    new, _ = compact(service, json.dumps(body).encode(), session="resources", policy=WIDE)
    found = re.search(rb"\[application/pdf, 40,01[0-9] bytes, stored as (art_[0-9]{18});", new)
    assert found is not None
    assert service.content(found[1].decode()) == b"%PDF-1.7 " + SHOT
    assert new.count(CODE[:200].encode()) == 1, "the image is for the model"
    assert b"a line of the log\\na line of the log\\n" * 30 not in new


def test_a_card_that_names_fields_or_a_form_stays_in_a_history(service: Service) -> None:
    log = "".join(f"2026-11-28T10:{n // 60:02}:{n % 60:02}Z step {n} of it is done\n" for n in range(900))
    for payload, name in ((log.encode(), "· without time ("), (log.encode("utf-16"), "· from UTF-16")):
        card = service.post(payload, tool_call_id="c", session="stays")["text"]
        assert name in card.splitlines()[0]
        assert is_card(card)
