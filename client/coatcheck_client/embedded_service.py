"""Runs a service of one data directory for the programs that use it, and only while they do.

    from coatcheck_client import embedded

    with embedded("./data") as coatcheck:
        receipt = coatcheck.put(output, tool_name="bash")

The service is a process of its own. It listens on a Unix socket in a folder that only this user can open, so it needs
no port and no key. All programs that use the same directory share it. Each program keeps a connection to the service
until its `with` block ends, and five seconds after the last connection the service stops. If the service is killed, the
next request starts it again; payloads that it has acknowledged are on disk.

The service is in the package `coatcheck`: `pip install 'coatcheck-client[embedded]'`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import json
import os
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn, final

import httpx

from coatcheck_client.async_client import AsyncClient
from coatcheck_client.contract.run_folder import ADDRESS_FILE, DIRECTORY_LOCK, HTTP_SOCKET, LIFELINE_SOCKET
from coatcheck_client.options import ClientOptions
from coatcheck_client.sync import Client

if TYPE_CHECKING:
    from typing_extensions import Unpack

URL: Final = "http://localhost"
"""The URL of requests over a Unix socket. Its host name is never resolved."""
START_SECONDS: Final = 60.0
"""Maximum seconds that a service may take to start; it may have to migrate the data directory first."""
_LOOK_SECONDS: Final = 0.02
"""Seconds between two checks whether a service that is starting answers."""
_HELLO_SECONDS: Final = 5.0
"""Maximum seconds that a running service may take to accept a connection, and to send its version."""
_MAX_SOCKET_PATH: Final = 100
"""Maximum bytes of a Unix socket's path; the kernel allows 107 on Linux and 103 on macOS."""
_DIGEST_CHARS: Final = 16
"""Hexadecimal digits in the name of a run folder, which distinguish the data directories of one user."""
_LOG_FILE: Final = "service.log"
_LOCK_FILE: Final = "lock"


class EmbeddedError(Exception):
    """The service could not be started. The message says why, and what to do about it."""


@final
class Embedded:
    """A service of a data directory: `with` yields a blocking client, `async with` a client for an event loop."""

    def __init__(self, data: str | os.PathLike[str], options: ClientOptions) -> None:
        """Starts nothing yet."""
        self._connection = _ServiceConnection(Path(data))
        self._options = options
        self._client: Client | None = None
        self._async_client: AsyncClient | None = None

    def __enter__(self) -> Client:
        """Starts the service, or joins the one that is running; returns a client.

        Raises:
            EmbeddedError: no service is running, and none can be started.
        """
        address = self._connection.open()
        transport = _Transport(self._connection, address)
        self._client = Client(address.url, transport=transport, **self._options)
        return self._client

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._client is not None:
                self._client.close()
        finally:
            self._connection.close()

    async def __aenter__(self) -> AsyncClient:
        """Starts the service, or joins the one that is running, without blocking the event loop; returns a client."""
        address = await asyncio.to_thread(self._connection.open)
        transport = _AsyncTransport(self._connection, address)
        self._async_client = AsyncClient(address.url, transport=transport, **self._options)
        return self._async_client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._async_client is not None:
                await self._async_client.close()
        finally:
            self._connection.close()


def embedded(data: str | os.PathLike[str] = "coatcheck-data", **options: Unpack[ClientOptions]) -> Embedded:
    """Returns a service of a data directory. Use it in a `with` or an `async with` statement, which yields a client.

    Args:
        data: the directory; if it does not exist, it is created for this user only.
        options: the options of the client, except `url` and `transport`: `session`, `card_tokens`, `inline_tokens`,
            `deadline` and others.
    """
    return Embedded(data, options)


@final
class _Address:
    """Where a service answers: on a Unix socket, or at its URL."""

    def __init__(self, url: str = URL, socket_path: str | None = None) -> None:
        self.url = url
        self.socket = socket_path


