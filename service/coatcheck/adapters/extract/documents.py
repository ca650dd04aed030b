"""The text of documents, page by page and sheet by sheet, and of archives and databases.

PDF documents and workbooks are read if their libraries are installed: `pypdf` and `python-calamine`, both in the extra
`coatcheck[documents]`; if not, or if a PDF has no text, the view says so. Payloads are considered hostile, so this runs
only in a worker process, within its limits of time and memory. It opens no file, fetches nothing, runs no script of a
document, and skips a broken page or sheet rather than failing the document.
"""

import io
import sqlite3
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, Final, cast

from coatcheck.adapters.extract.archives import extract_stream, extract_zip
from coatcheck.adapters.extract.databases import extract_database
from coatcheck.adapters.extract.mail import extract_mail
from coatcheck.adapters.extract.office import SheetFacts, extract_office, survey_sheets
from coatcheck.adapters.extract.rich_text import extract_rich_text
from coatcheck.adapters.extract.wire import TEXT_BYTES, ViewWriter, cell
from coatcheck.core.artifact import SAMPLE_BYTES, PayloadSample
from coatcheck.core.extract.blocks import one_line
from coatcheck.core.media import describe, identify, identify_written, read_encoding
from coatcheck.core.media.documents import (
    MAIL,
    MAILBOX,
    PDF,
    RICH_TEXT,
    SAVED_PAGE,
    SQLITE,
    STREAMS,
    XML,
    is_document,
    is_office,
)
from coatcheck.core.parts.charset import decode
from coatcheck.core.text.count import first_of, format_count
from coatcheck.core.text.excerpt import align
from coatcheck.core.views.view import MISSING, ExtractedText

