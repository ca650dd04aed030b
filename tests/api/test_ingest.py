import base64
import gzip
import hashlib
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from coatcheck.api.context import CompactBody
from coatcheck.api.web_search import SearchResultsBody
from coatcheck.core.encoding.frames import zstd
from coatcheck.core.metadata_bounds import DESCRIBING
from support.faces import FaceHarness

TEXT = "alpha beta gamma\n" * 4


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json"), (
        response.text
    )
    body: dict[str, Any] = response.json()
    assert (body["code"], body["status"], body["type"]) == (code, status, f"/errors/{code}")
    return body


def digest(data: bytes, algorithm: str = "sha256") -> str:
    name = {"sha256": "sha-256", "sha512": "sha-512"}[algorithm]
    return f"{name}=:{base64.b64encode(hashlib.new(algorithm, data).digest()).decode()}:"


async def content(client: httpx.AsyncClient, response: httpx.Response) -> bytes:
    assert response.status_code in {200, 201}, response.text
    stored = await client.get(f"{response.headers['location']}/content")
    assert stored.status_code == 200, stored.text
    return stored.content


async def test_a_small_text_comes_back_inline_and_a_repetition_is_the_same_artifact(client: httpx.AsyncClient) -> None:
    body = {"content": TEXT, "tool_name": "bash", "tool_call_id": "c1", "session": "s", "labels": ["a", "b", "a"]}
    first = await client.post("/v1/artifacts", json=body)
    again = await client.post("/v1/artifacts", json={**body, "title": "Shown"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert {each.headers["cache-control"] for each in (first, again)} == {"private, no-store"}
    receipt = first.json()
    assert (receipt["stored"], receipt["inline"], receipt["text"], receipt["warnings"]) == (True, True, TEXT, [])
    assert again.json()["id"] == receipt["id"]
    assert first.headers["location"] == f"/v1/artifacts/{receipt['id']}"
    known = (await client.get(f"/v1/artifacts/{receipt['id']}")).json()["artifact"]
    assert (known["tool_name"], known["session"], known["labels"], known["title"]) == (
        "bash",
        "s",
        ["a", "b"],
        "Shown",
    )
    assert (known["size"]["bytes"], known["size"]["lines"]) == (len(TEXT), 4)
    assert known["sha256"] == hashlib.sha256(TEXT.encode()).hexdigest()


async def test_all_four_ways_in_store_the_same_bytes_under_the_same_id(client: httpx.AsyncClient) -> None:
    data = TEXT.encode()
    answers = [
        await client.post("/v1/artifacts", json={"content": TEXT, "session": "s"}),
        await client.post(
            "/v1/artifacts", json={"content": {"base64": base64.b64encode(data).decode()}, "session": "s"}
        ),
        await client.post("/v1/artifacts/raw", params={"session": "s"}, content=data),
        await client.post("/v1/artifacts", data={"session": "s"}, files={"file": ("x", data)}),
        await client.post("/v1/artifacts", json={"content": [{"type": "text", "text": TEXT}], "session": "s"}),
    ]
    assert [a.status_code for a in answers] == [201, 200, 200, 200, 200]
    assert len({a.json()["id"] for a in answers}) == 1
    assert await content(client, answers[0]) == data


async def test_no_cache_keeps_an_answer_about_stored_data(client: httpx.AsyncClient) -> None:
    stored = (await client.post("/v1/artifacts", json={"content": TEXT, "session": "s"})).json()["id"]
    paths = ["", f"/{stored}", f"/{stored}/read", f"/{stored}/outline", f"/{stored}/search?pattern=beta"]
    answers = [await client.get(f"/v1/artifacts{path}") for path in paths]
    answers += [await client.get(f"/v1/{path}") for path in ("sessions/s/usage", "events?session=s", "admin/policies")]
    assert [(each.status_code, each.headers["cache-control"]) for each in answers] == [(200, "private, no-store")] * 8
    content = await client.get(f"/v1/artifacts/{stored}/content")
    assert content.headers.get_list("cache-control") == ["private, no-cache"], "which revalidates by its own terms"
    assert "cache-control" not in (await client.get("/health/live")).headers


async def test_any_bytes_come_back_exactly(client: httpx.AsyncClient) -> None:
    for data in (b"", b"\0", bytes(range(256)) * 500, random.Random(1).randbytes(200_000)):
        answer = await client.post("/v1/artifacts/raw?allow_empty=true", content=data)
        assert await content(client, answer) == data


async def test_curls_default_content_type_says_nothing_and_any_other_is_the_media_type(
    client: httpx.AsyncClient,
) -> None:
    async def media_type(sent: str | None, **query: str) -> object:
        headers = {} if sent is None else {"content-type": sent}
        answer = await client.post(
            "/v1/artifacts/raw", params={"tool_call_id": str(sent), **query}, headers=headers, content=b"x"
        )
        return (await client.get(answer.headers["location"])).json()["artifact"]["media_type"]

    assert await media_type("application/x-www-form-urlencoded") == await media_type(None)
    assert await media_type("Text/HTML; charset=latin-1") == "Text/HTML; charset=latin-1"
    assert await media_type("text/css", media_type="text/x-sass") == "text/x-sass"
    assert await media_type("no type") is None


async def test_provider_shapes_fill_in_what_the_caller_left_out(client: httpx.AsyncClient) -> None:
    result = {"role": "tool", "tool_call_id": "call_7", "name": "grep", "content": [{"type": "text", "text": "hit"}]}
    answer = await client.post("/v1/artifacts", json={"content": result, "tool_name": "mine"})
    known = (await client.get(answer.headers["location"])).json()["artifact"]
    assert (known["tool_call_id"], known["tool_name"], answer.json()["text"]) == ("call_7", "mine", "hit")


async def test_lone_surrogates_are_replaced_with_a_warning(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/v1/artifacts", content=b'{"content":"cut \\ud83d"}', headers={"content-type": "application/json"}
    )
    assert answer.json()["text"] == "cut �"
    assert [w["code"] for w in answer.json()["warnings"]] == ["lone_surrogates_replaced"]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (60, 60),
        ("60", 60),
        ("30m", 1800),
        ("12h", 43200),
        ("7d", 604800),
        ("2w", 1209600),
        ("90s", 90),
        (None, None),
        ("forever", None),
    ],
)
async def test_durations_are_seconds_or_text_with_a_unit(
    client: httpx.AsyncClient, value: object, seconds: int | None
) -> None:
    answer = await client.post("/v1/artifacts", json={"content": "x", "ttl": value, "idle_ttl": value})
    known = (await client.get(answer.headers["location"])).json()["artifact"]
    assert (known["ttl"], known["idle_ttl"]) == (seconds, seconds)


