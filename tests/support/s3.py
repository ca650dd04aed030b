"""S3 servers for tests, fault harnesses and benchmarks: `with running_s3(folder) as server: server.url()`.

`shared_s3()` is one server for all processes of a test run. Where `COATCHECK_TEST_S3` holds a blob URL, that store is
used, with the credentials of the environment; else a container where an engine answers; else MiniStack in a process of
its own, bound to 127.0.0.1. moto is the second opinion. A server ends with its users, also when they are killed.
"""

import contextlib
import fcntl
import http.client
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit

from support.s3_keeper import BUCKET, IMAGE, KEY, REGION, SECRET, listening
from support.used_servers import used

Kind = Literal["ministack", "moto", "container", "given"]

_GIVEN = os.environ.get("COATCHECK_TEST_S3")  # noqa: TID251 - where the suite itself runs
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))  # noqa: TID251 - which run this process is part of
_ENGINE = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")  # noqa: TID251 - where an engine would be

_WORDS: dict[Kind, str] = {
    "ministack": "MiniStack, in a process of ours",
    "moto": "moto, in a process of ours",
    "container": f"a container of {IMAGE}",
    "given": "the one that COATCHECK_TEST_S3 names",
}
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
"""What a process needs in its environment to use a server of this module; nothing for a store that was given."""


class S3Server:
    """A server and its one bucket."""

    def __init__(self, kind: Kind, endpoint: str) -> None:
        self.kind = kind
        self.endpoint = endpoint

    @property
    def environment(self) -> dict[str, str]:
        """The credentials, as the variables that hold them."""
        return {} if self.kind == "given" else dict(ENVIRONMENT)

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        return int(self.endpoint.rpartition(":")[2])

    def url(self, prefix: str | None = None, *, endpoint: str | None = None) -> str:
        """A blob URL under a prefix that nobody has used, or the given one; `endpoint` is a proxy before the server."""
        fresh = prefix or f"test-{secrets.token_hex(8)}"
        if self.kind == "given":
            base, _, options = self.endpoint.partition("?")
            return f"{base.rstrip('/')}/{fresh}?{options}"
        return f"s3://{BUCKET}/{fresh}?endpoint={endpoint or self.endpoint}&region={REGION}"


class OwnServer(S3Server):
    """A server in a process of ours, which can be stopped, started again and frozen."""

    def __init__(self, kind: Literal["ministack", "moto"], folder: Path, *, keep: bool, lock: Path) -> None:
        self._folder = folder
        self._keep = keep
        self._lock = lock
        with listening() as listener:
            super().__init__(kind, f"http://127.0.0.1:{listener.getsockname()[1]}")
            self._process = self._spawn(listener)
        try:
            self._make_bucket()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it at once; connections are refused from now on. What was acknowledged stays if it was told to keep."""
        self.thaw()
        self._process.kill()
        self._process.wait(30)

    def start(self) -> None:
        """Start it again at the same address."""
        with listening(self.port) as listener:
            self._process = self._spawn(listener)
        if not self._keep:
            self._make_bucket()

    def freeze(self) -> None:
        """Stop it in its tracks: connections are accepted by the system and nothing ever answers."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def _spawn(self, listener: socket.socket) -> subprocess.Popen[bytes]:
        fd = listener.fileno()
        return subprocess.Popen(
            [*_KEEPER, self.kind, str(self._folder), str(self._lock), str(fd), "keep" if self._keep else "drop"],
            cwd=_TESTS,
            env={"PATH": os.defpath, "TMPDIR": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            pass_fds=[fd],
            start_new_session=True,
        )

    def _make_bucket(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("PUT", f"/{BUCKET}")
            answer = connection.getresponse()
            if answer.status != 200:
                raise RuntimeError(f"the S3 server did not make its bucket: {answer.status} {answer.read(500)!r}")


_TESTS = Path(__file__).parents[1]
_KEEPER = (sys.executable, "-W", "ignore", "-m", "support.s3_keeper")


@contextlib.contextmanager
def running_s3(
    folder: Path, kind: Literal["ministack", "moto"] = "ministack", *, keep: bool = True
) -> Generator[OwnServer]:
    """A server of one's own for a while. With `keep` (MiniStack only) objects survive `stop` and `start`."""
    home = folder / kind
    home.mkdir(parents=True)
    lock = folder / f"{kind}.lock"
    held = _hold(lock)
    try:
        server = OwnServer(kind, home, keep=keep and kind == "ministack", lock=lock)
        try:
            yield server
        finally:
            server.stop()
    finally:
        os.close(held)


@cache
def shared_s3(kind: Literal["best", "ministack", "moto"] = "best") -> S3Server:
    """This process's door to the run's server, which it starts when nobody has. Objects are in memory."""
    chosen = _best() if kind == "best" else kind
    used(f"S3: {_WORDS[chosen]}")
    if chosen == "given":
        return S3Server("given", _GIVEN or "")
    run = Path(tempfile.gettempdir()) / f"coatcheck-s3-{os.geteuid()}-{_RUN}"
    run.mkdir(mode=0o700, exist_ok=True)
    folder, lock = run / chosen, run / f"{chosen}.lock"
    with (run / f"{chosen}.start").open("w") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        _hold(lock)  # until this process ends
        folder.mkdir(exist_ok=True)
        address = folder / "address"
        if address.exists() and _answers(known := S3Server(chosen, address.read_text())):
            return known
        server = (
            S3Server(chosen, _contain(folder, lock))
            if chosen == "container"
            else OwnServer(chosen, folder, keep=False, lock=lock)
        )
        address.write_text(server.endpoint)
        return server


def _answers(server: S3Server) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((server.endpoint.rpartition(":")[0].partition("//")[2], server.port)) == 0


def _hold(lock: Path) -> int:
    while True:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH)
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)  # a keeper that was ending has removed it


def _best() -> Literal["given", "container", "ministack"]:
    if _GIVEN:
        return "given"
    path = _ENGINE.removeprefix("unix://")
    if _ENGINE.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as engine:
            return "container" if engine.connect_ex(path) == 0 else "ministack"
    return "container"


def _contain(folder: Path, lock: Path) -> str:
    keeper = subprocess.Popen(
        [*_KEEPER, "container", str(folder), str(lock), "-", "drop"],
        cwd=_TESTS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert keeper.stdout is not None
    endpoint = keeper.stdout.readline().decode().strip()
    if not endpoint:
        raise RuntimeError("the S3 container did not start; its reason is above")
    return endpoint


def uploads_under_way(server: S3Server, url: str) -> list[str]:
    """Keys under a blob URL's prefix that have an upload in parts which is neither joined nor aborted.

    For servers that check no signatures.
    """
    prefix = urlsplit(url).path.lstrip("/")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", f"/{BUCKET}?uploads&prefix={quote(prefix)}")
        answer = connection.getresponse().read().decode()
    return re.findall(r"<Upload>.*?<Key>(.*?)</Key>", answer, re.DOTALL)
