"""Secrets in documents, whose bytes say nothing of them: on cards, in reads, in lists, and in each mode."""

import json
from collections.abc import AsyncIterator, Callable
from email.message import EmailMessage
from pathlib import Path

import pytest

from coatcheck.adapters.extract.documents import extract_document
from coatcheck.bootstrap.service import open_service
from coatcheck.core import ids
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.extract import extract_text
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.settings import load
from coatcheck.storing.ingest_request import IngestRequest
from coatcheck.usecases.reading.grep import PatternSearchRequest
from coatcheck.usecases.reading.read import ReadRequest
from extract.office_files import open_text, slides, word, written
from media.formats import pdf, workbook
from redact.hidden_secrets import SECRETS, Secret
from redact.test_hidden_secrets import CALLER, seen

CHOSEN = [each for each in SECRETS if each.name in {"github", "anthropic", "db-password", "url-password", "stripe"}]


def _mail(transfer: str) -> Callable[[str], bytes]:
    def write(line: str) -> bytes:
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "a@example.org", "b@example.org", f"größer: {line}"
        mail["X-Note"] = "1"
        mail.set_content(f"größer\n{line}\n", cte=transfer)
        return bytes(mail)

    return write


def _attached(line: str) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@example.org", "b@example.org", "x"
    mail.set_content("See below.")
    mail.add_attachment(f"größer\n{line}\n", filename="notes.txt", cte="base64")
    return bytes(mail)


def _notebook(line: str) -> bytes:
    output = {"output_type": "stream", "name": "stdout", "text": ["größer\n", f"{line}\n"]}
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "source": ["print(x)"], "metadata": {}, "outputs": [output]}
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def _view(payload: bytes) -> str:
    made = extract_document(payload, 30.0) or extract_text("json", None, None, payload)
    return "" if made is None else (made.text or b"").decode()


WAYS: dict[str, Callable[[str], bytes]] = {
    "docx": lambda line: word(text=line),
    "docx, in two runs": lambda line: word(text=f"{line[:9]}</w:t></w:r><w:r><w:t>{line[9:]}"),
    "docx, in a comment": lambda line: word(comments=f"<w:comment><w:p><w:r><w:t>{line}</w:t></w:r></w:p></w:comment>"),
    "pptx": lambda line: slides(text=line),
    "pptx, in notes": lambda line: slides(notes=line),
    "odt": open_text,
    "epub": lambda line: written(f"# Chapter\n\n`{line}`", "epub"),
    "rtf": lambda line: b"{\\rtf1 " + "".join(f"\\'{ord(char):02x}" for char in line).encode() + b"}",
    "rtf, in two groups": lambda line: f"{{\\rtf1 {{\\b {line[:9]}}}{{\\i {line[9:]}}}\\par}}".encode(),
    "mail in base64": _mail("base64"),
    "mail in quoted-printable": _mail("quoted-printable"),
    "mail, attached": _attached,
    "mbox": lambda line: b"From a@example.org Mon Jan  1 10:00:00 2024\n" + _mail("base64")(line),
    "notebook": _notebook,
    "PDF": lambda line: pdf(line.replace("(", "\\(")),
    "xlsx": lambda line: workbook("A", cells=f'<row r="3"><c r="A3" t="inlineStr"><is><t>{line}</t></is></c></row>'),
}


async def once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _line(secret: Secret) -> str:
    return f"{secret.before}{secret.secret}{secret.behind}"


@pytest.mark.parametrize("way", WAYS)
async def test_no_document_shows_a_secret_on_a_card_or_in_a_read(tmp_path: Path, way: str) -> None:
    leaks: list[tuple[str, str, str]] = []
    async with open_service(load({}, data=str(tmp_path), redaction="shown", port=0)) as running:
        s = running.services
        for secret in CHOSEN:
            payload = WAYS[way](_line(secret))
            assert seen(secret.secret, _view(payload))  # what a mask has to hide
            request = IngestRequest(declared=DeclaredMetadata(tool_name="get"), inline_tokens=0, card_tokens=2000)
            receipt = await s.ingest(CALLER, once(payload), request)
            artifact = ids.parse(receipt.id)
            read = ReadRequest(unit="line", offset=1, limit=80, view="text")
            answers = {"card": receipt.text, "lines": (await s.read_span(CALLER, artifact, read)).text}
            assert "[redacted" in answers["lines"]
            pattern = PatternSearchRequest(pattern=".", view="text", context=3)
            answers["pattern"] = str(await s.search(CALLER, artifact, pattern))
            answers["query"] = str(await s.windows(CALLER, artifact, query=f"{secret.before} token", view="text"))
            answers["outline"] = str(await s.outline(CALLER, artifact))
            answers["list"] = str((await s.browse(CALLER, ArtifactFilter(), None, 9)).items)
            answers["another card"] = (await s.describe(CALLER, artifact, budget=300, query=secret.secret[:9])).text
            leaks += [
                (secret.name, name, part) for name, text in answers.items() if (part := seen(secret.secret, text))
            ]
    assert leaks == []


@pytest.mark.parametrize("way", WAYS)
async def test_no_document_is_stored_with_a_secret_or_taken_for_one_without(tmp_path: Path, way: str) -> None:
    request = IngestRequest(declared=DeclaredMetadata(tool_name="get"), inline_tokens=0)
    for mode in ("stored", "refuse"):
        async with open_service(load({}, data=str(tmp_path / mode), redaction=mode, port=0)) as running:
            s = running.services
            for secret in CHOSEN:
                try:
                    receipt = await s.ingest(CALLER, once(WAYS[way](_line(secret))), request)
                except CoatcheckError as error:
                    assert error.code is Code.SECRET_REFUSED  # noqa: PT017 - either answer keeps it
                    continue
                assert mode == "stored"  # and a marker stands in its place
                reading = await s.open_view(CALLER, ids.parse(receipt.id), view="raw")
                stored = await reading.content.read(0, reading.content.size)
                texts = [receipt.text, stored.decode("latin-1"), _view(stored)]
                assert [seen(secret.secret, text) for text in texts] == [None, None, None]
            assert await s.ingest(CALLER, once(WAYS[way]("harmless")), request)