@pytest.mark.parametrize("value", [0, -1, "", "1.5h", "7 d", "d", "1y", "99999999999", 315360001, "\u0661m", True, [1]])
async def test_what_is_no_duration_is_refused(client: httpx.AsyncClient, value: object) -> None:
    answer = await client.post("/v1/artifacts", json={"content": "x", "ttl": value})
    assert problem(answer, 400, "invalid_request")["field"] == "ttl"


@pytest.mark.parametrize("control", ["\r\nx: y", "\0", "\x7f", "\x9b", "\u2028"])
async def test_control_characters_have_no_business_in_a_session(client: httpx.AsyncClient, control: str) -> None:
    answer = await client.post("/v1/artifacts", json={"content": "x", "session": f"a{control}"})
    assert problem(answer, 400, "invalid_request")["field"] == "session"
    answer = await client.post("/v1/artifacts/raw", params={"session": f"a{control}"}, content=b"x")
    assert problem(answer, 400, "invalid_request")["field"] == "session"


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("title", "t" * 1_001, "t" * 999 + "…"),
        ("title", 5, None),
        ("command", "cat <<E\n" + "x\n" * 3_000, ("cat <<E\n" + "x\n" * 3_000)[:3_999] + "…"),
        ("tool_name", "n" * 257, "n" * 255 + "…"),
        ("tool_name", "a\r\nx: y", "a  x: y"),
        ("tool_call_id", "call_" + "A" * 1_400, None),
        ("tool_call_id", "c\0", "c …" + hashlib.sha256(b"c\0").hexdigest()[:32]),
        ("url", "https://example.org/" + "p" * 8_192, None),
        ("url", "https://example.org/\x9b", None),
        ("media_type", "text", None),
        ("media_type", "text/" + "x" * 255, None),
        ("kind", "markdown", "text"),
        ("kind", ["log"], "text"),
        ("labels", ["l" * 129, "a\0", "", "a "], ["l" * 127 + "…", "a"]),
        ("labels", [str(n) for n in range(40)], [str(n) for n in range(32)]),
        ("labels", "ci", []),
    ],
    ids=lambda value: repr(value)[:20],
)
async def test_a_malformed_description_never_costs_the_payload(
    client: httpx.AsyncClient, field: str, value: object, kept: object
) -> None:
    answer = await client.post("/v1/artifacts", json={"content": "some words", "session": "s", field: value})
    assert (answer.status_code, await content(client, answer)) == (201, b"some words")
    (warning,) = answer.json()["warnings"]
    assert (warning["code"], warning["message"].startswith(f"'{field}' ")) == ("metadata_adjusted", True)
    assert str(value)[:40] not in warning["message"]
    known = (await client.get(answer.headers["location"])).json()["artifact"]
    if field == "tool_call_id" and kept is None:
        digest = hashlib.sha256(str(value).encode()).hexdigest()[:32]
        kept = f"{str(value)[:40]}…{digest}"
    assert known[field] == kept
    again = await client.post("/v1/artifacts", json={"content": "some words", "session": "s", field: value})
    assert (again.status_code, again.json()["id"]) == (200, answer.json()["id"])
    fine = await client.post("/v1/artifacts", json={"content": "some words", "session": "s"})
    assert fine.json()["warnings"] == []


