"""A request and its answer in progress: what has arrived, what has been sent, which route handles it.

Adds to each answer the fields that all answers have, and drops the body where none is allowed.

The log says of requests: damage always, lack of resources once a minute per reason, all of them if configured. Callers'
mistakes are not logged, nor anything that callers chose, except the request ID: routes stand for paths, and an
artifact's ID for its content.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, cast

from litestar.types import HTTPReceiveMessage, HTTPScope, Message, Receive, Scope, Send

from coatcheck.api.http.access import METRICS_PATH, PROBES
from coatcheck.api.http.rates import RateAllowance
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.telemetry import Clock, Meter
from coatcheck.runtime.noop_telemetry import UNMETERED

NO_ROUTE: Final = "none"
"""Recorded as the route if no route matches a request."""
LEFT: Final = 499
"""Recorded as the status, in logs and metrics, if the client left before it was answered."""
_ROUTE: Final = "route"
"""Key of the route in the state of a scope."""
_TYPE: Final = re.compile(r":[a-z]+\}")
"""Matches the type of a parameter in one of Litestar's path templates."""
_PRIVATE: Final = ("/v1/", "/mcp")
"""Paths of answers about stored data, which no cache may keep unless they say so."""
_ARTIFACT: Final = re.compile(rb"/(art_[0-9]{18})(?![0-9])")
"""Matches an artifact's ID in a path. A longer number is no ID."""


class RequestReceiver:
    """A `receive` that counts the bytes of the body and charges them to the sender."""

    __slots__ = ("_receive", "allowance", "size")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.size = 0
        """Bytes of the body so far, as they arrived."""
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
    """A `send` that adds the request ID, knows whether a response has begun, and can drop its body (HEAD).

    `private`: keep caches from storing answers that do not say how they may be cached.
    """

    def __init__(self, send: Send, request_id: bytes, *, private: bool) -> None:
        self._send = send
        self._request_id = request_id
        self._private = private
        self.started = False
        """Whether the status was sent; from then on, no problem document can be."""
        self.ended = False
        self.status = 0
        """0: no status was sent."""
        self.silent = False
        """Whether to drop the body, because the request was HEAD."""
        self.allowance: RateAllowance | None = None
        self.location = b""
        """The answer's Location, for the log; empty if it has none."""

    async def __call__(self, message: Message) -> None:
        """See ASGI."""
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            headers = [*message["headers"], (b"x-request-id", self._request_id)]
            self.location = next((value for name, value in headers if name == b"location"), b"")
            # A cache would show stored data after it was deleted or has expired.
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
    """A request and its answer."""

    def __init__(
        self,
        scope: HTTPScope,
        receive: Receive,
        send: Send,
        request_id: str,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Starts the exchange now, by `clock`, in the current task."""
        self.scope = scope
        self.id = request_id
        self.received = RequestReceiver(receive)
        self.sent = ResponseSender(send, request_id.encode(), private=scope["path"].startswith(_PRIVATE))
        self.left = False
        """Whether the client left before it had its answer."""
        self._task = asyncio.current_task()
        """The work that is cancelled if the client leaves."""
        self._clock = clock
        self._began = clock()

    def leave(self) -> None:
        """Stops the work because the client has left. A commit that has begun is completed."""
        if self._task is not None and not self.sent.ended:
            self.left = True
            self._task.cancel()

    @property
    def seconds(self) -> float:
        """Seconds since the exchange began."""
        return self._clock() - self._began

    @property
    def route(self) -> str:
        """The path's template."""
        return route_of(self.scope)

    @property
    def is_asked_all_the_time(self) -> bool:
        """Whether this is a health check or a scrape of metrics."""
        return self.scope["path"] in PROBES or self.scope["path"] == METRICS_PATH

    @property
    def artifact(self) -> str | None:
        """The ID of the artifact concerned, from the answer's location or the path."""
        # The request of a new artifact has no ID in its path, but its answer has a location.
        match = _ARTIFACT.search(self.sent.location or self.scope["path"].encode("utf-8", "replace"))
        return None if match is None else match[1].decode()

    def facts(self, caller: Caller | None) -> dict[str, str | float]:
        """Returns facts for logs and traces; none of the request's content."""
        facts: dict[str, str | float] = {
            "request_id": self.id,
            # Callers choose the method, of any length.
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
        """Charges `allowance` for what arrives from now on, and adds the rate limit fields to the answer."""
        self.received.allowance = self.sent.allowance = allowance


def set_route(scope: Scope, template: str | None) -> None:
    """Records which route handles a request."""
    if template:
        scope["state"][_ROUTE] = template


def route_of(scope: Scope) -> str:
    """Returns which route handles a request, as a template without the types of its parameters."""
    template = template_of(scope) or scope["state"].get(_ROUTE)
    return _TYPE.sub("}", template) if template else NO_ROUTE


def template_of(scope: Scope) -> str | None:
    """Returns the declared path of the route that Litestar found; None if it found none."""
    template = cast("dict[str, object]", scope).get("path_template")
    return template if isinstance(template, str) else None


_log = logging.getLogger("coatcheck.api")
_access = logging.getLogger("coatcheck.access")
_FIRST_ERROR_STATUS: Final = 400
"""The first status of an error (RFC 9110 section 15.5)."""
_REPEAT_PAUSE: Final = timedelta(minutes=1)
"""Time between two log lines about the same failure; those in between are counted."""
_WANTS: Final = frozenset({Code.STORAGE_FULL, Code.STORAGE_UNAVAILABLE, Code.UPLOAD_FENCED, Code.OVERLOADED})
"""Lack of resources. Every request may run into it, so one line a minute says enough."""


class RequestLog:
    """The log of one application's requests."""

    def __init__(self, clock: Clock, meter: Meter = UNMETERED) -> None:
        self._clock = clock
        self._meter = meter
        self._last: dict[Code, datetime] = {}
        """When each code was last logged."""

    def log_failure(self, error: CoatcheckError, request_id: str, route: str) -> None:
        """Logs an expected failure, of a request or of one item of a batch."""
        self._meter.problem(error.code)
        facts = {"request_id": request_id, "route": route, "code": str(error.code)}
        if error.code is Code.INTEGRITY:
            text = "stored bytes are damaged: request %s for %s: %s"
            _log.error(text, request_id, route, error.detail, extra={"facts": facts})
        elif error.code in _WANTS:
            now = self._clock.now()
            last = self._last.get(error.code)
            if last is None or now - last >= _REPEAT_PAUSE:
                self._last[error.code] = now
                text = "%s: request %s for %s: %s"
                _log.warning(text, error.code, request_id, route, error.detail, extra={"facts": facts})

    def broke(self, error: Exception, request_id: str, route: str) -> None:
        """Logs a bug with its traceback, but without the exception's values."""
        facts = {"request_id": request_id, "route": route}
        _log.error("request %s failed: %s", request_id, route, exc_info=error, extra={"facts": facts})

    def log_answer(self, exchange: Exchange, caller: Caller | None) -> None:
        """Logs a response that was sent or cut short; `caller` is None if the request failed before it was known."""
        method, status = exchange.scope["method"], exchange.sent.status
        self._meter.record_answer(exchange.route, method, status, exchange.seconds, exchange.received.size)
        # Health checks and scrapes are logged only if they fail: there are too many of them.
        if not _access.isEnabledFor(logging.INFO) or (exchange.is_asked_all_the_time and status < _FIRST_ERROR_STATUS):
            return
        facts = exchange.facts(caller)
        text = " ".join(f"{name}={value}" for name, value in facts.items())
        _access.info(text, extra={"facts": facts, "plain": "request"})
