"""Extracts the text of mails, mailboxes and pages saved as MHTML: decoded headers, then bodies and attachments.

Runs in a worker process. The parts of a message are found by their boundaries alone. For each level of nesting, this
takes time that is linear in the size of the message. The depth and the number of nested parts and messages are
limited. Names of attachments are shown, but never used as paths.
"""

import re
from collections.abc import Iterator
from email import message_from_string
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.parser import HeaderParser
from email.utils import collapse_rfc2231_value
from itertools import islice
from typing import Final

from msgspec import Struct

from coatcheck.adapters.extract.wire import ViewWriter
from coatcheck.core.artifact import PayloadSample
from coatcheck.core.extract import extract_text
from coatcheck.core.extract.blocks import one_line
from coatcheck.core.media import describe
from coatcheck.core.media.archives import format_size
from coatcheck.core.parts.charset import decode
from coatcheck.core.text.count import first_of, format_count
from coatcheck.core.views.view import ExtractedText

_EXTRACTOR: Final = "mail 1"
_MAX_DEPTH: Final = 8
"""Maximum levels of parts within parts, and of messages within messages."""
_PARTS: Final = 1_000
"""Maximum parts of one message that are read."""
_HEAD: Final = 256 * 1024
"""Maximum bytes of the headers of one part."""
_TYPES: Final = 8
"""Maximum types of parts that the first line names."""
_NAMED: Final = 12
"""Maximum mails that the beginning of a mailbox's view names."""
_FIRST_HEADERS: Final = ("From", "To", "Cc", "Bcc", "Date", "Subject")
_ENVELOPE: Final = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From [^\r\n]{0,200}?\d{4}[^\r\n]{0,40}\r?\n")
"""Matches the line before each mail of a mailbox (RFC 4155)."""
_STUFFED: Final = re.compile(rb"^>(>*From )", re.MULTILINE)
_BLANK: Final = re.compile(rb"\r?\n[ \t]*\r?\n|\A\r?\n")
_LINE_END: Final = re.compile(rb"\A\r?\n")
_WORD: Final = re.compile(r"\w+|[^\w\s\x00-\x7f]")
_SAME: Final = 0.9
"""If at least this share of a page's distinct words is in the plain text before it, the page is not shown."""
_FIELDS: Final = frozenset({"message/delivery-status", "message/disposition-notification", "message/feedback-report"})
"""Media types `message/…` of parts that contain a list of fields instead of a mail. They are shown as text."""


class _Part(Struct):
    """A part of a message, or the message itself."""

    head: "Message[str, str]"
    body: bytes
    """The body in its transfer encoding."""
    related: bool = False
    """Whether the part is a resource of a page before it in `multipart/related`, such as a picture."""

    @property
    def type(self) -> str:
        """The media type of the part."""
        return self.head.get_content_type()

    @property
    def name(self) -> str:
        """The file name of the part; empty if it has none."""
        value = _parameter(self.head, "filename", "content-disposition") or _parameter(self.head, "name")
        return one_line(_decode_words(value))

    @property
    def data(self) -> bytes:
        """The body without its transfer encoding."""
        self.head.set_payload(self.body.decode("ascii", "surrogateescape"))
        data = self.head.get_payload(decode=True)
        return data if isinstance(data, bytes) else self.body

    @property
    def text(self) -> str:
        """The body as text."""
        return decode(self.data, self.head.get("content-type")).replace("\r\n", "\n")

    @property
    def place(self) -> str:
        """The location or content ID by which a page refers to this part; empty if it has neither."""
        return one_line(self.head.get("content-location") or self.head.get("content-id") or "")

    @property
    def placeholder(self) -> str:
        """The line that is shown instead of a part that is not text: its media type, its format and its size."""
        data = self.data
        first = describe(PayloadSample(data, b"", len(data)), self.type).lines[0]
        description = "" if first.startswith("unknown") else f", {first}"
        return f"[{self.type}{description}, {format_size(len(data))}: not shown]"