async def test_every_change_of_a_description_is_said(client: httpx.AsyncClient) -> None:
    body = {"content": "words", "title": "a\0" + "t" * 1_001}
    (warning,) = (await client.post("/v1/artifacts", json=body)).json()["warnings"]
    changes = "had control characters, which became spaces, and was longer than 1,000 characters and was clipped"
    assert warning["message"].startswith(f"'title' {changes}")


async def test_descriptions_are_adjusted_in_every_way_in(client: httpx.AsyncClient) -> None:
    fields = {"command": "c" * 5_000, "kind": "markdown", "labels": ["l" * 129]}
    raw = await client.post("/v1/artifacts/raw", params=fields, content=b"words")
    form = await client.post("/v1/artifacts", data=fields, files={"file": ("n" * 1_200, b"words")})
    result = {"role": "tool", "tool_call_id": "c" * 600, "name": "n" * 300, "content": "words"}
    parted = await client.post("/v1/artifacts", json={"content": result})
    batch = await client.post("/v1/artifacts:batch", json={"items": [{"content": "words", **fields}]})
    response = {"results": [{"title": "t", "url": "https://example.org/", "content": "words"}]}
    search = await client.post("/v1/search-results", json={"response": response, "tool_call_id": "c" * 600, "url": 1})
    answers = [raw.json(), form.json(), parted.json(), batch.json()["results"][0]["receipt"], search.json()]
    assert [[each["code"] for each in answer["warnings"]] for answer in answers] == [["metadata_adjusted"]] * 5
    assert all(answer["stored"] for answer in answers)


