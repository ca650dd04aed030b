"""What administrators ask over HTTP and cannot have: a refusal that says why, on every database, never a failure."""

import re
from typing import Any

import httpx
import pytest

from tenancy.tenants import House

ADMIN = "/v1/admin/"
HOLDS = f"{ADMIN}holds"
HUGE = "99999999999999999999"


def refused(response: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal."""
    return response.status_code, response.json()["code"]


@pytest.mark.parametrize("number", [str(2**63), HUGE])
async def test_a_number_that_no_database_knows_is_refused(harness: House, number: str) -> None:
    root = await harness.tenant("*", ["admin"])
    evict = {"job": "evict", "namespace": "acme"}
    answers = [
        await root.get(f"{ADMIN}audit", params={"before": number}),
        await root.post(f"{ADMIN}retention/undo", json={"run": "run_x", "cursor": int(number)}),
        await root.post(f"{ADMIN}retention/plan", json={**evict, "max_bytes": int(number)}),
        await root.post(f"{ADMIN}retention/plan", json={**evict, "max_artifacts": int(number)}),
        await root.patch(f"{ADMIN}retention/jobs/sweep", json={"interval": int(number)}),
        await root.post(HOLDS, json={"reason": "x", "namespace": "acme", "ttl": int(number)}),
        await root.put(f"{ADMIN}policies", json={"namespace": "acme", "policy": {"tombstone_ttl": int(number)}}),
    ]
    assert [refused(each) for each in answers] == [(400, "invalid_request")] * len(answers)
    last = await root.get(f"{ADMIN}audit", params={"before": str(2**63 - 1)})
    assert last.status_code == 200


async def test_the_pace_of_a_job_has_its_bounds_and_null_is_the_one_of_the_settings(harness: House) -> None:
    root = await harness.tenant("*", ["admin"])
    job = f"{ADMIN}retention/jobs/sweep"
    assert (await root.patch(job, json={"interval": 60})).json()["interval"] == 60
    for interval in (0, -1, 86_401):
        answer = await root.patch(job, json={"interval": interval})
        assert refused(answer) == (400, "invalid_request")
        assert "1 to 86400 seconds, or null" in answer.json()["detail"]
    assert (await root.patch(job, json={"paused": False})).json()["interval"] == 60
    assert (await root.patch(job, json={"interval": None})).json()["interval"] is None


@pytest.mark.parametrize("cursor", ["garbage", "acme", "hold_", "", "WyJhY21lIl0=", "WyJcdTAwMDAiXQ", "0" * 11])
@pytest.mark.parametrize("name", ["holds", "usage", "namespaces"])
async def test_a_cursor_that_no_list_gave_is_refused(harness: House, name: str, cursor: str) -> None:
    root = await harness.tenant("*", ["admin"])
    answer = await root.get(f"{ADMIN}{name}", params={"cursor": cursor})
    assert refused(answer) == (400, "invalid_cursor")


@pytest.mark.parametrize("name", ["holds", "usage"])
async def test_every_list_goes_on_where_its_page_ended(harness: House, name: str) -> None:
    root = await harness.tenant("*", ["admin"])
    for space in "abcde":
        await (await harness.tenant(space)).post("/v1/artifacts", json={"content": "x"})
        await root.post(HOLDS, json={"reason": "x", "namespace": space})
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await root.get(f"{ADMIN}{name}", params={"limit": "2", **cursor})).json()
        seen += [item["namespace"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert sorted(seen) == list("abcde")


@pytest.mark.parametrize("job", ["sweep", "purge", "storage", "verify"])
async def test_a_job_of_the_whole_store_is_not_for_who_administers_one_namespace(harness: House, job: str) -> None:
    one, root = await harness.tenant("acme"), await harness.tenant("*", ["admin"])
    for named in ({}, {"namespace": "acme"}, {"namespace": "other"}):
        assert refused(await one.post(f"{ADMIN}retention/plan", json={"job": job, **named})) == (403, "forbidden")
    assert (await root.post(f"{ADMIN}retention/plan", json={"job": job})).status_code == 200
    named = {"job": job, "namespace": "acme"}
    assert refused(await root.post(f"{ADMIN}retention/plan", json=named)) == (400, "invalid_request")
    assert (await one.post(f"{ADMIN}retention/plan", json={"job": "expire"})).status_code == 200


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"until": "2027-01-31T00:00:00Z", "ttl": "90d"}, "one of `until` and `ttl`"),
        ({"until": "2027-01-31T00:00:00Z", "ttl": "forever"}, "one of `until` and `ttl`"),
        ({"until": "9999-12-31T23:59:59-05:00"}, "after the year 9999 of UTC"),
        ({"reason": "case \x1b[31m7"}, "'reason' contains a control character (U+001B) at position 5"),
        ({"reason": "one\ntwo"}, "'reason' contains a control character"),
    ],
)
async def test_a_hold_that_cannot_be_is_refused(harness: House, terms: dict[str, Any], said: str) -> None:
    admin = await harness.tenant("acme")
    answer = await admin.post(HOLDS, json={"reason": "case 7", **terms})
    assert refused(answer) == (400, "invalid_request")
    assert said in answer.json()["detail"]
    assert (await admin.get(HOLDS)).json()["items"] == []


async def test_the_last_moment_that_a_hold_may_end_is_told_in_utc(harness: House) -> None:
    admin = await harness.tenant("acme")
    placed = await admin.post(HOLDS, json={"reason": "case 7", "until": "9999-12-31T23:59:59+05:00"})
    assert (placed.status_code, placed.json()["until"]) == (201, "9999-12-31T18:59:59Z")
    assert (await admin.get(HOLDS)).json()["items"] == [placed.json()]


async def test_who_presents_no_key_is_told_how_to_in_whole_words(harness: House) -> None:
    await harness.key("acme")
    client = await harness.client(None)
    said = (await client.get("/v1/artifacts")).text
    assert "Bearer ck_live_…" in said
    assert "***" not in said
    wrong = await harness.client("ck_live_nonsense")
    assert re.search(r"begins with ck_live_; send it", (await wrong.get("/v1/artifacts")).text)


async def test_what_an_undo_brought_back_is_there_when_it_is_asked_for_again(harness: House) -> None:
    admin = await harness.tenant("acme")
    stored = (await admin.post("/v1/artifacts", json={"content": "x"})).json()["id"]
    never = "art_000000000000000001"
    await admin.delete(f"/v1/artifacts/{stored}")
    undo = {"artifacts": [stored]}
    first = (await admin.post(f"{ADMIN}retention/undo", json=undo)).json()
    assert (first["restored"], first["there"], first["failed"]) == ([stored], [], [])
    again = (await admin.post(f"{ADMIN}retention/undo", json={"artifacts": [stored, never]})).json()
    assert (again["restored"], again["there"]) == ([], [stored])
    assert [each["id"] for each in again["failed"]] == [never]


async def test_an_undo_refuses_what_it_would_not_heed_and_restores_nothing(harness: House) -> None:
    root, acme = await harness.tenant("*", ["admin"]), await harness.tenant("acme")
    stored = (await acme.post("/v1/artifacts", json={"content": "x", "session": "s"})).json()["id"]
    plan = {"job": "session", "namespace": "acme", "session": "s"}
    digest = (await root.post(f"{ADMIN}retention/plan", json=plan)).json()["digest"]
    run = (await root.post(f"{ADMIN}retention/apply", json={"digest": digest, "confirm": True})).json()["id"]
    for body, parameter in (
        ({"run": run, "namespace": "team-x"}, "namespace"),
        ({"artifacts": [stored], "namespace": "acme", "cursor": 7}, "cursor"),
    ):
        answer = await root.post(f"{ADMIN}retention/undo", json=body)
        assert (refused(answer), answer.json()["parameter"]) == ((400, "invalid_request"), parameter)
    assert (await acme.get(f"/v1/artifacts/{stored}")).status_code == 410
    assert (await root.post(f"{ADMIN}retention/undo", json={"run": run})).json()["restored"] == [stored]


async def test_what_expired_comes_back_for_ever_but_not_without_a_word_of_its_life(harness: House) -> None:
    acme = await harness.tenant("acme")
    stored = (await acme.post("/v1/artifacts", json={"content": "x", "ttl": 60})).json()["id"]
    await acme.delete(f"/v1/artifacts/{stored}")
    harness.clock.forward(seconds=61)
    for given in ({}, {"ttl": None}):
        undone = (await acme.post(f"{ADMIN}retention/undo", json={"artifacts": [stored], **given})).json()
        assert [each["code"] for each in undone["failed"]] == ["invalid_request"]
    undone = (await acme.post(f"{ADMIN}retention/undo", json={"artifacts": [stored], "ttl": "forever"})).json()
    assert undone["restored"] == [stored]
    assert (await acme.get(f"/v1/artifacts/{stored}")).json()["artifact"]["expires_at"] is None
