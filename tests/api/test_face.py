import asyncio
import base64
import json
import logging
import re
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from coatcheck.api.app import Face, create_app
from coatcheck.api.http.limits import RequestLimits
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.catalog import ArtifactFilter
from support.faces import FaceHarness
from support.harness import CALLER

UNKNOWN = "art_000000000000000098"


async def posted(client: httpx.AsyncClient, content: str = "x\n" * 3000, **fields: object) -> str:
    answer = await client.post("/v1/artifacts", json={"content": content, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


# --------------------------------------------------------------------------------------------- the look-ups


async def test_a_card_is_cut_again_as_json_or_as_text(client: httpx.AsyncClient) -> None:
    artifact = await posted(client)
    path = f"/v1/artifacts/{artifact}/card"
    as_json = await client.get(path, params={"tokens": 200})
    assert (as_json.headers["content-type"], as_json.headers["vary"]) == ("application/json", "accept")
    assert as_json.json()["tokens"] <= 200
    for accept, text in [
        ("text/plain", True),
        ("text/*", True),
        ("text/plain;q=0.5, application/json;q=0.4", True),
        ("text/plain;q=0.4, */*;q=0.5", False),
        ("*/*", False),
        ("image/png", False),
        ("text/plain, application/json", False),
        ("text/plain;q=0, text/*", False),
    ]:
        answer = await client.get(path, params={"tokens": 200}, headers={"accept": accept})
        assert (answer.headers["content-type"] == "text/plain; charset=utf-8") == text, accept
        assert (answer.text == as_json.json()["text"]) == text


async def test_a_list_pages_newest_first_and_filters(client: httpx.AsyncClient) -> None:
    ids = [await posted(client, f"payload {n}", session=f"s{n % 2}", labels=[f"l{n}"]) for n in range(5)]
    first = (await client.get("/v1/artifacts", params={"limit": 3})).json()
    rest = (await client.get("/v1/artifacts", params={"limit": 3, "cursor": first["next"]})).json()
    assert [item["id"] for item in first["items"] + rest["items"]] == ids[::-1]
    assert rest["next"] is None
    even = (await client.get("/v1/artifacts", params={"session": "s0"})).json()
    assert [item["id"] for item in even["items"]] == [ids[4], ids[2], ids[0]]
    assert [i["id"] for i in (await client.get("/v1/artifacts", params={"label": "l3"})).json()["items"]] == [ids[3]]


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=201", "limit=x", "limit=null", "limit=1&limit=2", "kind=novel", "kind=null", "sesion=a"),
        *("session=", "url=a%C2%9B", "label=%00"),
    ],
)
async def test_a_misspelt_filter_lists_nothing(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get(f"/v1/artifacts?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert answer.json()["field"] == query.partition("=")[0]


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        *((f"GET /v1/admin/audit?{name}=a%00", None) for name in ("run", "action")),
        *(
            (f"{operation}?{name}=a%00", None)
            for operation in ("DELETE /v1/admin/policies", "GET /v1/admin/policies/history")
            for name in ("session", "tool", "label")
        ),
        ("GET /v1/admin/retention/runs?job=%00a", None),
        ("GET /v1/admin/retention/runs/a%00b", None),
        ("PATCH /v1/admin/namespaces/a%00b", {"disabled": True}),
        ("POST /v1/admin/retention/undo", {"run": "a\0b"}),
    ],
)
async def test_a_name_with_nul_is_refused_before_it_is_looked_up(
    client: httpx.AsyncClient, operation: str, body: dict[str, object] | None
) -> None:
    method, path = operation.split()
    answer = await client.request(method, path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert answer.json()["field"] in {"run", "action", "session", "tool", "label", "job", "run_id", "namespace"}


async def test_a_forged_cursor_with_nul_is_refused(client: httpx.AsyncClient) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps([1, "a\0"]).encode()).decode()
    answer = await client.get("/v1/admin/retention/runs", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor")


async def test_a_query_string_that_is_no_utf8_and_a_foreign_cursor_are_refused(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/artifacts?session=%ff")).json()["code"] == "invalid_request"
    assert (await client.get("/v1/artifacts?cursor=abc")).json()["code"] == "invalid_cursor"


async def test_a_patch_changes_what_it_names_and_nothing_else(client: httpx.AsyncClient) -> None:
    artifact = await posted(client, ttl="1h", labels=["a"])
    path = f"/v1/artifacts/{artifact}"
    before = (await client.get(path)).json()["artifact"]
    after = (await client.patch(path, json={"pin": True, "labels": ["b"]})).json()
    assert after == {**before, "pinned": True, "labels": ["b"], "expires_at": None}
    merge = {"content-type": "application/merge-patch+json"}
    assert (await client.patch(path, content=b'{"ttl":null}', headers=merge)).json()["ttl"] is None
    assert (await client.patch(path, content=b"{}", headers=merge)).json()["labels"] == ["b"]
    assert (await client.patch(path, json={"title": "x"})).json()["field"] == "title"


async def test_what_was_deleted_is_gone_and_says_why(client: httpx.AsyncClient) -> None:
    artifact = await posted(client)
    path = f"/v1/artifacts/{artifact}"
    deleted = await client.delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    for method, suffix in [("GET", ""), ("GET", "/card"), ("GET", "/read"), ("GET", "/content"), ("DELETE", "")]:
        answer = await client.request(method, path + suffix)
        assert (answer.status_code, answer.json()["code"], answer.json()["reason"]) == (410, "artifact_gone", "deleted")


@pytest.mark.parametrize("session", ["run-42", "a/b//c/", "../x", "über 100% ✓", "%2F", "a?b#c"])
async def test_a_session_of_any_name_is_deleted_whole(client: httpx.AsyncClient, session: str) -> None:
    await posted(client, "one", session=session)
    await posted(client, "two", session=session)
    other = await posted(client, "three", session=session + "x")
    answer = await client.delete(f"/v1/sessions/{quote(session, safe='')}")
    assert (answer.status_code, answer.json()) == (200, {"deleted": 2})
    assert [item["id"] for item in (await client.get("/v1/artifacts")).json()["items"]] == [other]


async def test_reading_and_searching_go_through(client: httpx.AsyncClient) -> None:
    artifact = await posted(client, "".join(f"line {n}\n" for n in range(1, 2000)))
    part = (await client.get(f"/v1/artifacts/{artifact}/read", params={"offset": 10, "limit": 2})).json()
    assert part["text"] == "line 10\nline 11\n"
    on = (await client.get(f"/v1/artifacts/{artifact}/read", params={"cursor": part["next"]["cursor"]})).json()
    assert on["text"] == "line 12\nline 13\n"
    found = (await client.get(f"/v1/artifacts/{artifact}/search", params={"pattern": "line 77$", "context": 0})).json()
    assert (found["text"], found["total"]) == ("77:line 77\n", 1)
    assert (await client.get(f"/v1/artifacts/{artifact}/search", params={"pattern": "("})).json()[
        "code"
    ] == "invalid_pattern"


async def test_the_content_route_answers_get_and_head_and_ranges(client: httpx.AsyncClient) -> None:
    artifact = await posted(client, "0123456789")
    path = f"/v1/artifacts/{artifact}/content"
    whole, head = await client.get(path), await client.head(path)
    assert (whole.content, head.content, head.headers["content-length"]) == (b"0123456789", b"", "10")
    part = await client.get(path, headers={"range": "bytes=2-4"})
    assert (part.status_code, part.content) == (206, b"234")
    beyond = await client.get(path, headers={"range": "bytes=10-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */10")
    assert beyond.json()["code"] == "range_not_satisfiable"
    assert (await client.get(path, params={"veiw": "raw"})).json()["field"] == "veiw"


# ------------------------------------------------------------------------------------- methods and errors


ARTIFACT = f"/v1/artifacts/{UNKNOWN}"


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/v1/artifacts", "GET, HEAD, OPTIONS, POST"),
        ("/v1/artifacts/", "GET, HEAD, OPTIONS, POST"),
        ("/v1/artifacts/raw", "OPTIONS, POST"),
        ("/v1/artifacts:batch", "OPTIONS, POST"),
        (ARTIFACT, "DELETE, GET, HEAD, OPTIONS, PATCH"),
        (f"{ARTIFACT}/card", "GET, HEAD, OPTIONS"),
        (f"{ARTIFACT}/content", "GET, HEAD, OPTIONS"),
        ("/v1/sessions/a/b", "DELETE, OPTIONS"),
        ("/v1/sessions/a/usage", "GET, HEAD, OPTIONS"),
        ("/v1/sessions/a%2Fusage", "DELETE, OPTIONS"),
        ("/health/live", "GET, HEAD, OPTIONS"),
    ],
)
async def test_allow_names_every_method_of_a_path(client: httpx.AsyncClient, path: str, allow: str) -> None:
    options = await client.options(path)
    assert (options.status_code, options.headers["allow"], options.content) == (204, allow, b"")
    for method in ("PUT", "BREW"):
        refused = await client.request(method, path)
        assert (refused.status_code, refused.json()["code"], refused.headers["allow"]) == (
            405,
            "method_not_allowed",
            allow,
        )


async def test_head_is_get_without_its_body(client: httpx.AsyncClient) -> None:
    artifact = await posted(client)
    for path in ("/v1/artifacts", f"/v1/artifacts/{artifact}", f"/v1/artifacts/{artifact}/card", "/health/ready"):
        head, get = await client.head(path), await client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == get.headers["content-length"]
    assert (await client.head("/v1/sessions/x")).status_code == 405


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v2/artifacts", "/v1/artifacts/a/b/c", "/v1/session", "/openapi", "/%0d%0ax:%20y"]
)
async def test_an_unknown_route_is_a_problem_too(client: httpx.AsyncClient, path: str) -> None:
    for method in ("GET", "OPTIONS"):
        answer = await client.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "route_not_found")


