"""Serves the programs that use one data directory, on Unix sockets, for as long as one of these programs is connected.

The run folder belongs to one user, and the file system lets only that user in, so no key is needed. The folder has two
sockets, `http.sock` for requests and `lifeline.sock`. Each program keeps one connection to the lifeline open. On it,
the service states its version, and the connection ends with the program, however that ends. The lifeline opens last,
when the service answers, and closes first. The service stops five seconds after the last connection has ended.
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
"""Seconds without any connected program after which the service stops."""
_END_SECONDS: Final = 10.0
"""Seconds that an earlier service of the data directory may take to end."""
_LOOK_SECONDS: Final = 0.05
"""Seconds between two checks whether the earlier service has ended."""
FIRST_SECONDS: Final = 15.0
"""Seconds that the first program may take to connect. The program that started this process is waiting already."""


def bind_socket(folder: Path) -> socket.socket:
    """Returns a bound socket for requests, which replaces one that a dead process has left.

    The process that starts a service holds the folder's lock, so no other process binds at the same time.

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
    """The lifeline of a running service: holds the connections of the programs that need the service."""

    def __init__(self, folder: Path, stop: Callable[[], None]) -> None:
        """Opens nothing yet. `stop` is called when no program has been connected for some seconds."""
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
        """Removes the sockets and ends the connections, so that a program that needs a service starts the next one.

        Requests in progress are not affected. A second call does nothing.
        """
        if self._server is None:
            return
        self._server.close()
        self._server = None
        # Only in the first call: a later one would remove the sockets of the next service.
        for name in (LIFELINE_SOCKET, HTTP_SOCKET):
            (self._folder / name).unlink(missing_ok=True)
        self._wait(None)
        for writer in self._connections:
            writer.close()

    def _wait(self, seconds: float | None) -> None:
        """Sets the timer that stops the service after so many seconds; with None, only cancels the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self._stop)

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        self._wait(None)
        with contextlib.suppress(OSError):
            writer.write(json.dumps({"version": __version__, "pid": os.getpid()}).encode() + b"\n")
            while await reader.read(1024):
                pass  # what programs send is ignored: only the open connection counts
        self._connections.discard(writer)
        writer.close()
        if not self._connections and self._server is not None:
            self._wait(IDLE_SECONDS)


@contextlib.contextmanager
def tell_address(data: Path, url: str | None, run_folder: Path | None) -> Generator[None]:
    """Keeps a file in the data directory that tells where the directory is served, during the `with` block.

    Programs that find the directory locked read the file. If it cannot be written, they only lack this hint.
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
    """Waits up to 10 seconds for an earlier service of the data directory that is about to end.

    Returns at once if no process has the directory open, or if a service has its address in the directory: that service
    does not end, even if it hangs.
    """
    from coatcheck.bootstrap.embedded import is_free  # noqa: PLC0415 - only this needs it so early

    for _ in range(round(_END_SECONDS / _LOOK_SECONDS)):
        if is_free(data) or (data / ADDRESS_FILE).exists():
            return
        await asyncio.sleep(_LOOK_SECONDS)
