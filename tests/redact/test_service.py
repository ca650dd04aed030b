"""Secrets through the whole service: cards, reads, searches, lists; every policy; a few of the flood's documents."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import cast

import httpx
import msgspec
import pytest

from coatcheck.api.services import Services
from coatcheck.bootstrap.service import open_service
from coatcheck.core import ids
from coatcheck.core.artifact import Caller, DeclaredMetadata
from coatcheck.core.encoding.frames import FRAME_BYTES
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.policy import Policy, PolicyScope, Redaction
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.settings import load
from coatcheck.storing.ingest_request import IngestRequest
from coatcheck.tools.calls import Call
from coatcheck.tools.dispatcher import ToolDispatcher
from coatcheck.usecases.reading.grep import PatternSearchRequest
from coatcheck.usecases.reading.read import ReadRequest
from support.service import serving

CALLER = Caller()
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC3"
BODY = "\n".join(f"MIIEpAIBAAKCAQEA7bq1Vx{n:02}QwErTyUiOpAsDfGhJkLzXcVbNm0123456789abcd" for n in range(20))
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----"
TEXT = f"line one\ntoken {TOKEN} here\n{KEY}\nafter the key\n" + "nothing of interest\n" * 400 + f"end {TOKEN}\n"


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncGenerator[Services]:
    """A service that masks what is shown."""
    async with open_service(load({}, data=str(tmp_path), redaction="shown", port=0)) as running:
        yield running.services


async def test_a_card_says_what_is_masked_and_is_the_same_when_it_is_asked_for_again(shown: Services) -> None:
    said = DeclaredMetadata(title=f"build {TOKEN}", url=f"https://h/?access_token={TOKEN}", labels=(TOKEN,))
    receipt = await shown.ingest(CALLER, _once(TEXT.encode()), IngestRequest(declared=said))
    lines = receipt.text.splitlines()
    assert "Title: build [redacted: github-pat]" in lines
    assert "URL: https://h/?access_token=[redacted: github-pat]" in lines
    assert "Redacted: 3 secrets (github-pat, private-key) masked here" in lines
    assert "token [redacted: github-pat] here" in lines
    assert receipt.card.redacted == "3 secrets (github-pat, private-key) masked here"
    described = await shown.describe(CALLER, ids.parse(receipt.id))
    again = await shown.ingest(CALLER, _once(TEXT.encode()), IngestRequest(declared=said))
    assert described.text == receipt.text == again.text
    assert (
        "ghp_"
        not in msgspec.json.encode([receipt.card, described.artifact.declared, described.artifact.facts]).decode()
    )


async def test_ranges_are_those_of_the_stored_bytes(shown: Services) -> None:
    number = ids.parse((await shown.ingest(CALLER, _once(TEXT.encode()), IngestRequest())).id)
    got = await shown.read_span(CALLER, number, ReadRequest(offset=1, limit=25))
    assert got.text == "line one\ntoken [redacted: github-pat] here\n[redacted: private-key]\nafter the key\n"
    assert got.window.bytes.end == TEXT.index("nothing")
    assert got.next is not None
    on = await shown.read_span(CALLER, number, ReadRequest(cursor=got.next.cursor, limit=1))
    assert on.text == "nothing of interest\n"
    inside = await shown.read_span(CALLER, number, ReadRequest(unit="byte", offset=TEXT.index(TOKEN) + 10, limit=8))
    assert inside.text == "[redacted]"


@pytest.mark.parametrize("inside", [1, 4, 20, len(TOKEN) - 1])
async def test_a_secret_across_the_border_of_two_frames_is_masked_in_every_read(shown: Services, inside: int) -> None:
    filler = ("one line of filler\n" * FRAME_BYTES)[: FRAME_BYTES - inside - 7] + "\ntoken "
    text = f"{filler}{TOKEN} end\n" + "more filler\n" * 20_000
    number = ids.parse((await shown.ingest(CALLER, _once(text.encode()), IngestRequest())).id)
    for offset, limit in ((FRAME_BYTES - 60, 120), (FRAME_BYTES - 60, 60), (FRAME_BYTES, 60)):
        got = await shown.read_span(CALLER, number, ReadRequest(unit="byte", offset=offset, limit=limit))
        assert not any(TOKEN[start : start + 8] in got.text for start in range(len(TOKEN) - 8)), got.text


async def test_patterns_queries_and_paths_cannot_probe_a_secret(shown: Services) -> None:
    number = ids.parse((await shown.ingest(CALLER, _once(TEXT.encode()), IngestRequest())).id)
    for pattern in ("ghp_", "ghp_a.*", "aB3dE5", "MIIE", r"ghp_a[\s\S]{0,80}|ghp_b"):
        got = await shown.search(CALLER, number, PatternSearchRequest(pattern=pattern))
        assert (got.shown, got.total) == (0, 0), pattern
    hit = await shown.search(CALLER, number, PatternSearchRequest(pattern="token .* here"))
    assert hit.text.splitlines()[1] == "2:token [redacted: github-pat] here"
    body = json.dumps({"a": {"k": TOKEN}, "b": [{"token": TOKEN, "n": 1}]}).encode()
    document = ids.parse((await shown.ingest(CALLER, _once(body), IngestRequest())).id)
    found = await shown.read_json(CALLER, document, path=f"$.b[?@.token == '{TOKEN}']")
    assert found.total == 0
    value = await shown.read_json(CALLER, document, path="$.b[0]")
    assert value.text.endswith('{"token":"[redacted: github-pat]","n":1}')
    assert bytes(cast("msgspec.Raw", value.values[0].value)) == b'{"token":"[redacted: github-pat]","n":1}'


async def test_lists_words_and_tools_show_nothing_either(shown: Services) -> None:
    receipt = await shown.ingest(CALLER, _once(TEXT.encode()), IngestRequest(declared=DeclaredMetadata(title=TOKEN)))
    listed = await shown.browse(CALLER, ArtifactFilter(), None, 10)
    assert [each.declared.title for each in listed.items] == ["[redacted: github-pat]"]
    assert (await shown.browse(CALLER, ArtifactFilter(), None, 10, query=TOKEN)).items == []
    assert len((await shown.browse(CALLER, ArtifactFilter(), None, 10, query="interest")).items) == 1
    for arguments in ({"offset": 1}, {"pattern": "token"}, {"query": "after the key"}):
        call = Call(name="read_artifact", arguments={"artifact_id": receipt.id, **arguments})
        got = await cast("ToolDispatcher", shown.tools).execute(CALLER, call)
        assert not got.is_error
        assert "ghp_" not in got.text
        assert "MIIE" not in got.text


async def test_a_small_payload_is_answered_inline_with_markers_and_counted_with_them(shown: Services) -> None:
    receipt = await shown.ingest(CALLER, _once(f"hello {TOKEN} bye".encode()), IngestRequest())
    assert (receipt.inline, receipt.text) == (True, "hello [redacted: github-pat] bye")
    assert receipt.tokens < 16


async def test_what_was_stored_unmasked_is_read_by_the_policy_of_now(tmp_path: Path) -> None:
    async with open_service(load({}, data=str(tmp_path), port=0)) as running:
        receipt = await running.services.ingest(
            CALLER, _once(TEXT.encode()), IngestRequest(declared=DeclaredMetadata(title=TOKEN))
        )
        assert TOKEN in receipt.text
    async with open_service(load({}, data=str(tmp_path), redaction="shown", port=0)) as running:
        number = ids.parse(receipt.id)
        described = await running.services.describe(CALLER, number)
        assert "ghp_" not in described.text
        read = await running.services.read_span(CALLER, number, ReadRequest(offset=2, limit=1))
        assert read.text == "token [redacted: github-pat] here\n"
    async with open_service(load({}, data=str(tmp_path), port=0)) as running:
        assert (
            await running.services.read_span(CALLER, number, ReadRequest(offset=2, limit=1))
        ).text == f"token {TOKEN} here\n"


async def test_stored_masks_before_storing_and_the_artifact_says_so(tmp_path: Path) -> None:
    async with open_service(load({}, data=str(tmp_path), redaction="stored", port=0)) as running:
        services = running.services
        receipt = await services.ingest(
            CALLER, _once(TEXT.encode()), IngestRequest(declared=DeclaredMetadata(title=f"a {TOKEN}"))
        )
        assert [notice.code for notice in receipt.warnings] == ["secrets_masked"]
        assert "Redacted: 3 secrets (github-pat, private-key) masked before it was stored" in receipt.text
    async with open_service(load({}, data=str(tmp_path), port=0)) as running:
        reading = await running.services.open_view(CALLER, ids.parse(receipt.id), view="raw")
        stored = await reading.read(0, reading.content.size)
        masked = TEXT.replace(TOKEN, "[redacted: github-pat]").replace(KEY, "[redacted: private-key]")
        assert stored.decode() == masked
        assert reading.artifact.declared.title == "a [redacted: github-pat]"


@pytest.mark.parametrize(
    ("body", "said", "expected"),
    [
        (TEXT, DeclaredMetadata(), {"rule": "github-pat", "line": 2, "byte": 15}),
        ("plain", DeclaredMetadata(title=f"a {TOKEN}"), {"rule": "github-pat", "field": "title"}),
    ],
)
async def test_refuse_stores_nothing_and_names_the_place(
    tmp_path: Path, body: str, said: DeclaredMetadata, expected: dict[str, object]
) -> None:
    async with open_service(load({}, data=str(tmp_path), redaction="refuse", port=0)) as running:
        with pytest.raises(CoatcheckError) as refused:
            await running.services.ingest(CALLER, _once(body.encode()), IngestRequest(declared=said))
        assert (refused.value.code, refused.value.extra) == (Code.SECRET_REFUSED, expected)
        assert (await running.services.browse(CALLER, ArtifactFilter(), None, 10)).items == []
        assert (await running.services.ingest(CALLER, _once(b"plain"), IngestRequest())).stored


async def test_labels_that_are_changed_keep_to_the_policy_as_posted_ones_do(tmp_path: Path) -> None:
    async with open_service(load({}, data=str(tmp_path), redaction="off", port=0)) as running:
        services = running.services
        rules: dict[str, Redaction] = {"masks": "stored", "refuses": "refuse"}
        for session, mode in rules.items():
            await services.policies.set(CALLER, PolicyScope("default", "session", session), Policy(redaction=mode))
        numbers: dict[str, int] = {}
        for session in (*rules, "keeps"):
            said = DeclaredMetadata(session=session, labels=("was",))
            receipt = await services.ingest(CALLER, _once(session.encode()), IngestRequest(declared=said))
            numbers[session] = ids.parse(receipt.id)
        labels = ("plain", TOKEN)
        assert (await services.extend(CALLER, numbers["keeps"], labels=labels)).declared.labels == labels
        with pytest.raises(CoatcheckError) as refused:
            await services.extend(CALLER, numbers["refuses"], labels=labels)
        assert refused.value.extra == {"rule": "github-pat", "field": "labels"}
        await services.extend(CALLER, numbers["masks"], labels=labels)
        for session in rules:
            await services.policies.remove(CALLER, PolicyScope("default", "session", session))
        stored = {
            session: (await services.describe(CALLER, n)).artifact.declared.labels for session, n in numbers.items()
        }
    assert stored == {"masks": ("plain", "[redacted: github-pat]"), "refuses": ("was",), "keeps": labels}


def test_a_real_server_masks_what_models_see_and_not_what_programs_download(tmp_path: Path) -> None:
    with serving(tmp_path / "data", redaction="shown") as service:
        receipt = service.post(TEXT, title=f"build {TOKEN}", card_tokens=600)
        path = f"/v1/artifacts/{receipt['id']}"
        answers = [
            json.dumps(receipt),
            json.dumps(service.get(path)),
            service.client.get(f"{path}/card", headers={"accept": "text/plain"}).text,
            json.dumps(service.get("/v1/artifacts")),
            json.dumps(service.get(f"{path}/read", offset=1, limit=30)),
            json.dumps(service.get(f"{path}/search", pattern="token|BEGIN")),
            json.dumps(service.get(f"{path}/windows", query="token here")),
            json.dumps(service.get(f"{path}/outline")),
            _call(service.client, receipt["id"], offset=1),
            _call(service.client, receipt["id"], pattern="token"),
        ]
        for answer in answers:
            assert "ghp_" not in answer
            assert "MIIE" not in answer
        assert answers[4].count("[redacted: github-pat]") == 1
        assert service.content(receipt["id"]) == TEXT.encode()


def test_a_real_server_refuses_with_the_place(tmp_path: Path) -> None:
    with serving(tmp_path / "data", redaction="refuse") as service:
        response = service.client.post("/v1/artifacts", json={"content": TEXT})
        problem = response.json()
        assert (response.status_code, problem["code"]) == (422, "secret_refused")
        assert (problem["rule"], problem["line"], problem["byte"]) == ("github-pat", 2, 15)
        assert "ghp_" not in response.text


def _hidden() -> dict[str, tuple[bytes, str]]:
    """Payloads whose bytes are not the text in which a secret stands, and their media types."""
    wide = f"line one\n{'nothing of interest' * 9}\ntoken {TOKEN} here\n"
    split = f"{TOKEN[:10]}<small>{TOKEN[10:20]}</small>{TOKEN[20:]}"
    return {
        "UTF-16 with marks inside": (b"\xff\xfe" + wide.replace("aB3", "a\u200bB3").encode("utf-16-le"), "text/plain"),
        "EBCDIC": ((wide * 9).encode("cp500"), "text/plain; charset=cp500"),
        "a page": (f"<html><body><p>{wide}</p><p>{split}</p></body></html>".encode(), "text/html"),
    }


@pytest.mark.parametrize("name", list(_hidden()))
@pytest.mark.parametrize("mode", ["stored", "refuse"])
def test_a_secret_in_a_text_that_cannot_carry_a_marker_is_refused(tmp_path: Path, name: str, mode: str) -> None:
    data, media_type = _hidden()[name]
    if mode == "stored" or name != "a page":
        data = data.replace(b"token " + TOKEN.encode(), b"no token")
    with serving(tmp_path, redaction=mode) as service:
        headers = {"content-type": media_type}
        answer = service.client.post("/v1/artifacts/raw", content=data, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (422, "secret_refused")
        assert TOKEN not in answer.text
        assert service.get("/v1/artifacts")["items"] == []
        clean = (
            data.replace("ghp_".encode("utf-16-le"), b"").replace(TOKEN.encode("cp500"), b"").replace(b"<small>", b"")
        )
        clean = clean.replace(b"ghp_", b"") if media_type == "text/html" else clean
        assert service.client.post("/v1/artifacts/raw", content=clean, headers=headers).status_code == 201


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-be", "utf-32-le", "utf-32"])
@pytest.mark.parametrize("lines", [9, 30_000])
async def test_stored_writes_markers_in_the_charset_of_the_payload(tmp_path: Path, charset: str, lines: int) -> None:
    text = f"token {TOKEN} here\n" + f"line of nothing {TOKEN}\n" * lines
    async with open_service(load({}, data=str(tmp_path), redaction="stored", port=0)) as running:
        number = ids.parse((await running.services.ingest(CALLER, _once(text.encode(charset)), IngestRequest())).id)
        reading = await running.services.open_view(CALLER, number, view="raw")
        stored = await reading.content.read(0, reading.content.size)
        assert stored.decode(charset) == text.replace(TOKEN, "[redacted: github-pat]")


@pytest.mark.parametrize("name", ["UTF-16", "CR", "an envelope", "JSON lines"])
def test_a_form_is_kept_where_secrets_are_masked(tmp_path: Path, name: str) -> None:
    lines = [f"step {n} of the build" for n in range(80)]
    lines[40] = f"token {TOKEN} here"
    times = [json.dumps({"time": f"2026-03-04T12:00:{n % 60:02d}Z", "log": line}) for n, line in enumerate(lines)]
    data = {
        "UTF-16": b"\xff\xfe" + "\n".join(lines).encode("utf-16-le"),
        "CR": ("\r".join(lines) + "\r").encode(),
        "an envelope": json.dumps({"exit_code": 1, "stdout": "\n".join(lines)}).encode(),
        "JSON lines": "\n".join(sorted(times[:60]) + times[60:]).encode(),
    }[name]
    with serving(tmp_path, redaction="shown") as service:
        answer = service.client.post(
            "/v1/artifacts/raw", content=data, params={"inline_tokens": "0"}, headers={"content-type": "text/plain"}
        ).json()
        assert TOKEN not in answer["text"]
        artifact = answer["id"]
        whole = _call(service.client, artifact, offset=1, limit=90)
        assert "step 79 of the build" in whole
        assert "token [redacted: github-pat] here" in whole
        assert "step 77 of the build" in _call(service.client, artifact, pattern="step 77 of")
        assert "github-pat" in _call(service.client, artifact, pattern="^token", context=0)
        assert "No match" in _call(service.client, artifact, pattern=TOKEN[:12])


def _call(client: httpx.Client, artifact: str, **arguments: object) -> str:
    body = {"name": "read_artifact", "arguments": {"artifact_id": artifact, **arguments}}
    response = client.post("/v1/tools/call", json=body)
    assert response.status_code == 200, response.text
    return response.text


async def test_a_comparison_shows_no_secret_of_either_run(shown: Services) -> None:
    run = DeclaredMetadata(session="s", tool_name="bash")
    steps = "".join(f"step {n} of the build is done\n" for n in range(400))
    private = [f"key {BODY.splitlines()[0]}", f"before {TOKEN} after"]
    for extra in (f"{KEY}\n{private[1]}\n", f"{TOKEN}\n"):
        payload = f"{steps}{extra}end\n".encode()
        receipt = await shown.ingest(
            CALLER, _once(payload), IngestRequest(declared=run, compare_to="previous", card_tokens=2_000)
        )
    assert "Compared with art_" in receipt.text
    one_line = DeclaredMetadata(session="t", tool_name="bash")
    for extra in (f"{private[1]}\n", ""):
        payload = f"{steps}{extra}end\n".encode()
        receipt = await shown.ingest(CALLER, _once(payload), IngestRequest(declared=one_line, compare_to="previous"))
    assert "Gone, line 401: before [redacted: github-pat] after" in receipt.text.splitlines()
    described = await shown.describe(CALLER, ids.parse(receipt.id))
    assert described.text == receipt.text
    assert "ghp_" not in msgspec.json.encode([receipt.card, described.artifact.facts]).decode()


async def test_a_line_of_a_key_that_is_gone_is_masked_as_part_of_it(shown: Services) -> None:
    run = DeclaredMetadata(session="k", tool_name="bash")
    head, *lines, tail = KEY.splitlines()
    rest = [f"{head}\n", *(f"{line}\n" for line in lines[1:]), f"{tail}\n"]
    steps = "".join(f"step {n} of the build is done\n" for n in range(400))
    for first in (f"{lines[0]}x/y+\n".replace("MIIE", "Completely different words ZZ/"), ""):
        payload = f"{steps}{rest[0]}{first}{''.join(rest[1:])}end\n".encode()
        receipt = await shown.ingest(CALLER, _once(payload), IngestRequest(declared=run, compare_to="previous"))
    assert "of it gone" in receipt.text
    assert "QwErTyUiOp" not in receipt.text
    assert "Completely" not in receipt.text


@pytest.mark.parametrize("mode", ["shown", "stored"])
def test_credentials_in_the_addresses_of_a_page_are_masked(tmp_path: Path, mode: str) -> None:
    address = "https://ann:s3cretpassw0rd@e.org/leeks"
    led = "https://e.org/login?token=9f8e7d6c5b4a39281706"
    text = "".join(f"Bed {n} has sand and loam.\n" for n in range(900))
    scrape = {"markdown": text, "metadata": {"sourceURL": address, "url": led, "title": "Leeks", "statusCode": 404}}
    with serving(tmp_path, redaction=mode) as service:
        bodies = [{"content": text, "url": address, "final_url": led}, {"content": scrape}]
        for body in bodies:
            answer = service.client.post("/v1/artifacts", json=body).json()
            known = service.get(f"/v1/artifacts/{answer['id']}")
            listed = service.get("/v1/artifacts")
            for shown in (answer, known, listed):
                assert "s3cretpassw0rd" not in json.dumps(shown)
                assert "9f8e7d6c5b4a39281706" not in json.dumps(shown)
            lines = known["text"].splitlines()
            assert [line for line in lines if line.startswith("URL: https://ann:[")]
            assert [line for line in lines if line.startswith("Redirected to: https://e.org/login?token=[")]
    with serving(tmp_path / "off", redaction="off") as service:
        assert "s3cretpassw0rd" in service.client.post("/v1/artifacts", json=bodies[1]).json()["text"]
