"""What the administrator of one tenant learns of another by the administrative operations: nothing, by any of them."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx

from coatcheck.api.app import document
from coatcheck.core import ids
from tenancy.tenants import House

ADMIN = "/v1/admin/"
LOG = "".join(f"line {n} of a build\n" for n in range(500))


class Place(NamedTuple):
    """Names of what a tenant has, or of what nobody has."""

    namespace: str
    artifact: str
    session: str
    key: str
    hold: str
    run: str
    digest: str


NEVER = Place(
    "never",
    ids.render(ids.number(b"never" * 6)),
    "run-never",
    "00000000000",
    "hold_0000000000000000",
    "run_0",
    "0" * 64,
)


class Ask(NamedTuple):
    """A request that names what belongs to somebody."""

    method: str
    path: str
    params: dict[str, str] | None = None
    json: Any = None


Asks = Callable[[Place], list[Ask]]


def _named(method: str, path: str, body: dict[str, Any] | None = None) -> Asks:
    """About a namespace, which is named in the query or in the body."""
    if body is None:
        return lambda p: [Ask(method, path, {"namespace": p.namespace})]
    return lambda p: [Ask(method, path, json={"namespace": p.namespace, **body})]


ASKS: dict[str, Asks] = {
    "listKeys": lambda p: [
        Ask("GET", f"{ADMIN}keys", {"namespace": p.namespace}),
        Ask("GET", f"{ADMIN}keys", {"cursor": p.key}),
    ],
    "createKey": _named("POST", f"{ADMIN}keys", {"name": "x", "scopes": ["read"]}),
    "revokeKey": lambda p: [Ask("DELETE", f"{ADMIN}keys/{p.key}")],
    "listNamespaces": lambda p: [Ask("GET", f"{ADMIN}namespaces", {"cursor": p.namespace[:-1]})],
    "createNamespace": lambda p: [Ask("POST", f"{ADMIN}namespaces", json={"name": p.namespace})],
    "updateNamespace": lambda p: [Ask("PATCH", f"{ADMIN}namespaces/{p.namespace}", json={"disabled": True})],
    "deleteNamespace": lambda p: [Ask("DELETE", f"{ADMIN}namespaces/{p.namespace}")],
    "listAudit": lambda p: [
        Ask("GET", f"{ADMIN}audit", {"namespace": p.namespace}),
        Ask("GET", f"{ADMIN}audit", {"run": p.run}),
    ],
    "listHolds": _named("GET", f"{ADMIN}holds"),
    "placeHold": lambda p: [
        Ask("POST", f"{ADMIN}holds", json={"reason": "x", "namespace": p.namespace}),
        Ask("POST", f"{ADMIN}holds", json={"reason": "x", "namespace": p.namespace, "artifact": p.artifact}),
        Ask("POST", f"{ADMIN}holds", json={"reason": "x", "artifact": p.artifact}),
    ],
    "releaseHold": lambda p: [Ask("DELETE", f"{ADMIN}holds/{p.hold}")],
    "listPolicies": _named("GET", f"{ADMIN}policies"),
    "setPolicy": _named("PUT", f"{ADMIN}policies", {"policy": {"ttl": 60}}),
    "removePolicy": _named("DELETE", f"{ADMIN}policies"),
    "explainPolicies": _named("GET", f"{ADMIN}policies/effective"),
    "getPolicyHistory": _named("GET", f"{ADMIN}policies/history"),
    "applyRetention": lambda p: [Ask("POST", f"{ADMIN}retention/apply", json={"digest": p.digest})],
    "planRetention": _named("POST", f"{ADMIN}retention/plan", {"job": "expire"}),
    "listRuns": lambda p: [Ask("GET", f"{ADMIN}retention/runs")] if p else [],
    "getRun": lambda p: [Ask("GET", f"{ADMIN}retention/runs/{p.run}")],
    "undoRemoval": lambda p: [
        Ask("POST", f"{ADMIN}retention/undo", json={"namespace": p.namespace, "artifacts": [p.artifact]}),
        Ask("POST", f"{ADMIN}retention/undo", json={"artifacts": [p.artifact]}),
        Ask("POST", f"{ADMIN}retention/undo", json={"run": p.run}),
    ],
    "listUsage": _named("GET", f"{ADMIN}usage"),
    "changeJob": lambda _: [Ask("PATCH", f"{ADMIN}retention/jobs/expire", json={"paused": True})],
    "getRetentionStatus": lambda _: [Ask("GET", f"{ADMIN}retention/status")],
}
"""By operation: how it can be asked for what belongs to somebody, or, where nothing can be named, asked at all."""


def test_every_administrative_operation_has_its_requests() -> None:
    named = {
        operation["operationId"]
        for path, item in json.loads(document())["paths"].items()
        for method, operation in item.items()
        if method != "parameters" and path.startswith(ADMIN)
    }
    assert named == ASKS.keys()


def said(response: httpx.Response, place: Place) -> tuple[int, str]:
    """An answer, without what the request named and what is drawn anew or counted on for each change of a policy."""
    text = response.text.replace(response.headers["x-request-id"], "")
    for name, value in place._asdict().items():
        text = text.replace(str(value), f"<{name}>")
    return response.status_code, re.sub(r'"(id|digest)":"[^"<]*"|"version":[0-9]+', r'"\1":""', text)


async def owned(harness: House) -> Place:
    """A tenant who has something of everything."""
    key_id, text = await harness.key("owner")
    owner, root = await harness.client(text), await harness.tenant("*", ["admin"])
    stored = await owner.post("/v1/artifacts", json={"content": LOG, "session": "run-owned"})
    gone = (await owner.post("/v1/artifacts", json={"content": LOG, "session": "run-other"})).json()["id"]
    await owner.delete(f"/v1/artifacts/{gone}")
    held = await owner.post(f"{ADMIN}holds", json={"reason": "a case", "session": "run-owned"})
    assert (await owner.put(f"{ADMIN}policies", json={"policy": {"ttl": "3d"}})).status_code in {200, 201}
    await owner.post("/v1/artifacts", json={"content": LOG, "session": "run-loose"})
    asked = {"job": "session", "namespace": "owner", "session": "run-loose"}
    planned = await root.post(f"{ADMIN}retention/plan", json=asked)
    digest: str = planned.json()["digest"]
    applied = await root.post(f"{ADMIN}retention/apply", json={"digest": digest, "confirm": True})
    run: str = applied.json()["id"]
    return Place("owner", stored.json()["id"], "run-owned", key_id, held.json()["id"], run, digest)


async def test_no_administrative_operation_tells_another_tenants_things_from_what_never_was(harness: House) -> None:
    place = await owned(harness)
    stranger = await harness.tenant("stranger")
    wrong: list[str] = []
    for operation, asks in ASKS.items():
        for theirs, never in zip(asks(place), asks(NEVER), strict=True):
            answers = [
                said(await stranger.request(ask.method, ask.path, params=ask.params, json=ask.json), named)
                for ask, named in ((theirs, place), (never, NEVER))
            ]
            if answers[0] != answers[1]:
                wrong.append(f"{operation} {theirs}: {answers[0]} not {answers[1]}")
    assert wrong == []


async def test_what_a_tenant_does_shows_in_no_answer_that_another_tenants_administrator_can_get(harness: House) -> None:
    stranger = await harness.tenant("stranger")
    paths = [
        path
        for path, item in json.loads(document())["paths"].items()
        if "get" in item and "{" not in path and path.startswith((ADMIN, "/v1/artifacts", "/metrics"))
    ]

    async def seen() -> dict[str, tuple[int, str]]:
        answers = {path: await stranger.get(path) for path in paths}
        return {path: said(answer, NEVER) for path, answer in answers.items()}

    before = await seen()
    place = await owned(harness)
    after = await seen()
    assert {path: (before[path], after[path]) for path in paths if before[path] != after[path]} == {}
    assert {path for path in paths if any(name in after[path][1] for name in place[1:])} == set()


async def test_the_owners_things_are_as_they_were_after_a_stranger_has_tried_everything(harness: House) -> None:
    place = await owned(harness)
    root, stranger = await harness.tenant("*", ["admin"]), await harness.tenant("stranger")
    ways = ("keys", "namespaces", "holds", "policies", "usage", "retention/runs")

    async def everything() -> list[str]:
        named = {"namespace": "owner"}
        answers = [await root.get(ADMIN + way, params=named if way in ways[:1] + ways[2:5] else {}) for way in ways]
        return [answer.text for answer in answers]

    before = await everything()
    for asks in ASKS.values():
        for ask in asks(place):
            await stranger.request(ask.method, ask.path, params=ask.params, json=ask.json)
    assert await everything() == before
