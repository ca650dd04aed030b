"""One worker process as the service holds it: started, given a job within a time limit, killed.

Blocks; each worker is used by one thread at a time. The process gets two pipes and nothing else: no socket, no lock,
no file and none of the service's environment.
"""

import os
import selectors
import subprocess
import sys
import time
from typing import Final, Self

import msgspec

from coatcheck.adapters.extract.wire import HEADER, LONGEST, ExtractAnswer, ExtractJob, answer, framed

_START_SECONDS: Final = 30.0
"""A start takes half a second; a busy machine may need longer."""
_BLOCK: Final = 1 << 20


class WorkerLost(Exception):  # noqa: N818 - what happened to it
    """The worker died, answered nonsense or took too long; it is gone."""


class WorkerDied(WorkerLost):
    """It was gone before it answered: ended by its job, or by somebody who has nothing to do with that."""


class Worker:
    """One process. After WorkerLost it must not be used again."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("a worker needs its pipes")
        self._process = process
        self._input = process.stdin.fileno()
        self._output = process.stdout.fileno()
        self.jobs = 0
        """Done so far."""
        for end in (self._input, self._output):
            os.set_blocking(end, False)

    @classmethod
    def start(cls, memory: int) -> Self:
        """Start one and wait until it is ready.

        Args:
            memory: bytes that it may address.

        Raises:
            WorkerLost: it did not start.
        """
        command = [sys.executable, "-P", "-s", "-m", "coatcheck.adapters.extract.worker", str(memory)]
        try:
            process = subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerLost(f"cannot be started: {error}") from error
        worker = cls(process)
        worker._exchange(b"", _START_SECONDS)
        return worker

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._process.pid

    def run(self, job: ExtractJob, seconds: float) -> ExtractAnswer:
        """Do a job.

        Raises:
            WorkerLost: it was not done in time, or never will be. The process is gone.
        """
        self.jobs += 1
        return self._exchange(framed(job), seconds)

    def end(self) -> None:
        """Have it ended at once, whatever it does. For other threads than the one that uses it, which then sees it."""
        self._process.kill()

    def kill(self) -> None:
        """End it and wait until it has. May be said again."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _exchange(self, data: bytes, seconds: float) -> ExtractAnswer:
        """Write a message and read the answer."""
        try:
            body = self._talk(memoryview(data), time.monotonic() + seconds)
            return answer(body)
        except (EOFError, BrokenPipeError) as error:
            self.kill()
            raise WorkerDied(type(error).__name__) from error
        except (OSError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
            self.kill()
            raise WorkerLost(type(error).__name__) from error

    def _talk(self, left: memoryview, deadline: float) -> bytes:
        """Write while there is something to write; read until a whole message is there."""
        read = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            if left:
                selector.register(self._input, selectors.EVENT_WRITE)
            while len(read) < HEADER.size or len(read) < _whole(read):
                wait = deadline - time.monotonic()
                if wait <= 0:
                    raise TimeoutError
                for key, _ in selector.select(wait):
                    if key.fd == self._output:
                        read += _read(self._output)
                    else:
                        left = left[os.write(self._input, left[:_BLOCK]) :]
                        if not left:
                            selector.unregister(self._input)
        if _whole(read) != len(read):
            raise ValueError("more than one answer")
        return bytes(memoryview(read)[HEADER.size :])


def _read(output: int) -> bytes:
    piece = os.read(output, _BLOCK)
    if not piece:
        raise EOFError
    return piece


def _whole(read: bytearray) -> int:
    """How long the message is that begins here, with what says so."""
    size: int = HEADER.unpack_from(read)[0]
    if size > LONGEST:
        raise ValueError("the answer is too long")
    return HEADER.size + size
