"""What to answer to GET and HEAD of an artifact's bytes, with ranges and conditions as RFC 9110 has them.

It decides status, fields and which bytes; it sends nothing and knows no view but the raw one. A whole payload is
hashed on the way; should it differ from what was handed over, the body breaks off before its last block.
"""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime

from coatcheck.api.conditional import Fields, Validators, evaluate, range_applies
from coatcheck.api.dispositions import content_disposition, content_type
from coatcheck.api.ranges import parse_range, select
from coatcheck.core.artifact import Artifact
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.ranges import ByteRange
from coatcheck.usecases.content import Content

Headers = list[tuple[str, str]]

INERT: Headers = [
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "sandbox; default-src 'none'"),
]
CACHE_CONTROL = "private, no-cache"
"""The bytes under an ID never change, but an artifact expires, and is deleted for a reason: a cache may keep it for
its own user and must ask each time, which costs a 304. `max-age` would show what is no longer there."""


@dataclass(frozen=True)
class ContentResponse:
    """A response: its status, its fields, and its body in pieces whose lengths add up to Content-Length.

    `body` is None when there is none to send (HEAD, 304, 412, 416). `error` says, for 412 and 416, what a problem
    document should say; whoever renders it sets Content-Type and Content-Length.
    """

    status: int
    headers: Headers
    body: AsyncIterator[bytes] | None = None
    error: CoatcheckError | None = None


def request_fields(headers: list[tuple[bytes, bytes]]) -> Fields:
    """Look up an ASGI request's fields by lower-case name."""
    return lambda name: [v.decode("latin-1") for k, v in headers if k.lower() == name.encode()]


def respond(artifact: Artifact, content: Content, method: str, fields: Fields, now: datetime) -> ContentResponse:
    """What to answer to GET or HEAD of the raw bytes.

    Range is defined for GET alone (section 14.2), so that HEAD answers as GET without it.
    """
    validators = Validators(etag_of(artifact), artifact.created_at.replace(microsecond=0))
    outcome = evaluate(fields, validators, safe=True, now=now)
    if outcome == "not_modified":
        return ContentResponse(304, _unchanging(validators))
    if outcome == "failed":
        return ContentResponse(412, _unchanging(validators), error=_failed())
    asked = fields("range") if method == "GET" else []
    specs = parse_range(asked) if range_applies(fields, validators, now=now) else None
    chosen = select(specs, content.size)
    if chosen == "none":
        headers = [*_unchanging(validators), ("Content-Range", f"bytes */{content.size}")]
        return ContentResponse(416, headers, error=_unsatisfiable(content.size))
    headers = _representation(artifact, validators, again=bool(specs and fields("if-range")))
    if chosen == "all":
        body = _whole(content, artifact.measure.sha256) if method == "GET" else None
        return ContentResponse(200, _sized(headers, content.size, content_type(artifact)), body)
    if len(chosen) == 1:
        one = chosen[0]
        headers.append(("Content-Range", f"bytes {one.start}-{one.end - 1}/{content.size}"))
        headers = _sized(headers, one.end - one.start, content_type(artifact))
        return ContentResponse(206, headers, content.blocks(one.start, one.end))
    return _multipart(artifact, content, chosen, headers)


def etag_of(artifact: Artifact) -> str:
    """The strong entity tag of the raw bytes: their SHA-256 in hexadecimal."""
    return f'"{artifact.measure.sha256.hex()}"'


def _unchanging(validators: Validators) -> Headers:
    # Section 15.4.5: a 304 carries what a cache needs to keep what it has, and no other metadata.
    return [("ETag", validators.etag), ("Cache-Control", CACHE_CONTROL), ("Accept-Ranges", "bytes"), *INERT]


def _representation(artifact: Artifact, validators: Validators, *, again: bool) -> Headers:
    # Section 15.3.7: a 206 to If-Range leaves out metadata that the client has. What makes the bytes inert stays.
    headers = [*_unchanging(validators), ("Content-Disposition", content_disposition(artifact))]
    if not again:
        digest = base64.b64encode(artifact.measure.sha256).decode()
        headers.append(("Last-Modified", format_datetime(validators.last_modified, usegmt=True)))
        headers.append(("Repr-Digest", f"sha-256=:{digest}:"))
    return headers


def _sized(headers: Headers, length: int, kind: str) -> Headers:
    return [*headers, ("Content-Type", kind), ("Content-Length", str(length))]


def _multipart(artifact: Artifact, content: Content, ranges: list[ByteRange], headers: Headers) -> ContentResponse:
    boundary = boundary_of(artifact.measure.sha256, ranges)
    kind = content_type(artifact)
    heads = [
        f"--{boundary}\r\nContent-Type: {kind}\r\n"
        f"Content-Range: bytes {r.start}-{r.end - 1}/{content.size}\r\n\r\n".encode("latin-1")
        for r in ranges
    ]
    end = f"--{boundary}--\r\n".encode()
    length = sum(len(head) + r.end - r.start + 2 for head, r in zip(heads, ranges, strict=True)) + len(end)

    async def body() -> AsyncIterator[bytes]:
        for head, r in zip(heads, ranges, strict=True):
            yield head
            async for block in content.blocks(r.start, r.end):
                yield block
            yield b"\r\n"
        yield end

    headers = _sized(headers, length, f"multipart/byteranges; boundary={boundary}")
    return ContentResponse(206, headers, body())


def boundary_of(sha256: bytes, ranges: list[ByteRange]) -> str:
    """The boundary between parts: the same for the same request, so that a retry can be compared byte for byte.

    40 hexadecimal digits of a hash over the payload's digest and the ranges. For it to occur in the payload, the
    payload would have to contain 160 bits of a hash of its own hash: not by chance, and nobody can arrange it.
    """
    h = hashlib.sha256(b"byteranges\0" + sha256)
    for r in ranges:
        h.update(r.start.to_bytes(8, "big") + r.end.to_bytes(8, "big"))
    return h.hexdigest()[:40]


async def _whole(content: Content, sha256: bytes) -> AsyncIterator[bytes]:
    hashed = hashlib.sha256()
    held = b""
    async for block in content.blocks(0, content.size):
        if held:
            yield held
        held = block
        await asyncio.to_thread(hashed.update, block)
    if hashed.digest() != sha256:
        raise CoatcheckError(
            Code.INTEGRITY,
            "The stored payload is not the one that was handed over: its SHA-256 differs. Run the tool again, or "
            "restore the payload from a backup.",
        )
    if held:
        yield held


def _failed() -> CoatcheckError:
    return CoatcheckError(
        Code.PRECONDITION_FAILED,
        "If-Match or If-Unmodified-Since does not hold for this artifact. Fetch it without the condition.",
    )


def _unsatisfiable(size: int) -> CoatcheckError:
    return CoatcheckError(
        Code.RANGE_NOT_SATISFIABLE,
        f"No range that was asked for exists: the payload has {size:,} bytes. Ask for bytes below that.",
        size=size,
    )