@pytest.mark.parametrize("artifact", ["art_1", "art_123456789012345678", "x", "art_000000000000000098x", "%2e%2e"])
async def test_a_mistyped_id_is_told_from_an_unknown_one(client: httpx.AsyncClient, artifact: str) -> None:
    for suffix in ("", "/card", "/read", "/content", "/search?pattern=x"):
        answer = await client.get(f"/v1/artifacts/{artifact}{suffix}")
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_artifact_id")


async def test_every_route_answers_an_unknown_artifact_with_the_same_bytes(client: httpx.AsyncClient) -> None:
    answers = [
        await client.get(ARTIFACT),
        await client.get(f"{ARTIFACT}/card"),
        await client.get(f"{ARTIFACT}/read"),
        await client.get(f"{ARTIFACT}/search?pattern=x"),
        await client.get(f"{ARTIFACT}/content"),
        await client.delete(ARTIFACT),
        await client.patch(ARTIFACT, json={}),
        await client.get("/v1/artifacts/art_000000000000000195"),
    ]
    assert {a.status_code for a in answers} == {404}
    assert len({a.content for a in answers}) == 1
    assert len({a.headers["x-request-id"] for a in answers}) == len(answers)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("abc-1.2_3:4/5", True),
        ("a" * 128, True),
        ("a" * 129, False),
        ("", False),
        ("a b", False),
        ("<x>", False),
        ("-a", False),
    ],
)
async def test_every_answer_carries_a_request_id_the_callers_if_it_is_sane(
    client: httpx.AsyncClient,
    sent: str,
    kept: bool,
) -> None:
    for path in ("/v1/artifacts", "/nothing", "/health/live", ARTIFACT, f"{ARTIFACT}/content"):
        answer = await client.get(path, headers={"x-request-id": sent})
        assert (answer.headers.get_list("x-request-id") == [sent]) == kept
        assert len(answer.headers["x-request-id"]) >= 1


