"""The responses of the content route, which serves the payload, its text view, or a section of either, byte for byte.

The bytes of a representation never change, so each has a strong entity tag.

A payload is untrusted, and its bytes are not examined. Browsers are told to download it, not to guess its type, and, if
they show it nevertheless, to run no scripts in it.

Conditions and ranges follow RFC 9110. `respond` decides on the status, the header fields and the bytes to send, but
sends nothing itself. A whole view is hashed while it is sent. If its digest is not the stored one, the body ends before
its last block.
"""

import asyncio
import base64
import hashlib
import re
import unicodedata
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from coatcheck.api.http.conditional_requests import Fields, Validators, evaluate, parse_range, range_applies, select
from coatcheck.core.artifact import Artifact
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.views.window import Extent, HttpByteRange
from coatcheck.reading.view import ViewReading
from coatcheck.storing.content import Content

UNKNOWN_TYPE = "application/octet-stream"
NAME_LIMIT = 120
"""Maximum characters of a file name, so that most names fit into the 255 bytes that common file systems allow."""

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
"""Characters of a token (RFC 9110 section 5.6.2)."""
_MEDIA_TYPE = re.compile(
    rf"{_WORD}/{_WORD}(?:[ \t]*;[ \t]*{_WORD}=(?:{_WORD}|\"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*\"))*"
)
"""Matches a media type with its parameters. Text that does not match, such as a line break, never gets into the header
field."""
_MEDIA_TYPE_CHARS = 255
"""Maximum characters of a media type: RFC 6838 allows 127 for each of its two names."""
_NEEDS_ESCAPE = re.compile(r"[^0-9A-Za-z ()+,.=@_-]")
"""Matches a character that is not ASCII, or would need an escape in a quoted string."""
_SEPARATORS = re.compile(r"[/\\:*?\"<>|%]")
"""Matches a character that some file system forbids or takes for a separator, and `%`, which some clients decode."""


def content_type(artifact: Artifact) -> str:
    """Returns the declared or else the detected media type; UNKNOWN_TYPE if it is invalid (RFC 9110 section 8.3.1).

    `multipart/byteranges` counts as unknown: clients would take it for the framing of several ranges.
    """
    media_type = artifact.declared.media_type or artifact.facts.media_type or UNKNOWN_TYPE
    if len(media_type) > _MEDIA_TYPE_CHARS or not _MEDIA_TYPE.fullmatch(media_type):
        return UNKNOWN_TYPE
    return UNKNOWN_TYPE if media_type.lower().startswith("multipart/byteranges") else media_type


def content_disposition(artifact: Artifact, *, suffix: str = "") -> str:
    """Returns `attachment` with a safe file name (RFC 6266): the title, or else the ID, followed by `suffix`.

    `filename` contains only ASCII. If that changes the name, `filename*` (RFC 8187) has the full one.
    """
    name = (file_name(artifact.declared.title or artifact.facts.title) or artifact.id) + suffix
    plain = _NEEDS_ESCAPE.sub("_", name)
    field = f'attachment; filename="{plain}"'
    return field if plain == name else f"{field}; filename*=UTF-8''{quote(name, safe='')}"


def file_name(title: str | None) -> str:
    """Returns a title as a file name: no separators, controls, invisible or bidirectional characters, no leading dot.

    Returns an empty text if nothing is left.
    """
    if not title:
        return ""
    # Examine four times the limit, so that invisible characters at the start do not use up the name.
    printable = "".join(c for c in title[: 4 * NAME_LIMIT] if unicodedata.category(c)[0] != "C" or c in "\t\n")
    name = " ".join(_SEPARATORS.sub("_", printable).split())
    return name[:NAME_LIMIT].strip(" .")


SENT_BYTES: Final = 256 * 1024
"""Maximum bytes that are sent at once: a whole frame. A client that stops reading keeps up to two such blocks in
memory."""
_TEXT: Final = "text/plain; charset=utf-8"


