"""A request and its answer in progress, and the log of requests.

An exchange counts the bytes of the request, adds the header fields that all answers have, and drops the body of an
answer to HEAD.

The log records damaged stored bytes always, a lack of resources once a minute per error code, and, if configured, every
request. It does not record the mistakes of callers. Of the data that callers choose, it contains only the request ID:
a route stands for a path, and an artifact's ID for its content.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, cast

from litestar.types import HTTPReceiveMessage, HTTPScope, Message, Receive, Scope, Send

from coatcheck import __version__
from coatcheck.api.http.access import METRICS_PATH, PROBES
from coatcheck.api.http.rates import RateAllowance
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.telemetry import Clock, Meter
from coatcheck.runtime.noop_telemetry import UNMETERED
from coatcheck_client.contract.answers import VERSION_FIELD

NO_ROUTE: Final = "none"
"""The route in logs and metrics if no route matches a request."""
LEFT: Final = 499
"""The status in logs and metrics if the client left before it was answered."""
VERSION: Final = (VERSION_FIELD.encode(), __version__.encode())
"""The header field of every answer that says the release, for clients that need a later one."""
_ROUTE: Final = "route"
"""Key of the route in the state of a scope."""
_TYPE: Final = re.compile(r":[a-z]+\}")
"""Matches the type of a parameter in a path template of Litestar's."""
_PRIVATE_PATHS: Final = ("/v1/", "/mcp")
"""Beginnings of the paths whose answers contain stored data. A cache may keep such an answer only if the answer itself
allows this."""
_ARTIFACT: Final = re.compile(rb"/(art_[0-9]{18})(?![0-9])")
"""Matches an artifact's ID in a path, but not the beginning of a longer number."""


class RequestReceiver:
    """An ASGI `receive` that counts the bytes of the body and charges them to the caller's allowance."""

    __slots__ = ("_receive", "allowance", "size")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.size = 0
        """Bytes of the body as sent that have arrived so far."""
        self.allowance: RateAllowance | None = None

    async def __call__(self) -> HTTPReceiveMessage:
        """Returns the next message.

        Raises:
            CoatcheckError: `rate_limited`.
        """
        message = cast("HTTPReceiveMessage", await self._receive())
        body = message.get("body")
        if body and isinstance(body, bytes):
            self.size += len(body)
            if self.allowance is not None:
                self.allowance.charge(len(body))
        return message


class ResponseSender:
    """An ASGI `send` that adds the request's ID and the service's release, and records whether a response has begun.

    It can drop the body (for HEAD). If `private` is true, caches are told not to store an answer that does not say how
    it may be cached.
    """

    def __init__(self, send: Send, request_id: bytes, *, private: bool) -> None:
        self._send = send
        self._request_id = request_id
        self._private = private
        self.started = False
        """Whether the status was sent. After that, no problem document can be sent any more."""
        self.ended = False
        self.status = 0
        """The status of the answer; 0: none was sent yet."""
        self.silent = False
        """Whether to drop the body, because the method is HEAD."""
        self.allowance: RateAllowance | None = None
        self.location = b""
        """The answer's Location, for the log; empty if it has none."""

    async def __call__(self, message: Message) -> None:
        """See ASGI."""
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            headers = [*message["headers"], (b"x-request-id", self._request_id), VERSION]
            self.location = next((value for name, value in headers if name == b"location"), b"")
            # A cache would go on showing stored data that was deleted or has expired.
            if self._private and not any(name.lower() == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"private, no-store"))
            if self.allowance is not None:
                headers += self.allowance.headers()
            message["headers"] = headers
        elif message["type"] == "http.response.body":
            self.ended = not message.get("more_body", False)
            if self.silent:
                message["body"] = b""
        await self._send(message)


