"""Forty secrets in all the ways that outputs hide them, through cards, reads and every other way out, in each mode."""

import base64
import contextlib
import html
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast
from urllib.parse import unquote

import msgspec
import pytest

from coatcheck.adapters.redaction_rules import Masks
from coatcheck.api.services import Services
from coatcheck.bootstrap.service import open_service
from coatcheck.core import ids
from coatcheck.core.artifact import Caller, DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.redact.mask import UNIT, Mask, RedactingStream
from coatcheck.core.redact.normal_form import normal_forms
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.settings import load
from coatcheck.storing.ingest_request import IngestRequest
from coatcheck.tools.calls import Call
from coatcheck.tools.dispatcher import ToolDispatcher
from coatcheck.usecases.reading.grep import PatternSearchRequest
from coatcheck.usecases.reading.read import ReadRequest
from redact.hidden_secrets import SECRETS, WAYS, Hidden, Secret
from support.service import serving

CALLER = Caller()
_GRAM = 8
"""Characters of a secret of which no eight may be seen together, however an answer writes them."""
_MARK = re.compile(r"\[redacted(?:: [\w-]+)?\]|•")


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


@pytest.fixture(scope="module")
def mask() -> Mask:
    return Masks()()


def seen(secret: str, text: str) -> str | None:
    """Returns a part of a secret that somebody who reads a text could see in it."""
    text = _MARK.sub("\n", text.replace("\u2400", "").replace("\u241b", "\x1b").replace("\u2408", "\b"))
    texts = [
        text,
        json.dumps(text),
        html.unescape(text),
        unquote(text),
        text.replace("\\\\", "\\").replace("\\n", "\n"),
    ]
    texts += [form.decode("utf-8", "replace") for form, _ in normal_forms(text.encode("utf-8", "replace"))]
    for line in secret.split("\n"):
        if line.startswith("-----"):
            continue
        size = min(_GRAM, len(line))
        for at in range(len(line) - size + 1):
            if any(line[at : at + size] in each for each in texts):
                return line[at : at + size]
    return None


def _json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


async def _take_in(services: Services, hidden: Hidden) -> tuple[int, str]:
    said = DeclaredMetadata(tool_name="make", media_type=hidden.media_type)
    request = IngestRequest(declared=said, inline_tokens=0, card_tokens=2000)
    receipt = await services.ingest(CALLER, _once(hidden.payload), request)
    return ids.parse(receipt.id), receipt.text


def test_every_secret_is_found_as_it_is(mask: Mask) -> None:
    assert len(SECRETS) == 40
    assert len(WAYS) >= 25
    for each in SECRETS:
        shown = mask.reveal(mask.fill_secrets(f"{each.before}{each.secret}{each.behind}\n".encode()).decode())
        assert re.fullmatch(re.escape(each.before) + r"\[redacted(: [\w-]+)?\]" + re.escape(each.behind) + "\n", shown)
        assert seen(each.secret, f"{each.before}{each.secret}{each.behind}")


@pytest.mark.parametrize("way", WAYS)
async def test_no_way_of_writing_shows_a_secret_on_a_card_or_in_a_read(tmp_path: Path, way: str) -> None:
    leaks: list[tuple[str, str, str]] = []
    async with open_service(load({}, data=str(tmp_path), redaction="shown", port=0)) as running:
        services = running.services
        for number, secret in enumerate(SECRETS):
            hidden = WAYS[way](secret)
            artifact, card = await _take_in(services, hidden)
            answers = {"card": card}
            for view in ("raw", "text"):
                with contextlib.suppress(CoatcheckError):  # not every payload has a text view
                    read = ReadRequest(unit="line", offset=1, limit=80, view=view)
                    answers[f"lines of {view}"] = (await services.read_span(CALLER, artifact, read)).text
            assert "lines of raw" in answers
            answers |= await _others(services, artifact, secret, number % _WAYS_OUT)
            leaks += [
                (secret.name, name, part) for name, text in answers.items() if (part := seen(secret.secret, text))
            ]
    assert leaks == []


_WAYS_OUT = 9


