"""What the content route serves, and its response: the payload, its text view, or a section of either, byte for byte.

None of these bytes ever change, so each representation has a strong entity tag.

A payload is untrusted text. It is always offered as a download, is never sniffed, and is sandboxed without scripts in
case a browser shows it after all. The payload itself is not examined.

Ranges and conditions are those of RFC 9110. `respond` decides status, header fields and which bytes to send; it sends
nothing. A whole view is hashed while it is sent; if it differs from what was stored, the body ends before its last
block.
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
"""Maximum characters of a file name: below the 255 bytes of common file systems, even in UTF-8."""

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
"""Characters of a token (RFC 9110 section 5.6.2)."""
_MEDIA_TYPE = re.compile(
    rf"{_WORD}/{_WORD}(?:[ \t]*;[ \t]*{_WORD}=(?:{_WORD}|\"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*\"))*"
)
"""Matches a media type with its parameters. Nothing else reaches the header field, least of all a line break."""
_MEDIA_TYPE_CHARS = 255
"""Maximum characters of a media type: RFC 6838 allows 127 for each of its two names."""
_NOT_PLAIN = re.compile(r"[^0-9A-Za-z ()+,.=@_-]")
"""Matches what would need an escape within quotes, or is not ASCII."""
_SEPARATORS = re.compile(r"[/\\:*?\"<>|%]")
"""Matches what some file system forbids or takes for a separator, and `%`, which some clients decode."""


def content_type(artifact: Artifact) -> str:
    """Returns the declared or detected media type, if it is valid (RFC 9110 section 8.3.1).

    `multipart/byteranges` counts as unknown, because it would be taken for our own framing of ranges.
    """
    media_type = artifact.declared.media_type or artifact.facts.media_type or UNKNOWN_TYPE
    if len(media_type) > _MEDIA_TYPE_CHARS or not _MEDIA_TYPE.fullmatch(media_type):
        return UNKNOWN_TYPE
    return UNKNOWN_TYPE if media_type.lower().startswith("multipart/byteranges") else media_type


def content_disposition(artifact: Artifact, *, suffix: str = "") -> str:
    """Returns `attachment` with a safe file name (RFC 6266): the title, else the ID, then `suffix`.

    The plain form is ASCII only; if that changes the name, `filename*` (RFC 8187) has the full name.
    """
    name = (file_name(artifact.declared.title or artifact.facts.title) or artifact.id) + suffix
    plain = _NOT_PLAIN.sub("_", name)
    field = f'attachment; filename="{plain}"'
    return field if plain == name else f"{field}; filename*=UTF-8''{quote(name, safe='')}"


def file_name(title: str | None) -> str:
    """Returns a title as a file name: no separators, controls, invisible or bidirectional characters, no leading dot.

    Empty if nothing is left.
    """
    if not title:
        return ""
    # Four times the limit is examined, so that invisible characters at the start do not use up the name.
    printable = "".join(c for c in title[: 4 * NAME_LIMIT] if unicodedata.category(c)[0] != "C" or c in "\t\n")
    name = " ".join(_SEPARATORS.sub("_", printable).split())
    return name[:NAME_LIMIT].strip(" .")


SENT_BYTES: Final = 256 * 1024
"""Bytes that are sent at once: a whole frame, and all that a client which stops reading holds twice."""
_TEXT: Final = "text/plain; charset=utf-8"


class Representation(Struct, frozen=True, kw_only=True):
    """Bytes to serve, counted from 0."""

    etag: str
    """The strong entity tag, including its quotes."""
    digest: bytes
    """SHA-256 of all bytes, or a substitute for a section, whose bytes are never hashed."""
    whole: bool
    """Whether `digest` is the SHA-256 of all bytes."""
    kind: str
    """The media type, for Content-Type."""
    disposition: str
    """The field Content-Disposition."""
    last_modified: datetime
    """To the second, in UTC."""
    content: Content
    extent: Extent
    """The range of the content that these bytes are."""

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.extent.end - self.extent.start

    def blocks(self, start: int, end: int) -> AsyncIterator[bytes]:
        """Yields the bytes from `start` to before `end` in blocks."""
        return self.content.blocks(self.extent.start + start, self.extent.start + end, SENT_BYTES)


def payload(artifact: Artifact, content: Content) -> Representation:
    """Returns the exact payload, with its SHA-256 in hexadecimal as the tag."""
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
    """Returns what is read; the tag of a text view is its SHA-256, that of a section also has its range."""
    artifact, content, extent = reading.artifact, reading.content, reading.extent
    # A text view that equals the payload has no blob of its own.
    own = content.blob.id != artifact.blob.id
    digest = content.blob.sha256 if own else artifact.measure.sha256
    if reading.section is not None:
        # A section is never hashed: the digest of the whole and the range identify its bytes as well.
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
"""On every answer with bytes: browsers must neither guess a type nor run anything."""
CACHE_CONTROL = "private, no-cache"
"""The bytes under an ID never change, but an artifact expires or is deleted for a reason: a private cache may keep it,
and must revalidate it each time, which costs a 304. `max-age` would show what no longer exists."""


@dataclass(frozen=True)
class ContentResponse:
    """A response: its status, its header fields, and its body in pieces whose lengths add up to Content-Length.

    `body` is None when none is to be sent (HEAD, 304, 412, 416). `error` is the content of a problem document for 412
    and 416; whoever renders it sets Content-Type and Content-Length.
    """

    status: int
    headers: Headers
    body: AsyncIterator[bytes] | None = None
    error: CoatcheckError | None = None


def request_fields(headers: list[tuple[bytes, bytes]]) -> Fields:
    """Returns a function that looks up an ASGI request's header fields by lower-case name."""
    return lambda name: [v.decode("latin-1") for k, v in headers if k.lower() == name.encode()]


def respond(served: Representation, method: str, fields: Fields) -> ContentResponse:
    """Returns the response to GET or HEAD of some bytes.

    Range is defined only for GET (section 14.2), so HEAD answers like GET without it.
    """
    # Conditions come before ranges (RFC 9110 section 13.2.2).
    validators = Validators(served.etag, served.last_modified)
    outcome = evaluate(fields, validators, safe=True)
    if outcome == "not_modified":
        return ContentResponse(304, _unchanging(validators))
    if outcome == "failed":
        return ContentResponse(412, _unchanging(validators), error=_precondition_error())
    ranges = fields("range") if method == "GET" else []
    specs = parse_range(ranges) if range_applies(fields, validators) else None
    selection = select(specs, served.size)
    if selection == "none":
        headers = [*_unchanging(validators), ("Content-Range", f"bytes */{served.size}")]
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


def _unchanging(validators: Validators) -> Headers:
    # Section 15.4.5: a 304 carries what a cache needs to keep its copy, and no other metadata.
    return [("ETag", validators.etag), ("Cache-Control", CACHE_CONTROL), ("Accept-Ranges", "bytes"), *INERT]


def _make_headers(served: Representation, validators: Validators, *, again: bool) -> Headers:
    # Section 15.3.7: a 206 to If-Range omits metadata that the client has. The fields that make the bytes inert stay.
    headers = [*_unchanging(validators), ("Content-Disposition", served.disposition)]
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
    # Content-Length is known before a byte is read; the 2 are the line break after each part.
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
    """Returns the boundary between parts: a hash, equal for equal requests, so that retries can be compared.

    It is 40 hexadecimal digits of a hash over the served digest and the ranges. A payload that contained it would have
    to contain 160 bits of a hash of its own hash: neither chance nor an attacker can achieve that.
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
    # The last block waits for the digest. Without it, the body is shorter than Content-Length, so the client notices.
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
