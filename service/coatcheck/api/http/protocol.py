"""uvicorn's HTTP/1.1 protocol with limits: on header sections, and on the bytes of requests that wait for their turn.

uvicorn accepts a header section of any size at any pace. This protocol answers 431 if a header section is larger than
64 KiB or has more than 256 fields, and 408 if it is incomplete ten seconds after its first byte. Then it closes the
connection. These answers are problem details, as for all other errors. Trailers and chunk framing count towards the
limits, too. WebSocket upgrades are ignored.

uvicorn parses everything that it reads, and one read may contain thousands of requests. This protocol keeps bytes that
arrive after a request unparsed until that request is answered. It gives the parser one piece at a time, which rarely
contains the end of more than one header section, and reads nothing from the connection while bytes are unparsed.

If a client leaves, the work on its complete request is cancelled. The end of the client's stream may mean that the
client has left, or only that it has nothing more to send. Interim answers (100) tell the two apart: a closed connection
refuses them.
"""

import asyncio
import logging
import re
import uuid
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from coatcheck import __version__
from coatcheck.api.http.exchange import Exchange
from coatcheck.api.http.lingering import SEND_SECONDS, LingeringTransport, UnsentBytes
from coatcheck.api.http.problems import render
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck_client.contract.answers import VERSION_FIELD

log = logging.getLogger(__name__)

HEAD_BYTES: Final = 64 * 1024
"""Maximum bytes of a request line with its header section, or of the chunk framing between two pieces of a body."""
HEAD_FIELDS: Final = 256
"""Maximum header fields of a request: more than twice as many as Apache and nginx accept."""
HEAD_SECONDS: Final = 10.0
"""Seconds in which a request line and header section must arrive: chosen, not measured."""
PROBE_SECONDS: Final = 0.2
"""Seconds between two interim answers to a client that has finished sending. If the client has closed the connection,
it refuses the first one, and sending the second one fails."""
UNPARSED_IN_ALL: Final = 64 * 1024 * 1024
"""Maximum bytes that all connections together have read but not parsed. A single connection keeps up to one read of
256 KB."""
_MIN_PIECE: Final = 128
"""Minimum bytes of a chunked body that the parser gets at once. They may contain the ends of up to 7 requests, which
uvicorn queues."""
_MAX_PIECE: Final = 64 * 1024
"""Maximum bytes that the parser gets at once."""
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
"""Matches the end of a header section, also if its lines end in bare line feeds."""
_LINE: Final = re.compile(rb"[^\r\n]")
"""Matches the first byte that is not part of a line break, where a request may begin."""
_INTERIM: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
"""An interim answer. It has no effect on a client: every client of HTTP/1.1 must be able to ignore it."""
_TOO_LARGE: Final = f"The header section has more than {HEAD_BYTES // 1024} KiB or {HEAD_FIELDS} fields."


class _RefusedError(Exception):
    """Stops the parser, because the request is refused; the protocol keeps the reason in `_refusal`."""


class _ReadingFlow(FlowControl):
    """Flow control that does not resume reading while the protocol has unparsed bytes or queued requests."""

    def __init__(self, transport: asyncio.Transport, protocol: "BoundedProtocol") -> None:
        super().__init__(transport)
        self._protocol = protocol

    def resume_reading(self) -> None:
        # uvicorn calls this whenever the current request reads its body. Without the condition, uvicorn would meanwhile
        # read and parse the connection's further requests (decision 0041).
        if not self._protocol.has_enough():
            super().resume_reading()