DOCUMENT_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes of a document that is opened. A larger document is not read at all, because a part cannot be opened."""
_ROWS: Final = 100_000
"""Maximum rows that are read from one sheet."""
_MAX_COLUMNS: Final = 1_000
"""Maximum columns that are read from one sheet; a wider sheet makes the view partial. Chosen, not measured."""
_SHARE: Final = 0.6
"""Share of a job's seconds after which reading ends and the text so far becomes the view: a partial view is better than
none."""
_BOOKMARKS: Final = 40
"""Maximum bookmarks that the beginning of a view names."""
_MIN_BOOKMARKS: Final = 4
"""Number of first-level bookmarks that is enough. If there are fewer, second-level bookmarks are named too."""
_TITLE: Final = 120
"""Maximum characters of a bookmark."""
_EXCEL: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_TOO_MUCH: Final = "Too much for the memory and time of a text view: what it says was not read."
_WORKBOOKS: Final = (_EXCEL, "application/vnd.oasis.opendocument.spreadsheet")


def is_extractable(payload: bytes, media_type: str | None = None) -> bool:
    """Returns whether a payload is a document, an archive or a database that can be read here.

    `media_type` is the declared media type, by which a mail may be recognised.
    """
    if not payload or len(payload) > DOCUMENT_BYTES:
        return False
    signature = identify(payload[:4096]) or identify_written(payload[:SAMPLE_BYTES], media_type)
    if signature is None:
        return read_encoding(payload) is not None
    if signature.media_type == SQLITE:
        return hasattr(sqlite3.Connection, "deserialize")  # which some builds of SQLite lack
    return is_document(signature.media_type)


def extract_document(payload: bytes, seconds: float, media_type: str | None = None) -> ExtractedText | None:
    """Returns the text view of a document; None if the payload is not a document or cannot be opened.

    If a PDF is encrypted or has no text, or the library for the document is missing, the view is a line that says so.

    Args:
        payload: the whole document.
        seconds: CPU time that the job may take.
        media_type: the declared media type.
    """
    if not is_extractable(payload, media_type):
        return None
    until = time.process_time() + _SHARE * seconds
    facts = describe(PayloadSample(payload, b"", len(payload)), None)
    payload_type, name = facts.media_type, facts.lines[0]
    written = identify_written(payload[:SAMPLE_BYTES], media_type) if identify(payload[:4096]) is None else None
    if written is not None:
        payload_type = written.media_type
    if (reader := _READERS.get(payload_type)) is not None:
        return reader(payload, until)
    if payload_type in STREAMS:
        return extract_stream(payload, payload_type, until)
    text_view = None
    if payload_type in _WORKBOOKS and (payload_type == _EXCEL or find_spec("python_calamine") is not None):
        text_view = _workbook(payload, until)
    elif is_office(payload_type):
        text_view = extract_office(payload, name, until)
    return text_view or extract_zip(payload, until)


def list_document(payload: bytes, seconds: float) -> ExtractedText | None:
    """Returns the view of a document at which workers have failed: a line that names their limits as the cause.

    If the document is a ZIP archive, the view also has a list of its files and their texts.
    """
    writer = ViewWriter(time.process_time() + _SHARE * seconds)
    writer.put(f"[{_TOO_MUCH} Its bytes are in view=raw.]\n")
    if (files := extract_zip(payload, time.process_time() + _SHARE * seconds)) is not None:
        writer.include(files, 0)
    writer.partial = True
    return writer.finish("listed 1")


def _explain_unreadable(reason: str, extractor: str) -> ExtractedText:
    """Returns the view of a document whose text cannot be read: one line that says why."""
    text = f"[{reason} Its bytes are in view=raw.]\n".encode()
    return ExtractedText(text=text, extractor=extractor, partial=True)


def _decode_xml(payload: bytes, _: float) -> ExtractedText:
    """Returns XML that is not in UTF-8 as text; its declaration still names the original encoding."""
    text = decode(payload, None).encode()
    end = len(text) if len(text) <= TEXT_BYTES else text.rfind(b"\n", 0, TEXT_BYTES) + 1 or align(text, TEXT_BYTES)
    return ExtractedText(text=text[:end], extractor="decoded 1", partial=end < len(text))


def _pdf(payload: bytes, until: float) -> ExtractedText | None:
    if find_spec("pypdf") is None:
        return _explain_unreadable(
            "The text of a PDF needs an extra of the service: pip install 'coatcheck[documents]'.", MISSING
        )
    import pypdf  # noqa: PLC0415 - belongs to an extra, and is imported only when it is needed

    writer = ViewWriter(until)
    extractor = f"pypdf {pypdf.__version__} 2"
    words = pages = 0
    try:
        reader = cast("Any", pypdf).PdfReader(io.BytesIO(payload), strict=False)
        if reader.is_encrypted and not _is_open(reader):
            return _explain_unreadable("Encrypted: its text cannot be read without its password.", extractor)
        pages = len(reader.pages)
        # Each page is read by itself, so that a broken one costs only its own text.
        if contents := _bookmarks(reader):
            writer.put(f"Contents, with pages: {first_of(contents, _BOOKMARKS)}")
        for number in range(pages):
            text = _page(reader, number)
            writer.partial = writer.partial or text is None
            words += bool(text and text.strip())
            writer.begin(f"Page {number + 1} of {pages}")
            if not writer.put(f"## Page {number + 1}") or not writer.put(text or "[no text on this page: a picture?]"):
                break
    except Exception:  # noqa: BLE001 - a hostile document may raise anything, and the pages before that are whole
        writer.partial = True
    # If time has run out, a later page may have words: only a document that was read whole is called a scan.
    if pages and not words and not writer.late:
        return _explain_unreadable(f"No text on its {format_count(pages, 'page')}: a scan?", extractor)
    return writer.finish(extractor) if words else None


def _is_open(reader: Any) -> bool:  # noqa: ANN401 - of a library without types
    """Returns whether an encrypted document opens without a password."""
    try:
        return bool(reader.decrypt(""))
    except Exception:  # noqa: BLE001 - the cipher may need a library that is not installed
        return False


def _bookmarks(reader: Any) -> list[str]:  # noqa: ANN401 - of a library without types
    """Returns the first-level bookmarks, each with its page; if they are few, second-level bookmarks too.

    Returns an empty list if any bookmark cannot be read.
    """
    levels: tuple[list[str], list[str]] = ([], [])
    try:
        for each in reader.outline:
            for inner in cast("list[Any]", each) if isinstance(each, list) else [each]:
                if isinstance(inner, list):
                    continue
                bookmark = f"{one_line(str(inner.title))[:_TITLE]} {reader.get_destination_page_number(inner) + 1}"
                levels[1].append(bookmark)
                levels[0].extend([] if isinstance(each, list) else [bookmark])
    except Exception:  # noqa: BLE001 - the pages may be readable without bookmarks
        return []
    return levels[len(levels[0]) < _MIN_BOOKMARKS]


def _page(reader: Any, number: int) -> str | None:  # noqa: ANN401 - of a library without types
    """Returns the text of a page; None if the page is broken."""
    try:
        return str(reader.pages[number].extract_text())
    except Exception:  # noqa: BLE001 - the other pages may be whole
        return None


def _workbook(payload: bytes, until: float) -> ExtractedText | None:
    if find_spec("python_calamine") is None:
        return _explain_unreadable(
            "The cells of a workbook need an extra of the service: pip install 'coatcheck[documents]'.", MISSING
        )
    import python_calamine  # noqa: PLC0415 - belongs to an extra, and is imported only when it is needed

    writer = ViewWriter(until)
    try:
        book = cast("Any", python_calamine).CalamineWorkbook.from_filelike(io.BytesIO(payload))
        facts = survey_sheets(payload)
        for name in cast("list[str]", book.sheet_names):
            if not _sheet(book, name, writer, facts.get(name, SheetFacts())):
                break
    except BaseException as error:  # a panic in the library is not an Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        writer.partial = True
    return writer.finish(f"calamine {getattr(python_calamine, '__version__', '')} 2")


def _sheet(book: Any, name: str, writer: ViewWriter, facts: SheetFacts) -> bool:  # noqa: ANN401 - of a library without types
    """Writes a sheet: a title with its size, then its rows as values and tabs. Returns False if the view is full."""
    writer.begin(f"Sheet {name}")
    if facts.is_too_large:
        writer.partial = True
        return writer.put(f"## Sheet {one_line(name)}: not read, it is too large; its cells are in view=raw\n")
    sheet = book.get_sheet_by_name(name)
    height, width = int(sheet.height), int(sheet.width)
    writer.partial = writer.partial or height > _ROWS or width > _MAX_COLUMNS
    formulas = f", {format_count(facts.formulas, 'formula')} without a value" if facts.formulas else ""
    if not writer.put(f"## Sheet {one_line(name)}: {height} rows, {width} columns{formulas}"):
        return False
    return all(writer.put(row) for row in _rows(sheet))


def _rows(sheet: Any) -> Iterator[str]:  # noqa: ANN401 - of a library without types
    for number, row in enumerate(sheet.iter_rows()):
        if number == _ROWS:
            return
        yield "\t".join(map(cell, row[:_MAX_COLUMNS])).rstrip("\t")
    yield ""


_READERS: Final[dict[str, Callable[[bytes, float], ExtractedText | None]]] = {
    XML: _decode_xml,
    PDF: _pdf,
    SQLITE: extract_database,
    RICH_TEXT: extract_rich_text,
    MAIL: extract_mail,
    MAILBOX: extract_mail,
    SAVED_PAGE: extract_mail,
}