def extract_mail(payload: bytes, until: float) -> ExtractedText | None:
    """Returns the text view of a mail, a mailbox or a saved page; None if the time is used up before the first line.

    Args:
        payload: the whole file.
        until: CPU time of this process, in seconds, at which to stop.
    """
    writer = ViewWriter(until)
    payload = payload.removeprefix(b"\xef\xbb\xbf").lstrip()
    envelopes = list(_ENVELOPE.finditer(payload)) if payload.startswith(b"From ") else []
    if not envelopes:
        _write_message(writer, _part(payload), 0)
    else:
        writer.put(
            f"Mailbox: {format_count(len(envelopes), 'mail')}{', the first' if len(envelopes) > _NAMED else ''}:"
        )
    for number, mark in enumerate(envelopes[:_NAMED], 1):
        head = _part(payload[mark.end() : mark.end() + _HEAD]).head
        writer.put(f"Mail {number}: {_header(head, 'Subject')}, from {_header(head, 'From') or '?'}")
    for number, mark in enumerate(envelopes, 1):
        end = envelopes[number].start() if number < len(envelopes) else len(payload)
        mail = _part(_STUFFED.sub(rb"\1", payload[mark.end() : end]))
        if not writer.heading(f"Mail {number}: {_header(mail.head, 'Subject')}"):
            break
        _write_message(writer, mail, 1)
    return writer.finish(_EXTRACTOR)


def _part(data: bytes, *, related: bool = False) -> _Part:
    """Returns the part that consists of these bytes: headers, an empty line, a body."""
    blank = _BLANK.search(data, 0, _HEAD)
    end, start = (min(len(data), _HEAD), len(data)) if blank is None else blank.span()
    head = HeaderParser().parsestr(decode(data[:end], None) + "\n\n")
    text = head.get_payload()  # the lines that do not look like headers: they belong to the body
    lines = text.encode("utf-8", "replace") if isinstance(text, str) else b""
    return _Part(head, lines.strip(b"\n") + data[start:] if lines.strip() else data[start:], related)


def _leaves(part: _Part, depth: int = 0) -> Iterator[_Part]:
    """Yields the parts that contain no other parts, in order. A multipart that is nested too deep is yielded itself."""
    if part.head.get_content_maintype() != "multipart" or depth == _MAX_DEPTH:
        yield part
        return
    boundary = re.escape(_parameter(part.head, "boundary").rstrip().encode("utf-8", "replace"))
    mark = re.compile(rb"(?:\A|\r?\n)--%b(--)?[ \t]*(?=\r?\n|\Z)" % boundary)
    delimiters = list(islice(mark.finditer(part.body), _PARTS + 1)) if boundary else []
    rest = b"" if delimiters else part.body  # without a boundary, the whole body is one part
    for number, match in enumerate(delimiters):
        end = delimiters[number + 1].start() if number + 1 < len(delimiters) else len(part.body)
        inner = _LINE_END.sub(b"", part.body[match.end() : end], 1)
        if match[1]:
            rest = part.body[match.end() :]  # text after the last boundary, such as the footer of a mailing list
            break
        related = part.related or (number > 0 and part.type == "multipart/related")
        yield from _leaves(_part(inner, related=related), depth + 1)
    if rest.strip():
        yield _Part(message_from_string(""), rest)


def _decode_words(value: str) -> str:
    """Returns a header's value on one line, with its encoded words (RFC 2047) decoded."""
    try:
        pieces = decode_header(" ".join(value.split()))
    except (HeaderParseError, ValueError):
        return value
    texts = [
        decode(piece, f"text/plain; charset={charset}" if charset else None) if isinstance(piece, bytes) else piece
        for piece, charset in pieces
    ]
    return " ".join("".join(texts).split())


