"""uvicorn's HTTP/1.1, with limits on what arrives before a request is known, and on what waits for its turn.

uvicorn accepts a header section of any size at any pace. Here, one larger than 64 KiB or with more than 256 fields is
answered with 431, and one that is incomplete ten seconds after its first byte with 408; then the connection is closed.
These answers are problem details like all others. Trailers and chunk framing count too. WebSocket upgrades are ignored.

uvicorn parses everything that it reads, and one read may hold thousands of requests. Here, what arrives behind a
request waits as bytes until that is answered: the parser gets pieces that contain the end of one header section, and
nothing is read until it has had all of them.

The work for a complete request is cancelled when its client has left. The end of the client's stream may mean that, or
only that the client has nothing more to send. Interim answers (100) tell the two apart: a closed connection refuses
them.
"""

import asyncio
import logging
import re
import uuid
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from coatcheck.api.http.exchange import Exchange
from coatcheck.api.http.lingering import SEND_SECONDS, LingeringTransport, UnsentBytes
from coatcheck.api.http.problems import render
from coatcheck.core.errors import CoatcheckError, Code

log = logging.getLogger(__name__)

HEAD_BYTES: Final = 64 * 1024
"""Maximum bytes of a request line and header section, or of framing between two pieces of a body."""
HEAD_FIELDS: Final = 256
"""Maximum header fields of a request: more than twice as many as Apache and nginx accept."""
HEAD_SECONDS: Final = 10.0
"""Seconds in which a request line and header section must arrive: chosen, not measured."""
PROBE_SECONDS: Final = 0.2
"""Pause between two interim answers to a client that has finished sending; the second one fails if the first was
refused."""
UNPARSED_IN_ALL: Final = 64 * 1024 * 1024
"""Bytes of all connections together that are read, but not parsed. A connection holds up to one read of 256 KB."""
_PIECE: Final = 128
"""Minimum bytes of a chunked body that the parser gets at once: the ends of at most 7 requests, which uvicorn keeps."""
_LONGEST_PIECE: Final = 64 * 1024
"""Maximum bytes that the parser gets at once."""
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
"""Matches the end of a header section, also if its lines end in bare line feeds."""
_LINE: Final = re.compile(rb"[^\r\n]")
"""Matches the first byte that may begin a request, after blank lines."""
_INTERIM: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
"""Means nothing to a client: every client of HTTP/1.1 must be able to ignore it."""
_TOO_LARGE: Final = f"The header section has more than {HEAD_BYTES // 1024} KiB or {HEAD_FIELDS} fields."


class _RefusedError(Exception):
    """The header section is refused; the protocol knows why."""


