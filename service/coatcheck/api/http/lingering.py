"""A connection that is closed only when what its client is still sending has come, for a while.

Closing a connection with bytes that nobody has read resets it, and the client's system then throws away the answer
that was sent: a client that writes all of its request before it reads would see a broken pipe instead of a 413.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

LINGER_SECONDS: Final = 30.0
"""How long a client may go on sending after its answer."""


class LingeringTransport:
    """A transport whose `close` waits for the end of the request that it is in the middle of."""

    def __init__(self, transport: asyncio.Transport, is_receiving: Callable[[], bool]) -> None:
        """`is_receiving`: whether the request's body has not ended yet."""
        self._transport = transport
        self._is_receiving = is_receiving
        self._alarm: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else is the transport's own
        return getattr(self._transport, name)

    def close(self) -> None:
        """Close at once between requests; inside of one send no more, and close when it has ended or time is up."""
        if not self._is_receiving() or self._transport.is_closing():
            self._transport.close()
        elif self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
            self._transport.write_eof()

    def request_ended(self) -> None:
        """Close now, if that was only waiting for the end of the request."""
        if self._alarm is not None:
            self.lost()
            self._transport.close()

    def lost(self) -> None:
        """Forget the time limit: the connection is closed."""
        if self._alarm is not None:
            self._alarm.cancel()