@final
class _ServiceConnection:
    """A connection that keeps the service of a data directory alive. Several threads may use it."""

    def __init__(self, data: Path) -> None:
        self._data = data.expanduser().absolute()
        self._lifeline: socket.socket | None = None
        self._address: _Address | None = None
        """The address of the service to which the lifeline is connected."""
        self._lock = threading.Lock()

    def open(self) -> _Address:
        """Joins the service of the directory, or starts one; returns its address. Blocks.

        Raises:
            EmbeddedError: no service is running, and none can be started.
        """
        with self._lock:
            if self._address is not None and self.is_alive():  # another thread was faster
                return self._address
            self._let_go()
            run_folder = _make_run_folder(self._data)
            with _exclusive(run_folder / _LOCK_FILE):
                lifeline = _join(run_folder)
                if lifeline is None and (other := self._find_other()):
                    return other
                if lifeline is None:
                    process = _start(self._data, run_folder)
                    lifeline = _wait_for(process, run_folder)
                    if lifeline is None:
                        # It did not start. Another service may have opened the directory meanwhile, and is then used.
                        return self._find_other() or _refuse(self._data, run_folder, process.returncode)
            return self._hold(lifeline, run_folder)

    def is_alive(self) -> bool:
        """Returns whether the lifeline is still connected. Does not block."""
        lifeline = self._lifeline
        if lifeline is None:
            return False
        try:
            return lifeline.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True  # connected: after its version, the service sends nothing
        except OSError:
            return False

    def close(self) -> None:
        """Gives up the service, which ends soon if no other program uses it."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._lifeline is not None:
            self._lifeline.close()
            self._lifeline = None

    def _hold(self, lifeline: socket.socket, run_folder: Path) -> _Address:
        self._lifeline = lifeline
        self._address = _Address(socket_path=str(run_folder / HTTP_SOCKET))
        return self._address

    def _find_other(self) -> _Address | None:
        """Returns the address of another service of the directory; None if it is unknown, or nobody answers there.

        Raises:
            EmbeddedError: that service needs a key, and none is set.
        """
        if not _is_served(self._data):  # the address, if there is one, is that of a dead service
            return None
        try:
            record = json.loads((self._data / ADDRESS_FILE).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        if folder := record.get("run_folder"):
            lifeline = _join(Path(folder))
            return None if lifeline is None else self._hold(lifeline, Path(folder))
        url = record.get("url")
        if not url:
            return None
        try:
            status = httpx.get(
                f"{url}/v1/artifacts?limit=1", timeout=_HELLO_SECONDS, trust_env=False, verify=_without_certificates()
            ).status_code
        except httpx.HTTPError:
            return None
        if status in {401, 403} and "COATCHECK_KEY" not in os.environ:  # noqa: TID251 - as the client reads it
            raise EmbeddedError(
                f"{self._data} is served at {url} already, which needs a key: use Client({url!r}, key=…), or set "
                "COATCHECK_KEY, or stop that service."
            )
        return _Address(url)


class _Transport(httpx.BaseTransport):
    """Sends requests to the service. If it is embedded and was killed, it is started again first, or another joined."""

    def __init__(self, connection: _ServiceConnection, address: _Address) -> None:
        self._connection = connection
        self._address = address
        self._transports: dict[str | None, httpx.HTTPTransport] = {}
        """What sends to each socket, or by TCP. Requests of other threads may still use an earlier one."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request."""
        if self._address.socket is not None and not self._connection.is_alive():
            self._address = _reopen(self._connection)
        path = self._address.socket
        if path not in self._transports:
            self._transports[path] = httpx.HTTPTransport(uds=path, verify=_without_certificates())
        _readdress(request, self._address)
        return self._transports[path].handle_request(request)

    def close(self) -> None:
        """Closes all connections."""
        for transport in self._transports.values():
            transport.close()


class _AsyncTransport(httpx.AsyncBaseTransport):
    """Sends requests from an event loop to the service, as _Transport does."""

    def __init__(self, connection: _ServiceConnection, address: _Address) -> None:
        self._connection = connection
        self._address = address
        self._transports: dict[str | None, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request."""
        if self._address.socket is not None and not self._connection.is_alive():
            self._address = await asyncio.to_thread(_reopen, self._connection)
        path = self._address.socket
        if path not in self._transports:
            self._transports[path] = httpx.AsyncHTTPTransport(uds=path, verify=_without_certificates())
        _readdress(request, self._address)
        return await self._transports[path].handle_async_request(request)

    async def aclose(self) -> None:
        """Closes all connections."""
        for transport in self._transports.values():
            await transport.aclose()


def _readdress(request: httpx.Request, address: _Address) -> None:
    """Directs a request to the address: the client has the URL of the service that it joined first."""
    url = httpx.URL(address.url)
    request.url = request.url.copy_with(scheme=url.scheme, netloc=url.netloc)
    request.headers["host"] = url.netloc.decode("ascii")


def _without_certificates() -> ssl.SSLContext:
    """Returns what httpx needs although there is no TLS here; the usual one reads all certificates, for 25 ms."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _reopen(connection: _ServiceConnection) -> _Address:
    try:
        return connection.open()
    except EmbeddedError as error:
        # A client handles this like any service that cannot be reached: a put returns the ends of the payload.
        raise httpx.ConnectError(str(error)) from error


def _make_run_folder(data: Path) -> Path:
    """Returns the run folder: there, the programs of this user find the service of a data directory.

    Raises:
        EmbeddedError: the folder belongs to somebody else, or cannot be made.
    """
    name = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:_DIGEST_CHARS]
    user = getattr(os, "getuid", lambda: "")()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")  # noqa: TID251 - the platform's convention for such folders
    reasons: list[str] = []
    temporary = os.environ.get("TMPDIR", "")  # noqa: TID251 - the platform's convention
    for base in (runtime, temporary, "/tmp"):  # noqa: S108 - the folder in it is checked below
        folder = Path(base) / f"coatcheck-{user}" / name
        if not base or len(os.fsencode(folder / LIFELINE_SOCKET)) > _MAX_SOCKET_PATH:
            continue
        try:
            for part in (folder.parent, folder):
                part.mkdir(mode=0o700, exist_ok=True)
                _require_private(part)
            (folder / _LOCK_FILE).touch()  # it may have become read-only
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror}")
        else:
            return folder
    raise EmbeddedError(
        f"There is no folder for the service's sockets ({'; '.join(reasons) or 'all paths are too long'}). Set "
        "XDG_RUNTIME_DIR to a short path that only you can open."
    )