class _ReadingFlow(FlowControl):
    """Flow control that does not resume reading while the protocol has enough."""

    def __init__(self, transport: asyncio.Transport, protocol: "BoundedProtocol") -> None:
        super().__init__(transport)
        self._protocol = protocol

    def resume_reading(self) -> None:
        # uvicorn calls this whenever the running request reads its body. Without the condition, the rest of a
        # connection's requests would be read and parsed meanwhile (decision 0041).
        if not self._protocol.has_enough():
            super().resume_reading()


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Subclasses may set other limits."""

    head_seconds = HEAD_SECONDS
    """Seconds in which a header section must arrive; also how long a new connection may stay silent."""
    send_seconds = SEND_SECONDS
    """Seconds in which the client must take something of what waits for it."""
    unparsed_in_all = 0
    """Bytes of all connections that are not parsed yet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **kwargs)
        self._in_head = True
        """Whether the next bytes are those of a header section, or lie between two requests."""
        self._unseen = 0
        """Bytes received of this header section, or since the last piece of the body."""
        self._size = 0
        """Bytes of this header section so far: its target, names and values."""
        self._fields = 0
        """Fields of this request so far, those of a trailer included."""
        self._pieces = 0
        """Pieces and ends of bodies that the parser has reported: it has made progress if this changed."""
        self._refusal: tuple[Code, str] | None = None
        """Why a callback stopped the parser, which reports only that one did; None: no callback has."""
        self._unparsed = b""
        """Bytes that were read and wait until the present request is answered."""
        self._body_left = 0
        """Bytes of the body that are still to come, if its length is known."""
        self._ended = False
        """Whether the client's stream has ended, with bytes that are not parsed yet."""
        self._unsent: UnsentBytes | None = None
        """None until the connection is made."""
        self._waiting: asyncio.TimerHandle | None = None
        """Ends the wait for a header section; None: the connection waits for none."""
        self._probing: asyncio.TimerHandle | None = None
        """Sends the next interim answer; None: the client has not finished sending."""
        self._lingering: LingeringTransport | None = None
        """The transport of the latest request's answer; None before the first request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn's
        """See asyncio.BufferedProtocol."""
        super().connection_made(transport)
        self.flow = _ReadingFlow(transport, self)
        self._unsent = UnsentBytes(transport, self.send_seconds)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BufferedProtocol."""
        self._stop_waiting()
        if self._probing is not None:
            self._probing.cancel()
        if self._lingering is not None:
            self._lingering.cancel_time_limit()
        if self._unsent is not None:
            self._unsent.forget()
        # The sum over all connections must forget these bytes, or it would stay near its limit for good.
        self._hold(b"")
        super().connection_lost(exc)
        if self._answering() and self._in_head:  # if a body is in progress, its reader learns that it was cut short
            exchange: Exchange | None = self.cycle.scope.get("state", {}).get("exchange")
            if exchange is not None:
                exchange.leave()

    def data_received(self, data: bytes) -> None:
        """See asyncio.BufferedProtocol."""
        self._parse(self._unparsed + data if self._unparsed else data)

    def has_enough(self) -> bool:
        """Returns whether nothing more should be read or parsed until an answer is complete."""
        return bool(self._unparsed or self.pipeline)

    def on_response_complete(self) -> None:
        """See uvicorn. What has arrived behind the request is parsed now."""
        data = self._unparsed
        # uvicorn resumes reading only if nothing is held.
        self._hold(b"")
        super().on_response_complete()
        if not self.transport.is_closing():
            self._parse(data)

    def eof_received(self) -> bool | None:  # pyright: ignore[reportIncompatibleMethodOverride] - asyncio's
        """See asyncio. A client that has sent its whole request may stop sending and still expect its answer."""
        # Bytes that wait may hold whole requests, which the client still expects to be answered.
        self._ended = bool(self._unparsed)
        if (self._in_head or self._ended) and self._answering():
            if not self._ended:
                self.cycle.keep_alive = False
            self._probe_later()
            # True keeps the connection open for writing.
            return True
        return None

    def _parse(self, data: bytes) -> None:
        """Parses bytes piece by piece, and keeps what must wait."""
        at = 0
        # The conditions are checked before each piece, as each may complete a request or end the connection.
        while at < len(data) and not self._must_answer_first() and not self.transport.is_closing():
            end = self._piece_end(data, at)
            self._parse_piece(data[at:end])
            at = end
        self._hold(data[at:] if not self.transport.is_closing() else b"")
        if self._unparsed:
            self.flow.pause_reading()
            if BoundedProtocol.unparsed_in_all > UNPARSED_IN_ALL:
                self._refuse(Code.OVERLOADED, "Too many requests wait on connections. Send one after the other.")
        elif self._ended:
            # The client's stream had ended while bytes waited. All of them are parsed now.
            self._ended = False
            self.cycle.keep_alive = False
            if not self._answering():
                self.transport.close()

    def _piece_end(self, data: bytes, at: int) -> int:
        """Returns where the next piece ends: the body's end or, where requests may begin, the next blank line's."""
        start = at
        if self._in_head:
            line = _LINE.search(data, at)
            if line is None:  # blank lines before a request mean nothing
                return len(data)
            start = line.start()
        elif self._body_left:
            return at + self._body_left
        # Without the bound, each piece would search all of the rest. In a chunked body, blank lines are payload, and
        # may be so frequent that pieces need a minimum size.
        blank = _BLANK_LINE.search(data, start, at + _LONGEST_PIECE)
        end = at + _LONGEST_PIECE if blank is None else blank.end()
        return end if self._in_head else max(end, at + _PIECE)

    def _must_answer_first(self) -> bool:
        """Returns whether a complete request is not answered yet."""
        return bool(self.pipeline) or (self._in_head and self._answering())

    def _hold(self, data: bytes) -> None:
        """Keeps bytes for later, and counts them in all."""
        BoundedProtocol.unparsed_in_all += len(data) - len(self._unparsed)
        self._unparsed = data

    def _parse_piece(self, data: bytes) -> None:
        pieces = self._pieces
        self._unseen += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        # Only a piece of a body or an end is progress: framing without any content must reach the limit.
        if self._pieces != pieces:
            self._unseen = 0
        # The callbacks count names and values; this also bounds what they never see, such as chunk extensions.
        if self._unseen > HEAD_BYTES:
            self._refuse(Code.HEADER_TOO_LARGE, _TOO_LARGE)
        # The first bytes after an answer: from here, this header section has its own time limit.
        elif self._in_head and self._unseen and self._waiting is None:
            self._wait()

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
            if name.lower() == b"content-length" and value.strip().isdigit():
                self._body_left = int(value)
            super().on_header(name, value.rstrip(b" \t"))  # the parser keeps whitespace after a value (RFC 9110 5.5)

    def on_headers_complete(self) -> None:
        """See uvicorn: the request is known."""
        version = cast("Any", self.parser).get_http_version()
        if version == "1.0" and any(name == b"transfer-encoding" for name, _ in self.headers):
            # a proxy may see another end of such a request, and so another beginning of the next (RFC 9112 6.1)
            self._refusal = Code.INVALID_REQUEST, "A request in HTTP/1.0 cannot have a Transfer-Encoding."
            raise _RefusedError
        self._in_head = False
        self._unseen = 0
        self._stop_waiting()
        super().on_headers_complete()
        # The answer is written through a transport that lingers, so that a client which is still sending can read it.
        cycle = cast("Any", self.cycle)
        self._lingering = LingeringTransport(self.transport, cast("Any", self._unsent), lambda: cycle.more_body)
        cycle.transport = self._lingering

    def on_body(self, body: bytes) -> None:
        """See uvicorn: a piece of the body."""
        self._pieces += 1
        self._body_left = max(0, self._body_left - len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See uvicorn: the request has ended."""
        self._in_head = True
        self._pieces += 1
        self._body_left = 0
        super().on_message_complete()
        self.flow.resume_reading()  # or a client that leaves while it waits for its answer would go unnoticed
        if self._lingering is not None:
            self._lingering.request_ended()

    def send_400_response(self, msg: str) -> None:
        """Answers a request that could not be parsed; uvicorn calls this when the parser or a callback has raised."""
        if self._refusal is not None:
            self._refuse(*self._refusal)
        else:
            self._refuse(Code.INVALID_REQUEST, f"This is not HTTP/1.1: {msg.rstrip('.')}.")

    def _unsupported_upgrade_warning(self) -> None:
        """Does nothing: an upgrade may be ignored (RFC 9110 section 7.8)."""

    def _count(self, size: int, fields: int) -> None:
        self._size += size
        self._fields += fields
        if self._size > HEAD_BYTES or self._fields > HEAD_FIELDS:
            self._refusal = Code.HEADER_TOO_LARGE, _TOO_LARGE
            raise _RefusedError

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.head_seconds, self._end_wait)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _end_wait(self) -> None:
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
            # A closed connection refuses this write; the next one then fails, and the loss is reported.
            self.transport.write(_INTERIM)
            self._probe_later()

    def _refuse(self, code: Code, detail: str) -> None:
        """Answers with a problem and closes; only closes if another answer has begun."""
        self._stop_waiting()
        if not self.transport.is_closing():
            # In the middle of another answer, these bytes would be taken for a part of it.
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
