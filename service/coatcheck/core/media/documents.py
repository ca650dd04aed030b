"""Documents: which payloads may have a text view, the title and pages of a PDF, and formats that are written as text.

Documents that are written as text are mail, mailboxes, saved pages and rich text. A mail is recognised by its headers:
the text must begin with headers and nothing else, and they must be headers of mail. Only a bounded prefix is read.
"""

import re
from typing import Final

from coatcheck.core.artifact import PayloadSample
from coatcheck.core.media.headers import BinaryFormat

PDF: Final = "application/pdf"
SQLITE: Final = "application/vnd.sqlite3"
XML: Final = "application/xml"
"""Media type of XML whose encoding is not Unicode, so that its bytes are not UTF-8 text."""
ZIP: Final = "application/zip"
JAR: Final = "application/java-archive"
TAR: Final = "application/x-tar"
DEB: Final = "application/vnd.debian.binary-package"
STREAMS: Final = frozenset({TAR, DEB, "application/gzip", "application/x-bzip2", "application/x-xz"})
"""Media types of data that is read from beginning to end: tar archives, Debian packages and compressed files."""
MAIL: Final = "message/rfc822"
MAILBOX: Final = "application/mbox"
SAVED_PAGE: Final = "multipart/related"
RICH_TEXT: Final = "application/rtf"
WRITTEN: Final = frozenset({MAIL, MAILBOX, SAVED_PAGE, RICH_TEXT})
"""Media types of documents that are written as text."""
_OFFICE: Final = (
    "application/epub+zip",
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
)


def is_document(media_type: str | None) -> bool:
    """Returns whether a payload of this media type may have a text view: documents, archives, databases, XML."""
    return media_type in {PDF, SQLITE, XML, ZIP, JAR, *STREAMS, *WRITTEN} or is_office(media_type)


def is_office(media_type: str | None) -> bool:
    """Returns whether a media type is that of an office document or e-book, whose parts are in a ZIP archive."""
    return (media_type or "").startswith(_OFFICE)


_TITLE: Final = re.compile(rb"/Title\s{0,4}(?:\(((?:[^()\\]|\\.){1,400})\)|<((?:[0-9A-Fa-f]{2}){2,400})>)", re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPED: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f", b"\n": b"", b"\r": b""}
_NOT_LATIN: Final = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f-\xa0]")
_DIRECT: Final = rb"(?!\s+\d+\s+R\b)"
_REFERENCE: Final = rb"\s+0\s+R\b"
_OBJECT_BYTES: Final = 64 * 1024
"""Maximum bytes of an object that is read."""


def pdf_pages(sample: PayloadSample) -> int | None:
    """Returns the number of pages, if plain objects lead to it, or if the file is linearized and was not changed."""
    first = sample.head[: max(0, sample.head.find(b"endobj", 0, 2048))]
    if b"/Linearized" in first and _number(first, b"L", _DIRECT) == sample.size:
        return _number(first, b"N", _DIRECT)
    return _number(_object(sample, b"Pages", _object(sample, b"Root", _trailer(sample))), b"Count", _DIRECT)


def pdf_title(sample: PayloadSample) -> str | None:
    """Returns the title, if it is in a plain object and nothing is encrypted."""
    encrypted = b"/Encrypt" in sample.head or b"/Encrypt" in sample.tail
    match = None if encrypted else _TITLE.search(_object(sample, b"Info", _trailer(sample)))
    if match is None:
        return None
    raw = bytes.fromhex(match[2].decode()) if match[2] else _ESCAPE.sub(_decode_escape, match[1])
    if raw[:2] == b"\xfe\xff":
        text = raw[2:].decode("utf-16-be", "replace")
    else:
        text = "" if _NOT_LATIN.search(raw) else raw.decode("latin-1")
    return " ".join(text.split())[:300] or None


def _decode_escape(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 8) & 255]) if match[1].isdigit() else _ESCAPED.get(match[1], match[1])


def _trailer(sample: PayloadSample) -> bytes:
    """Returns the last trailer, which is in force after all changes of the file; empty if it is compressed."""
    end = sample.tail or sample.head
    at = end.rfind(b"trailer")
    return end[at : at + _OBJECT_BYTES] if at > end.rfind(b"/XRef") else b""