class Representation(Struct, frozen=True, kw_only=True):
    """A sequence of bytes to serve, with the metadata of its response. Positions in it are counted from 0."""

    etag: str
    """The strong entity tag, including its quotes."""
    digest: bytes
    """SHA-256 of all bytes. The bytes of a section are never hashed: for a section, this is the SHA-256 of the view's
    digest and the section's range."""
    whole: bool
    """Whether `digest` is the SHA-256 of all bytes."""
    kind: str
    """The media type, for Content-Type."""
    disposition: str
    """The field Content-Disposition."""
    last_modified: datetime
    """When the artifact was stored, to the second, in UTC."""
    content: Content
    extent: Extent
    """The range of `content` that is served."""

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.extent.end - self.extent.start

    def blocks(self, start: int, end: int) -> AsyncIterator[bytes]:
        """Yields the bytes from `start` to before `end` in blocks."""
        return self.content.blocks(self.extent.start + start, self.extent.start + end, SENT_BYTES)


def payload(artifact: Artifact, content: Content) -> Representation:
    """Returns the representation of the exact payload. Its entity tag is the payload's SHA-256 in hexadecimal."""
    return Representation(
        etag=f'"{artifact.measure.sha256.hex()}"',
        digest=artifact.measure.sha256,
        whole=True,
        kind=content_type(artifact),
        disposition=content_disposition(artifact),
        last_modified=artifact.created_at.replace(microsecond=0),
        content=content,
        extent=Extent(0, content.size),
    )


def representation(reading: ViewReading) -> Representation:
    """Returns the representation of a view or a section. Its entity tag is `digest` in hexadecimal."""
    artifact, content, extent = reading.artifact, reading.content, reading.extent
    # A text view that equals the payload has no blob of its own.
    own = content.blob.id != artifact.blob.id
    digest = content.blob.sha256 if own else artifact.measure.sha256
    if reading.section is not None:
        # A section's bytes are not hashed: the digest of the view and the range identify them just as well.
        place = extent.start.to_bytes(8, "big") + extent.end.to_bytes(8, "big")
        digest = hashlib.sha256(b"section\0" + digest + place).digest()
    suffix = (f"-{reading.section.name}" if reading.section else "") + (".txt" if own else "")
    return Representation(
        etag=f'"{digest.hex()}"',
        digest=digest,
        whole=reading.section is None,
        kind=_TEXT if own else content_type(artifact),
        disposition=content_disposition(artifact, suffix=suffix),
        last_modified=artifact.created_at.replace(microsecond=0),
        content=content,
        extent=extent,
    )


Headers = list[tuple[str, str]]

INERT: Headers = [
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "sandbox; default-src 'none'"),
]
"""Header fields of every answer about a payload's bytes. They tell browsers not to guess a type and not to run
anything."""
CACHE_CONTROL = "private, no-cache"
"""Lets a private cache keep the bytes if it revalidates them each time, which costs a 304. The bytes never change, but
with `max-age` a cache would show an artifact that has expired or was deleted."""


@dataclass(frozen=True)
class ContentResponse:
    """A response: its status, its header fields, and its body in pieces whose lengths add up to Content-Length.

    `body` is None if the response has no bytes of the payload (HEAD, 304, 412, 416). For 412 and 416, `error` is set:
    the caller sends it as a problem document, with its own Content-Type and Content-Length.
    """

    status: int
    headers: Headers
    body: AsyncIterator[bytes] | None = None
    error: CoatcheckError | None = None


def request_fields(headers: list[tuple[bytes, bytes]]) -> Fields:
    """Returns a function that looks up an ASGI request's header fields by lower-case name."""
    return lambda name: [v.decode("latin-1") for k, v in headers if k.lower() == name.encode()]


def respond(served: Representation, method: str, fields: Fields) -> ContentResponse:
    """Returns the response to a GET or HEAD request for a representation.

    HEAD is answered like a GET without Range, as Range is defined only for GET (RFC 9110 section 14.2).
    """
    # Evaluate conditions before ranges (RFC 9110 section 13.2.2).
    validators = Validators(served.etag, served.last_modified)
    outcome = evaluate(fields, validators, safe=True)
    if outcome == "not_modified":
        return ContentResponse(304, _common_headers(validators))
    if outcome == "failed":
        return ContentResponse(412, _common_headers(validators), error=_precondition_error())
    ranges = fields("range") if method == "GET" else []
    specs = parse_range(ranges) if range_applies(fields, validators) else None
    selection = select(specs, served.size)
    if selection == "none":
        headers = [*_common_headers(validators), ("Content-Range", f"bytes */{served.size}")]
        return ContentResponse(416, headers, error=_unsatisfiable(served.size))
    headers = _make_headers(served, validators, again=bool(specs and fields("if-range")))
    if selection == "all":
        body = _whole(served) if method == "GET" else None
        return ContentResponse(200, _add_size(headers, served.size, served.kind), body)
    if len(selection) == 1:
        one = selection[0]
        headers.append(("Content-Range", f"bytes {one.start}-{one.end - 1}/{served.size}"))
        headers = _add_size(headers, one.end - one.start, served.kind)
        return ContentResponse(206, headers, served.blocks(one.start, one.end))
    return _multipart(served, selection, headers)


