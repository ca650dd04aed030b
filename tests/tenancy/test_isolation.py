"""What another tenant learns of an artifact: nothing, by any operation, of any sort of artifact.

Every probe is sent for what the other tenant has, or had, and for what never was. Both answers must be the same bytes,
but for what the asker wrote into the request.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from coatcheck.core import ids
from tenancy.probes import PASSAGE, PROBES, SEARCH_RESPONSE, WORD, Probe, Target, put
from tenancy.tenants import House

LOG = "".join(f"line {n} of the lanternfish build\n" for n in range(2000))
NEVER = Target(ids.render(ids.number(b"never" * 6)), "run-never", "call-never", "key of call-never")
ASKING = [(operation, probe) for operation, probe in PROBES if not probe.stores]


async def residents(harness: House, owner: httpx.AsyncClient, session: str = "run-") -> dict[str, Target]:
    """One artifact in every state that there is. The hour is moved by 100 seconds, which is what they live."""
    found = {"expired": await put(owner, f"{session}expir", "call-expir")}
    harness.clock.forward(timedelta(seconds=100))
    for state in ("alive", "dead1", "dead2", "rotten"):
        found[state] = await put(owner, f"{session}{state[:5]}", f"call-{state[:5]}")
    assert (await owner.delete(f"/v1/artifacts/{found['dead1'].id}")).status_code == 204
    assert (await owner.delete(f"/v1/sessions/{session}dead2")).json() == {"deleted": 1}
    lost = await owner.post(
        "/v1/artifacts", json={"content": LOG, "session": f"{session}lost_", "tool_call_id": "call-lost_", "ttl": 100}
    )
    before = {path for path in (harness.root / "blobs").rglob("*") if path.is_file()}
    bad = await owner.post(
        "/v1/artifacts", json={"content": LOG + "x", "session": f"{session}conde", "tool_call_id": "call-conde"}
    )
    for path in {path for path in (harness.root / "blobs").rglob("*") if path.is_file()} - before:
        path.unlink()
    found["lost"] = Target(lost.json()["id"], f"{session}lost_", "call-lost_", "key")
    found["condemned"] = Target(bad.json()["id"], f"{session}conde", "call-conde", "key")
    states = {state: (await owner.get(f"/v1/artifacts/{t.id}/content")).status_code for state, t in found.items()}
    assert states == {
        "expired": 410,
        "alive": 200,
        "dead1": 410,
        "dead2": 410,
        "rotten": 200,
        "lost": 200,
        "condemned": 500,
    }
    return found


def said(response: httpx.Response, target: Target) -> tuple[int, list[tuple[str, str]], str]:
    """An answer, without what names the request or repeats it."""

    def plain(text: str) -> str:
        for asked, name in ((target.id, "<id>"), (target.session, "<session>"), (target.call, "<call>")):
            text = text.replace(asked, name)
        return text.replace(response.headers["x-request-id"], "<request>")

    headers = sorted((k, plain(v)) for k, v in response.headers.items())
    return response.status_code, headers, plain(response.text)


async def differences(stranger: httpx.AsyncClient, targets: dict[str, Target]) -> list[str]:
    """Where a stranger's answers tell what is another's from what never was."""
    found: list[str] = []
    for operation, probe in ASKING:
        never = said(await probe.send(stranger, NEVER), NEVER)
        for state, target in targets.items():
            response = await probe.send(stranger, target)
            if probe.shows(response) or said(response, target) != never:
                found.append(f"{operation}: {probe.name} of one that is {state}: {response.text[:200]} not {never}")
    return found


async def everything(owner: httpx.AsyncClient, targets: dict[str, Target]) -> list[object]:
    """What the owner has."""
    answers = [await owner.get(f"/v1/artifacts/{target.id}") for target in targets.values()]
    answers += [await owner.get(f"/v1/artifacts/{target.id}/content") for target in targets.values()]
    answers += [await owner.get("/v1/artifacts?limit=200"), await owner.get(f"/v1/artifacts?q={WORD}")]
    return [(answer.status_code, answer.text.replace(answer.headers["x-request-id"], "")) for answer in answers]


async def test_no_operation_tells_another_tenants_artifacts_from_what_never_was_or_changes_them(harness: House) -> None:
    owner, stranger = await harness.tenant("owner"), await harness.tenant("stranger")
    targets = await residents(harness, owner)
    before = await everything(owner, targets)
    assert await differences(stranger, targets) == []
    assert await everything(owner, targets) == before


async def test_a_404_is_the_same_bytes_for_never_was_and_anothers_and_names_no_request(harness: House) -> None:
    owner, stranger = await harness.tenant("owner"), await harness.tenant("stranger")
    targets = [*(await residents(harness, owner)).values(), NEVER]
    answers = [await stranger.get(f"/v1/artifacts/{target.id}") for target in targets]
    assert {(a.status_code, a.content) for a in answers} == {(404, answers[0].content)}
    assert answers[0].json()["code"] == "artifact_not_found"
    assert "request_id" not in answers[0].json()


async def test_a_key_that_is_bound_to_sessions_sees_its_own_and_tells_no_other_from_what_never_was(
    harness: House,
) -> None:
    owner = await harness.tenant("owner")
    bound = await harness.tenant("owner", ["ingest", "read", "delete"], session_prefix="mine/")
    targets = await residents(harness, owner)
    alone = await owner.post("/v1/artifacts", json={"content": LOG, "tool_call_id": "call-alone"})
    targets["in no session"] = Target(alone.json()["id"], "run-nobod", "call-alone", "key")
    before = await everything(owner, targets)
    refused = [f for f in await differences(bound, targets) if not f.startswith("deleteSession")]
    assert refused == []
    assert await everything(owner, targets) == before
    for number, (operation, probe) in enumerate(PROBES):
        mine = await put(bound, f"mine/{number}", f"call-{number}")
        response = await probe.send(bound, mine)
        assert probe.shows(response), (operation, probe.name, response.text)
        if operation == "listArtifacts":
            assert {item["session"][:5] for item in response.json()["items"]} == {"mine/"}


async def test_a_key_that_is_bound_to_sessions_writes_into_no_other(harness: House) -> None:
    owner = await harness.tenant("owner")
    bound = await harness.tenant("owner", ["ingest", "read", "delete"], session_prefix="mine/")
    target = await put(owner, "run-alive", "call-alive")
    for session in ("run-alive", "run-never", "mine", None):
        asked = replace(target, session=session) if session is not None else target
        body = {"content": "x", **({} if session is None else {"session": session})}
        query = {} if session is None else {"session": session}
        answers = [
            await bound.post("/v1/artifacts", json=body),
            await bound.post("/v1/artifacts/raw", content=b"x", params=query),
            await bound.post("/v1/artifacts", files={"file": ("a.txt", b"x")}, data=query),
            await bound.post("/v1/search-results", json={"response": SEARCH_RESPONSE, **query}),
        ]
        batch = await bound.post("/v1/artifacts:batch", json={"items": [body]})
        if session is not None:
            answers.append(await bound.delete(f"/v1/sessions/{asked.session}"))
        assert [(a.status_code, a.json()["code"]) for a in answers] == [(403, "forbidden")] * len(answers)
        assert batch.json()["results"][0]["status"] == 403
    assert (await owner.get("/v1/artifacts")).json()["items"][0]["id"] == target.id
    assert len((await owner.get("/v1/artifacts")).json()["items"]) == 1


async def test_an_idempotency_key_belongs_to_its_namespace_and_to_the_sessions_that_a_key_is_bound_to(
    harness: House,
) -> None:
    headers = {"idempotency-key": "the same"}
    for client in (
        await harness.tenant("owner"),
        await harness.tenant("stranger"),
        await harness.tenant("owner", ["ingest"], session_prefix="mine/"),
        await harness.tenant("owner", ["ingest"], session_prefix="mine/too/"),
    ):
        body = {"content": f"payload of {client.headers['authorization'][-6:]}", "session": "mine/too/1"}
        for _ in range(2):
            assert (await client.post("/v1/artifacts", json=body, headers=headers)).status_code == 201
        other = await client.post("/v1/artifacts", json={**body, "content": "other"}, headers=headers)
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


async def test_cursors_of_one_tenant_lead_another_to_nothing_of_it(harness: House) -> None:
    owner, stranger = await harness.tenant("owner"), await harness.tenant("stranger")
    targets = [await put(owner, f"run-{n}", f"call-{n}") for n in range(3)]
    long = (await owner.post("/v1/artifacts", json={"content": LOG})).json()["id"]
    listed = (await owner.get("/v1/artifacts?limit=1")).json()["next"]
    reading = (await owner.get(f"/v1/artifacts/{long}/read?max_tokens=100")).json()["next"]
    assert listed is not None
    assert reading is not None
    refusals = [
        await stranger.get(f"/v1/artifacts?cursor={cursor}{query}")
        for cursor in ("A" * len(listed), listed)
        for query in ("", f"&q={WORD}")
    ]
    said = [{**answer.json(), "request_id": None} for answer in refusals]
    assert (refusals[0].status_code, said[0]["code"]) == (400, "invalid_cursor")
    assert said == said[:1] * 4
    own = (await stranger.post("/v1/artifacts", json={"content": "a short text of one's own\n"})).json()["id"]
    for artifact_id in (own, long, targets[0].id):
        answer = await stranger.get(f"/v1/artifacts/{artifact_id}/read", params={"cursor": reading})
        assert WORD not in answer.text


async def test_sessions_have_no_account_that_another_tenant_or_a_bound_key_could_see(harness: House) -> None:
    owner, stranger = await harness.tenant("owner"), await harness.tenant("stranger")
    bound = await harness.tenant("owner", ["read"], session_prefix="mine/")
    await owner.post("/v1/artifacts", json={"content": LOG, "session": "run-alive"})
    for client in (stranger, bound):
        answers = [await client.get(f"/v1/sessions/{name}/usage") for name in ("run-alive", "run-never")]
        assert answers[0].status_code == 200
        assert answers[0].text.replace("run-alive", "") == answers[1].text.replace("run-never", "")
        assert (await client.get("/v1/sessions")).json() == {"items": []}
    listed = (await owner.get("/v1/sessions")).json()["items"]
    assert [each["session"] for each in listed] == ["run-alive"]


Ask = Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]
CONTENT = json.dumps(SEARCH_RESPONSE)
FIELDS: dict[str, Any] = {"session": "run-1", "tool_call_id": "call-1", "tool_name": "bash", "title": "A title"}
STORING: dict[str, Ask] = {
    "json": lambda c: c.post("/v1/artifacts", json={"content": LOG, **FIELDS}),
    "small": lambda c: c.post("/v1/artifacts", json={"content": PASSAGE, **FIELDS}),
    "raw": lambda c: c.post("/v1/artifacts/raw", content=LOG.encode(), params=FIELDS),
    "form": lambda c: c.post("/v1/artifacts", files={"file": ("a.log", LOG.encode())}, data=FIELDS),
    "batch": lambda c: c.post("/v1/artifacts:batch", json={"items": [{"content": LOG, **FIELDS}]}),
    "key": lambda c: c.post("/v1/artifacts", json={"content": LOG, **FIELDS}, headers={"idempotency-key": "k"}),
    "search": lambda c: c.post("/v1/search-results", json={"response": SEARCH_RESPONSE, "session": "run-1"}),
    "part of a card": lambda c: c.post("/v1/artifacts", json={"content": f"[{NEVER.id} · a.log]\n{PASSAGE}", **FIELDS}),
}


@pytest.mark.parametrize("how", STORING)
async def test_what_another_tenant_has_already_is_stored_as_if_nobody_had_it(harness: House, how: str) -> None:
    ask = STORING[how]

    def plain(response: httpx.Response) -> tuple[int, str, str]:
        body = response.json()
        own = body["id"] if "id" in body else body["results"][0]["receipt"]["id"]
        return (
            response.status_code,
            response.text.replace(own, "<id>"),
            response.headers.get("location", "").replace(own, "<id>"),
        )

    first = plain(await ask(await harness.tenant("first")))
    owner = await harness.tenant("owner")
    for other in STORING.values():
        await other(owner)
    assert plain(await ask(await harness.tenant("second"))) == first
    again = await ask(owner)
    assert again.status_code in {200, 201}


def test_probes_that_ask_for_one_artifact_name_it() -> None:
    def named(probe: Probe) -> bool:
        body = "" if probe.json is None else json.dumps(probe.json(NEVER))
        return NEVER.id in probe.path(NEVER) + body

    unnamed = {probe.name for _, probe in ASKING if not named(probe)}
    assert unnamed == {
        "delete session",
        "call list_artifacts",
        "call list_artifacts by a word",
        "mcp tools/call list",
        *(probe.name for operation, probe in ASKING if operation == "listArtifacts"),
    }