def _number(data: bytes, name: bytes, after: bytes) -> int | None:
    """Returns the number under a name that occurs once."""
    numbers: list[bytes] = re.findall(rb"/%s\s{0,4}(\d{1,10})\b%s" % (name, after), data)
    return int(numbers[0]) if len(numbers) == 1 else None


def _object(sample: PayloadSample, name: bytes, data: bytes) -> bytes:
    """Returns the plain object that `data` refers to by a name; empty if the file's end has none, or several."""
    end = sample.tail or sample.head
    number = _number(data, name, _REFERENCE)
    starts = [match.end() for match in re.finditer(rb"(?:^|[\r\n])%d 0 obj\b" % (number or 0), end)]
    return end[starts[0] : end.find(b"endobj", starts[0], starts[0] + _OBJECT_BYTES)] if len(starts) == 1 else b""


_HEAD_BYTES: Final = 16 * 1024
"""Maximum bytes of a mail's headers that are read. Relays add some kilobytes."""
_MAYBE: Final = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]{0,8}(?:\{\\rtf|From [^\s:]|[A-Za-z][!-9;-~]{0,75}:)")
_ENVELOPE: Final = re.compile(rb"(?!From [0-9a-f]{40} )From \S[^\r\n]{0,120}\d{4}[^\r\n]{0,40}\r?\n")
"""Matches the first line of a mailbox, but not the similar first line of a Git patch."""
_LINE: Final = re.compile(rb"(?:([!-9;-~]{1,76}):[^\n]*|[ \t][^\n]*)(?:\n|\Z)")
_TRANSPORT: Final = frozenset(
    {b"Message-ID", b"Message-Id", b"Received", b"Return-Path", b"MIME-Version", b"Delivered-To"}
)
_USUAL: Final = _TRANSPORT | {b"From", b"To", b"Cc", b"Date", b"Subject", b"Reply-To", b"Newsgroups", b"Mime-Version"}
_ENOUGH: Final = 3
"""Minimum headers of mail in a text that is not declared as mail."""
_SAVED: Final = re.compile(rb"^(?:Snapshot-Content-Location:|From: .{0,3}Saved by )", re.MULTILINE)
_DECLARED: Final = frozenset({MAIL, SAVED_PAGE, MAILBOX, "application/x-mimearchive", "message/global"})
_NAMES: Final = {MAIL: "mail", MAILBOX: "mailbox", SAVED_PAGE: "saved page", RICH_TEXT: "rich text"}


def identify_written(head: bytes, media_type: str | None) -> BinaryFormat | None:
    """Returns the format of a document that begins with `head`; None for any other text.

    `media_type` is the declared media type. A text that is declared as mail needs headers, but not the usual ones.
    """
    if not _MAYBE.match(head):
        return None
    head = head[:_HEAD_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    if head.startswith(b"{\\rtf"):
        return BinaryFormat(RICH_TEXT, _NAMES[RICH_TEXT])
    envelope = _ENVELOPE.match(head)
    names, end = _field_names(head, 0 if envelope is None else envelope.end())
    declared = (media_type or "").partition(";")[0].strip().lower() in _DECLARED
    usual = names & _USUAL
    is_mail = len(usual) >= _ENOUGH and (b"From" in usual or len(usual & _TRANSPORT) > 1)
    if not names or not (declared or is_mail):
        return None
    form = MAILBOX if envelope is not None else SAVED_PAGE if _SAVED.search(head, 0, end) else MAIL
    return BinaryFormat(form, _NAMES[form])


def _field_names(head: bytes, start: int) -> tuple[set[bytes], int]:
    """Returns the names of the headers from `start` on, and the offset of their end.

    The set is empty if a line among the headers is something else.
    """
    names: set[bytes] = set()
    at = start
    while at < len(head) and (line := _LINE.match(head, at)) is not None:
        names |= {line[1]} if line[1] else set()
        at = line.end()
    rest = head[at : at + 2]
    return (names, at) if not rest or rest[:1] == b"\n" or rest == b"\r\n" else (set(), 0)
