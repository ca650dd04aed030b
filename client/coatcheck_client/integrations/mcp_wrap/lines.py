"""Splits arriving pieces of bytes into lines, and exchanges lines on this process's standard streams.

Threads read and write the standard streams, because an event loop cannot wait for them on every system. The threads are
daemons: they end with the process even while they wait.
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import CancelledError, Future
from queue import SimpleQueue
from typing import Final

PIECE: Final = 256 * 1024
"""Maximum bytes that are read at once."""
_WAITING: Final = 16
"""Maximum pieces of standard input that are read ahead."""


async def lines(read: Callable[[], Awaitable[bytes]]) -> AsyncIterator[bytes]:
    """Yields lines, without their line ends. `read` returns the next piece of them, and an empty one at the end.

    The pieces of a line are joined only once, however long the line is.
    """
    begun: list[bytes] = []
    while piece := await read():
        *ended, rest = piece.split(b"\n")
        for last in ended:
            yield b"".join((*begun, last))
            begun = []
        if rest:
            begun.append(rest)
    if begun:
        yield b"".join(begun)


class StandardStreams:
    """Exchanges lines with the host that started this process, on standard input and standard output."""

    def __init__(self) -> None:
        """Starts the threads. Call it on the event loop that will receive and send the lines."""
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._jobs: SimpleQueue[tuple[bytes, Future[None]]] = SimpleQueue()
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    def lines(self) -> AsyncIterator[bytes]:
        """Yields the lines that the host sends."""
        return lines(self._pieces.get)

    async def send(self, line: bytes) -> None:
        """Sends a line to the host.

        Raises:
            OSError: the host has closed standard output.
        """
        done: Future[None] = Future()
        self._jobs.put((line + b"\n", done))
        await asyncio.wrap_future(done)

    def _read(self) -> None:
        piece = b"-"
        while piece:
            try:
                piece = os.read(sys.stdin.fileno(), PIECE)
            except OSError:
                piece = b""  # a stream that cannot be read has ended
            putting = self._pieces.put(piece)
            try:
                asyncio.run_coroutine_threadsafe(putting, self._loop).result()
            except (RuntimeError, CancelledError):  # the event loop has ended
                putting.close()
                return

    def _write(self) -> None:
        while True:
            line, done = self._jobs.get()
            if not done.set_running_or_notify_cancel():
                continue
            try:
                left = memoryview(line)
                while left:
                    left = left[os.write(sys.stdout.fileno(), left) :]
            except OSError as e:
                done.set_exception(e)
            else:
                done.set_result(None)
