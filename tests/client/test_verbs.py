"""Every method of the client against a running service."""

import asyncio
import gzip
import inspect
import io
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any, assert_type, cast

import msgspec
import pytest

from coatcheck_client import AsyncClient, Client, Receipt, Retries, ServiceError, declarations, results
from support.service import Service

LOG = "".join(f"{n:05d} step {n * 7919 % 1000} took {n % 97} ms\n" for n in range(4000))
FOREIGN = ("litestar", "sqlalchemy", "uvicorn", "splintr", "tiktoken", "mcp", "asyncpg", "obstore", "alembic", "numpy")


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url) as opened:
        yield opened


def test_the_same_bytes_are_the_same_artifact_however_they_are_handed_over(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "build.log"
    file.write_text(LOG)
    as_text = client.put(LOG, session="ways")
    ways = [
        client.put(LOG.encode(), session="ways"),
        client.put([{"type": "text", "text": LOG}], session="ways"),
        client.put({"role": "tool", "tool_call_id": "c1", "content": LOG}, session="ways"),
        client.put_file(file, session="ways"),
        client.put_stream(io.BytesIO(LOG.encode()), session="ways"),
        client.put_stream((LOG.encode()[at : at + 1000] for at in range(0, len(LOG), 1000)), session="ways"),
    ]
    assert [receipt.id == as_text.id for receipt in ways] == [True, True, False, True, True, True]
    assert client.content(ways[2].id) == LOG.encode()  # with its call's ID it is another artifact
    assert {receipt.stored for receipt in ways} == {True}
    assert as_text.text == client.put(LOG, session="ways").text


def test_a_compressed_file_is_not_declared_as_what_is_in_it(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "rows.json.gz"
    file.write_bytes(gzip.compress(b'{"a": 1}' * 5_000))
    assert client.describe(client.put_file(file).id).artifact.media_type == "application/gzip"


def test_what_is_said_of_a_payload_is_kept(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_bytes(b"<html><title>T</title><body>" + b"<p>words</p>" * 900)
    receipt = client.put_file(file, tool_name="fetch", labels=["a", "b"], url="https://example.org/", ttl="7d")
    known = client.describe(receipt.id).artifact
    assert (known.title, known.media_type, known.tool_name) == ("page.html", "text/html", "fetch")
    assert (known.labels, known.url, known.ttl) == (("a", "b"), "https://example.org/", 7 * 86400)
    changed = client.patch(known.id, ttl=None, labels=["c"])
    assert (changed.ttl, changed.labels, changed.expires_at) == (None, ("c",), None)
    for forever in (client.put(LOG, session="ttl", ttl=None), client.put(LOG.encode() + b".", session="ttl", ttl=None)):
        assert client.describe(forever.id).artifact.ttl is None


def test_a_run_is_compared_with_the_one_before_and_a_card_can_do_without_tools(client: Client) -> None:
    long = "make " + "ä" * 3_900
    run: dict[str, Any] = {"session": "runs", "tool_name": "bash", "command": long, "compare_to": "previous"}
    text = "".join(f"## Part {n}\n\n{f'What part {n} says of everything. ' * 90}\n\n" for n in range(30))
    first, second = client.put(text, **run), client.put((text + "The end.\n").encode(), tools="none", **run)
    known = client.describe(second.id).artifact
    assert (known.command, known.compared_to) == (long, first.id)
    assert ["read_artifact" in receipt.text for receipt in (first, second)] == [True, False]
    assert "read_artifact" in client.card(second.id).text
    assert "read_artifact" not in client.card(second.id, tools="none").text


def test_it_reads_on_in_every_way(client: Client) -> None:
    log = client.put(LOG, tool_name="make", session="reading").id
    assert client.read(log, offset=3, limit=1).text == LOG.splitlines(keepends=True)[2]
    first = client.read(log, unit="token", max_tokens=50)
    assert first.next is not None
    second = client.read(log, cursor=first.next.cursor, max_tokens=50)
    assert LOG.startswith(first.text + second.text)
    assert client.search(log, "^02345 ", context=0).text.startswith("2346:02345 step")
    assert client.card(log, tokens=100).tokens <= 100
    assert "03999" in client.windows(log, "step 03999").text
    page = client.put("<html><body><h1>Head</h1>" + "<p>some words</p>" * 2_000, media_type="text/html").id
    assert client.content(page, view="text").startswith(b"# Head\n")
    assert client.content(page, section="s1") == client.content(f"{page}#s1")
    data = client.put({"rows": [{"id": n, "name": f"n{n}"} for n in range(900)]}, session="reading").id
    found = client.json(data, "$.rows[3].name")
    assert (found.total, found.values[0]["value"]) == (1, "n3")
    assert client.outline(data).entries
    listed = client.artifacts(session="reading", limit=1)
    assert ([one.id for one in listed.items], listed.next is None) == ([data], False)
    assert client.ready()


def test_a_model_is_offered_the_tool_and_its_calls_are_executed(client: Client) -> None:
    log = client.put(LOG).id
    (declared,) = declarations("openai-chat", strict=True)
    assert declared["function"]["name"] == "read_artifact"
    call = {
        "type": "tool_use",
        "id": "t1",
        "name": "read_artifact",
        "input": {"artifact_id": log, "offset": 2, "limit": 1},
    }
    answered = client.call(call)
    assert (answered["tool_use_id"], LOG.splitlines()[1] in answered["content"]) == ("t1", True)


def test_searches_citations_and_contexts_have_their_methods(client: Client) -> None:
    response = {"results": [{"title": "Tides", "url": "https://example.org/t", "content": "The Moon draws the sea."}]}
    searched = client.search_results(response, query="how do tides form", session="searching")
    assert "The Moon draws the sea." in searched.text
    good, bad = client.verify_citations(
        [{"quote": "The Moon draws the sea."}, {"quote": "The Sun does."}], citation=f"{searched.id}#r1"
    )
    assert good.checked is not None
    assert bad.checked is not None
    assert (good.checked["verdict"], bad.checked["verdict"]) == ("exact", "absent")
    body = {
        "messages": [
            {"role": "user", "content": "build"},
            {"role": "assistant", "content": None, "tool_calls": [_call("c1", "make")]},
            {"role": "tool", "tool_call_id": "c1", "content": LOG},
            {"role": "user", "content": "and?"},
        ]
    }
    done = client.compact(body, session="compacting", policy={"protect": "none"})
    assert done.report["changed"] is True
    assert done.body["messages"][2]["content"].startswith("[art_")
    assert client.content(done.report["changes"][0]["artifact_id"]) == LOG.encode()
    measured = client.measure(body, window={"model": 200_000})
    assert measured["next_turn"]["tokens"] > 0


def _call(call_id: str, name: str) -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def test_deleting_twice_is_deleting(client: Client) -> None:
    first = client.put(LOG, session="gone").id
    client.put(LOG + "more", session="gone")
    client.delete(first)
    client.delete(first)
    with pytest.raises(ServiceError) as gone:
        client.read(first)
    assert (gone.value.code, gone.value.status) == ("artifact_gone", 410)
    assert client.delete_session("gone") == 1


def test_an_error_has_the_service_s_code_and_words(client: Client) -> None:
    receipt = client.put("one line\n" * 500)
    with pytest.raises(ServiceError) as wrong:
        client.search(receipt.id, "(")
    assert (wrong.value.code, wrong.value.status) == ("invalid_pattern", 400)
    assert wrong.value.detail in str(wrong.value)
    assert "request_id" in wrong.value.extra
    assert client.put("x", session="").warnings[0].code == "invalid_request"


def test_ids_are_never_paths(client: Client) -> None:
    for name in ("../health/live", "art_1/../../x", "a?b", "#", "日本"):
        with pytest.raises(ServiceError) as refused:
            client.describe(name)
        assert refused.value.code in {"invalid_artifact_id", "route_not_found"}


def test_text_that_utf_8_cannot_hold_is_taken(client: Client) -> None:
    receipt = client.put("cut \ud83d in half " * 400)
    assert receipt.stored
    assert {warning.code for warning in receipt.warnings} == {"lone_surrogates_replaced"}


async def test_an_event_loop_has_the_same_client(service: Service, tmp_path: Path) -> None:
    payload = random.Random(1).randbytes(700_000)
    file = tmp_path / "data.bin"
    file.write_bytes(payload)

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(payload), 9999):
            yield payload[at : at + 9999]

    async with AsyncClient(service.url, session="loop") as client:
        receipts = [
            await client.put(payload),
            await client.put_file(file),
            await client.put_stream(io.BytesIO(payload)),
            await client.put_stream(pieces()),
        ]
        assert len({receipt.id for receipt in receipts}) == 1
        assert await client.content(receipts[0].id) == payload
        assert await client.download(receipts[0].id, tmp_path / "copy") == len(payload)
        assert (tmp_path / "copy").read_bytes() == payload
        assert await client.delete_session("loop") == 1


def test_both_clients_have_the_same_methods() -> None:
    def public(of: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(of, inspect.isfunction)
            if not name.startswith("_")
        }

    assert public(Client) == public(AsyncClient)
    assert {"put", "put_file", "put_stream", "stream", "read", "delete", "close"} <= public(Client).keys()


def test_each_method_is_documented_and_blocks_or_is_awaited() -> None:
    for name, member in inspect.getmembers(Client, inspect.isfunction):
        there = getattr(AsyncClient, name, member)
        assert inspect.getdoc(member) == inspect.getdoc(there) or name == "__init__"
        if not name.startswith("_") and name not in {"stream", "each_artifact", "events", "carder"}:
            assert inspect.getdoc(member), name
            assert (inspect.iscoroutinefunction(member), inspect.iscoroutinefunction(there)) == (False, True), name


async def test_type_checkers_know_which_client_is_awaited(service: Service) -> None:
    with Client(service.url) as here:
        receipt = here.put("one line", session="typed")
        assert_type(receipt, Receipt)
        assert_type(here.describe(receipt.id), results.Described)
        assert_type(here.delete(receipt.id), None)
        with pytest.raises(TypeError):
            here.describe()  # pyright: ignore[reportCallIssue]
    async with AsyncClient(service.url) as there:
        asked: Coroutine[Any, Any, Receipt] = there.put("one line", session="typed")
        assert_type(await asked, Receipt)
        assert_type(await there.delete_session("typed"), int)
        with pytest.raises(TypeError):
            await there.read("art_1", 3)  # pyright: ignore[reportCallIssue]


async def test_a_client_that_blocks_works_beside_a_running_event_loop_and_refuses_what_needs_it(
    service: Service,
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        await asyncio.sleep(0)
        yield b"two"

    with Client(service.url, session="beside", retries=Retries(attempts=1)) as client:
        receipt = client.put_stream(io.BytesIO(LOG.encode()))
        arriving = client.stream(receipt.id)
        assert LOG.encode().startswith(next(arriving))
        del arriving  # given up in the middle
        assert client.content(receipt.id) == LOG.encode()
        with pytest.raises(RuntimeError, match="AsyncClient"):
            client.put_stream(cast("Any", pieces()))
        assert client.delete_session("beside") == 1


def test_results_have_the_members_of_the_openapi_document(service: Service) -> None:
    schemas = service.get("/v1/openapi.json")["components"]["schemas"]
    named = {
        results.Receipt: "ReceiptView",
        results.Card: "Card",
        results.Notice: "Notice",
        results.Artifact: "ArtifactView",
        results.ArtifactHold: "ArtifactHold",
        results.PayloadSize: "PayloadSize",
        results.TokenCount: "TokenCount",
        results.CardText: "CardView",
        results.Described: "ArtifactDescriptionView",
        results.ReceiptRecord: "ReceiptRecord",
        results.Listing: "ArtifactsView",
        results.ReadNext: "ReadNext",
        results.Read: "ReadAnswer",
        results.Found: "SearchAnswer",
        results.Passages: "PassagesAnswer",
        results.Values: "JsonAnswer",
        results.Outline: "OutlineAnswer",
        results.SearchResults: "SearchResultsAnswer",
        results.Verdict: "QuotationView",
        results.Compacted: "CompactAnswer",
    }
    for model, name in named.items():
        fields = {field.encode_name for field in msgspec.structs.fields(model)}
        assert fields == set(schemas[name]["properties"]), name


def test_importing_it_loads_nothing_of_the_server() -> None:
    code = "import sys; from coatcheck_client import Client; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert {name for name in loaded if name.partition(".")[0] in FOREIGN} == set()
    assert "asyncio" not in loaded
    ours = {name for name in loaded if name.startswith("coatcheck")}
    assert {name for name in ours if name.partition(".")[0] != "coatcheck_client"} == set()