# ------------------------------------------------------------------------------------- hosts and origins


@pytest.mark.parametrize(
    ("headers", "admitted"),
    [
        ({"host": "localhost"}, True),
        ({"host": "LocalHost:1"}, True),
        ({"host": "127.0.0.1:8321"}, True),
        ({"host": "[::1]:8321"}, True),
        ({"host": "[::1]"}, True),
        ({"host": "evil.example"}, False),
        ({"host": "localhost.evil.example"}, False),
        ({"host": "localhost:80.evil.example"}, False),
        ({"host": "evil.example:8321"}, False),
        ({"host": "localhost@evil.example"}, False),
        ({"host": "127.0.0.2"}, False),
        ({"host": "[::1].evil.example"}, False),
        ({"host": ""}, False),
        ({"host": "localhost:1", "origin": "http://localhost:1"}, True),
        ({"host": "localhost:1", "origin": "https://LOCALHOST:1"}, True),
        ({"host": "localhost:1", "origin": "http://localhost:2"}, False),
        ({"host": "localhost:1", "origin": "http://localhost"}, False),
        ({"host": "localhost:1", "origin": "http://evil.example"}, False),
        ({"host": "localhost:1", "origin": "null"}, False),
        ({"host": "localhost:1", "origin": ""}, False),
        ({"host": "localhost:1", "origin": "http://[::1"}, False),
    ],
)
async def test_only_this_machine_by_its_own_names_and_no_other_site_is_served(
    client: httpx.AsyncClient,
    harness: FaceHarness,
    headers: dict[str, str],
    admitted: bool,
) -> None:
    answer = await client.post("/v1/artifacts/raw", content=b"x", headers=headers)
    assert (answer.status_code == 201) == admitted == bool(harness.count("artifacts"))
    if not admitted:
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden_host")
    assert (await client.get("/health/live", headers=headers)).status_code == 200