class Exchange:
    """A request and its answer in progress."""

    def __init__(
        self,
        scope: HTTPScope,
        receive: Receive,
        send: Send,
        request_id: str,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Begins an exchange in the current task. `clock` returns the time in seconds."""
        self.scope = scope
        self.id = request_id
        self.received = RequestReceiver(receive)
        self.sent = ResponseSender(send, request_id.encode(), private=scope["path"].startswith(_PRIVATE_PATHS))
        self.left = False
        """Whether the client left before it got its answer."""
        self._task = asyncio.current_task()
        """The task that answers the request. It is cancelled if the client leaves."""
        self._clock = clock
        self._began = clock()

    def leave(self) -> None:
        """Cancels the work on the request, because the client has left. A commit that has begun is completed."""
        if self._task is not None and not self.sent.ended:
            self.left = True
            self._task.cancel()

    @property
    def seconds(self) -> float:
        """Seconds since the exchange began."""
        return self._clock() - self._began

    @property
    def route(self) -> str:
        """The template of the route's path; NO_ROUTE if no route matches."""
        return route_of(self.scope)

    @property
    def is_asked_all_the_time(self) -> bool:
        """Whether the request is a health check or fetches metrics, as monitoring does all the time."""
        return self.scope["path"] in PROBES or self.scope["path"] == METRICS_PATH

    @property
    def artifact(self) -> str | None:
        """The ID of the artifact in the answer's Location or in the path; None: neither has one."""
        # The path of a request that stores an artifact has no ID, but the answer has a Location.
        match = _ARTIFACT.search(self.sent.location or self.scope["path"].encode("utf-8", "replace"))
        return None if match is None else match[1].decode()

    def facts(self, caller: Caller | None) -> dict[str, str | float]:
        """Returns the facts for logs and traces. They contain nothing of the request's content.

        `caller` is None if it is unknown.
        """
        facts: dict[str, str | float] = {
            "request_id": self.id,
            # A caller may send a method of any length.
            "method": self.scope["method"][:20],
            "route": self.route,
            "status": self.sent.status,
            "duration_ms": round(self.seconds * 1000, 1),
            "received": self.received.size,
        }
        if caller is not None and caller.key_id is not None:
            facts["key_id"] = caller.key_id
        if (artifact := self.artifact) is not None:
            facts["artifact_id"] = artifact
        return facts

    def allow(self, allowance: RateAllowance) -> None:
        """Charges `allowance` for bytes that arrive from now on, and adds the rate limit fields to the answer."""
        self.received.allowance = self.sent.allowance = allowance


def set_route(scope: Scope, template: str | None) -> None:
    """Records the path template of the route that handles a request."""
    if template:
        scope["state"][_ROUTE] = template


def route_of(scope: Scope) -> str:
    """Returns the path template of the route that handles a request, without types; NO_ROUTE if there is none."""
    template = template_of(scope) or scope["state"].get(_ROUTE)
    return _TYPE.sub("}", template) if template else NO_ROUTE


def template_of(scope: Scope) -> str | None:
    """Returns the path template of the route that Litestar found; None if it found no route."""
    template = cast("dict[str, object]", scope).get("path_template")
    return template if isinstance(template, str) else None


_log = logging.getLogger("coatcheck.api")
_access = logging.getLogger("coatcheck.access")
_FIRST_ERROR_STATUS: Final = 400
"""The lowest status of an error (RFC 9110 section 15.5)."""
_REPEAT_PAUSE: Final = timedelta(minutes=1)
"""Minimum time between two log lines about the same error code. Failures in between are only counted in a metric."""
_RESOURCE_CODES: Final = frozenset({Code.STORAGE_FULL, Code.STORAGE_UNAVAILABLE, Code.UPLOAD_FENCED, Code.OVERLOADED})
"""Errors for a lack of resources. They may affect every request, so that one log line a minute is enough."""


class RequestLog:
    """The log of one application's requests."""

    def __init__(self, clock: Clock, meter: Meter = UNMETERED) -> None:
        self._clock = clock
        self._meter = meter
        self._last: dict[Code, datetime] = {}
        """The time of the latest log line, by error code."""

    def log_failure(self, error: CoatcheckError, request_id: str, route: str) -> None:
        """Logs and counts an expected failure, of a request or of one item of a batch."""
        self._meter.problem(error.code)
        facts = {"request_id": request_id, "route": route, "code": str(error.code)}
        if error.code is Code.INTEGRITY:
            text = "stored bytes are damaged: request %s for %s: %s"
            _log.error(text, request_id, route, error.detail, extra={"facts": facts})
        elif error.code in _RESOURCE_CODES:
            now = self._clock.now()
            last = self._last.get(error.code)
            if last is None or now - last >= _REPEAT_PAUSE:
                self._last[error.code] = now
                text = "%s: request %s for %s: %s"
                _log.warning(text, error.code, request_id, route, error.detail, extra={"facts": facts})

    def broke(self, error: Exception, request_id: str, route: str) -> None:
        """Logs and counts an unexpected exception with its traceback. The log's formatters leave out its message."""
        self._meter.problem(Code.INTERNAL)
        facts = {"request_id": request_id, "route": route}
        _log.error("request %s failed: %s", request_id, route, exc_info=error, extra={"facts": facts})

    def log_answer(self, exchange: Exchange, caller: Caller | None) -> None:
        """Logs and counts a response that was sent or cut short.

        `caller` is None if the request needs no key, or failed before its caller was known.
        """
        method, status = exchange.scope["method"], exchange.sent.status
        self._meter.record_answer(exchange.route, method, status, exchange.seconds, exchange.received.size)
        # Health checks and requests for metrics are so many that they are logged only if they fail.
        if not _access.isEnabledFor(logging.INFO) or (exchange.is_asked_all_the_time and status < _FIRST_ERROR_STATUS):
            return
        facts = exchange.facts(caller)
        text = " ".join(f"{name}={value}" for name, value in facts.items())
        _access.info(text, extra={"facts": facts, "plain": "request"})
