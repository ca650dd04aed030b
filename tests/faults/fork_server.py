"""Start services quickly: one process imports everything, and each service is a fork of it.

A start costs a tenth of a fresh interpreter's, so that a thousand kills fit into minutes. What runs is the real
command line, in a process of its own with its own memory, files and death. Refuses to share anything else.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from faults.caller import Caller
from support.service import RESERVE

LAUNCH = Path(__file__).with_name("launch.py")
_MOST = 65536


@dataclass(frozen=True)
class Running:
    """A service that listens."""

    url: str
    pid: int
    data: Path
    log: Path
    nursery: "Nursery"
    out: TextIO
    """What it still says on its standard output; it dies when nobody can hear it."""
    callers: list[Caller] = field(default_factory=list[Caller], compare=False)
    """Closed with it."""

    def caller(self, timeout: float = 30) -> Caller:
        """A connection of one's own."""
        made = Caller(*self.address, timeout)
        self.callers.append(made)
        return made

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        """End it as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.ended()

    def freeze(self) -> None:
        """Stop it where it stands."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def ended(self) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        code = int(self.nursery.ask({"wait": self.pid})["code"])
        self.nursery.running.remove(self)
        for caller in self.callers:
            caller.close()
        self.out.close()
        return code

    def resident(self) -> int:
        """Bytes of memory that are its own and present: what a fork shares with the nursery is not counted."""
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return sum(int(n) for n in re.findall(r"^Private_\w+:\s+(\d+) kB", text, re.MULTILINE)) * 1024

    def threads(self) -> int:
        """How many threads it has."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/task").iterdir())

    def descriptors(self) -> list[str]:
        """What its open descriptors are, sockets without their number."""
        found: list[str] = []
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(re.sub(r":\[\d+\]$", "", str(entry.readlink())))
        return sorted(found)


class Nursery:
    """The process that forks. One caller at a time is served; it ends with its harness."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.running: list[Running] = []
        """Services that have not ended."""
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(LAUNCH.parents[1]), "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(LAUNCH), "nursery", str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environment
        )
        theirs.close()

    def ask(self, request: Mapping[str, object], fds: Sequence[int] = ()) -> dict[str, Any]:
        """One request, one answer."""
        with self._lock:
            socket.send_fds(self._ours, [json.dumps(request).encode()], list(fds))
            answer = self._ours.recv(_MOST)
        assert answer, "the nursery died"
        value: dict[str, Any] = json.loads(answer)
        return value

    def start(
        self,
        data: Path,
        *,
        faults: Sequence[str] = (),
        settings: Mapping[str, int | str] | None = None,
        environment: Mapping[str, str] | None = None,
        watched: socket.socket | None = None,
    ) -> Running:
        """Start a service and return when it listens.

        Args:
            data: its data directory; its log lies beside it.
            faults: what is wrong with it; see launch.py.
            settings: by their names without the prefix.
            environment: other variables.
            watched: where to send the listener of its system calls; see syscalls.py.
        """
        log = data.parent / f"{data.name}.log"
        reading, writing = os.pipe()
        with log.open("ab") as errors:
            fds = [writing, errors.fileno(), *([] if watched is None else [watched.fileno()])]
            asked = _environment(data, settings, environment)
            pid = self._fork(["serve", "--port", "0", "--data", str(data)], faults, asked, fds)
        os.close(writing)
        out = os.fdopen(reading, encoding="utf-8")  # open as long as the service runs
        first = out.readline()
        found = re.search(r"http://\S+?:\d+", first)
        if found is None:
            self.ask({"wait": pid})
            out.close()
            raise AssertionError(f"the service did not start: {first}{log.read_text()[-2000:]}")
        self.running.append(Running(found[0], pid, data, log, self, out))
        return self.running[-1]

    def audit(
        self,
        data: Path,
        settings: Mapping[str, int | str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> list[str]:
        """What `coatcheck check` finds, with no grace for orphans: each finding as a sentence."""
        with (data.parent / "check.json").open("w+b") as out:
            arguments = ["check", "--data", str(data), "--json", "--orphan-age", "0"]
            pid = self._fork(arguments, (), _environment(data, settings, environment), [out.fileno(), out.fileno()])
            self.ask({"wait": pid})
            out.seek(0)
            said = out.read()
        found = re.search(rb"^\{.*\}$", said, re.MULTILINE)
        assert found is not None, said
        return [f"{f['what']} {f['blob_id']}: {f['detail']}" for f in json.loads(found[0])["findings"]]

    def _fork(
        self, arguments: Sequence[str], faults: Sequence[str], environment: Mapping[str, str], fds: Sequence[int]
    ) -> int:
        request = {"run": list(arguments), "env": dict(environment), "faults": list(faults)}
        return int(self.ask(request, fds)["pid"])

    def clear(self) -> None:
        """Kill what is left of a run that broke off."""
        for service in list(self.running):
            service.kill()

    def close(self) -> None:
        """End it."""
        self._ours.close()
        self._process.wait(30)


def _environment(
    data: Path, settings: Mapping[str, int | str] | None, environment: Mapping[str, str] | None
) -> dict[str, str]:
    named = {
        f"COATCHECK_{name.upper()}": str(value)
        for name, value in {"reserve_bytes": RESERVE, **(settings or {})}.items()
    }
    return {"TMPDIR": str(data.parent), **(environment or {}), **named}


@contextlib.contextmanager
def nursery(shared: Nursery | None = None) -> Generator[Nursery]:
    """A nursery for the length of a `with` block: a new one, or one that is there."""
    made = shared or Nursery()
    try:
        yield made
    finally:
        made.clear()
        if shared is None:
            made.close()
