"""A service for the programs that have its data directory open: on Unix sockets, for as long as one of them is there.

The run folder belongs to one user, whom the file system lets in: no key is needed. It has two sockets, `http` for
requests and `lifeline`. Each program keeps one connection to the lifeline, which tells it the version and ends with it,
however it ends. The lifeline opens last, when the service answers, and closes first. Five seconds after the last
connection the service stops.
"""

import asyncio
import contextlib
import json
import logging
import os
import socket
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, final

from coatcheck import __version__
from coatcheck_client.contract.run_folder import ADDRESS_FILE, HTTP_SOCKET, LIFELINE_SOCKET

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 5.0
"""Seconds without any program after which the service stops."""
_END_SECONDS: Final = 10.0
"""Seconds that the service before may take to end ..."""
_LOOK_SECONDS: Final = 0.05
"""... and between two looks whether it has."""
FIRST_SECONDS: Final = 15.0
"""Seconds that the first one may take to connect: whoever started this process is waiting for it."""


def bind_socket(folder: Path) -> socket.socket:
    """Returns a bound socket for requests; one that a dead process left is replaced.

    Whoever starts a service holds the folder's lock, so that no other process binds at the same time.

    Raises:
        OSError: the folder cannot be written, or its path is too long for a socket.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        (folder / HTTP_SOCKET).unlink(missing_ok=True)
        sock.bind(str(folder / HTTP_SOCKET))
    except OSError:
        sock.close()
        raise
    return sock


@final
class Lifelines:
    """The lifeline of a service that answers: the connections of the programs that need it."""

    def __init__(self, folder: Path, stop: Callable[[], None]) -> None:
        """Opens nothing yet; `stop` is called once nobody has been connected for some seconds."""
        self._folder = folder
        self._stop = stop
        self._connections: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Lets programs connect."""
        path = self._folder / LIFELINE_SOCKET
        path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._hold, path)
        self._wait(FIRST_SECONDS)

    def close(self) -> None:
        """Removes the sockets and ends the connections, so that whoever needs a service starts the next one; once.

        Requests that are under way are not affected.
        """
        if self._server is None:
            return
        self._server.close()
        self._server = None
        # Only now: a later call would remove the sockets of the next service.
        for name in (LIFELINE_SOCKET, HTTP_SOCKET):
            (self._folder / name).unlink(missing_ok=True)
        self._wait(None)
        for writer in self._connections:
            writer.close()

    def _wait(self, seconds: float | None) -> None:
        """Stops the service in so many seconds; None: not any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self._stop)

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        self._wait(None)
        with contextlib.suppress(OSError):
            writer.write(json.dumps({"version": __version__, "pid": os.getpid()}).encode() + b"\n")
            while await reader.read(1024):
                pass  # programs say nothing here: only that the connection is open counts
        self._connections.discard(writer)
        writer.close()
        if not self._connections and self._server is not None:
            self._wait(IDLE_SECONDS)


@contextlib.contextmanager
def tell_address(data: Path, url: str | None, run_folder: Path | None) -> Generator[None]:
    """Writes where a data directory is served into a file in it, for programs that find the directory locked.

    If it cannot be written, these programs only get no hint.
    """
    path, address = data / ADDRESS_FILE, {"version": __version__, "pid": os.getpid()}
    address |= {"url": url} if run_folder is None else {"run_folder": str(run_folder)}
    try:
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(address), encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        log.warning("cannot write %s: %s", path, error)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


async def wait_until_free(data: Path) -> None:
    """Waits for a service of the directory that is about to end; one that answers, or hangs, is not waited for."""
    from coatcheck.bootstrap.embedded import is_free  # noqa: PLC0415 - only this needs it so early

    for _ in range(round(_END_SECONDS / _LOOK_SECONDS)):
        if is_free(data) or (data / ADDRESS_FILE).exists():
            return
        await asyncio.sleep(_LOOK_SECONDS)
