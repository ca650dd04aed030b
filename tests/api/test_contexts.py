"""Compaction when storage does not take what it should, and what the face makes of odd requests; called in-process."""

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx

from coatcheck.api.app import create_app
from coatcheck.api.http.limits import RequestLimits
from coatcheck.core.errors import CoatcheckError, Code
from support.faces import FaceHarness, face_in

Json = Any
LOG = "".join(f"step {n}: built target module_{n * 7919} in {n} ms\n" for n in range(400))


def body(*outputs: str) -> Json:
    messages: list[Json] = [{"role": "user", "content": "Build it."}]
    for n, output in enumerate(outputs):
        function = {"name": "write_file", "arguments": json.dumps({"path": "a.py", "content": LOG + str(n)})}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": output})
    return {"model": "gpt-5.6", "messages": messages}


async def compact(client: httpx.AsyncClient, of: Json, **asked: Json) -> Json:
    asked.setdefault("policy", {"protect": "none"})
    response = await client.post("/v1/context/compact", json={"body": of, **asked})
    assert response.status_code == 200, response.text
    return response.json()


async def test_what_storage_refuses_is_cut_or_stays_and_says_so(
    client: httpx.AsyncClient, harness: FaceHarness
) -> None:
    harness.catalog.fault = CoatcheckError(
        Code.STORAGE_UNAVAILABLE, "The database does not answer. Retry the same call."
    )
    answer = await compact(client, body(LOG, LOG + "again\n"))
    outputs = [message["content"] for message in answer["body"]["messages"] if message["role"] == "tool"]
    assert all("NOT STORED" in output.split("\n")[0] for output in outputs)
    assert all("step 0:" in output for output in outputs)
    calls = [message["tool_calls"] for message in answer["body"]["messages"] if message["role"] == "assistant"]
    assert calls == [message["tool_calls"] for message in body(LOG, LOG)["messages"] if message["role"] == "assistant"]
    assert [payload["stored"] for payload in answer["payloads"]] == [False] * 4
    assert [payload["id"] for payload in answer["payloads"]] == [None] * 4
    assert [warning["code"] for warning in answer["warnings"]] == ["storage_unavailable"]
    assert "(4 payloads)" in answer["warnings"][0]["message"]
    left = [one["why"] for one in answer["report"]["left"]]
    assert left == ["could not be stored"] * 2
    harness.catalog.fault = None
    stored = await compact(client, body(LOG, LOG + "again\n"))
    assert [payload["stored"] for payload in stored["payloads"]] == [True] * 4
    assert stored["warnings"] == []


async def test_what_may_not_be_stored_is_cut_at_both_ends(tmp_path: Path, template: Path) -> None:
    with face_in(tmp_path, template, payload_limit=20_000) as opened:
        transport = httpx.ASGITransport(create_app(opened.services, RequestLimits()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8321") as client:
            long = "".join(f"line {n}\n" for n in range(6_000))
            answer = await compact(client, body(long, LOG[:15_000]))
    first, second = (message["content"] for message in answer["body"]["messages"] if message["role"] == "tool")
    assert first.startswith("line 0\n")
    assert first.endswith("line 5999\n")
    assert "could not be stored and cannot be read back. Run the tool again" in first
    assert second.startswith("[art_")
    assert [warning["code"] for warning in answer["warnings"]] == ["payload_too_large"]
    assert [payload["stored"] for payload in answer["payloads"]] == [True, False, True, True]


async def test_an_image_whose_bytes_are_none_is_stored_as_it_was_given(client: httpx.AsyncClient) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "%%%"}
    shots: Json = [{"role": "user", "content": "Look."}]
    for n in range(2):
        call: Json = {"type": "tool_use", "id": f"t{n}", "name": "shoot", "input": {}}
        result: Json = {"type": "tool_result", "tool_use_id": f"t{n}", "content": [{"type": "image", "source": source}]}
        shots += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    policy = {"protect": "none", "media": "placeholder"}
    answer = await compact(client, {"system": "s", "messages": shots}, policy=policy)
    assert [change["to"] for change in answer["report"]["changes"]] == ["placeholder"] * 2
    stored = await client.get(f"/v1/artifacts/{answer['payloads'][0]['id']}/content")
    assert stored.json() == [{"type": "image", "source": source}]


async def test_a_byte_order_mark_and_blanks_around_the_body_do_no_harm(client: httpx.AsyncClient) -> None:
    inner = json.dumps(body(LOG), indent=1).encode()
    sent = b'\xef\xbb\xbf \n{ "policy":{"protect":"none"} ,\n"b\\u006fdy" :\t' + inner + b'\n,"session":"s"}\r\n'
    headers = {"content-type": "application/json"}
    response = await client.post("/v1/context/compact", content=sent, headers=headers)
    assert response.status_code == 200, response.text
    plain = await compact(client, body(LOG), session="s")
    assert response.json()["body"] == plain["body"]
    assert response.content.startswith(b'{"body":{\n "model": "gpt-5.6"')


async def test_names_that_ingest_would_refuse_keep_nothing_from_being_stored(client: httpx.AsyncClient) -> None:
    odd = body(LOG)
    odd["messages"][1]["tool_calls"][0]["id"] = odd["messages"][2]["tool_call_id"] = "c\u2028" + "x" * 600
    odd["messages"][1]["tool_calls"][0]["function"]["name"] = "n" * 300
    answer = await compact(client, odd)
    (payload,) = answer["payloads"]
    assert payload["stored"] is True
    described = (await client.get(f"/v1/artifacts/{payload['id']}")).json()["artifact"]
    digest = hashlib.sha256(("c\u2028" + "x" * 600).encode()).hexdigest()[:32]
    assert (described["tool_name"], described["tool_call_id"]) == ("n" * 255 + "…", f"c {'x' * 38}…{digest}")


async def test_what_was_deleted_is_stored_again_under_the_same_id(client: httpx.AsyncClient) -> None:
    first = await compact(client, body(LOG), session="gone")
    for payload in first["payloads"]:
        assert (await client.delete(f"/v1/artifacts/{payload['id']}")).status_code == 204
    second = await compact(client, body(LOG), session="gone")
    assert second["body"] == first["body"]
    assert [payload["created"] for payload in second["payloads"]] == [True, True]


async def test_what_was_posted_when_the_tool_gave_it_back_is_found_by_its_identity(client: httpx.AsyncClient) -> None:
    said = {"tool_name": "write_file", "tool_call_id": "c0", "session": "arrived"}
    posted = (await client.post("/v1/artifacts", json={"content": LOG, **said})).json()
    answer = await compact(client, body(LOG), session="arrived")
    assert [(payload["kind"], payload["created"]) for payload in answer["payloads"]] == [
        ("arguments", True),
        ("output", False),
    ]
    assert answer["payloads"][1]["id"] == posted["id"]
    shown = answer["body"]["messages"][2]["content"]
    first, *rest = posted["text"].splitlines()
    assert shown.splitlines()[0] == first
    assert "Command" in shown  # the history knows the arguments of the call, which the tool did not post
    assert rest[0] in shown
    usage = (await client.get("/v1/sessions/arrived/usage")).json()
    assert usage["artifacts"] == 2
