"""The sending side of a connection: it closes without losing the answer, and aborts if the client stops reading.

If a connection is closed while it has unread bytes, the client gets a reset, and its operating system discards the
answer. A client that sends its entire request before it reads would see a broken pipe instead of a 413. Closing
therefore waits until the rest of the request has arrived.

If a client stops reading, its answer would stay in memory forever. Its connection is aborted instead.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, ClassVar, Final, final

log = logging.getLogger(__name__)

LINGER_SECONDS: Final = 30.0
"""Seconds for which a client may continue to send its request after it got the answer."""
SEND_SECONDS: Final = 30.0
"""Seconds in which a client must receive at least some of the bytes that wait for it. Half of nginx's
`send_timeout`."""
CROWDED_BYTES: Final = 64 * 1024 * 1024
"""If more bytes than this wait for all clients together, CROWDED_SECONDS applies."""
CROWDED_SECONDS: Final = 1.0
"""Seconds in which a client must receive at least some bytes while more than CROWDED_BYTES wait for all clients."""


@final
class UnsentBytes:
    """The bytes that wait for the client of one connection, and the time since the client last received some."""

    in_all: ClassVar = 0
    """Bytes that wait for all clients of this process, as of the latest measurement of each connection."""
    _waiting: ClassVar[dict["UnsentBytes", None]] = {}
    """Connections that are watched, in order: the first client has received nothing for the longest time."""

    def __init__(self, transport: asyncio.Transport, seconds: float = SEND_SECONDS) -> None:
        """Creates the count of a transport. The caller reports each write to `count_written`."""
        self._transport = transport
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._written = self._taken = self._size = 0
        """Bytes written so far; of these, as of the latest measurement, bytes that are on their way to the client, and
        bytes that wait."""
        self._taken_at = 0.0
        """When the client last received some bytes, in the event loop's time."""
        self._alarm: asyncio.TimerHandle | None = None
        """Timer of the next check; None: no bytes wait, and the connection is not watched."""

    def count_written(self, size: int) -> None:
        """Counts `size` more written bytes, and begins to watch the connection if some of them wait."""
        self._written += size
        # Bytes in the operating system's own buffer do not count: they take no memory of this process.
        if self._transport.get_write_buffer_size():
            if self._alarm is None:
                self._taken_at = self._loop.time()
                self._alarm = self._loop.call_later(self._seconds, self._check)
            self._measure()
            if UnsentBytes.in_all > CROWDED_BYTES:
                self._make_room()

    def forget(self) -> None:
        """Stops watching the connection, because it is closed or no bytes wait."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._waiting.pop(self, None)
        UnsentBytes.in_all -= self._size
        self._size = 0

    def _measure(self) -> None:
        """Updates the counts. A connection whose client has received bytes moves to the end of `_waiting`."""
        size = self._transport.get_write_buffer_size()
        UnsentBytes.in_all += size - self._size
        self._size = size
        if self._written - size > self._taken:
            # Remove the connection here and add it again below. As a dict keeps the order of insertion, it stays sorted
            # by the time of the latest progress.
            self._taken, self._taken_at = self._written - size, self._loop.time()
            self._waiting.pop(self, None)
        self._waiting.setdefault(self)

    def end_if_stalled(self, seconds: float) -> None:
        """Aborts the connection if its client has received nothing for `seconds`. Stops watching if no bytes wait."""
        self._measure()
        since = self._loop.time() - self._taken_at
        if self._size and since >= seconds:
            log.info("a connection was closed: its client took nothing of %d bytes for %.0f s", self._size, since)
            # `close` would wait until the client has received the rest.
            self._transport.abort()
        if not self._size or since >= seconds:
            self.forget()

    def _check(self) -> None:
        self.end_if_stalled(self._seconds)
        if self._size:
            # The next check is due when the limit has passed since the latest progress. So writes need no timers.
            self._alarm = self._loop.call_later(self._taken_at + self._seconds - self._loop.time(), self._check)

    def _make_room(self) -> None:
        """Aborts stalled connections, the longest stalled first, until no more than CROWDED_BYTES wait."""
        for each in list(self._waiting):
            each.end_if_stalled(CROWDED_SECONDS)
            if UnsentBytes.in_all <= CROWDED_BYTES:
                return


class LingeringTransport:
    """A transport that counts the bytes written, and whose `close` waits for the end of the current request."""

    def __init__(self, transport: asyncio.Transport, unsent: UnsentBytes, is_receiving: Callable[[], bool]) -> None:
        """Wraps `transport`; `is_receiving` returns whether the request's body is still incomplete."""
        self._transport = transport
        self._unsent = unsent
        self._is_receiving = is_receiving
        self._alarm: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else is the transport's own
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Writes `data`, and watches whether the client receives it."""
        self._transport.write(data)
        self._unsent.count_written(len(data))

    def close(self) -> None:
        """Closes the connection: between requests at once, during a request at its end or after LINGER_SECONDS."""
        if not self._is_receiving() or self._transport.is_closing():
            self._transport.close()
        elif self._alarm is None:
            # End only this direction. Bytes that the client still sends are read and dropped, so that no reset makes
            # the client's system discard the answer.
            self._alarm = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
            self._transport.write_eof()

    def request_ended(self) -> None:
        """Closes the connection if `close` has been called and waits for the end of the request."""
        if self._alarm is not None:
            self.cancel_time_limit()
            self._transport.close()

    def cancel_time_limit(self) -> None:
        """Cancels the time limit, because the connection is closed."""
        if self._alarm is not None:
            self._alarm.cancel()
