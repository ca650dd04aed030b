"""Mail and Word documents over HTTP and through the tool, by a service whose workers read them."""

import json
import time
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from extract.office_files import markdown, slides, written
from media.formats import pdf, workbook
from media.test_service import read
from support.service import Service, serving


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("documents")
    with serving(folder / "data", extract_workers=1) as running:
        yield running


def invoice(lines: int = 400) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@example.org", "b@example.org", "Rechnung fällig"
    mail.set_content("".join(f"Posten {n} der Rechnung über {n} €\n" for n in range(lines)), cte="base64")
    mail.add_attachment(b"%PDF-1.4 nothing", maintype="application", subtype="pdf", filename="rechnung.pdf")
    mail.set_boundary("coat")
    mail.add_attachment("Bitte bis zum dritten Oktober überweisen.\n", filename="hinweis.txt", cte="base64")
    return bytes(mail)


def test_a_mail_is_read_by_line_pattern_query_and_section(service: Service) -> None:
    receipt = service.post(invoice(), media_type="message/rfc822", title="mail.eml")
    artifact, card = receipt["id"], receipt["text"]
    first = "Mail: from a@example.org, subject Rechnung fällig, 3 parts: text/plain, application/pdf, text/plain"
    assert f"[{artifact} · document · as text " in card
    assert f"\n{first}\nFrom: a@example.org\n" in card
    assert "Posten 0 der Rechnung über 0 €" in card
    assert "UG9zdGVu" not in card
    assert "Posten 200 der Rechnung" in read(service, artifact, offset=207, limit=1)
    assert "Posten 333 der Rechnung über 333 €" in read(service, artifact, pattern="Posten 333 ")
    assert "dritten Oktober" in read(service, artifact, query="bis wann überweisen?")
    assert "dritten Oktober" in read(service, artifact, section="Attachment: hinweis.txt")
    assert "application/pdf" in read(service, artifact, section="Attachment: rechnung.pdf")
    assert "Attachment: hinweis.txt" in read(service, artifact, section="outline")
    assert service.content(artifact) == invoice()
    assert "Content-Transfer-Encoding: base64" in read(service, artifact, view="raw", offset=1, limit=9)
    for _ in range(60):  # a query waits two seconds for the index
        if service.get("/v1/artifacts", q="dritten Oktober überweisen")["items"]:
            break
    assert [each["id"] for each in service.get("/v1/artifacts", q="dritten Oktober überweisen")["items"]] == [artifact]


def test_a_small_mail_is_not_shown_in_its_encoding(service: Service) -> None:
    receipt = service.post(invoice(2), inline_tokens=1000)
    assert not receipt["inline"]
    assert "Posten 1 der Rechnung über 1 €" in receipt["text"]
    assert "left out" not in receipt["text"]
    assert "Content-Transfer-Encoding" not in receipt["text"]


def test_a_word_document_is_read_by_line_pattern_query_and_section(service: Service) -> None:
    source = markdown(1) + "\n\n# The last chapter\n\nThe zeppelin leaves at noon.\n"
    receipt = service.post(written(source, "docx"), inline_tokens=0, card_tokens=300)
    artifact, card = receipt["id"], receipt["text"]
    assert f"[{artifact} · binary · as text " in card
    assert "Format: Word document\n" in card
    assert "[Content_Types].xml" not in card
    assert "zeppelin" in read(service, artifact, pattern="zeppelin")
    assert "zeppelin" in read(service, artifact, query="When does the zeppelin leave?")
    assert "zeppelin" in read(service, artifact, section="The last chapter")
    assert read(service, artifact, offset=1, limit=1).splitlines()[1].startswith("Word document")
    assert "The last chapter" in read(service, artifact, section="outline")


