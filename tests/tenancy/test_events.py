"""What was done is listed for those who may see it: who read what, searches, compactions as before and after."""

import asyncio
from typing import Any

import httpx

from tenancy.probes import SEARCH_RESPONSE
from tenancy.tenants import House

LOG = "\n".join(f"2026-03-01 12:00:{n % 60:02} INFO step {n} of the build" for n in range(900))


async def events(client: httpx.AsyncClient, **query: str | int) -> list[dict[str, Any]]:
    answer = await client.get("/v1/events", params=query)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_reads_searches_and_compactions_are_listed_with_what_was_asked(harness: House) -> None:
    owner = await harness.tenant("owner")
    kept = (await owner.post("/v1/artifacts", json={"content": LOG, "session": "run"})).json()["id"]
    at = f"/v1/artifacts/{kept}"
    for path in ("/read?offset=5&limit=3", "/search?pattern=step%2077", "/windows?query=step%20812", "/outline"):
        assert (await owner.get(at + path)).status_code == 200
    call = {"name": "read_artifact", "arguments": {"artifact_id": kept, "pattern": "step 9"}}
    await owner.post("/v1/tools/call", json=call)
    await owner.post("/v1/search-results", json={"response": SEARCH_RESPONSE, "session": "run", "query": "harbour"})
    found = await events(owner, session="run")
    assert [each["action"] for each in found] == ["web_search", "search", "outline", "passages", "search", "read"]
    assert [each["details"].get("pattern") for each in found if each["action"] == "search"] == ["step 9", "step 77"]
    assert found[-1]["details"] == {"view": "raw", "unit": "line", "offset": 5, "limit": 3}
    assert found[3]["details"]["query"] == "step 812"
    assert found[0]["details"]["results"][0]["citation"].startswith("art_")
    assert all(each["tokens"] > 0 and each["key_id"] for each in found)
    of_one = await events(owner, artifact_id=kept)
    assert [each["id"] for each in of_one] == [each["id"] for each in found[1:]]
    pages = [found[0]["id"]]
    while len(pages) < len(found):
        (item,) = await events(owner, session="run", before=pages[-1], limit=1)
        pages.append(item["id"])
    assert pages == [each["id"] for each in found]


async def test_a_compaction_is_listed_as_before_and_after(harness: House) -> None:
    owner = await harness.tenant("owner")
    tool = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "build"},
        {"role": "assistant", "content": None, "tool_calls": [tool]},
        {"role": "tool", "tool_call_id": "c1", "content": LOG * 3},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "again"},
    ]
    body = {"body": {"model": "gpt-4o", "messages": messages}, "session": "run", "window": {"model": 20_000}}
    answer = await owner.post("/v1/context/compact", json=body)
    assert answer.status_code == 200, answer.text
    (found,) = await events(owner, session="run")
    assert found["action"] == "compaction"
    assert found["tokens_before"] > 10 * found["tokens"] > 0
    (change,) = found["details"]["changes"]
    assert (change["tool"], change["to"]) == ("bash", "card")
    assert change["before"] > change["after"] > 0
    assert (await owner.get(f"/v1/artifacts/{change['artifact']}")).status_code == 200


async def test_others_see_nothing_of_it(harness: House) -> None:
    owner, stranger = await harness.tenant("owner"), await harness.tenant("stranger")
    bound = await harness.tenant("owner", ["read"], session_prefix="mine/")
    ids = [
        (await owner.post("/v1/artifacts", json={"content": LOG, "session": name})).json()["id"]
        for name in ("run", "mine/1")
    ]
    await asyncio.gather(*(owner.get(f"/v1/artifacts/{each}/read") for each in ids))
    for query in ({"session": "run"}, {"artifact_id": ids[0]}):
        assert len(await events(owner, **query)) == 1
        assert await events(stranger, **query) == []
        assert await events(bound, **query) == []
    assert len(await events(bound, session="mine/1")) == 1
    assert (await owner.get("/v1/events")).json()["code"] == "invalid_request"
    refused = (await owner.get("/v1/events", params={"session": "run\x85"})).json()
    assert (refused["code"], refused["field"]) == ("invalid_request", "session")


async def test_what_is_deleted_leaves_no_event(harness: House) -> None:
    owner = await harness.tenant("owner")
    kept = (await owner.post("/v1/artifacts", json={"content": LOG, "session": "run"})).json()["id"]
    await owner.get(f"/v1/artifacts/{kept}/search?pattern=secret-word")
    assert len(await events(owner, artifact_id=kept)) == 1
    await owner.delete(f"/v1/artifacts/{kept}")
    assert await events(owner, artifact_id=kept) == []