def _require_private(folder: Path) -> None:
    """Raises EmbeddedError for a folder that others can open, or that is not this user's own."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise EmbeddedError(
            f"{folder} is not a folder that only you can open, so somebody else could listen there. Remove it, or set "
            "XDG_RUNTIME_DIR to a folder of your own."
        )


@contextlib.contextmanager
def _exclusive(path: Path) -> Generator[None]:
    """Holds a lock between processes, so that only one of them starts a service. Blocks."""
    import fcntl  # noqa: PLC0415 - does not exist on Windows, where the service does not run

    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_served(data: Path) -> bool:
    """Returns whether a service has the lock of a data directory."""
    import fcntl  # noqa: PLC0415 - not on Windows, where the service does not run

    try:
        with (data / DIRECTORY_LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # the file does not exist yet, or belongs to another user
        return False
    return False


def _join(run_folder: Path) -> socket.socket | None:
    """Returns a connection to the lifeline of a running service; None if none is running."""
    lifeline = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    lifeline.settimeout(_HELLO_SECONDS)
    try:
        lifeline.connect(str(run_folder / LIFELINE_SOCKET))
        hello = lifeline.recv(1024)
    except OSError:  # nobody listens: the socket does not exist, or a dead service has left it
        hello = b""
    # A service that is about to end closes the connection without sending its version.
    if not hello:
        lifeline.close()
        return None
    lifeline.setblocking(False)
    return lifeline


def _start(data: Path, run_folder: Path) -> subprocess.Popen[bytes]:
    """Starts a service that outlives this process.

    Raises:
        EmbeddedError: the service is not installed, or does not run on this system.
    """
    if sys.platform == "win32":
        raise EmbeddedError(
            "The service does not run on Windows. Run it in WSL or in a container, and use Client(url)."
        )
    if sys.version_info < (3, 11):
        raise EmbeddedError(
            f"The embedded service needs Python 3.11 or later, and this is {sys.version.split()[0]}. Start a service "
            "with another Python (`uvx coatcheck serve`) and use Client()."
        )
    if importlib.util.find_spec("coatcheck") is None:
        raise EmbeddedError("The service is not installed: pip install 'coatcheck-client[embedded]'")
    command = [sys.executable, "-P", "-m", "coatcheck", "serve", "--data", str(data), "--run-folder", str(run_folder)]
    with (run_folder / _LOG_FILE).open("wb") as log_file:
        return subprocess.Popen(  # noqa: S603 - runs this Python, with paths as arguments
            command,
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            cwd="/",  # the service must not keep the working directory of this program in use
            start_new_session=True,
        )


def _wait_for(process: subprocess.Popen[bytes], run_folder: Path) -> socket.socket | None:
    """Returns a connection to the lifeline as soon as the service answers; None if it has ended, or is too slow.

    A service that takes more than START_SECONDS is killed.
    """
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if (lifeline := _join(run_folder)) is not None:
            _reap_later(process)
            return lifeline
        if process.poll() is not None:
            return None
        time.sleep(_LOOK_SECONDS)
    process.kill()
    process.wait()
    return None


def _reap_later(process: subprocess.Popen[bytes]) -> None:
    """Waits for the process in a thread, so that it does not stay a zombie when it ends."""
    threading.Thread(target=process.wait, name="coatcheck-service", daemon=True).start()


def _refuse(data: Path, run_folder: Path, status: int | None) -> NoReturn:
    """Raises EmbeddedError with the last line of the service's log."""
    log_path = run_folder / _LOG_FILE
    lines = log_path.read_text("utf-8", "replace").strip().splitlines()
    reason = lines[-1] if lines else f"it ended with status {status}"
    raise EmbeddedError(f"The service of {data} does not start: {reason} (its log: {log_path})")
