"""Text of PDF documents and workbooks, page by page and sheet by sheet; what is broken, and where it is done."""

import io
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from pypdf import PdfWriter

from coatcheck.adapters.extract.documents import extract_document, is_extractable
from coatcheck.adapters.extract.extractor import TextExtractor
from coatcheck.adapters.extract.office import survey_sheets
from coatcheck.adapters.extract.wire import check
from coatcheck.core.artifact import Kind
from coatcheck.core.views.view import MISSING, ExtractedText, View, ViewMeasure
from coatcheck_client.contract.answers import TokenCount
from media.formats import FORMATS, pdf, workbook, zipped

SECONDS = 30.0


@pytest.fixture
async def extractor() -> AsyncIterator[TextExtractor]:
    made = TextExtractor(1, seconds=30, memory=1024**3)
    yield made
    made.close()


def parts(found: ExtractedText | None) -> list[tuple[str, str, str]]:
    assert found is not None
    assert found.text is not None
    return [(part.name, part.title, found.text[part.start : part.end].decode()) for part in found.sections]


def test_each_page_of_a_pdf_is_a_section() -> None:
    payload = pdf("Low tide at six", "High tide at noon")
    found = extract_document(payload, SECONDS)
    assert parts(found) == [
        ("p1", "Page 1 of 2", "## Page 1\nLow tide at six\n"),
        ("p2", "Page 2 of 2", "## Page 2\nHigh tide at noon\n"),
    ]
    assert found is not None
    assert found.extractor.startswith("pypdf ")
    assert not found.partial
    check(found, payload)


def test_the_bookmarks_of_a_pdf_are_its_contents() -> None:
    writer: Any = PdfWriter(io.BytesIO(pdf("Low tide", "High tide", "Moon")))
    tides = writer.add_outline_item(title="Tides", page_number=0)
    writer.add_outline_item(title="High\nones", page_number=1, parent=tides)
    writer.add_outline_item(title="The moon", page_number=2)
    out = io.BytesIO()
    writer.write(out)
    found = extract_document(out.getvalue(), SECONDS)
    assert found is not None
    assert found.text is not None
    assert found.text.startswith(b"Contents, with pages: Tides 1; High ones 2; The moon 3\n## Page 1\nLow tide\n")
    assert [part.title for part in found.sections] == ["Page 1 of 3", "Page 2 of 3", "Page 3 of 3"]
    check(found, out.getvalue())


def test_each_sheet_of_a_workbook_is_a_section_of_rows() -> None:
    payload = workbook("Prices", "Costs")
    found = extract_document(payload, SECONDS)
    rows = "id\tprice\n1\t2.5\n\n"
    assert parts(found) == [
        ("p1", "Sheet Prices", f"## Sheet Prices: 2 rows, 2 columns\n{rows}"),
        ("p2", "Sheet Costs", f"## Sheet Costs: 2 rows, 2 columns\n{rows}"),
    ]
    assert found is not None
    check(found, payload)


def test_a_sheet_says_how_many_formulas_have_no_value() -> None:
    cells = (
        '<row r="3"><c r="A3"><f>B2*0.2</f><v></v></c><c r="B3" s="1"><f t="shared" si="0"/></c></row>'
        '<row r="4"><c r="A4"><f>B2</f><v>2.5</v></c><c r="B4" t="str"><f>""</f><v></v></c></row>'
        '<row r="5"><c r="A5"/><c r="B5"><v/></c></row>'
    )
    titles = [
        text.split("\n")[0] for _, _, text in parts(extract_document(workbook("A &amp; B", "C", cells=cells), SECONDS))
    ]
    assert titles == [
        "## Sheet A & B: 4 rows, 2 columns, 2 formulas without a value",
        "## Sheet C: 4 rows, 2 columns, 2 formulas without a value",
    ]


@pytest.mark.parametrize(
    "payload", [b"", b"PK", workbook("A")[:400], zipped({"xl/workbook.xml": b"<sheet r:id='1'/>"})]
)
def test_what_is_no_workbook_has_no_sheets_to_survey(payload: bytes) -> None:
    assert survey_sheets(payload) == {}


def test_a_document_that_runs_out_of_time_has_a_partial_view() -> None:
    found = extract_document(workbook("Prices"), 0.0)
    assert found is None or found.partial


def test_a_pdf_without_text_says_so() -> None:
    found = extract_document(pdf("", ""), SECONDS)
    assert found is not None
    assert found.text == b"[No text on its 2 pages: a scan? Its bytes are in view=raw.]\n"
    assert found.partial
    some = parts(extract_document(pdf("Low tide", ""), SECONDS))
    assert some[1] == ("p2", "Page 2 of 2", "## Page 2\n[no text on this page: a picture?]\n")


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_an_encrypted_pdf_says_so_unless_it_opens_without_a_password(algorithm: str) -> None:
    views: dict[str, ExtractedText | None] = {}
    for password in ("", "tide"):
        writer: Any = PdfWriter(io.BytesIO(pdf("Low tide")))
        writer.encrypt(password, "owner", algorithm=algorithm)
        out = io.BytesIO()
        writer.write(out)
        views[password] = extract_document(out.getvalue(), SECONDS)
    assert parts(views[""]) == [("p1", "Page 1 of 1", "## Page 1\nLow tide\n")]
    told = views["tide"]
    assert told is not None
    assert told.text == b"[Encrypted: its text cannot be read without its password. Its bytes are in view=raw.]\n"
    assert told.partial