async def _others(services: Services, artifact: int, secret: Secret, which: int) -> dict[str, str]:  # noqa: PLR0911
    """Returns what one of the other ways out answers, so that all come up with each way of writing."""
    s, name = services, ids.render(artifact)
    if which == 0:
        size = (await s.open_view(CALLER, artifact, view="raw")).content.size
        offsets = [at for at in range(0, size, 37) if at >= size // 3][:12]
        reads = [ReadRequest(unit="byte", offset=at, limit=300, view="raw") for at in offsets]
        return {"bytes": "\n".join([(await s.read_span(CALLER, artifact, each)).text for each in reads])}
    if which == 1:
        read = ReadRequest(unit="token", offset=0, limit=900, view="raw")
        return {"tokens": (await s.read_span(CALLER, artifact, read)).text}
    if which == 2:
        patterns = [PatternSearchRequest(pattern=each, view="raw", context=9) for each in (".", secret.secret[:4])]
        return {"pattern": _json([await s.search(CALLER, artifact, each) for each in patterns])}
    if which == 3:
        return {"query": _json(await s.windows(CALLER, artifact, query=f"{secret.before} token", view="raw"))}
    if which == 4:
        outline = await s.outline(CALLER, artifact)
        return {"outline": _json(outline)}
    if which == 5:
        try:
            return {"path": _json(await s.read_json(CALLER, artifact, path="$"))}
        except CoatcheckError:
            return {}
    if which == 6:
        found = await s.browse(CALLER, ArtifactFilter(), None, 10, query=secret.secret[:12])
        assert found.items == []
        return {"list": _json((await s.browse(CALLER, ArtifactFilter(), None, 3)).items)}
    if which == 7:
        made = await s.describe(CALLER, artifact, budget=200, query=secret.secret[:9])
        return {"another card": made.text}
    call = Call(name="read_artifact", arguments={"artifact_id": name, "offset": 10, "view": "raw"})
    return {"tool": (await cast("ToolDispatcher", s.tools).execute(CALLER, call)).text}


@pytest.mark.parametrize("way", WAYS)
async def test_no_way_of_writing_is_stored_with_a_secret_or_taken_for_none(tmp_path: Path, way: str) -> None:
    leaks: list[tuple[str, str]] = []
    async with open_service(load({}, data=str(tmp_path / "stored"), redaction="stored", port=0)) as running:
        for secret in SECRETS:
            hidden = WAYS[way](secret)
            try:
                artifact, card = await _take_in(running.services, hidden)
            except CoatcheckError as error:
                assert error.code is Code.SECRET_REFUSED  # noqa: PT017 - either answer keeps it
                continue
            reading = await running.services.open_view(CALLER, artifact, view="raw")
            stored = (await reading.content.read(0, reading.content.size)).decode("utf-8", "replace")
            leaks += [(secret.name, part) for text in (card, stored) if (part := seen(secret.secret, text))]
    assert leaks == []
    async with open_service(load({}, data=str(tmp_path / "refuse"), redaction="refuse", port=0)) as running:
        for secret in SECRETS:
            with pytest.raises(CoatcheckError) as refused:
                await _take_in(running.services, WAYS[way](secret))
            assert refused.value.code is Code.SECRET_REFUSED


async def test_what_was_stored_before_is_masked_by_the_rules_of_now(tmp_path: Path) -> None:
    kept: list[tuple[Secret, int]] = []
    async with open_service(load({}, data=str(tmp_path), port=0)) as running:
        for secret in SECRETS:
            artifact, card = await _take_in(running.services, WAYS["grep --color"](secret))
            assert seen(secret.secret, card)
            kept.append((secret, artifact))
    async with open_service(load({}, data=str(tmp_path), redaction="shown", port=0)) as running:
        for secret, artifact in kept:
            card = await running.services.describe(CALLER, artifact, budget=2000)
            read = await running.services.read_span(CALLER, artifact, ReadRequest(unit="line", offset=1, limit=80))
            assert seen(secret.secret, card.text + read.text) is None


def _escapes() -> list[bytes]:
    """Every escape sequence and control of ECMA-48 that changes no letter."""
    final = [b"\x1b[%b%c" % (parameters, end) for end in range(0x40, 0x7F) for parameters in (b"", b"1;31", b"?25")]
    final += [b"\x1b[0 %c" % end for end in range(0x40, 0x7F)]
    pairs = [b"\x1b%c" % end for end in range(0x30, 0x7F) if end not in b"[]PX^_"]
    strings = [b"\x1b%ca;b%b" % (kind, end) for kind in b"]PX^_" for end in (b"\x07", b"\x1b\\")]
    wide = [chr(code).encode() for code in range(0x80, 0xA0) if code not in {0x90, 0x98, 0x9B, 0x9D, 0x9E, 0x9F}]
    plain = [bytes((code,)) for code in range(0x20) if code not in b"\b\t\n\x1b"]
    return [*final, *pairs, *strings, *wide, *plain, b"\x1b(0", b"\x1b#8", b"\x1b%G", b"\x1b)A"]


def test_no_escape_of_ecma_48_splits_a_secret(mask: Mask) -> None:
    token = SECRETS[0].secret
    for escape in _escapes():
        data = b"use " + token[:9].encode() + escape + token[9:20].encode() + escape + token[20:].encode() + b" now\n"
        filled = mask.fill_secrets(data)
        assert len(filled) == len(data)
        assert seen(token, filled.decode("utf-8", "replace")) is None, escape


@pytest.mark.parametrize("way", ["grep --color", "JSON escapes", "bold in a man page", "UTF-16 without a mark"])
def test_a_hidden_secret_at_every_edge_of_a_unit_is_masked(mask: Mask, way: str) -> None:
    secret = SECRETS[0]
    hidden = WAYS[way](secret).payload
    line = b"nothing of interest in here\n"
    for shift in range(0, len(hidden), max(2, len(hidden) // 40) & ~1):
        before = (line * (UNIT // len(line) + 2))[: UNIT - shift & ~1]
        data = before + hidden + line * 400
        stream = RedactingStream(mask, refuse=False)
        stored = stream.feed(data) + stream.end()
        assert seen(secret.secret, stored[UNIT - 9000 :].decode("utf-8", "replace")) is None, shift


def test_a_payload_of_nothing_but_secrets_and_a_long_line_are_masked_whole(mask: Mask) -> None:
    token = SECRETS[0].secret.encode()
    for data in ((token + b"\n") * 3_000, (token + b"\x1b[0m ") * 3_000, base64.b64encode((token + b" ") * 900)):
        assert seen(token.decode(), mask.fill_secrets(data).decode()) is None
    long = b"x" * 4_000_000 + b" " + token[:9] + b"\x1b[1m" + token[9:] + b" " + b"y" * 4_000_000
    filled = mask.fill_secrets(long)
    assert (filled.count(b"\x7f") >= len(token), filled[:4_000_000], filled[-4_000_000:]) == (
        True,
        b"x" * 4_000_000,
        b"y" * 4_000_000,
    )


@pytest.mark.parametrize("way", ["grep --color", "JSON with colours", "bold in a man page", "UTF-16 with a mark"])
def test_no_way_out_of_a_real_server_shows_a_hidden_secret(tmp_path: Path, way: str) -> None:
    secret = SECRETS[0]
    hidden = WAYS[way](secret)
    text = hidden.payload.decode("utf-16" if way.startswith("UTF-16") else "utf-8")
    with serving(tmp_path, redaction="shown") as service:
        c = service.client
        receipt = c.post("/v1/artifacts/raw", content=hidden.payload, params={"inline_tokens": 0, "session": "s"})
        artifact = receipt.json()["id"]
        path = f"/v1/artifacts/{artifact}"
        call = {"name": "read_artifact", "arguments": {"artifact_id": artifact, "offset": 10}}
        mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        accept = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        log = text * 30
        messages = [
            {"role": "user", "content": "make"},
            {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": _FUNCTION}]},
            {"role": "tool", "tool_call_id": "c1", "content": log},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "again"},
        ]
        compact = {"body": {"model": "gpt-4o", "messages": messages}, "session": "s", "window": {"model": 4_000}}
        hook = {
            "session_id": "s",
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "make"},
            "tool_response": {"stdout": log, "stderr": "", "interrupted": False},
        }
        answers = {
            "receipt": receipt,
            "read": c.get(f"{path}/read", params={"offset": 1, "limit": 40}),
            "search": c.get(f"{path}/search", params={"pattern": secret.secret[:6]}),
            "windows": c.get(f"{path}/windows", params={"query": "token use"}),
            "events": c.get("/v1/events", params={"session": "s"}),
            "list": c.get("/v1/artifacts", params={"q": "build"}),
            "page": c.get(f"/ui/artifacts/{artifact}"),
            "page of lines": c.get(f"/ui/artifacts/{artifact}/read"),
            "tool": c.post("/v1/tools/call", json=call),
            "MCP": c.post("/mcp", json=mcp, headers=accept),
            "compaction": c.post("/v1/context/compact", json=compact),
            "hook": c.post("/v1/hooks/claude-code", json=hook),
        }
        for name, answer in answers.items():
            assert answer.is_success, (name, answer.text)
            shown = answer.text.replace(f'"pattern":{json.dumps(secret.secret[:6])}', "")
            assert seen(secret.secret, shown) is None, name
        assert "[art_" in answers["compaction"].text
        assert "[art_" in answers["hook"].text


_FUNCTION = {"name": "bash", "arguments": "{}"}
