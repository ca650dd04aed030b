"""Serves one port with several worker processes: the starter starts them, restarts dead ones, and stops them all.

Each worker has a socket of its own on the same address, and the system distributes connections among the sockets. The
starter keeps the sockets open: a client that connects while a worker is being replaced waits for the next worker. The
starter opens no store and answers no requests. When the starter has ended, each worker stops by itself.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from coatcheck.cli.serving.process import SOCKET, notify

log = logging.getLogger(__name__)

_SHORT_LIFE_SECONDS: Final = 10.0
"""A worker that lived less than this many seconds is not replaced at once."""
_RESTART_SECONDS: Final = (1.0, 30.0)
"""Seconds before a short-lived worker is restarted: the first pause, which doubles each time, and the longest."""


class WorkerPost(Struct, frozen=True, array_like=True):
    """What the starter hands to a worker: numbers of open files, and a directory."""

    socket: int
    """The socket, which is bound to the address."""
    ready: int
    """The pipe into which the worker reports that it listens."""
    starter: int
    """The pipe that ends when the starter does."""
    metrics: str
    """The directory in which each worker writes its metrics, so that any worker can return the metrics of all."""
    announces: bool
    """Whether the worker prints the address of the service."""


class ServingWorkers:
    """The workers of one service, from their start to their end."""

    def __init__(self, sockets: list[socket.socket], arguments: list[str]) -> None:
        """Starts nothing yet.

        Args:
            sockets: one per worker, bound to the service's address; `run` closes them at its end.
            arguments: the arguments of `coatcheck serve` in each worker.
        """
        self._arguments = arguments
        self._sockets = sockets
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._code = 0
        """The exit code of the service: the first exit code of a worker that was not 0."""
        self._stopping = asyncio.Event()
        self._was_ready: set[int] = set()
        """Numbers of the workers that have listened at least once. Only these are restarted."""
        self._has_notified = False
        """Whether the service manager was notified that all workers listen."""

    async def run(self) -> int:
        """Serves until a signal asks to stop, or no worker can be started; returns the exit code."""
        # Only this process has the writing end: when the process ends, in whatever way, each worker reads the end of
        # the pipe.
        starter, lifeline = os.pipe()
        with tempfile.TemporaryDirectory(prefix="coatcheck-") as metrics, self._signals():
            try:
                await asyncio.gather(*(self._keep(number, starter, metrics) for number in range(len(self._sockets))))
            finally:
                os.close(lifeline)
                os.close(starter)
                for each in self._sockets:
                    each.close()
        return self._code

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        """Forwards SIGTERM and SIGINT to the workers.

        A terminal signals only its own session. Each worker has another one, so that it gets each signal only once.
        """
        loop = asyncio.get_running_loop()

        def forward_signal(number: int) -> None:
            notify("STOPPING=1")
            self._stopping.set()
            for process in self._running.values():
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)

        signals = (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            loop.add_signal_handler(number, forward_signal, number)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    async def _keep(self, number: int, starter: int, metrics: str) -> None:
        """Keeps this worker running until all are to stop."""
        pause = 0.0
        while not self._stopping.is_set():
            began = time.monotonic()
            process = await self._start(number, starter, metrics)
            code = await process.wait()
            end_metrics(process.pid, Path(metrics))
            del self._running[number]
            if self._stopping.is_set():
                self._code = self._code or max(0, code)
                return
            if number not in self._was_ready:  # the worker itself has written the reason to standard error
                self._end(code if code > 0 else 1)
                return
            log.error("worker %d (process %d) %s; another one is started", number, process.pid, _describe_exit(code))
            pause = (
                0.0
                if time.monotonic() - began > _SHORT_LIFE_SECONDS
                else min(max(_RESTART_SECONDS[0], 2 * pause), _RESTART_SECONDS[1])
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _start(self, number: int, starter: int, metrics: str) -> asyncio.subprocess.Process:
        read_end, says = os.pipe()
        mine = self._sockets[number].fileno()
        first = not self._was_ready
        post = msgspec.json.encode(WorkerPost(mine, says, starter, metrics, announces=number == 0 and first)).decode()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "coatcheck",
            "serve",
            *self._arguments,
            "--as-worker",
            post,
            pass_fds=(mine, says, starter),
            env={name: value for name, value in os.environ.items() if name != SOCKET},  # noqa: TID251 - handed on
            start_new_session=True,
        )
        # Only the worker may have the writing end open: otherwise the failure of the worker would never be noticed.
        os.close(says)
        self._running[number] = process
        if self._stopping.is_set():  # the signal came before there was a process to pass it to
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        asyncio.get_running_loop().add_reader(read_end, self._heard, number, read_end)
        return process

    def _heard(self, number: int, read_end: int) -> None:
        """Handles the report that a worker listens, or the end of one that died before it listened."""
        if os.read(read_end, 1):
            self._was_ready.add(number)
            if len(self._was_ready) == len(self._sockets) and not self._has_notified:
                self._has_notified = True
                notify("READY=1")
        asyncio.get_running_loop().remove_reader(read_end)
        os.close(read_end)

    def _end(self, code: int) -> None:
        self._code = code
        self._stopping.set()
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()


def end_metrics(pid: int, folder: Path) -> None:
    """Marks a worker's metrics as the metrics of an ended process; of these, only the counters are kept."""
    for path in sorted(folder.glob(f"{pid}-*.json")):
        path.rename(path.with_suffix(".ended"))


def _describe_exit(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
