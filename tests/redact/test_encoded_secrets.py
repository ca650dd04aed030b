"""Secrets in bytes that are written as text: nothing of them is stored, in any text, encoding and form."""

import base64
import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from coatcheck.bootstrap.service import open_service
from coatcheck.core import ids
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.settings import load
from coatcheck.storing.ingest_request import IngestRequest
from coatcheck_client import Client
from coatcheck_client.integrations.tool_outputs import ToolOutputs
from extract.office_files import word
from redact.hidden_secrets import SECRETS
from redact.test_document_secrets import once
from redact.test_hidden_secrets import CALLER
from support.service import serving

SECRET = SECRETS[0]
LINE = f"\n{SECRET.before}{SECRET.secret}{SECRET.behind}\n"
RANDOM = random.Random(3)


def prose(size: int) -> str:
    return " ".join("".join(RANDOM.choices("abcdefghij", k=6)) for _ in range(size // 7))


TEXTS = {
    "ascii": f"{prose(900)}{LINE}{prose(900)}".encode(),
    "umlauts": f"{'äöüß ' * 300}{LINE}{'äöüß ' * 300}".encode(),
    "chinese": f"{'密码是下面的这个请不要告诉别人' * 40}{LINE}".encode(),
    "with a mark": f"\ufeff{prose(900)}{LINE}".encode(),
    "utf-16": f"{prose(900)}{LINE}".encode("utf-16"),
    "far from the beginning": f"{prose(90_000)}{LINE}{prose(90_000)}".encode(),
    "in another unit": f"{prose(700_000)}{LINE}".encode(),
}
FORMS: dict[str, Callable[[str], str]] = {
    "data URI": lambda code: f"see data:text/plain;base64,{code} there",
    "percent-encoded": lambda code: (
        f"see data:text/plain;base64,{code.replace('+', '%2B').replace('/', '%2F').replace('=', '%3D')} there"
    ),
    "JSON": lambda code: json.dumps({"mimeType": "text/plain", "data": code, "n": 1}),
    "JSON in JSON": lambda code: json.dumps({"content": json.dumps({"encoding": "base64", "data": code})}),
    "URL-safe": lambda code: json.dumps({"media_type": "text/plain", "data": code.translate({43: "-", 47: "_"})}),
}


def encodings(stored: bytes) -> list[bytes]:
    """What runs of Base64 in stored bytes decode to, wherever they may begin."""
    plain = stored.replace(b"%2B", b"+").replace(b"%2F", b"/").translate(bytes.maketrans(b"-_", b"+/"))
    runs = re.findall(rb"[A-Za-z0-9+/]{24,}", plain)
    shifted = [run[shift:] for run in runs for shift in range(4)]
    return [base64.b64decode(run[: len(run) // 4 * 4]).replace(b"\0", b"") for run in shifted]


@pytest.mark.parametrize("form", FORMS)
async def test_no_secret_in_encoded_bytes_is_stored(tmp_path: Path, form: str) -> None:
    request = IngestRequest(declared=DeclaredMetadata(tool_name="get"), inline_tokens=0)
    part = SECRET.secret[4:20].encode()
    for mode in ("off", "stored", "refuse"):
        async with open_service(load({}, data=str(tmp_path / mode), redaction=mode, port=0)) as running:
            s = running.services
            for name, text in TEXTS.items():
                payload = FORMS[form](base64.b64encode(text).decode()).encode()
                try:
                    receipt = await s.ingest(CALLER, once(payload), request)
                except CoatcheckError as error:
                    assert (error.code, mode) == (Code.SECRET_REFUSED, "refuse")  # noqa: PT017 - nothing is stored
                    continue
                assert mode != "refuse", name
                reading = await s.open_view(CALLER, ids.parse(receipt.id), view="raw")
                stored = await reading.content.read(0, reading.content.size)
                seen = any(part in each for each in encodings(stored))
                assert (name, seen) == (name, mode == "off"), "without redaction the test sees it"


@pytest.mark.parametrize("mode", ["stored", "refuse"])
def test_a_document_that_is_refused_is_not_stored_with_the_text_around_it(tmp_path: Path, mode: str) -> None:
    texts = "".join(f"<w:p><w:r><w:t>{prose(200)}</w:t></w:r></w:p>" for _ in range(30))
    code = base64.b64encode(word(f"<w:p><w:r><w:t>größer {LINE}</w:t></w:r></w:p>{texts}")).decode()
    sound = base64.b64encode(word(texts)).decode()
    log = "".join(f"line {n} of the log\n" for n in range(2_000))
    output = f"data:application/octet-stream;base64,{code}\ndata:application/octet-stream;base64,{sound}\n{log}"
    messages = [
        {"role": "user", "content": "make"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": output},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "next"},
    ]
    body = {"model": "gpt-4o", "messages": messages}
    with serving(tmp_path, redaction=mode, extract_workers=1) as service, Client(service.url, deadline=60) as client:
        card = ToolOutputs(client).card(output, "get")
        compacted = service.client.post(
            "/v1/context/compact", json={"body": body, "session": "s", "window": {"model": 4_000}}
        ).text
        for text in (card, compacted):
            found = re.search(r"\[(art_[0-9]{18}) ·", text)
            assert found is not None, text
            stored = service.content(found[1]).decode()
            assert code[:200] not in stored
            assert re.search(r"^\[[^\n]*, refused for a secret\]\n\[[^\n]*, art_[0-9]{18}\]\nline 0 ", stored), stored[
                :300
            ]
