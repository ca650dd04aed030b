"""Who may call what: every operation of the OpenAPI document, with no key and with every sort of key."""

import json
import re
from datetime import timedelta
from typing import Any, NamedTuple

import httpx
import pytest

from coatcheck.api.app import document
from coatcheck.api.routes import ROUTES
from coatcheck.core.artifact import EVERY_SCOPE
from support.clock import INSTANT
from tenancy.tenants import House

DOCUMENT: dict[str, Any] = json.loads(document())
MCP = "POST /mcp"
OPENED = {
    "POST /v1/artifacts": "ingest",
    "POST /v1/artifacts/raw": "ingest",
    "POST /v1/artifacts:batch": "ingest",
    "POST /v1/search-results": "ingest",
    "POST /v1/hooks/claude-code": "ingest",
    "POST /v1/context/compact": "ingest",
    "POST /v1/context/measure": "ingest",
    "GET /v1/sessions": "read",
    "GET /v1/sessions/{session}/usage": "read",
    "GET /v1/events": "read",
    "GET /v1/artifacts": "read",
    "GET /v1/artifacts/{artifact_id}": "read",
    "GET /v1/artifacts/{artifact_id}/card": "read",
    "GET /v1/artifacts/{artifact_id}/content": "read",
    "GET /v1/artifacts/{artifact_id}/json": "read",
    "GET /v1/artifacts/{artifact_id}/outline": "read",
    "GET /v1/artifacts/{artifact_id}/read": "read",
    "GET /v1/artifacts/{artifact_id}/search": "read",
    "GET /v1/artifacts/{artifact_id}/windows": "read",
    "POST /v1/citations/verify": "read",
    "POST /v1/tools/call": "read",
    "POST /mcp": "read",
    "PATCH /v1/artifacts/{artifact_id}": "delete",  # a shorter life is a deletion
    "DELETE /v1/artifacts/{artifact_id}": "delete",
    "DELETE /v1/sessions/{session}": "delete",
    "GET /v1/tools": None,
    "GET /v1/openapi.json": None,
    "GET /errors/{code}": None,
    "GET /docs": None,
    "GET /docs/{asset}": None,
    "GET /health/live": None,
    "GET /health/ready": None,
}
"""Which scope opens what is not for administrators only; None: no key is needed."""

FOUND = {"asset": "swagger-ui.css", "code": "held"}
"""Values of path parameters with which operations that need no key answer."""


class Operation(NamedTuple):
    """One of the document, or MCP."""

    name: str
    method: str
    path: str
    scope: str | None

    async def call(self, client: httpx.AsyncClient, **headers: str) -> httpx.Response:
        """A request that reaches the route, and there, if it needs a key, is wrong or finds nothing."""
        path = re.sub(r"\{(\w+)\}", lambda name: FOUND.get(name[1], "art_000000000000000001"), self.path)
        return await client.request(self.method, path, headers=headers)


def operations() -> list[Operation]:
    found = [
        Operation(f"{method.upper()} {path}", method.upper(), path, needed(node))
        for path, item in DOCUMENT["paths"].items()
        for method, node in item.items()
        if method != "parameters"
    ]
    return [*found, Operation(MCP, "POST", "/mcp", "read")]


def needed(node: dict[str, Any]) -> str | None:
    """The scope that the document says."""
    assert bool(node["security"]) == ("x-scope" in node)
    return node.get("x-scope")


OPERATIONS = operations()
KEYED = [operation for operation in OPERATIONS if operation.scope is not None]
FREE = {
    "GET /health/live",
    "GET /health/ready",
    "GET /v1/openapi.json",
    "GET /v1/tools",
    "GET /errors/{code}",
    "GET /docs",
    "GET /docs/{asset}",
}


def test_whatever_is_not_opened_here_is_for_administrators() -> None:
    said = {operation.name: operation.scope for operation in OPERATIONS if operation.method != "HEAD"}
    assert {name: scope for name, scope in said.items() if scope != "admin"} == OPENED


def test_every_route_is_in_the_document_with_its_scope() -> None:
    declared = {f"{route.method} {route.path}": route.scope for route in ROUTES}
    assert {operation.name: operation.scope for operation in OPERATIONS if operation.name != MCP} == declared


