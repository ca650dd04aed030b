"""uvicorn's HTTP/1.1, with limits on what arrives before a request is known.

uvicorn accepts a header section of any size at any pace. Here, one larger than 64 KiB or with more than 256 fields is
answered with 431, and one that is incomplete ten seconds after its first byte with 408; then the connection is closed.
These answers are problem details like all others. Trailers and chunk framing count too. WebSocket upgrades are ignored.

The work for a complete request is cancelled when its client has left. The end of the client's stream may mean that, or
only that the client has nothing more to send. Interim answers (100) tell the two apart: a closed connection refuses
them.
"""

import asyncio
import logging
import uuid
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from coatcheck.api.http.exchange import Exchange
from coatcheck.api.http.lingering import LingeringTransport
from coatcheck.api.http.problems import render
from coatcheck.core.errors import CoatcheckError, Code

log = logging.getLogger(__name__)

HEAD_BYTES: Final = 64 * 1024
"""Maximum bytes of a request line and header section, or of framing between two pieces of a body."""
HEAD_FIELDS: Final = 256
HEAD_SECONDS: Final = 10.0
PROBE_SECONDS: Final = 0.2
"""Pause between two interim answers to a client that has finished sending; the second one fails if the first was
refused."""
_INTERIM: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_TOO_LARGE: Final = f"The header section has more than {HEAD_BYTES // 1024} KiB or {HEAD_FIELDS} fields."


class _TooLargeError(Exception):
    """The header section exceeds a limit."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Subclasses may set other limits."""

    head_seconds = HEAD_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._unseen = 0
        """Bytes received of this header section, or since the last piece of the body."""
        self._size = 0
        self._fields = 0
        self._pieces = 0
        self._too_large = False
        self._waiting: asyncio.TimerHandle | None = None
        self._probing: asyncio.TimerHandle | None = None
        self._lingering: LingeringTransport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn's
        """See asyncio.BufferedProtocol."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BufferedProtocol."""
        self._stop_waiting()
        if self._probing is not None:
            self._probing.cancel()
        if self._lingering is not None:
            self._lingering.lost()
        super().connection_lost(exc)
        if self._answering() and self._in_head:  # if a body is in progress, its reader learns that it was cut short
            exchange: Exchange | None = self.cycle.scope.get("state", {}).get("exchange")
            if exchange is not None:
                exchange.leave()

    def data_received(self, data: bytes) -> None:
        """See asyncio.BufferedProtocol."""
        pieces = self._pieces
        self._unseen += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._pieces != pieces:
            self._unseen = 0
        if self._unseen > HEAD_BYTES:
            self._refuse(Code.HEADER_TOO_LARGE, _TOO_LARGE)
        elif self._in_head and self._unseen and self._waiting is None:
            self._wait()

    def eof_received(self) -> bool | None:  # pyright: ignore[reportIncompatibleMethodOverride] - asyncio's
        """See asyncio. A client that has sent its whole request may stop sending and still expect its answer."""
        if self._in_head and self._answering():
            self.cycle.keep_alive = False
            self._probe_later()
            return True
        return None

    def on_message_begin(self) -> None:
        """See uvicorn: a request begins."""
        super().on_message_begin()
        self._size = self._fields = 0

    def on_url(self, url: bytes) -> None:
        """See uvicorn: a piece of the request's target."""
        super().on_url(url)
        self._count(len(url), 0)

    def on_header(self, name: bytes, value: bytes) -> None:
        """See uvicorn: a header field, or one of a trailer."""
        self._count(len(name) + len(value), 1)
        if self._in_head:  # trailers are not used
            super().on_header(name, value.rstrip(b" \t"))  # the parser keeps whitespace after a value (RFC 9110 5.5)

    def on_headers_complete(self) -> None:
        """See uvicorn: the request is known."""
        self._in_head = False
        self._unseen = 0
        self._stop_waiting()
        super().on_headers_complete()
        cycle = cast("Any", self.cycle)
        self._lingering = cycle.transport = LingeringTransport(self.transport, lambda: cycle.more_body)

    def on_body(self, body: bytes) -> None:
        """See uvicorn: a piece of the body."""
        self._pieces += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See uvicorn: the request has ended."""
        self._in_head = True
        self._pieces += 1
        super().on_message_complete()
        if not self.pipeline:  # otherwise a client that leaves while it waits for its answer would go unnoticed
            self.flow.resume_reading()
        if self._lingering is not None:
            self._lingering.request_ended()

    def send_400_response(self, msg: str) -> None:
        """Answers a request that could not be parsed; uvicorn calls this when the parser or a callback has raised."""
        if self._too_large:
            self._refuse(Code.HEADER_TOO_LARGE, _TOO_LARGE)
        else:
            self._refuse(Code.INVALID_REQUEST, f"This is not HTTP/1.1: {msg.rstrip('.')}.")

    def _unsupported_upgrade_warning(self) -> None:
        """Does nothing: an upgrade may be ignored (RFC 9110 section 7.8)."""

    def _count(self, size: int, fields: int) -> None:
        self._size += size
        self._fields += fields
        if self._size > HEAD_BYTES or self._fields > HEAD_FIELDS:
            self._too_large = True
            raise _TooLargeError

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.head_seconds, self._waited)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _waited(self) -> None:
        self._waiting = None
        if self._answering():
            self._wait()  # a header section after a request that is still being answered
        elif self._unseen:
            self._refuse(
                Code.HEADER_TIMEOUT, f"The header section was not complete after {self.head_seconds:g} seconds."
            )
        else:
            self.transport.close()

    def _answering(self) -> bool:
        # it is None before the first request, which uvicorn does not declare
        cycle = cast("Any", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _probe_later(self) -> None:
        if self.cycle.scope["http_version"] == "1.1":  # HTTP/1.0 has no interim answers
            self._probing = self.loop.call_later(PROBE_SECONDS, self._probe)

    def _probe(self) -> None:
        if self._answering() and not self.cycle.response_started and not self.transport.is_closing():
            self.transport.write(_INTERIM)
            self._probe_later()

    def _refuse(self, code: Code, detail: str) -> None:
        """Answers with a problem and closes; only closes if another answer has begun."""
        self._stop_waiting()
        if not self.transport.is_closing():
            if not (self._answering() and self.cycle.response_started):
                self.transport.write(_answer(CoatcheckError(code, detail)))
            self.transport.close()


def _answer(error: CoatcheckError) -> bytes:
    """Returns a problem as bytes on the wire, with a request ID of its own, as no request is known yet."""
    request_id = uuid.uuid4().hex
    problem = render(error, request_id)
    log.debug("request %s was refused before it was known: %s", request_id, error.code)
    fields = [
        *problem.headers,
        ("content-length", str(len(problem.body))),
        ("x-request-id", request_id),
        ("connection", "close"),
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\n{head}\r\n".encode() + problem.body