@pytest.mark.parametrize("field", sorted(DESCRIBING))
async def test_null_for_a_description_is_a_description_left_out(client: httpx.AsyncClient, field: str) -> None:
    null = {field: None}
    output = [
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "a line of words\n" * 4_000},
        {"role": "user", "content": "go on"},
    ]
    requests: list[tuple[str, dict[str, Any]]] = [
        ("/v1/artifacts", {"content": "words", **null}),
        ("/v1/artifacts:batch", {"items": [{"content": "other words", **null}]}),
        ("/v1/search-results", {"response": {"results": [{"title": "t", "url": "https://e.org/", "content": "w"}]}}),
        ("/v1/context/compact", {"body": {"messages": output}, "policy": {"protect": "none"}}),
    ]
    taken = {"/v1/search-results": SearchResultsBody, "/v1/context/compact": CompactBody}
    for path, body in requests:
        given = body | (null if field in getattr(taken.get(path), "__struct_fields__", ()) else {})
        first, again = [(await client.post(path, json=given)) for _ in range(2)]
        assert (first.status_code // 100, again.status_code) == (2, 200), (first.text, again.text)
        assert "metadata_adjusted" not in first.text
    items = (await client.get("/v1/artifacts")).json()["items"]
    assert len(items) == len(requests)
    assert all(item["labels"] == [] for item in items)


async def test_paths_and_bidirectional_text_are_data_and_a_titles_controls_become_spaces(
    client: httpx.AsyncClient,
) -> None:
    body = {"content": "x", "session": "../../etc/\u202epasswd", "title": "a\r\nb\0c\u2028d", "labels": ["../x"]}
    answer = await client.post("/v1/artifacts", json=body)
    known = (await client.get(answer.headers["location"])).json()["artifact"]
    assert (known["session"], known["title"], known["labels"]) == (body["session"], "a  b c d", ["../x"])


@pytest.mark.parametrize("path", ["/v1/artifacts", "/v1/artifacts/raw", "/v1/artifacts:batch"])
async def test_an_unknown_query_parameter_is_refused(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.post(path, params={"tool_nam": "x"}, json={})
    assert problem(answer, 400, "invalid_request")["field"] == "tool_nam"


async def test_a_repeated_query_parameter_is_refused_unless_it_is_a_list(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/artifacts/raw?session=a&session=b", content=b"x")
    assert problem(answer, 400, "invalid_request")["field"] == "session"
    answer = await client.post("/v1/artifacts/raw?labels=a&labels=b&pin=true&card_tokens=100", content=b"x")
    known = (await client.get(answer.headers["location"])).json()["artifact"]
    assert (known["labels"], known["pinned"]) == (["a", "b"], True)


@pytest.mark.parametrize("sent", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
async def test_only_what_says_it_is_json_is_read_as_json(client: httpx.AsyncClient, sent: str) -> None:
    headers = {"content-type": sent} if sent else {}
    answer = await client.post("/v1/artifacts", content=b'{"content":"x"}', headers=headers)
    problem(answer, 415, "unsupported_media_type")


# ----------------------------------------------------------------------------------- codings and digests


@pytest.mark.parametrize(
    "coding", ["gzip", "zstd", "x-gzip", "identity", "GZIP", "gzip, zstd", "zstd,gzip", "identity, gzip"]
)
async def test_coded_bodies_are_decoded_on_every_route(
    client: httpx.AsyncClient, harness: FaceHarness, coding: str
) -> None:
    def pack(data: bytes) -> bytes:
        for name in (n.strip().lower() for n in coding.split(",")):
            data = {"gzip": gzip.compress, "x-gzip": gzip.compress, "zstd": zstd.compress, "identity": bytes}[name](
                data
            )
        return data

    headers = {"content-encoding": coding}
    data = TEXT.encode() * 3000
    raw = await client.post("/v1/artifacts/raw", content=pack(data), headers=headers)
    assert await content(client, raw) == data
    body = json.dumps({"content": TEXT * 3000}).encode()
    answer = await client.post(
        "/v1/artifacts", content=pack(body), headers={**headers, "content-type": "application/json"}
    )
    assert answer.json()["id"] == raw.json()["id"]
    form = httpx.Request("POST", "http://x", files={"file": ("x", data)})
    answer = await client.post(
        "/v1/artifacts", content=pack(form.read()), headers={**headers, "content-type": form.headers["content-type"]}
    )
    assert answer.json()["id"] == raw.json()["id"]
    assert harness.count("artifacts") == 1


@pytest.mark.parametrize("coding", ["br", "deflate", "gzip, br", "gzip, gzip, gzip", "gzip;q=1", "gzip zstd"])
async def test_other_codings_and_long_chains_are_refused_with_what_is_accepted(
    client: httpx.AsyncClient, coding: str
) -> None:
    answer = await client.post("/v1/artifacts/raw", content=b"x", headers={"content-encoding": coding})
    problem(answer, 415, "unsupported_encoding")
    assert answer.headers["accept-encoding"] == "gzip, zstd"


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b""),
        ("gzip", b"no gzip"),
        ("gzip", gzip.compress(b"x" * 1000, mtime=0)[:-1]),
        ("gzip", gzip.compress(b"x", mtime=0) + b"garbage"),
        ("zstd", b""),
        ("zstd", b"no zstd"),
        ("zstd", zstd.compress(b"x" * 1000)[:-1]),
        ("zstd", zstd.compress(b"x") + b"garbage"),
        ("gzip, zstd", zstd.compress(b"no gzip")),
    ],
)
async def test_damaged_codings_store_nothing(
    client: httpx.AsyncClient, harness: FaceHarness, coding: str, body: bytes
) -> None:
    answer = await client.post("/v1/artifacts/raw", content=body, headers={"content-encoding": coding})
    problem(answer, 400, "corrupt_encoding")
    assert harness.is_empty()


@pytest.mark.parametrize("oversize", ["reject", "keep_ends"])
@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_bombs_are_stopped_whatever_becomes_of_what_is_too_much(
    client: httpx.AsyncClient, harness: FaceHarness, coding: str, oversize: str
) -> None:
    bomb = gzip.compress(b"\0" * 100_000_000) if coding == "gzip" else zstd.compress(b"\0" * 100_000_000)
    answer = await client.post(
        "/v1/artifacts/raw", params={"oversize": oversize}, content=bomb, headers={"content-encoding": coding}
    )
    assert answer.status_code == 413
    assert answer.json()["code"] in {"decompression_limit", "payload_too_large"}
    answer = await client.post(
        "/v1/artifacts", content=bomb, headers={"content-encoding": coding, "content-type": "application/json"}
    )
    assert answer.json()["code"] in {"body_too_large", "decompression_limit"}
    assert harness.is_empty()


@pytest.mark.parametrize("name", ["content-digest", "repr-digest"])
@pytest.mark.parametrize("way", ["raw", "json", "form", "gzip"])
async def test_a_wrong_digest_stores_nothing(
    client: httpx.AsyncClient, harness: FaceHarness, name: str, way: str
) -> None:
    headers = {name: digest(b"something else")}
    if way == "raw":
        answer = await client.post("/v1/artifacts/raw", content=b"x" * 100_000, headers=headers)
    elif way == "gzip":
        answer = await client.post(
            "/v1/artifacts/raw", content=gzip.compress(b"x"), headers={**headers, "content-encoding": "gzip"}
        )
    elif way == "json":
        answer = await client.post("/v1/artifacts", json={"content": "x"}, headers=headers)
    else:
        answer = await client.post("/v1/artifacts", files={"file": ("x", b"x")}, headers=headers)
    problem(answer, 400, "digest_mismatch")
    assert harness.is_empty()


# ------------------------------------------------------------------------------------------------ limits


async def test_a_payload_over_the_limit_is_refused_or_keeps_its_ends(
    client: httpx.AsyncClient, harness: FaceHarness
) -> None:
    data = b"".join(b"line %d\n" % i for i in range(500_000))

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(data), 100_000):
            yield data[at : at + 100_000]

    problem(await client.post("/v1/artifacts/raw", content=data), 413, "payload_too_large")
    problem(await client.post("/v1/artifacts/raw", content=chunks()), 413, "payload_too_large")
    problem(await client.post("/v1/artifacts", files={"file": ("x", data)}), 413, "payload_too_large")
    assert harness.is_empty()
    kept = await client.post("/v1/artifacts/raw", params={"oversize": "keep_ends"}, content=chunks())
    again = await client.post("/v1/artifacts", data={"oversize": "keep_ends"}, files={"file": ("x", data)})
    assert [w["code"] for w in kept.json()["warnings"]] == ["middle_dropped"]
    assert again.json()["id"] == kept.json()["id"]


