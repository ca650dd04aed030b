"""A few worker processes, each behind a thread: started when first needed, kept warm, replaced when lost.

If all are busy and the queue is full, a job is refused at once. A worker is used by one thread at a time, which blocks;
it gets jobs with a time limit, and is killed beyond that. The process gets one socket, to the service, and nothing
else: no lock or file, and none of the service's environment.
"""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Final, Self

import msgspec

from coatcheck.adapters.extract.wire import LONGEST, ExtractAnswer, ExtractJob, decode_answer, encode_message

_START_SECONDS: Final = 30.0
"""A start takes half a second; a busy machine may need longer."""


class WorkerLost(Exception):  # noqa: N818 - what happened to it
    """The worker died, sent an invalid answer or took too long; it no longer exists."""


class WorkerDied(WorkerLost):
    """The worker ended before it answered, because of its job or for an unrelated reason."""


class Worker:
    """A worker process. Do not use it after WorkerLost."""

    def __init__(self, process: "subprocess.Popen[bytes]", connection: Connection) -> None:
        self._process = process
        self._connection = connection
        self.jobs = 0
        """Number of jobs done."""

    @classmethod
    def start(cls, memory: int) -> Self:
        """Starts a worker and waits until it is ready.

        Args:
            memory: bytes that it may address.

        Raises:
            WorkerLost: it did not start.
        """
        command = [sys.executable, "-P", "-s", "-m", "coatcheck.adapters.extract.worker", str(memory)]
        ours, theirs = socket.socketpair()
        with ours, theirs:
            try:
                process = subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
                    command,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,  # output that a library prints is not an answer
                    stderr=subprocess.DEVNULL,
                    env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                raise WorkerLost(f"cannot be started: {error}") from error
            worker = cls(process, Connection(ours.detach()))
        worker._exchange(None, _START_SECONDS)
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
        return self._exchange(job, seconds)

    def end(self) -> None:
        """Ends it at once, for threads other than the one that uses it, which then gets WorkerLost."""
        self._process.kill()

    def kill(self) -> None:
        """Kills it and waits until it has ended. May be repeated."""
        self._process.kill()
        self._process.wait()
        self._connection.close()

    def _exchange(self, job: ExtractJob | None, seconds: float) -> ExtractAnswer:
        """Sends a job, and returns the next answer."""
        # Whatever the worker does not read, or does not write, its end by the timer ends the wait for it.
        is_late = threading.Event()

        def expire() -> None:
            is_late.set()
            self._process.kill()

        timer = threading.Timer(seconds, expire)
        timer.start()
        try:
            if job is not None:
                self._connection.send_bytes(encode_message(job))
            return decode_answer(self._connection.recv_bytes(LONGEST))
        except (EOFError, OSError, msgspec.MsgspecError) as error:
            self.kill()
            if is_late.is_set():
                raise WorkerLost("TimeoutError") from error
            kind = WorkerDied if isinstance(error, EOFError | ConnectionError) else WorkerLost
            raise kind(type(error).__name__) from error
        finally:
            timer.cancel()


log = logging.getLogger(__name__)

_QUEUE: Final = 4
"""Jobs that may wait, per worker."""
_JOBS: Final = 500
"""Number of jobs after which a worker is replaced, whatever memory it has accumulated."""
_PAUSE: Final = 30.0
"""Seconds after a failed start during which no other is tried."""


class Busy(Exception):  # noqa: N818 - no error: come again, or do it yourself
    """No worker is free, or none can be started."""


class Workers:
    """The pool of workers. Thread-safe; `close` ends it."""

    def __init__(self, count: int, *, seconds: float, memory: int) -> None:
        """Starts no process yet.

        Args:
            count: maximum number of processes; with 0, everything is Busy.
            seconds: wall time of a job; waiting for a worker may take as long again.
            memory: bytes that a process may address.
        """
        self._count = count
        self._seconds = seconds
        self._memory = memory
        self._threads = ThreadPoolExecutor(max(count, 1), thread_name_prefix="extract")
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._given = 0
        self._unstartable_until = 0.0
        self._closed = False
        self.started = 0
        """Processes started so far."""
        self.lost = 0
        """How many of them ended because of their job."""

    @property
    def pids(self) -> set[int]:
        """Returns the IDs of the running processes."""
        with self._lock:
            return {worker.pid for worker in self._all}

    def submit(self, job: ExtractJob) -> "Future[ExtractAnswer]":
        """Gives a job to a worker as soon as one is free.

        The future raises WorkerLost if the job killed its worker, and Busy if none became free in time.

        Raises:
            Busy: too many jobs wait already, or there are no workers.
        """
        with self._lock:
            if self._closed or self._given >= self._count * (1 + _QUEUE):
                raise Busy
            self._given += 1
        try:
            future = self._threads.submit(self._run, job, time.monotonic() + self._seconds)
        except RuntimeError as error:  # closed in the meantime
            self._release(None)
            raise Busy from error
        future.add_done_callback(self._release)
        return future

    def close(self) -> None:
        """Ends all workers, including busy ones."""
        with self._lock:
            self._closed = True
            workers = list(self._all)
            self._all.clear()
            self._idle.clear()
        for worker in workers:
            worker.end()
        self._threads.shutdown()  # waiting jobs find no worker, and running ones have lost theirs
        for worker in workers:
            worker.kill()

    def _release(self, _: object) -> None:
        with self._lock:
            self._given -= 1

    def _run(self, job: ExtractJob, start_by: float) -> ExtractAnswer:
        if time.monotonic() > start_by:
            raise Busy
        worker = self._take_worker()
        try:
            answer = worker.run(job, self._seconds)
        except WorkerLost as lost:
            self._forget(worker)
            if not self._closed:
                with self._lock:
                    self.lost += 1
                log.warning("a text view crashed its worker: %s, %d bytes, %s", job.form, len(job.payload), lost)
            raise
        if answer.failed is not None or worker.jobs >= _JOBS or answer.peak > self._memory // 3:
            self._forget(worker)
            worker.kill()
        else:
            with self._lock:
                if not self._closed:
                    self._idle.append(worker)
        return answer

    def _take_worker(self) -> Worker:
        """Returns an idle worker, or a new one."""
        with self._lock:
            if self._closed or time.monotonic() < self._unstartable_until:
                raise Busy
            if self._idle:
                return self._idle.pop()
        try:
            worker = Worker.start(self._memory)
        except WorkerLost as lost:
            log.warning("no worker for text views: %s", lost)
            with self._lock:
                self._unstartable_until = time.monotonic() + _PAUSE
            raise Busy from lost
        with self._lock:
            closed = self._closed
            if not closed:
                self.started += 1
                self._all.add(worker)
        if closed:
            worker.kill()
            raise Busy
        return worker

    def _forget(self, worker: Worker) -> None:
        with self._lock:
            self._all.discard(worker)
