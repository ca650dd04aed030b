"""What happens at the sending end of a connection: when it is closed, and when nobody takes what is sent.

Closing a connection with unread bytes resets it, and the client's system then discards the answer: a client that sends
its entire request before it reads would see a broken pipe instead of a 413. So closing waits until the rest of the
request has arrived. And a client that stops reading would hold its answer in memory for ever: its connection is
aborted.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, ClassVar, Final, final

log = logging.getLogger(__name__)

LINGER_SECONDS: Final = 30.0
"""Seconds that a client may continue sending after its answer."""
SEND_SECONDS: Final = 30.0
"""Seconds in which a client must take something of what waits for it. Half of nginx's `send_timeout`."""
CROWDED_BYTES: Final = 64 * 1024 * 1024
"""Bytes that may wait for all clients together; above that, a client must take something within CROWDED_SECONDS."""
CROWDED_SECONDS: Final = 1.0
"""Seconds in which a client must take something while too much waits for all of them together."""


@final
class UnsentBytes:
    """What one connection's client has not taken yet, and since when it takes nothing."""

    in_all: ClassVar = 0
    """Bytes that wait for all clients of this process, as of their last writes and checks."""
    _waiting: ClassVar[dict["UnsentBytes", None]] = {}
    """Connections with such bytes, the one that took something longest ago first."""

    def __init__(self, transport: asyncio.Transport, seconds: float = SEND_SECONDS) -> None:
        """Watches a transport, whose writes call `count_written`."""
        self._transport = transport
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._written = self._taken = self._size = 0
        """Bytes written so far; those that the client has taken and those that wait, as of the last measurement."""
        self._taken_at = 0.0
        """When the client last took something, in the event loop's time."""
        self._alarm: asyncio.TimerHandle | None = None
        """The next check; None: nothing waits."""

    def count_written(self, size: int) -> None:
        """Counts `size` more bytes, and begins to watch if some of them wait."""
        self._written += size
        # What the system's own buffer has accepted does not wait here, and needs no watch.
        if self._transport.get_write_buffer_size():
            if self._alarm is None:
                self._taken_at = self._loop.time()
                self._alarm = self._loop.call_later(self._seconds, self._check)
            self._measure()
            if UnsentBytes.in_all > CROWDED_BYTES:
                self._make_room()

    def forget(self) -> None:
        """Ends watching, because the connection is closed or everything was taken."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._waiting.pop(self, None)
        UnsentBytes.in_all -= self._size
        self._size = 0

    def _measure(self) -> None:
        """Updates the sums; a client that took something goes to the end of the row."""
        size = self._transport.get_write_buffer_size()
        UnsentBytes.in_all += size - self._size
        self._size = size
        if self._written - size > self._taken:
            # The connection is removed here and added again below: a dictionary keeps its order, so the row stays
            # sorted by last progress.
            self._taken, self._taken_at = self._written - size, self._loop.time()
            self._waiting.pop(self, None)
        self._waiting.setdefault(self)

    def end_if_stalled(self, seconds: float) -> None:
        """Aborts the connection if its client has taken nothing for that long; forgets it if nothing waits."""
        self._measure()
        since = self._loop.time() - self._taken_at
        if self._size and since >= seconds:
            log.info("a connection was closed: its client took nothing of %d bytes for %.0f s", self._size, since)
            # `close` would wait for the same client to take the rest.
            self._transport.abort()
        if not self._size or since >= seconds:
            self.forget()

    def _check(self) -> None:
        self.end_if_stalled(self._seconds)
        if self._size:
            # The alarm goes off when the limit has passed since the latest progress, so no write needs a timer of its
            # own.
            self._alarm = self._loop.call_later(self._taken_at + self._seconds - self._loop.time(), self._check)

    def _make_room(self) -> None:
        """Aborts connections whose clients take nothing, the longest stalled first, until the rest fits."""
        for each in list(self._waiting):
            each.end_if_stalled(CROWDED_SECONDS)
            if UnsentBytes.in_all <= CROWDED_BYTES:
                return


class LingeringTransport:
    """A transport that counts what it writes, and whose `close` waits for the end of the current request."""

    def __init__(self, transport: asyncio.Transport, unsent: UnsentBytes, is_receiving: Callable[[], bool]) -> None:
        """Wraps `transport`; `is_receiving` returns whether the request's body is still incomplete."""
        self._transport = transport
        self._unsent = unsent
        self._is_receiving = is_receiving
        self._alarm: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else is the transport's own
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Writes, and watches whether the client takes it."""
        self._transport.write(data)
        self._unsent.count_written(len(data))

    def close(self) -> None:
        """Closes at once between requests. During one, sends no more, and closes at its end or after the time limit."""
        if not self._is_receiving() or self._transport.is_closing():
            self._transport.close()
        elif self._alarm is None:
            # Only this direction ends. What the client still sends is read and dropped, so that no reset discards the
            # answer.
            self._alarm = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
            self._transport.write_eof()

    def request_ended(self) -> None:
        """Closes now if `close` was waiting for the end of the request."""
        if self._alarm is not None:
            self.cancel_time_limit()
            self._transport.close()

    def cancel_time_limit(self) -> None:
        """Cancels the time limit, because the connection is closed."""
        if self._alarm is not None:
            self._alarm.cancel()
