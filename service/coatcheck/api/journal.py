"""What the log says of requests: damage always, want of resources once a minute for each reason, access when debugging.

Tells the administrator what callers are told in their own words. Refuses to log what callers do wrong.
"""

import logging
from datetime import datetime, timedelta
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports import Clock

_log = logging.getLogger("coatcheck.api")
_PAUSE: Final = timedelta(minutes=1)
_WANTS: Final = frozenset({Code.STORAGE_FULL, Code.STORAGE_UNAVAILABLE, Code.UPLOAD_FENCED, Code.OVERLOADED})


class Journal:
    """One per application."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[Code, datetime] = {}

    def failed(self, error: CoatcheckError, request_id: str, path: str) -> None:
        """An expected failure, of a request or of one item of a batch."""
        if error.code is Code.INTEGRITY:
            _log.error("stored bytes are damaged: request %s for %s: %s", request_id, ascii(path), error.detail)
        elif error.code in _WANTS:
            now = self._clock.now()
            last = self._last.get(error.code)
            if last is None or now - last >= _PAUSE:
                self._last[error.code] = now
                _log.warning("%s: request %s for %s: %s", error.code, request_id, ascii(path), error.detail)

    def answered(self, method: str, path: str, status: int, request_id: str) -> None:
        """A response has been sent, or has begun and broken off."""
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s %s %d, request %s", method, ascii(path), status, request_id)
