"""The text of PDF documents and workbooks, page by page and sheet by sheet, if the libraries for them are installed.

They are: `pypdf` and `python-calamine`, both of the extra `coatcheck[documents]`. What they read is hostile until
proved otherwise, so that this runs in a worker process only, within its limits of time and memory. It opens no file,
fetches nothing, runs no script of a document, and gives up a page or a sheet that breaks rather than the document.
"""

import io
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Final, cast

from coatcheck.core.artifact import Sample
from coatcheck.core.extract.sections import Start, one_line, sections
from coatcheck.core.kinds.archives import zip_kind, zip_listing
from coatcheck.core.kinds.documents import PDF, is_workbook
from coatcheck.core.kinds.magic import identify
from coatcheck.core.views import MAX_SECTIONS, Extracted

DOCUMENT_BYTES: Final = 32 * 1024 * 1024
"""Bytes of a document that is opened; a part of one is worth nothing."""
_TEXT_BYTES: Final = 16 * 1024 * 1024
"""Bytes of text that are taken of one document."""
_ROWS: Final = 100_000
"""Rows that are taken of one sheet."""
_COLUMNS: Final = 1_000
_CELL: Final = 2_000
"""Characters of a cell."""
_TAIL: Final = 256 * 1024
_SHARE: Final = 0.6
"""Of a job's seconds, after which what was read is the view: partial, and better than none."""


def document_type(payload: bytes) -> str | None:
    """The media type of a payload that is a document whose text can be read here; None for all others."""
    found = identify(payload[:4096])
    if found is None:
        return None
    if found.media_type == PDF:
        return PDF if find_spec("pypdf") else None
    if found.media_type != "application/zip":
        return None
    tail = payload[-_TAIL:] if len(payload) > 2 * _TAIL else b""
    kind = zip_kind(zip_listing(Sample(payload[:_TAIL] if tail else payload, tail, len(payload))))
    return kind[0] if kind and is_workbook(kind[0]) and find_spec("python_calamine") else None


def extract_document(payload: bytes, seconds: float) -> Extracted | None:
    """The text view of a document; None where it is none, has no text, or cannot be opened.

    Args:
        payload: the document, whole.
        seconds: processor time that the job may take.
    """
    media_type = document_type(payload) if len(payload) <= DOCUMENT_BYTES else None
    if media_type is None:
        return None
    until = time.process_time() + _SHARE * seconds
    return _pdf(payload, until) if media_type == PDF else _workbook(payload, until)


class _Writer:
    """A view being written, within its bound."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._parts: list[bytes] = []
        self._starts: list[Start] = []
        self.size = 0
        self._lines = 0
        self.partial = False

    def begin(self, title: str) -> None:
        """The next page or sheet."""
        if len(self._starts) < MAX_SECTIONS:
            self._starts.append(Start(one_line(title), 1, self.size, self._lines + 1))

    def put(self, text: str) -> bool:
        """Text and the end of its line. False when there is no more room, or no more time."""
        data = f"{text.rstrip()}\n".encode("utf-8", "replace")
        if self.size + len(data) > _TEXT_BYTES or time.process_time() > self._until:
            self.partial = True
            return False
        self._parts.append(data)
        self.size += len(data)
        self._lines += data.count(b"\n")
        return True

    def done(self, extractor: str) -> Extracted | None:
        """The view; None when nothing but titles is in it."""
        if not self._starts:
            return None
        found = sections(self._starts, prefix="p", size=self.size, lines=self._lines)
        return Extracted(text=b"".join(self._parts), sections=found, extractor=extractor, partial=self.partial)


def _pdf(payload: bytes, until: float) -> Extracted | None:
    import pypdf  # noqa: PLC0415 - of an extra, and only where it is needed

    writer = _Writer(until)
    words = 0
    try:
        reader = cast("Any", pypdf).PdfReader(io.BytesIO(payload), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            return None
        pages = len(reader.pages)
        for number in range(pages):
            text = _page(reader, number)
            writer.partial = writer.partial or text is None
            words += len(text or "")
            writer.begin(f"Page {number + 1} of {pages}")
            if not writer.put(f"## Page {number + 1}") or not writer.put(text or ""):
                break
    except Exception:  # noqa: BLE001 - whatever a document does to its reader, there is no view of it
        writer.partial = True
    return writer.done(f"pypdf {pypdf.__version__}") if words else None


def _page(reader: Any, number: int) -> str | None:  # noqa: ANN401 - of a library without types
    """The text of one page; None where the page is broken."""
    try:
        return str(reader.pages[number].extract_text())
    except Exception:  # noqa: BLE001 - the other pages may be whole
        return None


def _workbook(payload: bytes, until: float) -> Extracted | None:
    import python_calamine  # noqa: PLC0415 - of an extra, and only where it is needed

    writer = _Writer(until)
    try:
        book = cast("Any", python_calamine).CalamineWorkbook.from_filelike(io.BytesIO(payload))
        for name in cast("list[str]", book.sheet_names):
            if not _sheet(book, name, writer):
                break
    except BaseException as error:  # a panic of the library is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        writer.partial = True
    return writer.done(f"calamine {getattr(python_calamine, '__version__', '')}".strip())


def _sheet(book: Any, name: str, writer: _Writer) -> bool:  # noqa: ANN401 - of a library without types
    """One sheet as tab-separated rows. False when there is no more room."""
    sheet = book.get_sheet_by_name(name)
    height, width = int(sheet.height), int(sheet.width)
    writer.begin(f"Sheet {name}")
    writer.partial = writer.partial or height > _ROWS or width > _COLUMNS
    if not writer.put(f"## Sheet {one_line(name)}: {height} rows, {width} columns"):
        return False
    return all(writer.put(row) for row in _rows(sheet))


def _rows(sheet: Any) -> Iterator[str]:  # noqa: ANN401 - of a library without types
    for number, row in enumerate(sheet.iter_rows()):
        if number == _ROWS:
            return
        yield "\t".join(_cell(value) for value in row[:_COLUMNS]).rstrip("\t")
    yield ""


def _cell(value: object) -> str:
    """A cell on one line, whole numbers without a point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:  # noqa: PLR2004 - exact so far
        return str(int(value))
    text = " ".join(str(value).split())
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"
