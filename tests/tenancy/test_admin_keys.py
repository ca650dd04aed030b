"""Keys and namespaces over HTTP: who administers what, and what each learns of the others."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from support.clock import START
from tenancy.tenants import House

KEYS, SPACES = "/v1/admin/keys", "/v1/admin/namespaces"


def answer(response: httpx.Response) -> tuple[int, str]:
    """Status and body, without the request's name."""
    return response.status_code, response.text.replace(response.headers["x-request-id"], "")


def key(**terms: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"name": "ci", "scopes": ["read", "ingest"], **terms}


async def test_a_new_key_is_shown_once_and_is_what_was_asked_for(harness: House) -> None:
    admin = await harness.tenant("acme")
    made = await admin.post(KEYS, json=key(session_prefix="run-", ttl="90d"))
    body = made.json()
    text: str = body.pop("key")
    assert made.status_code == 201
    assert body == {
        "id": text.split("_")[2],
        "namespace": "acme",
        "name": "ci",
        "scopes": ["ingest", "read"],
        "session_prefix": "run-",
        "created_at": "2024-03-01T12:00:00Z",
        "expires_at": "2024-05-30T12:00:00Z",
        "revoked_at": None,
        "requests_per_minute": None,
        "bytes_per_minute": None,
    }
    assert (await admin.get(KEYS)).json()["items"][0] == body or body in (await admin.get(KEYS)).json()["items"]
    client = await harness.client(text)
    assert (await client.get("/v1/artifacts")).status_code == 200
    assert (await client.get(KEYS)).status_code == 403
    assert (await client.post("/v1/artifacts", json={"content": "x"})).status_code == 403


async def test_who_administers_one_namespace_makes_sees_and_revokes_its_keys_alone(harness: House) -> None:
    admin, other = await harness.tenant("acme"), await harness.tenant("other")
    theirs = (await other.post(KEYS, json=key(name="theirs"))).json()["id"]
    mine = (await admin.post(KEYS, json=key(name="mine"))).json()["id"]
    listed = (await admin.get(KEYS)).json()["items"]
    assert {item["namespace"] for item in listed} == {"acme"}
    assert mine in {item["id"] for item in listed}
    # Another's key is unknown, like one that never was.
    unknown = answer(await admin.delete(f"{KEYS}/00000000000"))
    assert answer(await admin.delete(f"{KEYS}/{theirs}")) == unknown
    assert answer(await admin.delete(f"{KEYS}/nonsense")) == unknown
    assert (unknown[0], '"code":"key_not_found"' in unknown[1]) == (404, True)
    assert (await other.get(KEYS)).json()["items"][0]["revoked_at"] is None
    # Another namespace is forbidden, whether or not there is one.
    forbidden = answer(await admin.get(KEYS, params={"namespace": "nobody"}))
    assert forbidden[0] == 403
    assert answer(await admin.get(KEYS, params={"namespace": "other"})) == forbidden
    assert answer(await admin.get(KEYS, params={"namespace": "*"})) == forbidden
    for space in ("other", "nobody", "*"):
        assert (await admin.post(KEYS, json=key(namespace=space, scopes=["admin"]))).status_code == 403
    assert (await admin.get(KEYS, params={"namespace": "acme"})).json()["items"] == listed


async def test_namespaces_are_the_services_administrators_and_each_tenant_sees_its_own(harness: House) -> None:
    root, admin = await harness.tenant("*", ["admin"]), await harness.tenant("acme")
    made = await root.post(SPACES, json={"name": "team-b"})
    assert (made.status_code, made.json()) == (
        201,
        {"name": "team-b", "created_at": "2024-03-01T12:00:00Z", "disabled_at": None},
    )
    assert (await root.post(SPACES, json={"name": "team-b"})).status_code == 200
    assert [item["name"] for item in (await root.get(SPACES)).json()["items"]] == ["acme", "team-b"]
    assert [item["name"] for item in (await admin.get(SPACES)).json()["items"]] == ["acme"]
    refusals = [
        answer(await admin.patch(f"{SPACES}/{name}", json={"disabled": True})) for name in ("team-b", "nobody", "acme")
    ]
    refusals += [answer(await admin.post(SPACES, json={"name": name})) for name in ("team-b", "nobody", "acme")]
    assert {status for status, _ in refusals} == {403}
    assert len(set(refusals)) == 1
    missing = await root.patch(f"{SPACES}/nobody", json={"disabled": True})
    assert (missing.status_code, missing.json()["code"]) == (404, "namespace_not_found")


async def test_lists_go_on_from_page_to_page(harness: House) -> None:
    root = await harness.tenant("*", ["admin"])
    for number in range(7):
        harness.clock.forward(timedelta(seconds=1))
        await root.post(KEYS, json=key(name=f"key {number}", namespace=f"n{number}"))
    for path, most in ((KEYS, 8), (SPACES, 7)):
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = (await root.get(path, params={"limit": "3", **cursor})).json()
            seen += [item["name"] for item in page["items"]]
            if page["next"] is None:
                break
            assert len(page["items"]) == 3
            cursor = {"cursor": page["next"]}
        assert len(seen) == len(set(seen)) == most
    bad = await root.get(KEYS, params={"cursor": "not one"})
    assert (bad.status_code, bad.json()["code"]) == (400, "invalid_cursor")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (key(scopes=[]), "scopes"),
        (key(scopes=["write"]), "scopes[...]"),
        (key(namespace="Acme"), "namespace"),
        (key(name=""), "name"),
        (key(ttl="soon"), "ttl"),
        (key(session_prefix="x", scopes=["admin"]), "scopes"),
        ({"scopes": ["read"]}, "name"),
        (key(secret="x"), "secret"),  # noqa: S106 - an unknown field
    ],
)
async def test_a_key_that_cannot_be_is_refused_by_its_field(harness: House, body: dict[str, Any], field: str) -> None:
    root = await harness.tenant("*", ["admin"])
    refused = await root.post(KEYS, json={"namespace": "acme", **body})
    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (400, "invalid_request"), problem
    assert problem.get("field", field).startswith(field.partition("[")[0]), problem


async def test_revoking_again_changes_nothing(harness: House) -> None:
    root = await harness.tenant("*", ["admin"])
    key_id, _ = await harness.key("acme")
    first = (await root.delete(f"{KEYS}/{key_id}")).json()
    assert first["revoked_at"] == START.isoformat().replace("+00:00", "Z")
    harness.clock.forward(timedelta(hours=1))
    assert (await root.delete(f"{KEYS}/{key_id}")).json() == first
