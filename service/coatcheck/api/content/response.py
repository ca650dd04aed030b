"""The response to GET and HEAD of an artifact's bytes, with ranges and conditions as in RFC 9110.

Decides status, header fields and which bytes to send; sends nothing. A whole view is hashed while it is sent; if it
differs from what was stored, the body ends before its last block.
"""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime

from coatcheck.api.content.representation import Representation
from coatcheck.api.http.conditional_requests import Fields, Validators, evaluate, range_applies
from coatcheck.api.http.ranges import parse_range, select
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.views.ranges import HttpByteRange

Headers = list[tuple[str, str]]

INERT: Headers = [
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "sandbox; default-src 'none'"),
]
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


def respond(served: Representation, method: str, fields: Fields, now: datetime) -> ContentResponse:
    """Returns the response to GET or HEAD of some bytes.

    Range is defined only for GET (section 14.2), so HEAD answers like GET without it.
    """
    validators = Validators(served.etag, served.last_modified)
    outcome = evaluate(fields, validators, safe=True, now=now)
    if outcome == "not_modified":
        return ContentResponse(304, _unchanging(validators))
    if outcome == "failed":
        return ContentResponse(412, _unchanging(validators), error=_precondition_error())
    ranges = fields("range") if method == "GET" else []
    specs = parse_range(ranges) if range_applies(fields, validators, now=now) else None
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