@pytest.mark.parametrize(("library", "payload"), [("pypdf", pdf("Low tide")), ("python_calamine", workbook("Prices"))])
def test_a_view_says_which_extra_is_missing_and_is_made_anew(library: str, payload: bytes) -> None:
    program = (
        "import sys, importlib.util as util\n"
        "find = util.find_spec\n"
        f"util.find_spec = lambda name, *rest: None if name == {library!r} else find(name, *rest)\n"
        "from coatcheck.adapters.extract.documents import extract_document\n"
        "made = extract_document(sys.stdin.buffer.read(), 30.0)\n"
        "print(made.extractor, made.partial, made.text.decode())\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], input=payload, capture_output=True, check=True)
    assert ended.stdout.decode().startswith(f"{MISSING} True [The ")
    assert b"pip install 'coatcheck[documents]'." in ended.stdout
    measure = ViewMeasure(size=1, lines=1, chars=1, tokens=TokenCount(1, exact=True))
    kept = View(name="text", extractor=MISSING, partial=True, sections=(), measure=measure)
    assert kept.is_old
    assert not replace(kept, extractor="pypdf 7").is_old


READABLE = {"pdf", "zip", "wheel", "jar", "epub", "tar", "tar.gz", "tar.xz", "tar.bz2", "gz", "sqlite"}


@pytest.mark.parametrize("name", sorted(set(FORMATS) - READABLE))
def test_what_is_no_document_is_left_alone(name: str) -> None:
    assert not is_extractable(FORMATS[name][0])
    assert extract_document(FORMATS[name][0], SECONDS) is None


@pytest.mark.parametrize("name", sorted(READABLE))
def test_a_broken_file_of_any_readable_format_gives_a_sound_view_or_none(name: str) -> None:
    whole = FORMATS[name][0]
    assert is_extractable(whole)
    rng = random.Random(name)
    for _ in range(120):
        data = bytearray(whole[: rng.choice((len(whole), rng.randrange(len(whole) // 2, len(whole))))])
        for _ in range(rng.choice((0, 1, 5, 30))):
            data[rng.randrange(len(data))] = rng.choice((0, 0x7F, 0xFF, rng.randrange(256)))
        found = extract_document(bytes(data), SECONDS)
        if found is not None:
            check(found, bytes(data))


@pytest.mark.parametrize("whole", [pdf("Low tide", "High tide"), workbook("Prices")], ids=["pdf", "workbook"])
def test_a_broken_document_gives_a_sound_view_or_none(whole: bytes) -> None:
    rng = random.Random(5)
    for _ in range(60):
        data = bytearray(whole[: rng.choice((len(whole), rng.randrange(40, len(whole))))])
        for _ in range(rng.choice((0, 1, 5, 30))):
            data[rng.randrange(8, len(data))] = rng.randrange(256)
        found = extract_document(bytes(data), SECONDS)
        if found is not None:
            check(found, bytes(data))


def test_a_pdf_whose_pages_go_round_in_a_circle_ends() -> None:
    payload = pdf("Low tide", "High tide").replace(b"/Kids [4 0 R 6 0 R]", b"/Kids [2 0 R 2 0 R]")
    found = extract_document(payload, SECONDS)
    assert found is None or len(found.sections) <= 2


def test_a_pdf_of_deep_arrays_ends() -> None:
    payload = pdf("Low tide").replace(b"/MediaBox [0 0 600 800]", b"/MediaBox " + b"[" * 50_000 + b"]" * 50_000)
    found = extract_document(payload, SECONDS)
    assert found is None or found.sections


async def test_the_service_reads_documents_in_a_worker(extractor: TextExtractor) -> None:
    payload = pdf("Low tide at six")
    found = await extractor.extract(Kind.BINARY, "application/pdf", None, payload)
    assert parts(found) == [("p1", "Page 1 of 1", "## Page 1\nLow tide at six\n")]
    assert len(extractor.workers.pids) == 1


async def test_no_worker_is_started_for_what_is_no_document(extractor: TextExtractor) -> None:
    assert await extractor.extract(Kind.BINARY, "application/pdf", None, FORMATS["elf"][0]) is None
    assert extractor.workers.pids == set()


async def test_without_workers_a_document_has_no_text_view() -> None:
    made = TextExtractor(0, seconds=30, memory=1024**3)
    assert await made.extract(Kind.BINARY, "application/pdf", None, pdf("Low tide")) is None
    made.close()