def _parameter(head: "Message[str, str]", name: str, header: str = "content-type") -> str:
    """Returns a parameter of a header (RFC 2231); as it is written if it cannot be decoded; empty if there is none."""
    value = head.get_param(name, "", header)
    try:
        return collapse_rfc2231_value(value)
    except ValueError:  # some codecs raise errors in spite of "replace"
        return value[2] if isinstance(value, tuple) else value


def _header(head: "Message[str, str]", name: str) -> str:
    return ", ".join(_decode_words(str(value)) for value in head.get_all(name, []))


def _write_message(writer: ViewWriter, mail: _Part, depth: int) -> None:
    """Writes a message into the open section of level `depth`: the main headers, the parts, and the other headers."""
    leaves = list(islice(_leaves(mail), _PARTS + 1))
    writer.partial = writer.partial or len(leaves) > _PARTS
    headers = {name: value for name in _FIRST_HEADERS if (value := _header(mail.head, name))}
    location = _header(mail.head, "Snapshot-Content-Location")
    types = first_of([leaf.type for leaf in leaves if not leaf.related], _TYPES, separator=", ")
    subject = f", subject {one_line(headers['Subject'])}" if "Subject" in headers else ""
    what = "Saved page" if location else f"Mail: from {one_line(headers.get('From', '?'))}"
    if not depth:
        writer.put(f"{what}{subject}, {format_count(len(leaves), 'part')}: {types}")
    for name, value in headers.items():
        writer.put(f"{name}: {value}")
    if location:
        writer.put(f"URL: {location}")
    _write_parts(writer, leaves[:_PARTS], depth, location or None)
    rest = [(name, str(value)) for name, value in mail.head.items() if name.title() not in _FIRST_HEADERS]
    if rest and writer.heading("Other headers", depth + 1, aside=True):
        for name, value in rest:
            writer.put(f"{name}: {_decode_words(value)}")


def _write_parts(writer: ViewWriter, leaves: list[_Part], depth: int, url: str | None) -> None:
    words: set[str] = set()
    resources: list[str] = []
    for leaf in leaves:
        is_closed = leaf.type.startswith(("message/", "multipart/")) and leaf.type not in _FIELDS
        title = f"Attachment: {leaf.name}" if leaf.name else ""
        if writer.late:
            writer.partial = True
            return
        if is_closed and leaf.type.startswith("message/") and depth < _MAX_DEPTH:
            inner = _part(leaf.data.lstrip())
            writer.heading(title or f"Mail: {_header(inner.head, 'Subject')}", depth + 1)
            _write_message(writer, inner, depth + 1)
            continue
        writer.partial = writer.partial or is_closed  # the part is nested too deep to be read
        if leaf.related or leaf.head.get_content_maintype() not in {"text", "message"}:
            if leaf.related and not leaf.name:
                resources.append(f"{leaf.place} {leaf.placeholder}".strip())
            else:
                writer.heading(title or leaf.type, depth + 1)
                writer.put(leaf.placeholder)
        elif leaf.type == "text/html":
            _write_page(writer, leaf, words, title, depth, url)
        else:
            text = leaf.text
            words |= set(_WORD.findall(text))
            writer.heading(title or ("Text" if leaf.type == "text/plain" else leaf.type), depth + 1)
            writer.put(text.strip("\n"))
    if resources:
        writer.heading("Resources of the page", depth + 1)
        for each in resources:
            writer.put(each)


def _write_page(writer: ViewWriter, leaf: _Part, words: set[str], title: str, depth: int, url: str | None) -> None:
    """Writes a page. If almost all of its words are in `words`, from the plain text before it, writes only a note."""
    page = extract_text("page", leaf.head.get("content-type"), url, leaf.data)
    if page is None or page.text is None:
        return
    new = set(_WORD.findall(page.text.decode()))
    if words and not title and len(new & words) >= _SAME * len(new):
        writer.heading("HTML", depth + 1)
        writer.put("[the same words as the text]")
        return
    writer.heading(title or ("Page" if url else "HTML"), depth + 1)
    writer.include(page, depth + 1)
