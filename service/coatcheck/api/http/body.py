"""Decodes and verifies a request's body while it streams. Each piece is passed on; none is kept.

A body is refused if it ends before its announced length, if a coded stream is damaged or expands too far, or if it does
not match its digest. Each of these errors is raised while the body is read, before its reader can commit anything.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, Self

from litestar.types import HTTPReceiveMessage, Receive, Scope, WebSocketReceiveMessage

from coatcheck.api.http.codings import STEP_BYTES, Decoder, Digests, gzip_decoder, parse_digests, zstd_decoder
from coatcheck.api.http.limits import MemoryReservation, RequestLimits
from coatcheck.api.http.rates import RateAllowance, allowance_of
from coatcheck.api.http.request_parts import field
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.runtime.concurrency_limiter import Sender, stall_error

INLINE = 64 * 1024
"""Maximum bytes that are hashed or decoded on the event loop. Larger data goes to a thread."""


class ByteStream(Protocol):
    """A stream of bytes that is read piece by piece."""

    async def read(self) -> bytes:
        """Returns the next bytes; empty bytes once the stream has ended."""
        ...


class Expansion:
    """Limits how far decoding may expand one body, relative to its size as sent.

    If a body has several codings, the output of each counts.
    """

    def __init__(self, limits: RequestLimits, allowance: RateAllowance | None = None) -> None:
        """Creates the count of a body; `allowance` is charged for decoded bytes in excess of the bytes as sent."""
        self._limits = limits
        self._allowance = allowance
        self.wire = 0
        """Bytes of the body as sent that have arrived so far; `Wire` updates this."""
        self._out = 0
        """Bytes that all decoders together have produced so far."""
        self._charged = 0
        """Decoded bytes that were charged so far, in excess of the bytes as sent."""

    def grew(self, size: int) -> None:
        """Counts `size` bytes that a decoder has produced.

        Raises:
            CoatcheckError: `decompression_limit`, `rate_limited`.
        """
        self._out += size
        limits = self._limits
        # A short body may expand by any ratio, up to `ratio_free` bytes.
        bomb = self._out > limits.ratio_free and self._out > limits.ratio * self.wire
        if bomb or self._out > limits.decoded:
            raise CoatcheckError(
                Code.DECOMPRESSION_LIMIT,
                f"The body expands to more than {limits.ratio} times its size, or to more than {limits.decoded:,} "
                "bytes. Send it without Content-Encoding.",
                limit=limits.decoded,
                ratio=limits.ratio,
            )
        # `RequestReceiver` charges the bytes as sent. Charge only the difference here, so that no byte counts twice.
        beyond = self._out - self.wire - self._charged
        if beyond > 0 and self._allowance is not None:
            self._charged += beyond
            self._allowance.charge(beyond)


class Wire:
    """The stream of a body's bytes as the client sent them, which checks their length and pace."""

    def __init__(
        self, receive: Receive, length: int | None, digests: Digests | None, expansion: Expansion, limits: RequestLimits
    ) -> None:
        self._receive = receive
        self._length = length
        self._expansion = expansion
        self._stall = limits.stall_seconds
        self._rate = limits.least_rate
        self._waited = 0.0
        """Seconds spent waiting for the sender, without the time in which bytes were processed."""
        self._digests = digests if digests and digests.hashes_wire else None
        """The digests that cover the bytes as sent; None: there are none."""
        self.sender = Sender()
        """The sender of the body. Through it, other requests can end a wait for bytes that do not arrive."""
        self._seen = 0
        """Bytes received so far."""
        self._ended = False

    async def read(self) -> bytes:
        """See ByteStream.

        Raises:
            CoatcheckError: `truncated_body` if the connection ended early, the length differs from the announced one,
                or too little arrived for too long.
        """
        while not self._ended:
            message = await self._next()
            if message["type"] != "http.request":
                raise truncation_error()
            self._ended = not message.get("more_body", False)
            data = message.get("body", b"")
            self._seen += len(data)
            self._expansion.wire = self._seen
            # Raise the error instead of returning the last piece: with the last piece, the reader may commit.
            if self._ended and self._length is not None and self._seen != self._length:
                raise truncation_error()
            if data:
                if self._digests is not None:
                    await off_loop(len(data), self._digests.wire, data)
                return data
        return b""

    async def _next(self) -> HTTPReceiveMessage | WebSocketReceiveMessage:
        """Returns the next message of the server.

        The wait is limited by the longest pause, and by the least average rate. A client that sends a few bytes now and
        then keeps to the first limit, but not to the second.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        # One pause may last `stall` seconds. All pauses together may last as long as the bytes received so far would
        # take at the least rate, plus `stall` seconds.
        seconds_left = self._stall + self._seen / self._rate - self._waited
        try:
            async with asyncio.timeout(min(self._stall, seconds_left)) as timeout:
                self.sender.wait(timeout)
                message = await self._receive()
        except TimeoutError:
            # Another request may have ended this wait, which also raises TimeoutError. The sender has that error.
            if self.sender.error is not None:
                raise self.sender.error from None
            raise stall_error(self._stall) if seconds_left >= self._stall else too_slow(self._rate) from None
        now = loop.time()
        self.sender.hear(now)
        self._waited += now - began
        return message


class DecodedStream:
    """A stream of bytes from which the outermost coding has been removed."""

    def __init__(self, inner: ByteStream, decoder: Decoder, expansion: Expansion) -> None:
        self._inner = inner
        self._decoder = decoder
        self._expansion = expansion
        self._busy = False
        """Whether the last step produced as much as it could, so that the next one probably will, too."""
        self._ended = False

    async def read(self) -> bytes:
        """See ByteStream. Decodes in a thread if the input or output is large.

        Raises:
            CoatcheckError: `corrupt_encoding`, `decompression_limit`, and the errors of the inner stream.
        """
        while not self._ended:
            # A step with much input or output would delay other requests on the event loop.
            if self._busy or self._decoder.pending > INLINE:
                piece = await asyncio.to_thread(self._decoder.step, STEP_BYTES)
            else:
                piece = self._decoder.step(INLINE)
            self._busy = len(piece) >= INLINE
            if piece:
                self._expansion.grew(len(piece))
                return piece
            data = await self._inner.read()
            if data:
                self._decoder.feed(data)
            else:
                self._ended = True
                # The input has ended. If the coded stream has not, it was cut off and is refused here.
                self._decoder.finish()
        return b""


class RequestBody:
    """The decoded body of one request. Its digests are verified when the last byte has been read."""

    def __init__(self, reader: ByteStream, digests: Digests | None, sender: Sender) -> None:
        """Creates a body.

        Args:
            reader: the stream of the decoded bytes.
            digests: the digests to verify; None: the request announces none.
            sender: the sender of the bytes that `reader` decodes.
        """
        self.sender = sender
        self._reader = reader
        self._digests = digests

    async def read(self) -> bytes:
        """See ByteStream.

        Raises:
            CoatcheckError: `digest_mismatch` at the end, and the errors of the streams below.
        """
        data = await self._reader.read()
        digests = self._digests
        # Verify the digests before the caller learns that the body has ended. A body that differs is never committed.
        if digests is not None:
            if not data:
                digests.verify()
            elif digests.hashes_plain:
                await off_loop(len(data), digests.plain, data)
        return data

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        data = await self.read()
        if not data:
            raise StopAsyncIteration
        return data

    async def whole(self, limit: int, reservation: MemoryReservation) -> bytes:
        """Returns the whole body, after reserving memory for it.

        Raises:
            CoatcheckError: `body_too_large` if it has more than `limit` bytes, `overloaded` if there is too little
                memory, and the errors of `read`.
        """
        parts: list[bytes] = []
        size = 0
        reservation.sender = self.sender
        while data := await self.read():
            size += len(data)
            if size > limit:
                raise body_too_large(limit)
            # Reserve memory as bytes arrive. An announced length alone must not take memory from other requests.
            await reservation.take(len(data))
            parts.append(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def open_body(scope: Scope, receive: Receive, limits: RequestLimits) -> RequestBody:
    """Returns the body of a request, as its header fields describe it. Receives nothing yet.

    Raises:
        CoatcheckError: `unsupported_encoding`, `invalid_digest`.
    """
    codings = _codings(scope, limits)
    content = _parse_digest_field(scope, "Content-Digest")
    representation = _parse_digest_field(scope, "Repr-Digest")
    digests = Digests(content, representation, coded=bool(codings)) if content or representation else None
    expansion = Expansion(limits, allowance_of(scope))
    wire = Wire(receive, content_length(scope), digests, expansion, limits)
    reader: ByteStream = wire
    # Content-Encoding names codings in the order in which they were applied, so the last one is the outermost.
    for coding in reversed(codings):
        decoder = gzip_decoder() if coding == "gzip" else zstd_decoder(limits.zstd_window)
        reader = DecodedStream(reader, decoder, expansion)
    return RequestBody(reader, digests, wire.sender)


def content_length(scope: Scope) -> int | None:
    """Returns the length in bytes that a request announces for its body as sent; None if it announces none."""
    value = field(scope, b"content-length")
    return int(value) if value is not None and value.isascii() and value.isdigit() else None


def is_coded(scope: Scope) -> bool:
    """Returns whether the body has a content coding. If it has, its length says nothing about the payload's length."""
    value = field(scope, b"content-encoding")
    return value is not None and value.strip().lower() not in {"", "identity"}


