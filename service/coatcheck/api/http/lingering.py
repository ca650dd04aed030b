"""Delays the closing of a connection until the rest of its request has arrived, for up to 30 seconds.

Closing a connection with unread bytes resets it, and the client's system then discards the answer: a client that sends
its entire request before it reads would see a broken pipe instead of a 413.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

LINGER_SECONDS: Final = 30.0
"""Seconds that a client may continue sending after its answer."""


class LingeringTransport:
    """A transport whose `close` waits for the end of the current request."""

    def __init__(self, transport: asyncio.Transport, is_receiving: Callable[[], bool]) -> None:
        """Wraps `transport`; `is_receiving` returns whether the request's body is still incomplete."""
        self._transport = transport
        self._is_receiving = is_receiving
        self._alarm: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else is the transport's own
        return getattr(self._transport, name)

    def close(self) -> None:
        """Closes at once between requests. During one, sends no more, and closes at its end or after the time limit."""
        if not self._is_receiving() or self._transport.is_closing():
            self._transport.close()
        elif self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
            self._transport.write_eof()

    def request_ended(self) -> None:
        """Closes now if `close` was waiting for the end of the request."""
        if self._alarm is not None:
            self.lost()
            self._transport.close()

    def lost(self) -> None:
        """Cancels the time limit, because the connection is closed."""
        if self._alarm is not None:
            self._alarm.cancel()