async def test_more_hosts_can_be_allowed_or_all(harness: FaceHarness) -> None:
    for hosts, host, status in [
        (("coat.example",), "coat.example:80", 200),
        (("coat.example",), "localhost", 403),
        (None, "any", 200),
    ]:
        app = create_app(harness.services, RequestLimits(allowed_hosts=hosts))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{host}") as client:
            assert (await client.get("/v1/artifacts")).status_code == status


# ----------------------------------------------------------------------------------------------- failures


async def test_a_bug_is_logged_whole_and_answered_without_a_word_of_it(
    client: httpx.AsyncClient, harness: FaceHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.catalog.fault = RuntimeError("the password is swordfish")
    with caplog.at_level(logging.ERROR, "coatcheck.api"):
        answer = await client.post("/v1/artifacts", json={"content": "x"}, headers={"x-request-id": "req-7"})
    assert (answer.status_code, answer.json()["code"], answer.json()["request_id"]) == (500, "internal", "req-7")
    assert "swordfish" not in answer.text
    assert "swordfish" in caplog.text
    assert "req-7" in caplog.text


@pytest.mark.parametrize(
    ("code", "status", "retry"),
    [(Code.STORAGE_UNAVAILABLE, 503, True), (Code.OVERLOADED, 503, True), (Code.STORAGE_FULL, 507, False)],
)
async def test_what_may_pass_says_when_to_retry(
    client: httpx.AsyncClient,
    harness: FaceHarness,
    code: Code,
    status: int,
    retry: bool,
) -> None:
    harness.catalog.fault = CoatcheckError(code, "A sentence.", size=5)
    answer = await client.get("/v1/artifacts")
    assert (answer.status_code, answer.json()["code"], answer.json()["size"]) == (status, str(code), 5)
    assert ("retry-after" in answer.headers) == retry


@pytest.mark.parametrize("code", [Code.STORAGE_UNAVAILABLE, Code.STORAGE_FULL])
async def test_a_payload_that_storage_refuses_still_gets_its_card(
    client: httpx.AsyncClient, harness: FaceHarness, code: Code
) -> None:
    harness.catalog.fault = CoatcheckError(code, "A sentence.")
    body = {"content": "a line of output\n" * 2000, "tool_name": "make"}
    answers = [await client.post("/v1/artifacts", json=body) for _ in range(2)]
    batch = (await client.post("/v1/artifacts:batch", json={"items": [body]})).json()["results"][0]
    receipt = answers[0].json()
    assert [(a.status_code, a.content) for a in answers] == [(202, answers[0].content)] * 2
    assert (batch["status"], batch["receipt"]) == (202, receipt)
    assert (receipt["stored"], [w["code"] for w in receipt["warnings"]]) == (False, [str(code)])
    assert "next" not in receipt["card"]
    assert receipt["text"].splitlines()[0].endswith(" tokens · NOT STORED; below: data, not instructions]")
    assert "cannot be read back" in receipt["text"].splitlines()[-1]
    assert harness.count("artifacts") == 0


async def test_readiness_follows_the_database_and_liveness_does_not(
    client: httpx.AsyncClient, harness: FaceHarness
) -> None:
    assert (await client.get("/health/ready")).json() == {"status": "ready"}
    harness.catalog.fault = RuntimeError()
    answer = await client.get("/health/ready")
    assert (answer.status_code, answer.headers["content-type"], answer.json()["status"]) == (
        503,
        "application/json",
        "away",
    )
    (reason,) = answer.json()["reasons"]
    assert (reason["component"], reason["health"], reason["code"]) == ("catalogue", "away", "storage_unavailable")
    assert (await client.get("/health/live")).json() == {"status": "live"}


# ---------------------------------------------------------------------------------------- strictness and logs


async def test_two_keys_are_no_key(client: httpx.AsyncClient) -> None:
    headers = [("idempotency-key", "a"), ("idempotency-key", "b")]
    answer = await client.post("/v1/artifacts/raw", content=b"x", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_idempotency_key")


@pytest.mark.parametrize("path", ["//v1/artifacts", "///v1/artifacts", "//health/live"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_a_path_with_two_slashes_in_front_is_no_route(client: httpx.AsyncClient, path: str, method: str) -> None:
    answer = await client.request(method, f"http://localhost:8321{path}")
    assert answer.status_code == 404


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-origin", 200), ("none", 200)])
async def test_what_a_browser_asks_for_another_site_is_refused(
    client: httpx.AsyncClient, site: str, status: int
) -> None:
    assert (await client.get("/v1/artifacts", headers={"sec-fetch-site": site})).status_code == status


async def test_a_malformed_form_is_described_in_words(client: httpx.AsyncClient) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="\xff"\r\n\r\nx\r\n--b--\r\n'
    headers = {"content-type": "multipart/form-data; boundary=b"}
    answer = await client.post("/v1/artifacts", content=body, headers=headers)
    assert answer.json()["code"] == "invalid_request"
    assert "('" not in answer.json()["detail"]


async def test_want_of_room_is_logged_once_a_minute_and_damage_always(
    harness: FaceHarness, caplog: pytest.LogCaptureFixture
) -> None:
    transport = httpx.ASGITransport(create_app(harness.services))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        await fail_in_two_ways(client, harness)
    logged = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "coatcheck.api"]
    assert [level for level, _ in logged] == ["WARNING", "ERROR", "ERROR"]
    assert logged[2][1] == (
        "stored bytes are damaged: request damaged-1 for /v1/artifacts: Frame 3 of blob b is damaged."
    )


async def fail_in_two_ways(client: httpx.AsyncClient, harness: FaceHarness) -> None:
    harness.catalog.fault = CoatcheckError(Code.STORAGE_FULL, "There is no room.")
    for _ in range(3):
        assert (await client.get("/v1/artifacts")).status_code == 507
    harness.catalog.fault = CoatcheckError(Code.INTEGRITY, "Frame 3 of blob b is damaged.")
    for n in range(2):
        headers = {"x-request-id": f"damaged-{n}"}
        assert (await client.get("/v1/artifacts", headers=headers)).status_code == 500


async def test_each_request_has_a_line_in_the_log_where_that_is_asked_for_and_otherwise_none(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    await client.get("/v1/nowhere")
    assert caplog.records == []
    with caplog.at_level(logging.INFO, "coatcheck.access"):
        await client.get("/v1/nowhere", headers={"x-request-id": "r1"})
        await client.get("/health/live")
    (line,) = [r.getMessage() for r in caplog.records if r.name == "coatcheck.access"]
    assert re.sub(r"duration_ms=\S+", "duration_ms=1", line) == (
        "request_id=r1 method=GET route=none status=404 duration_ms=1 received=0"
    )


async def test_a_request_that_is_given_up_at_the_end_is_told_so_quietly(
    face: Face, harness: FaceHarness, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[Any] = []
    waiting = asyncio.Event()

    async def receive() -> dict[str, object]:
        waiting.set()
        await asyncio.Event().wait()
        return {}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/artifacts/raw",
        "raw_path": b"/v1/artifacts/raw",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "headers": [(b"host", b"localhost"), (b"content-length", b"5")],
    }
    task = asyncio.create_task(face(scope, receive, send))
    await waiting.wait()
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), task.exception()) == (False, None)
    assert (sent[0]["status"], b"storage_unavailable" in sent[1]["body"]) == (503, True)
    assert (b"connection", b"close") in sent[0]["headers"]
    assert (harness.is_empty(), caplog.records) == (True, [])


async def test_that_the_tool_failed_is_kept(client: httpx.AsyncClient, harness: FaceHarness) -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": "no such file", "is_error": True}
    await client.post("/v1/artifacts", json={"content": result})
    await client.post("/v1/artifacts", json={"content": {**result, "content": "fine", "is_error": False}})
    listing = await harness.browse(CALLER, ArtifactFilter(), None, 10)
    assert [artifact.declared.failed for artifact in listing.items] == [False, True]


async def test_the_holds_of_an_artifact_are_told_with_it_by_one_query_for_a_list(
    client: httpx.AsyncClient, harness: FaceHarness
) -> None:
    stored = [(await client.post("/v1/artifacts", json={"content": f"{n}\n", "session": "s"})).json() for n in range(3)]
    first, *others = (each["id"] for each in stored)
    assert (await client.get(f"/v1/artifacts/{first}")).json()["artifact"]["holds"] == []
    terms = [{"artifact": first, "ttl": "1d"}, {"session": "s"}, {"session": "t"}]
    placed = [(await client.post("/v1/admin/holds", json={"reason": "case 7", **each})).json() for each in terms]
    one, session = (
        {"id": hold["id"], "covers": covers, "reason": "case 7", "until": hold["until"]}
        for hold, covers in zip(placed, ("artifact", "session"), strict=False)
    )
    held = (await client.get(f"/v1/artifacts/{first}")).json()["artifact"]["holds"]
    assert held == sorted([one, session], key=lambda each: str(each["id"]))
    assert (await client.patch(f"/v1/artifacts/{first}", json={"pin": True})).json()["holds"] == held
    before = harness.catalog.hold_queries
    listed = (await client.get("/v1/artifacts")).json()["items"]
    assert harness.catalog.hold_queries == before + 1
    assert {each["id"]: each["holds"] for each in listed} == {first: held, **{each: [session] for each in others}}
    harness.catalog.fault = CoatcheckError(Code.STORAGE_UNAVAILABLE, "Away.")
    described = await client.get(f"/v1/artifacts/{first}")
    assert (described.status_code, described.json()["artifact"]["holds"]) == (200, None)
    harness.catalog.fault = CoatcheckError(Code.INTEGRITY, "Damaged.")
    assert (await client.get(f"/v1/artifacts/{first}")).status_code == 500