def _parse_digest_field(scope: Scope, name: str) -> dict[str, bytes]:
    value = field(scope, name.lower().encode())
    return {} if value is None else parse_digests(name, value)


def _codings(scope: Scope, limits: RequestLimits) -> list[str]:
    value = field(scope, b"content-encoding") or ""
    names = [name.strip().lower() for name in value.split(",")]
    # `x-gzip` is another name of gzip (RFC 9110 section 8.4.1.3), and `identity` is no coding.
    codings = ["gzip" if name == "x-gzip" else name for name in names if name not in {"", "identity"}]
    if not {*codings} <= {"gzip", "zstd"}:
        raise CoatcheckError(
            Code.UNSUPPORTED_ENCODING, "Content-Encoding must be gzip, zstd or identity.", accepted="gzip, zstd"
        )
    if len(codings) > limits.codings:
        raise CoatcheckError(
            Code.UNSUPPORTED_ENCODING,
            f"At most {limits.codings} content codings may be applied.",
            accepted="gzip, zstd",
        )
    return codings


async def off_loop(size: int, work: Callable[[bytes], None], data: bytes) -> None:
    """Runs `work` on `data`, in a thread if it would otherwise delay other requests."""
    if size > INLINE:
        await asyncio.to_thread(work, data)
    else:
        work(data)


def truncation_error() -> CoatcheckError:
    """Returns the error for a body that ended before its announced length."""
    return CoatcheckError(
        Code.TRUNCATED_BODY,
        "The body ended before its declared length. Nothing was stored; send it again.",
    )


def too_slow(rate: int) -> CoatcheckError:
    """Returns the error for a body that arrives at less than `rate` bytes per second."""
    return CoatcheckError(
        Code.TRUNCATED_BODY,
        f"The body arrived at less than {rate:,} bytes per second. Nothing was stored; send it again, faster.",
    )


def body_too_large(limit: int) -> CoatcheckError:
    """Returns the error for a body of more than `limit` bytes on a route that reads its body into memory."""
    return CoatcheckError(
        Code.BODY_TOO_LARGE,
        f"The request body is larger than {limit:,} bytes. Send large payloads to /v1/artifacts/raw or as multipart "
        "form data.",
        limit=limit,
    )
