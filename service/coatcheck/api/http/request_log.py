"""What is logged about requests: damage always, lack of resources once a minute per reason, all if configured.

Callers' mistakes are not logged, nor anything that callers chose, except the request ID: routes stand for paths, and an
artifact's ID for its content.
"""

import logging
from datetime import datetime, timedelta
from typing import Final

from coatcheck.api.http.exchange import Exchange
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.clock import Clock
from coatcheck.ports.telemetry import Meter
from coatcheck.runtime.noop_telemetry import UNMETERED

_log = logging.getLogger("coatcheck.api")
_access = logging.getLogger("coatcheck.access")
_FAILED: Final = 400
_PAUSE: Final = timedelta(minutes=1)
_WANTS: Final = frozenset({Code.STORAGE_FULL, Code.STORAGE_UNAVAILABLE, Code.UPLOAD_FENCED, Code.OVERLOADED})


class RequestLog:
    """The log of one application's requests."""

    def __init__(self, clock: Clock, meter: Meter = UNMETERED) -> None:
        self._clock = clock
        self._meter = meter
        self._last: dict[Code, datetime] = {}

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
            if last is None or now - last >= _PAUSE:
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
        if not _access.isEnabledFor(logging.INFO) or (exchange.is_asked_all_the_time and status < _FAILED):
            return
        facts = exchange.facts(caller)
        text = " ".join(f"{name}={value}" for name, value in facts.items())
        _access.info(text, extra={"facts": facts, "plain": "request"})