async def test_a_json_body_over_its_limit_is_sent_elsewhere(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/artifacts", json={"content": "x" * 1_000_001})
    assert "/v1/artifacts/raw" in problem(answer, 413, "body_too_large")["detail"]


# --------------------------------------------------------------------------------------------- idempotency


async def test_an_idempotency_key_repeats_its_answer_and_refuses_another_request(client: httpx.AsyncClient) -> None:
    headers = {"idempotency-key": '"8e03978e \\"quoted\\""'}
    first = await client.post("/v1/artifacts", json={"content": "x"}, headers=headers)
    again = await client.post(
        "/v1/artifacts", json={"content": "x"}, headers={"idempotency-key": '"8e03978e \\"quoted\\""'}
    )
    other = await client.post("/v1/artifacts", json={"content": "y"}, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    problem(other, 422, "idempotency_key_reused")


async def test_quoted_and_bare_keys_are_the_same_key(client: httpx.AsyncClient) -> None:
    await client.post("/v1/artifacts", json={"content": "x"}, headers={"idempotency-key": '"k"'})
    other = await client.post("/v1/artifacts", json={"content": "y"}, headers={"idempotency-key": "k"})
    problem(other, 422, "idempotency_key_reused")


@pytest.mark.parametrize("key", ["", '""', '"open', "k" * 201, "caf\xe9", '"a"b', "\x01"])
async def test_what_is_no_key_is_refused(client: httpx.AsyncClient, key: str) -> None:
    headers = [(b"idempotency-key", key.encode("latin-1"))]
    problem(await client.post("/v1/artifacts/raw", content=b"x", headers=headers), 400, "invalid_idempotency_key")


# --------------------------------------------------------------------------------------------------- batch


async def test_each_item_of_a_batch_has_its_own_answer_in_order(client: httpx.AsyncClient) -> None:
    items: list[Any] = [{"content": f"item {n}"} for n in range(20)]
    items[3] = {"content": "x", "colour": 1}
    items[7] = {"content": []}
    items[9] = 5
    items[11] = {"content": "item 0"}
    answer = await client.post("/v1/artifacts:batch", json={"items": items}, headers={"idempotency-key": "k"})
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert len(results) == 20
    codes = {n: r["problem"]["code"] for n, r in enumerate(results) if "problem" in r}
    assert codes == {3: "invalid_request", 7: "invalid_content", 9: "invalid_request"}
    assert [r["receipt"]["text"] for n, r in enumerate(results) if n not in {3, 7, 9, 11}] == [
        f"item {n}" for n in range(20) if n not in {3, 7, 9, 11}
    ]
    assert results[11]["receipt"]["id"] == results[0]["receipt"]["id"]
    assert {r["status"] for r in results} <= {200, 201, 400}


@pytest.mark.parametrize("items", [[], [{"content": "x"}] * 101, {}, "x"])
async def test_a_batch_has_1_to_100_items(client: httpx.AsyncClient, items: object) -> None:
    answer = await client.post("/v1/artifacts:batch", json={"items": items})
    assert problem(answer, 400, "invalid_request")["field"] == "items"


async def test_surrogates_are_mended_in_their_own_item_only(client: httpx.AsyncClient) -> None:
    body = b'{"items":[{"content":"a"},{"content":"\\udc00"}]}'
    answer = await client.post("/v1/artifacts:batch", content=body, headers={"content-type": "application/json"})
    assert [len(r["receipt"]["warnings"]) for r in answer.json()["results"]] == [0, 1]


async def test_what_is_asked_otherwise_of_what_was_there_already_is_named_unless_the_last_word_counts(
    client: httpx.AsyncClient,
) -> None:
    async def posted(key: str | None = None, **said: Any) -> httpx.Response:  # noqa: ANN401 - JSON
        headers = {} if key is None else {"idempotency-key": key}
        return await client.post("/v1/artifacts", json={"content": "x" * 50, "session": "s", **said}, headers=headers)

    def warned(response: httpx.Response) -> list[str]:
        return [each["code"] for each in response.json()["warnings"]]

    first: dict[str, Any] = {"title": "One", "labels": ["a", "b"], "ttl": "7d"}
    new = await posted("k1", **first)
    assert (new.status_code, warned(new)) == (201, [])
    sames: list[dict[str, Any]] = [first, {}, {"labels": ["b"]}, {"ttl": 7 * 86400}]
    for same in sames:
        assert warned(await posted(**same)) == [], same
    other = await posted("k2", title="Two", url="https://e.org/", labels=["b", "c"], ttl="8d", pin=True)
    (warning,) = other.json()["warnings"]
    assert (other.status_code, other.json()["id"], warning["code"]) == (200, new.json()["id"], "parameters_not_applied")
    assert ": labels, ttl, pin." in warning["message"]
    kept = (await client.get(f"/v1/artifacts/{new.json()['id']}")).json()["artifact"]
    assert (kept["title"], kept["url"]) == ("Two", "https://e.org/")
    assert (kept["labels"], kept["pinned"]) == (["a", "b"], False)
    # A repeated request is answered as it was, whatever was said in between.
    again = await posted("k2", title="Two", url="https://e.org/", labels=["b", "c"], ttl="8d", pin=True)
    assert (again.status_code, again.content) == (200, other.content)
    assert (await posted("k1", **first)).content == new.content


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_an_empty_raw_body_is_refused_unless_it_is_allowed(
    client: httpx.AsyncClient, harness: FaceHarness, chunked: bool
) -> None:
    async def nothing() -> AsyncIterator[bytes]:
        for piece in ():
            yield piece

    refused = await client.post("/v1/artifacts/raw", content=nothing() if chunked else b"")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_content")
    assert "allow_empty=true" in refused.json()["detail"]
    assert harness.is_empty()
    stored = await client.post("/v1/artifacts/raw?allow_empty=true", content=nothing() if chunked else b"")
    assert (stored.status_code, stored.json()["text"]) == (201, "")
    assert (await client.post("/v1/artifacts", json={"content": ""})).status_code == 200
