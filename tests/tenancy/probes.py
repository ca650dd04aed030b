"""How each operation can be asked for one artifact, and how its answer shows that the artifact is there.

One table by operation, which must name every operation of the OpenAPI document (administration aside, which is in
`test_admin_isolation`): a new route has no way past it. An
operation that knows no artifacts has no probes, and says why.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

T = TypeVar("T")
Shows = Callable[[httpx.Response], bool]

TITLE = "Lanternfish harbour"
PASSAGE = "The lanternfish rises to the surface of the harbour every night."
WORD = "lanternfish"
URL = "https://example.org/lanternfish"
TOOL = "web_search_lanternfish"
LABEL = "label-lanternfish"
SEARCH_RESPONSE: dict[str, Any] = {
    "results": [
        {"title": TITLE, "url": URL, "content": PASSAGE, "score": 0.9},
        {"title": "Copper", "url": "https://example.org/copper", "content": "Copper conducts heat and current well."},
    ]
}


@dataclass(frozen=True)
class Target:
    """An artifact that may be there: a stored search response, and everything that leads to it."""

    id: str
    session: str
    call: str
    """ID of the tool call that it answers."""
    key: str
    """The idempotency key that it was stored with."""

    @property
    def body(self) -> dict[str, Any]:
        """What it is stored with."""
        return {
            "response": SEARCH_RESPONSE,
            "query": "lanternfish harbour",
            "session": self.session,
            "tool_call_id": self.call,
            "tool_name": TOOL,
            "url": URL,
            "labels": [LABEL],
            "ttl": 100,
        }


@dataclass(frozen=True)
class Probe:
    """One way to ask for an artifact."""

    name: str
    method: str
    path: Callable[[Target], str]
    shows: Shows
    json: Callable[[Target], Any] | None = None
    headers: Callable[[Target], dict[str, str]] = lambda _: {}
    stores: bool = False
    """Whether asking stores something where the artifact is not there."""

    async def send(self, client: httpx.AsyncClient, target: Target) -> httpx.Response:
        """Ask."""
        body = None if self.json is None else self.json(target)
        headers = {"accept": "application/json, text/event-stream"} if self.path(target) == "/mcp" else {}
        return await client.request(
            self.method, self.path(target), json=body, headers={**headers, **self.headers(target)}
        )


def ok(response: httpx.Response) -> bool:
    """An answer that is no problem."""
    return response.is_success


def _given(value: T) -> Callable[[Target], T]:
    """The same, whatever is asked for."""
    return lambda _: value


def _one(name: str, method: str, rest: str, shows: Shows = ok, **more: Any) -> Probe:  # noqa: ANN401 - of a Probe
    return Probe(name, method, lambda t: f"/v1/artifacts/{t.id}{rest}", shows, **more)


def _items(response: httpx.Response) -> bool:
    return response.is_success and bool(response.json()["items"])


def _list(name: str, query: Callable[[Target], str]) -> Probe:
    return Probe(name, "GET", lambda t: f"/v1/artifacts?{query(t)}", _items)


def _called(response: httpx.Response) -> bool:
    return not response.json()["is_error"]


def _call(name: str, shows: Shows = _called, **arguments: Any) -> Probe:  # noqa: ANN401 - of the tool
    tool, _, _ = name.partition(" ")

    def body(target: Target) -> Any:  # noqa: ANN401 - JSON
        given = arguments if tool == "list_artifacts" else {"artifact_id": target.id, **arguments}
        return {"name": tool, "arguments": given}

    return Probe(f"call {name}", "POST", lambda _: "/v1/tools/call", shows, body)


def _mcp(name: str, params: Callable[[Target], Any], shows: Shows) -> Probe:
    method, _, _ = name.partition(" ")
    return Probe(
        f"mcp {name}",
        "POST",
        lambda _: "/mcp",
        shows,
        lambda t: {"jsonrpc": "2.0", "id": 1, "method": method, "params": params(t)},
        lambda _: {"mcp-protocol-version": "2025-06-18"},
    )


def _verified(response: httpx.Response) -> bool:
    return response.json()["results"][0].get("checked", {}).get("verdict") == "exact"


def _named(*words: str) -> Shows:
    return lambda response: response.is_success and all(word in response.text for word in words)


def _replayed(response: httpx.Response) -> bool:
    return response.status_code == 200


_RAW = {"content": "A small payload of a tool.\n", "tool_name": "bash"}

ARTIFACT: dict[str, tuple[Probe, ...]] = {
    "getArtifact": (_one("get", "GET", ""), _one("get a section", "GET", "%23r1")),
    "getCard": (_one("card", "GET", "/card"), _one("card in text", "GET", "/card?tokens=64")),
    "getContent": (
        _one("content", "GET", "/content"),
        _one("text", "GET", "/content?view=text"),
        _one("range", "GET", "/content", headers=_given({"range": "bytes=0-9"})),
        _one("ranges", "GET", "/content", headers=_given({"range": "bytes=0-1,4-5"})),
        _one("if-match", "GET", "/content", headers=_given({"if-match": "*"})),
        _one("not modified", "GET", "/content", lambda r: r.status_code == 304, headers=_given({"if-none-match": "*"})),
        _one("content of a section", "GET", "/content?section=r1"),
    ),
    "headContent": (_one("head", "HEAD", "/content"),),
    "readArtifact": (
        _one("read", "GET", "/read"),
        _one("read a section", "GET", "/read?section=r1"),
        _one("read a citation", "GET", "%23r1/read"),
        _one("read bytes", "GET", "/read?unit=byte&limit=5"),
        _one("read tokens", "GET", "/read?unit=token&limit=5"),
    ),
    "searchArtifact": (_one("search", "GET", f"/search?pattern={WORD}", _named(WORD)),),
    "findWindows": (_one("windows", "GET", f"/windows?query={WORD}", _named(WORD)),),
    "readJson": (_one("json", "GET", "/json?path=$.results[0].title", _named(TITLE)),),
    "outlineArtifact": (_one("outline", "GET", "/outline"),),
    "changeArtifact": (
        _one("relabel", "PATCH", "", json=_given({"labels": ["other"]})),
        _one("pin", "PATCH", "", json=_given({"pin": True})),
        _one("extend", "PATCH", "", json=_given({"ttl": "7d"})),
        _one("shorten", "PATCH", "", json=_given({"idle_ttl": 3600})),
    ),
    "deleteArtifact": (_one("delete", "DELETE", ""),),
    "deleteSession": (
        Probe(
            "delete session",
            "DELETE",
            lambda t: f"/v1/sessions/{quote(t.session, safe='')}",
            lambda r: r.is_success and r.json()["deleted"] > 0,
        ),
    ),
    "listArtifacts": (
        _list("list", lambda _: ""),
        _list("list the session", lambda t: f"session={quote(t.session)}"),
        _list("list the kind", lambda _: "kind=search_results"),
        _list("list the tool", lambda _: f"tool_name={TOOL}"),
        _list("list the URL", lambda _: f"url={quote(URL, safe='')}"),
        _list("list the label", lambda _: f"label={LABEL}"),
        _list("list what says a word", lambda _: f"q={WORD}"),
    ),
    "callTool": (
        _call("read_artifact"),
        _call("read_artifact section", section="r1"),
        _call("read_artifact pattern", pattern=WORD),
        _call("read_artifact query", query=WORD),
        _call("read_artifact path", path="$.results[0].title"),
        _call("list_artifacts", _named("art_")),
        _call("list_artifacts by a word", _named("art_"), query=WORD),
    ),
    "verifyCitations": (
        Probe(
            "verify",
            "POST",
            lambda _: "/v1/citations/verify",
            _verified,
            lambda t: {"quotes": [{"quote": PASSAGE, "citation": f"{t.id}#r1"}]},
        ),
    ),
    "mcp": (
        _mcp(
            "tools/call",
            lambda t: {"name": "read_artifact", "arguments": {"artifact_id": t.id}},
            lambda r: r.json()["result"]["isError"] is False,
        ),
        _mcp(
            "tools/call list",
            lambda _: {"name": "list_artifacts", "arguments": {}},
            lambda r: "art_" in r.json()["result"]["content"][0]["text"],
        ),
        _mcp("resources/read", lambda t: {"uri": f"artifact://{t.id}"}, lambda r: "result" in r.json()),
        _mcp("resources/read part", lambda t: {"uri": f"artifact://{t.id}?section=r1"}, lambda r: "result" in r.json()),
    ),
    # What is handed over again is answered with 200 where it is there, and stored where it is not.
    "budgetSearchResults": (
        Probe("same response", "POST", lambda _: "/v1/search-results", _replayed, lambda t: t.body, stores=True),
        # A repeated request is answered as the first one was.
        Probe(
            "same request",
            "POST",
            lambda _: "/v1/search-results",
            lambda r: r.status_code == 201,
            lambda t: t.body,
            lambda t: {"idempotency-key": t.key},
            stores=True,
        ),
    ),
    "storeArtifact": (
        Probe(
            "same payload",
            "POST",
            lambda _: "/v1/artifacts",
            _replayed,
            lambda t: {
                "content": json.dumps(SEARCH_RESPONSE, separators=(",", ":")),
                "session": t.session,
                "tool_call_id": t.call,
            },
            stores=True,
        ),
    ),
    "storeArtifacts": (
        Probe(
            "same payload in a batch",
            "POST",
            lambda _: "/v1/artifacts:batch",
            lambda r: r.json()["results"][0]["status"] == 200,
            lambda t: {
                "items": [
                    {
                        "content": json.dumps(SEARCH_RESPONSE, separators=(",", ":")),
                        "session": t.session,
                        "tool_call_id": t.call,
                    }
                ]
            },
            stores=True,
        ),
    ),
}
"""By operation."""

WITHOUT: dict[str, str] = {
    "storeRawArtifact": "stores as storeArtifact does",
    "checkLiveness": "knows no artifacts",
    "checkReadiness": "knows no artifacts",
    "getOpenApi": "knows no artifacts",
    "explainError": "knows no artifacts",
    "showReference": "knows no artifacts",
    "getReferenceAsset": "knows no artifacts",
    "getTools": "knows no artifacts",
    "getMetrics": "counts, by names that no caller chooses",
    "compactContext": "stores as storeArtifact does, and finds nothing by an ID",
    "measureContext": "knows no artifacts",
    "listEvents": "tells only of what was done; namespaces and sessions are told apart in test_events",
    "listSessions": "knows no artifacts; sessions are told apart in test_isolation",
    "getSessionUsage": "knows no artifacts; sessions are told apart in test_isolation",
    "answerClaudeCodeHook": "stores as storeArtifact does",
}
"""Operations that lead to no artifact, and why."""

PROBES: list[tuple[str, Probe]] = [(operation, probe) for operation, probes in ARTIFACT.items() for probe in probes]


async def put(client: httpx.AsyncClient, session: str, call: str) -> Target:
    """A new artifact that every probe shows."""
    target = Target("", session, call, f"key of {call}")
    response = await client.post("/v1/search-results", json=target.body, headers={"idempotency-key": target.key})
    assert response.status_code == 201, response.text
    return Target(response.json()["id"], session, call, target.key)