@pytest.mark.parametrize(
    ("payload", "words"),
    [(pdf("", ""), "[No text on its 2 pages: a scan?"), (slides(), "## Slide 2 (hidden): Spare")],
    ids=["scan", "slides"],
)
def test_a_card_says_what_a_document_is_or_lacks(service: Service, payload: bytes, words: str) -> None:
    receipt: dict[str, Any] = service.post(payload, inline_tokens=0)
    assert words in receipt["text"]
    assert words in read(service, receipt["id"])


def test_the_card_of_a_notebook_shows_the_cell_that_failed(service: Service) -> None:
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": [f"step_{n}()\n", "# " + "y" * 90]}
        for n in range(60)
    ]
    trace = ["Traceback", "  in <module>: table.loc['region']", "KeyError: 'region'"]
    cells[33]["outputs"] = [{"output_type": "error", "ename": "KeyError", "evalue": "'region'", "traceback": trace}]
    document = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    receipt = service.post(document, inline_tokens=0, card_tokens=400)
    artifact = receipt["id"]
    assert "Notebook, 60 cells: cell 0 code: step_0(); " in receipt["text"]
    assert "[out]\nTraceback\n  in <module>: table.loc['region']\nKeyError: 'region'\n" in receipt["text"]
    assert "step_7()" in read(service, artifact, section="cell 7")
    assert "step_33()" in read(service, artifact, path="$.cells[33].source")
    assert "cell 59 code: step_59()" in read(service, artifact, section="outline")


MAIN = b"xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'"


def sheet(rows: bytes) -> bytes:
    return b"<worksheet %s><sheetData>%s</sheetData></worksheet>" % (MAIN, rows)


def strings(items: bytes) -> bytes:
    return b"<sst %s>%s</sst>" % (MAIN, items)


CORNERS = sheet(b'<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>')
EXPANDING: dict[str, Callable[[], bytes]] = {
    "cells": lambda: workbook(
        "Prices",
        "Bomb",
        "Costs",
        parts={"worksheets/sheet2.xml": sheet((b"<row>" + b"<c><v>1</v></c>" * 1000 + b"</row>") * 7000)},
    ),
    "extent": lambda: workbook("Prices", "Bomb", "Costs", parts={"worksheets/sheet2.xml": CORNERS}),
    "one string in every cell": lambda: workbook(
        "Prices",
        "Bomb",
        parts={
            "worksheets/sheet2.xml": sheet((b"<row>" + b'<c t="s"><v>0</v></c>' * 1000 + b"</row>") * 100),
            "sharedStrings.xml": strings(b"<si><t>" + b"words " * 200_000 + b"</t></si>"),
        },
    ),
    "strings": lambda: workbook("Prices", parts={"sharedStrings.xml": strings(b"<si><t>word</t></si>" * 18_000_000)}),
}


@pytest.mark.parametrize("name", EXPANDING)
def test_a_workbook_that_expands_enormously_is_read_as_far_as_its_limits_go(service: Service, name: str) -> None:
    payload = EXPANDING[name]()
    assert len(payload) < 2 * 1024**2
    began = time.monotonic()
    receipt = service.post(payload, inline_tokens=0, card_tokens=400)
    assert time.monotonic() - began < 60, "two workers, each within its seconds"
    artifact, card = receipt["id"], receipt["text"]
    assert "Format: Excel workbook" in card
    assert service.content(artifact) == payload
    assert "The text view ends before the payload does" in read(service, artifact, pattern="no such words")
    if name in {"cells", "extent"}:
        assert "## Sheet Bomb: not read, it is too large; its cells are in view=raw" in card
        assert "1\t2.5" in read(service, artifact, section="Sheet Prices")
        assert "1\t2.5" in read(service, artifact, section="Sheet Costs")
    else:
        assert "[Too much for the memory and time of a text view: what it says was not read." in card
        assert "xl/sharedStrings.xml" in read(service, artifact, pattern="sharedStrings")
    sound = service.post(
        workbook("Prices", cells=f"<row r='3'><c r='A3'><v>{len(name)}</v></c></row>"), inline_tokens=0
    )
    assert f"1\t2.5\n{len(name)}\n" in sound["text"], "the next one is read"