def _common_headers(validators: Validators) -> Headers:
    # A 304 has the fields that a cache needs to keep its copy, and no other metadata (RFC 9110 section 15.4.5).
    return [("ETag", validators.etag), ("Cache-Control", CACHE_CONTROL), ("Accept-Ranges", "bytes"), *INERT]


def _make_headers(served: Representation, validators: Validators, *, again: bool) -> Headers:
    # A 206 that answers If-Range omits metadata that the client has already (RFC 9110 section 15.3.7), but not the
    # fields that make the bytes inert.
    headers = [*_common_headers(validators), ("Content-Disposition", served.disposition)]
    if not again:
        headers.append(("Last-Modified", format_datetime(validators.last_modified, usegmt=True)))
        if served.whole:
            headers.append(("Repr-Digest", f"sha-256=:{base64.b64encode(served.digest).decode()}:"))
    return headers


def _add_size(headers: Headers, length: int, kind: str) -> Headers:
    return [*headers, ("Content-Type", kind), ("Content-Length", str(length))]


def _multipart(served: Representation, ranges: list[HttpByteRange], headers: Headers) -> ContentResponse:
    boundary = boundary_of(served.digest, ranges)
    heads = [
        f"--{boundary}\r\nContent-Type: {served.kind}\r\n"
        f"Content-Range: bytes {r.start}-{r.end - 1}/{served.size}\r\n\r\n".encode("latin-1")
        for r in ranges
    ]
    end = f"--{boundary}--\r\n".encode()
    # Content-Length is computed before a byte is read. The 2 bytes are the line break after each part.
    length = sum(len(head) + r.end - r.start + 2 for head, r in zip(heads, ranges, strict=True)) + len(end)

    async def body() -> AsyncIterator[bytes]:
        for head, r in zip(heads, ranges, strict=True):
            yield head
            async for block in served.blocks(r.start, r.end):
                yield block
            yield b"\r\n"
        yield end

    headers = _add_size(headers, length, f"multipart/byteranges; boundary={boundary}")
    return ContentResponse(206, headers, body())


def boundary_of(digest: bytes, ranges: list[HttpByteRange]) -> str:
    """Returns the boundary between the parts of a multipart answer.

    The boundary is 40 hexadecimal digits of a hash of the representation's digest and the ranges. Equal requests get
    the same boundary, so that the answers of retries are equal. A payload that contained it would contain 160 bits of
    a hash of its own hash: neither chance nor an attacker can achieve that.
    """
    h = hashlib.sha256(b"byteranges\0" + digest)
    for r in ranges:
        h.update(r.start.to_bytes(8, "big") + r.end.to_bytes(8, "big"))
    return h.hexdigest()[:40]


async def _whole(served: Representation) -> AsyncIterator[bytes]:
    hashed = hashlib.sha256()
    previous_block = b""
    async for block in served.blocks(0, served.size):
        if previous_block:
            yield previous_block
        previous_block = block
        if served.whole:
            await asyncio.to_thread(hashed.update, block)
    if served.whole and hashed.digest() != served.digest:
        raise CoatcheckError(
            Code.INTEGRITY,
            "The stored bytes are not the payload that was ingested: their SHA-256 differs. Run the tool again, or "
            "restore the payload from a backup.",
        )
    # Send the last block only if the digest is right. Without it, the body is shorter than Content-Length, and the
    # client notices.
    if previous_block:
        yield previous_block


def _precondition_error() -> CoatcheckError:
    return CoatcheckError(
        Code.PRECONDITION_FAILED,
        "The artifact does not meet the condition in If-Match or If-Unmodified-Since. Fetch it without the condition.",
    )


def _unsatisfiable(size: int) -> CoatcheckError:
    return CoatcheckError(
        Code.RANGE_NOT_SATISFIABLE,
        f"None of the requested ranges exists: the payload has {size:,} bytes. Request bytes below that.",
        size=size,
    )