class BoundedProtocol(HttpToolsProtocol):
    """The protocol of one connection. Subclasses may set other limits."""

    head_seconds = HEAD_SECONDS
    """Seconds in which a header section must arrive. A new connection may stay silent for as long."""
    send_seconds = SEND_SECONDS
    """Seconds in which the client must receive at least some of the bytes that wait for it."""
    unparsed_in_all = 0
    """Bytes that all connections of the process have read but not parsed yet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **kwargs)
        self._in_head = True
        """Whether the next bytes belong to a header section or lie between two requests, rather than in a body."""
        self._unseen_bytes = 0
        """Bytes given to the parser since the header section began, or since the last piece of the body. The parser has
        reported no content for them yet."""
        self._head_size = 0
        """Bytes of the target and of the field names and values that the parser has reported for this request."""
        self._fields = 0
        """Number of header and trailer fields that the parser has reported for this request."""
        self._pieces = 0
        """Number of pieces and ends of bodies that the parser has reported. It grows when the parser makes progress."""
        self._refusal: tuple[Code, str] | None = None
        """Why a callback stopped the parser; None: no callback has. The parser itself reports no reason."""
        self._unparsed = b""
        """Bytes that were read and wait until the current request is answered."""
        self._body_left = 0
        """Bytes of the body that have not arrived yet; 0 if its length is not announced."""
        self._stream_ended = False
        """Whether the client's stream has ended while some of its bytes are unparsed."""
        self._unsent: UnsentBytes | None = None
        """The bytes that the client has not received yet; None until the connection is made."""
        self._head_timer: asyncio.TimerHandle | None = None
        """The time limit of the header section that the connection waits for; None: it waits for none."""
        self._probe_timer: asyncio.TimerHandle | None = None
        """The timer that sends the next interim answer; None: the client has not finished sending."""
        self._lingering: LingeringTransport | None = None
        """The transport of the latest request's answer; None before the first request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn's
        """See asyncio.BufferedProtocol."""
        super().connection_made(transport)
        self.flow = _ReadingFlow(transport, self)
        self._unsent = UnsentBytes(transport, self.send_seconds)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BufferedProtocol."""
        self._stop_head_timer()
        if self._probe_timer is not None:
            self._probe_timer.cancel()
        if self._lingering is not None:
            self._lingering.cancel_time_limit()
        if self._unsent is not None:
            self._unsent.forget()
        # Subtract these bytes from the sum over all connections. Otherwise the sum would only ever grow.
        self._keep_unparsed(b"")
        super().connection_lost(exc)
        if self._is_answering() and self._in_head:  # if a body is in progress, its reader learns that it was cut short
            exchange: Exchange | None = self.cycle.scope.get("state", {}).get("exchange")
            if exchange is not None:
                exchange.leave()

    def data_received(self, data: bytes) -> None:
        """See asyncio.BufferedProtocol."""
        self._parse(self._unparsed + data if self._unparsed else data)

    def has_enough(self) -> bool:
        """Returns whether reading must wait until an answer is complete."""
        return bool(self._unparsed or self.pipeline)

    def on_response_complete(self) -> None:
        """See uvicorn. Parses the bytes that arrived after the answered request."""
        data = self._unparsed
        # uvicorn resumes reading in the next call, but only if no bytes are unparsed.
        self._keep_unparsed(b"")
        super().on_response_complete()
        if not self.transport.is_closing():
            self._parse(data)

    def eof_received(self) -> bool | None:  # pyright: ignore[reportIncompatibleMethodOverride] - asyncio's
        """See asyncio. A client that has sent its whole request may stop sending and still expect its answer."""
        # Unparsed bytes may contain whole requests, and the client still expects their answers.
        self._stream_ended = bool(self._unparsed)
        if (self._in_head or self._stream_ended) and self._is_answering():
            if not self._stream_ended:
                self.cycle.keep_alive = False
            self._probe_later()
            # True keeps the connection open for writing.
            return True
        return None

    def _parse(self, data: bytes) -> None:
        """Parses bytes piece by piece, and keeps those that must wait for an answer."""
        at = 0
        # Check the conditions before each piece: any piece may complete a request or end the connection.
        while at < len(data) and not self._must_answer_first() and not self.transport.is_closing():
            end = self._piece_end(data, at)
            self._parse_piece(data[at:end])
            at = end
        self._keep_unparsed(data[at:] if not self.transport.is_closing() else b"")
        if self._unparsed:
            self.flow.pause_reading()
            if BoundedProtocol.unparsed_in_all > UNPARSED_IN_ALL:
                self._refuse(Code.OVERLOADED, "Too many requests wait on connections. Send one after the other.")
        elif self._stream_ended:
            # The client's stream ended while bytes were unparsed. Now all of them are parsed.
            self._stream_ended = False
            self.cycle.keep_alive = False
            if not self._is_answering():
                self.transport.close()

    def _piece_end(self, data: bytes, at: int) -> int:
        """Returns the end of the next piece: the end of a body of known length, otherwise the next blank line's end."""
        start = at
        if self._in_head:
            line = _LINE.search(data, at)
            if line is None:  # only blank lines, which are ignored before a request
                return len(data)
            start = line.start()
        elif self._body_left:
            return at + self._body_left
        # Without the bound, each search could scan all the remaining bytes. In a chunked body, blank lines are payload
        # and may be so frequent that pieces need a minimum size.
        blank = _BLANK_LINE.search(data, start, at + _MAX_PIECE)
        end = at + _MAX_PIECE if blank is None else blank.end()
        return end if self._in_head else max(end, at + _MIN_PIECE)

    def _must_answer_first(self) -> bool:
        """Returns whether some complete request has not been answered yet."""
        return bool(self.pipeline) or (self._in_head and self._is_answering())

    def _keep_unparsed(self, data: bytes) -> None:
        """Keeps bytes for later instead of those kept so far, and updates the sum over all connections."""
        BoundedProtocol.unparsed_in_all += len(data) - len(self._unparsed)
        self._unparsed = data

    def _parse_piece(self, data: bytes) -> None:
        pieces = self._pieces
        self._unseen_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        # Only a piece or the end of a body is progress. Framing without content must run into the limit.
        if self._pieces != pieces:
            self._unseen_bytes = 0
        # The callbacks count names and values. This check also bounds bytes that reach no callback, such as chunk
        # extensions.
        if self._unseen_bytes > HEAD_BYTES:
            self._refuse(Code.HEADER_TOO_LARGE, _TOO_LARGE)
        # These are the first bytes after an answer: the time limit of their header section begins now.
        elif self._in_head and self._unseen_bytes and self._head_timer is None:
            self._start_head_timer()

    def on_message_begin(self) -> None:
        """See uvicorn: a request begins."""
        super().on_message_begin()
        self._head_size = self._fields = 0

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
        """See uvicorn: the header section is complete."""
        version = cast("Any", self.parser).get_http_version()
        if version == "1.0" and any(name == b"transfer-encoding" for name, _ in self.headers):
            # a proxy may see the end of such a request, and the start of the next, at another byte (RFC 9112 6.1)
            self._refusal = Code.INVALID_REQUEST, "A request in HTTP/1.0 cannot have a Transfer-Encoding."
            raise _RefusedError
        self._in_head = False
        self._unseen_bytes = 0
        self._stop_head_timer()
        super().on_headers_complete()
        # Write the answer through a transport that lingers, so that a client that is still sending can read it.
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
        self.flow.resume_reading()  # otherwise nobody would notice that a client leaves while it waits for its answer
        if self._lingering is not None:
            self._lingering.request_ended()

    def send_400_response(self, msg: str) -> None:
        """Answers a request that cannot be parsed. uvicorn calls this when the parser or a callback has raised."""
        if self._refusal is not None:
            self._refuse(*self._refusal)
        else:
            self._refuse(Code.INVALID_REQUEST, f"This is not HTTP/1.1: {msg.rstrip('.')}.")

    def _unsupported_upgrade_warning(self) -> None:
        """Does nothing: an upgrade may be ignored (RFC 9110 section 7.8)."""

    def _count(self, size: int, fields: int) -> None:
        self._head_size += size
        self._fields += fields
        if self._head_size > HEAD_BYTES or self._fields > HEAD_FIELDS:
            self._refusal = Code.HEADER_TOO_LARGE, _TOO_LARGE
            raise _RefusedError

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._on_head_timeout)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        self._head_timer = None
        if self._is_answering():
            self._start_head_timer()  # an earlier request is still being answered, so the header section may wait
        elif self._unseen_bytes:
            self._refuse(
                Code.HEADER_TIMEOUT, f"The header section was not complete after {self.head_seconds:g} seconds."
            )
        else:
            self.transport.close()

    def _is_answering(self) -> bool:
        # uvicorn's annotation does not say that this is None before the first request
        cycle = cast("Any", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _probe_later(self) -> None:
        if self.cycle.scope["http_version"] == "1.1":  # HTTP/1.0 has no interim answers
            self._probe_timer = self.loop.call_later(PROBE_SECONDS, self._probe)

    def _probe(self) -> None:
        if self._is_answering() and not self.cycle.response_started and not self.transport.is_closing():
            # A closed connection refuses this write. Then the next write fails, and asyncio reports the loss.
            self.transport.write(_INTERIM)
            self._probe_later()

    def _refuse(self, code: Code, detail: str) -> None:
        """Answers with a problem and closes the connection; only closes it if another answer has begun."""
        self._stop_head_timer()
        if not self.transport.is_closing():
            # The client would take these bytes for a part of an answer that has begun.
            if not (self._is_answering() and self.cycle.response_started):
                self.transport.write(_answer(CoatcheckError(code, detail)))
            self.transport.close()


def _answer(error: CoatcheckError) -> bytes:
    """Returns an error as the bytes of a whole response, with a new request ID, as there is no request yet."""
    request_id = uuid.uuid4().hex
    problem = render(error, request_id)
    log.debug("request %s was refused before it was known: %s", request_id, error.code)
    fields = [
        *problem.headers,
        ("content-length", str(len(problem.body))),
        ("x-request-id", request_id),
        (VERSION_FIELD, __version__),
        ("connection", "close"),
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\n{head}\r\n".encode() + problem.body