def test_what_needs_no_key_is_the_same_for_everybody_and_changes_nothing() -> None:
    assert {operation.name for operation in OPERATIONS if operation.scope is None} == FREE


def test_every_keyed_operation_says_what_it_answers_without_a_key() -> None:
    for operation in KEYED:
        if operation.name != MCP:
            responses = DOCUMENT["paths"][operation.path][operation.method.lower()]["responses"]
            assert {"401", "403"} <= set(responses), operation.name
    schemes = DOCUMENT["components"]["securitySchemes"]
    assert (schemes["key"]["scheme"], schemes["keyHeader"]["name"]) == ("bearer", "X-Api-Key")


def refused(response: httpx.Response) -> bool:
    """Whether the key is not taken for this; what it may not do in another namespace is another matter."""
    challenge = response.headers.get("www-authenticate", "")
    return response.status_code == 401 or "insufficient_scope" in challenge


async def refusals(harness: House, text: str | None, **headers: str) -> dict[str, tuple[int, str]]:
    """The status and the code of every keyed operation."""
    client = await harness.client(text)
    out: dict[str, tuple[int, str]] = {}
    for operation in KEYED:
        response = await operation.call(client, **headers)
        if operation.method == "HEAD":
            out[operation.name] = (response.status_code, response.headers.get("www-authenticate", "none")[:6])
            continue
        body = response.json()
        out[operation.name] = (response.status_code, body.get("error", {}).get("data", body).get("code", "none"))
    return out


def everywhere(status: int, code: str) -> dict[str, tuple[int, str]]:
    return {o.name: (status, "Bearer" if o.method == "HEAD" else code) for o in KEYED}


async def test_without_a_good_key_every_keyed_operation_answers_401_and_nothing_is_read(harness: House) -> None:
    _, good = await harness.key("acme")
    revoked_id, revoked = await harness.key("acme")
    _, expired = await harness.key("acme", life=timedelta(seconds=60))
    _, unknown = await harness.key("acme")
    client = await harness.tenant("*", ["admin"])
    response = await client.delete(f"/v1/admin/keys/{revoked_id}")
    assert (response.status_code, "key" in response.json()) == (200, False)
    harness.clock.forward(timedelta(seconds=60))
    forged = good[:20] + unknown[20:]
    for text in (None, revoked, expired, forged, good[:-1], "ck_live_", "nonsense"):
        assert await refusals(harness, text) == everywhere(401, "unauthenticated"), text
    challenge = (await (await harness.client(None)).get("/v1/artifacts")).headers["www-authenticate"]
    assert challenge == 'Bearer realm="coatcheck"'


async def test_each_operation_needs_its_scope_and_no_other(harness: House) -> None:
    for scope in sorted(EVERY_SCOPE):
        client = await harness.tenant("acme", [scope])
        for operation in OPERATIONS:
            response = await operation.call(client)
            allowed = operation.scope in {None, scope}
            assert (not refused(response)) is allowed, (scope, operation.name, response.text)
            if not allowed:
                challenge = f'Bearer realm="coatcheck", error="insufficient_scope", scope="{operation.scope}"'
                assert response.headers["www-authenticate"] == challenge
                if operation.method != "HEAD":
                    assert f"'{operation.scope}'" in response.text


async def test_a_key_of_no_namespace_administers_and_does_nothing_else(harness: House) -> None:
    client = await harness.tenant("*", ["admin"])
    for operation in KEYED:
        response = await operation.call(client)
        assert refused(response) is (operation.scope != "admin"), (operation.name, response.text)


async def test_what_is_about_the_whole_service_is_not_for_who_administers_one_namespace(harness: House) -> None:
    one, everything = await harness.tenant("acme"), await harness.tenant("*", ["admin"])
    for name in (
        "GET /metrics",
        "GET /v1/admin/retention/status",
    ):
        (operation,) = [o for o in OPERATIONS if o.name == name]
        assert (await operation.call(one)).status_code == 403, name
        assert (await operation.call(everything)).status_code == 200, name


