"""One worker process from the service's side: started, given a job with a time limit, killed.

Blocks; each worker is used by one thread at a time. The process gets two pipes and nothing else: no socket, lock or
file, and none of the service's environment.
"""

import os
import selectors
import subprocess
import sys
import time
from typing import Final, Self

import msgspec

from coatcheck.adapters.extract.wire import HEADER, LONGEST, ExtractAnswer, ExtractJob, answer, frame_message

_START_SECONDS: Final = 30.0
"""A start takes half a second; a busy machine may need longer."""
_BLOCK: Final = 1 << 20


class WorkerLost(Exception):  # noqa: N818 - what happened to it
    """The worker died, sent an invalid answer or took too long; it no longer exists."""


class WorkerDied(WorkerLost):
    """The worker ended before it answered, because of its job or for an unrelated reason."""


class Worker:
    """A worker process. Do not use it after WorkerLost."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("a worker needs its pipes")
        self._process = process
        self._input = process.stdin.fileno()
        self._output = process.stdout.fileno()
        self.jobs = 0
        """Number of jobs done."""
        for end in (self._input, self._output):
            os.set_blocking(end, False)

    @classmethod
    def start(cls, memory: int) -> Self:
        """Starts a worker and waits until it is ready.

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
        """Runs a job.

        Raises:
            WorkerLost: it was not done in time, or never will be. The process no longer exists.
        """
        self.jobs += 1
        return self._exchange(frame_message(job), seconds)

    def end(self) -> None:
        """Ends it at once, for threads other than the one that uses it, which then gets WorkerLost."""
        self._process.kill()

    def kill(self) -> None:
        """Kills it and waits until it has ended. May be repeated."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _exchange(self, data: bytes, seconds: float) -> ExtractAnswer:
        """Writes a message and returns the answer."""
        try:
            body = self._talk(memoryview(data), time.monotonic() + seconds)
            return answer(body)
        except (EOFError, BrokenPipeError) as error:
            self.kill()
            raise WorkerDied(type(error).__name__) from error
        except (OSError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
            self.kill()
            raise WorkerLost(type(error).__name__) from error

    def _talk(self, rest: memoryview, deadline: float) -> bytes:
        """Writes what is left to write; reads until a whole message has arrived."""
        answer = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            if rest:
                selector.register(self._input, selectors.EVENT_WRITE)
            while len(answer) < HEADER.size or len(answer) < _whole(answer):
                wait = deadline - time.monotonic()
                if wait <= 0:
                    raise TimeoutError
                for key, _ in selector.select(wait):
                    if key.fd == self._output:
                        answer += _read(self._output)
                    else:
                        rest = rest[os.write(self._input, rest[:_BLOCK]) :]
                        if not rest:
                            selector.unregister(self._input)
        if _whole(answer) != len(answer):
            raise ValueError("more than one answer")
        return bytes(memoryview(answer)[HEADER.size :])


def _read(output: int) -> bytes:
    piece = os.read(output, _BLOCK)
    if not piece:
        raise EOFError
    return piece


def _whole(answer: bytearray) -> int:
    """Returns the length of the message that begins here, including its header."""
    size: int = HEADER.unpack_from(answer)[0]
    if size > LONGEST:
        raise ValueError("the answer is too long")
    return HEADER.size + size