async def test_free_operations_answer_the_same_with_any_key_and_none(harness: House) -> None:
    clients = [await harness.client(text) for text in (None, "ck_live_wrong", (await harness.key("acme"))[1])]
    for operation in OPERATIONS:
        if operation.scope is None:
            answers = [await operation.call(client) for client in clients]
            assert {(a.status_code, a.content) for a in answers} == {(200, answers[0].content)}, operation.name


async def test_a_key_expires_to_the_moment_on_every_operation(harness: House) -> None:
    _, text = await harness.key("acme", life=timedelta(seconds=90))
    client = await harness.client(text)
    harness.clock.forward(timedelta(seconds=90) - INSTANT)
    before = [refused(await operation.call(client)) for operation in KEYED]
    assert not any(before)
    harness.clock.forward(INSTANT)
    after = [(await operation.call(client)).status_code for operation in KEYED]
    assert after == [401] * len(KEYED)


async def test_a_revoked_key_and_a_disabled_namespace_are_refused_at_once_on_every_operation(harness: House) -> None:
    key_id, text = await harness.key("acme")
    admin = await harness.tenant("*", ["admin"])
    client = await harness.client(text)
    for operation in KEYED:
        assert not refused(await operation.call(client))
        disabled = await admin.patch("/v1/admin/namespaces/acme", json={"disabled": True})
        assert disabled.json()["disabled_at"] is not None
        shut = await operation.call(client)
        assert shut.status_code == 403
        assert operation.method == "HEAD" or "namespace is disabled" in shut.text
        await admin.patch("/v1/admin/namespaces/acme", json={"disabled": False})
    assert (await admin.delete(f"/v1/admin/keys/{key_id}")).status_code == 200
    assert await refusals(harness, text) == everywhere(401, "unauthenticated")


@pytest.mark.parametrize(
    "form",
    ["Bearer {}", "bearer {}", "BEARER  {}"],
)
async def test_a_key_is_taken_from_either_field_and_in_any_spelling_of_the_scheme(harness: House, form: str) -> None:
    _, text = await harness.key("acme")
    client = await harness.client(None)
    for headers in (
        {"authorization": form.format(text)},
        {"x-api-key": text},
        {"x-api-key": text, "authorization": "Basic eDp5"},
    ):
        assert (await client.get("/v1/artifacts", headers=headers)).status_code == 200


async def test_two_keys_that_differ_are_refused(harness: House) -> None:
    (_, one), (_, other) = await harness.key("acme"), await harness.key("acme")
    client = await harness.client(one)
    assert (await client.get("/v1/artifacts", headers={"x-api-key": one})).status_code == 200
    refused = await client.get("/v1/artifacts", headers={"x-api-key": other})
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
    twice = [("authorization", f"Bearer {one}"), ("authorization", f"Bearer {one}")]
    assert (await (await harness.client(None)).get("/v1/artifacts", headers=twice)).status_code == 401


async def test_no_answer_and_no_log_ever_has_a_key_but_the_one_that_makes_it(
    harness: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    _, text = await harness.key("acme")
    client = await harness.client(text)
    made = await client.post("/v1/admin/keys", json={"name": "second", "scopes": ["read"]})
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    second: str = made.json()["key"]
    said: list[str] = []
    for presented in (text, second, text[:-1] + "!", second[:-3]):
        asking = await harness.client(presented)
        for operation in OPERATIONS:
            response = await operation.call(asking, **{"x-request-id": presented})
            said += [response.text, str(response.headers.raw)]
        # In every wrong place, too.
        for path in (f"/v1/{presented}", f"/v1/artifacts/{presented}", f"/v1/artifacts?{presented}=1&kind={presented}"):
            said.append((await asking.get(path)).text)
            said.append((await client.get(path)).text)
        said.append((await client.post("/v1/artifacts", json={"content": "x", presented: 1, "ttl": presented})).text)
    said.append((await client.get("/v1/admin/keys")).text)
    said += [r.getMessage() + repr(vars(r)) for r in caplog.records if r.name.startswith("coatcheck")]
    for key in (text, second):
        secret = key.rpartition("_")[2]
        assert [answer for answer in said if secret[:20] in answer] == []
