"""A pool of worker processes that extract text. Workers are started when first needed, reused, and replaced when lost.

If all workers are busy and the queue is full, a job is refused at once. One thread at a time uses a worker and blocks
until the answer comes. Each job has a time limit, after which the worker is killed. A worker process inherits one
socket to the service and nothing else: no lock, no file, and none of the service's environment.
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
"""Seconds that a worker has to start. A start takes half a second, and longer on a busy machine."""


class WorkerLost(Exception):  # noqa: N818 - the name says what happened to the worker
    """A worker died, sent an invalid answer or took too long. Its process no longer exists."""


class WorkerDied(WorkerLost):
    """A worker ended before it answered, because of its job or for an unrelated reason."""


class Worker:
    """A worker process. Do not use it after WorkerLost."""

    def __init__(self, process: "subprocess.Popen[bytes]", connection: Connection) -> None:
        self._process = process
        self._connection = connection
        self.jobs = 0
        """Number of jobs that were given to this worker."""

    @classmethod
    def start(cls, memory: int) -> Self:
        """Starts a worker and waits until it is ready.

        Args:
            memory: bytes of address space that the worker may use.

        Raises:
            WorkerLost: the worker did not start.
        """
        command = [sys.executable, "-P", "-s", "-m", "coatcheck.adapters.extract.worker", str(memory)]
        ours, theirs = socket.socketpair()
        with ours, theirs:
            try:
                process = subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
                    command,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,  # answers go through the socket; libraries may print anything
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
        """The ID of the worker's process."""
        return self._process.pid

    def run(self, job: ExtractJob, seconds: float) -> ExtractAnswer:
        """Runs a job and returns its answer; blocks for `seconds` at most.

        Raises:
            WorkerLost: the answer did not come in time, was invalid, or the worker died. The process no longer exists.
        """
        self.jobs += 1
        return self._exchange(job, seconds)

    def end(self) -> None:
        """Ends the worker at once. Any thread may call this; a thread that waits for an answer gets WorkerLost."""
        self._process.kill()

    def kill(self) -> None:
        """Kills the process and waits until it has ended. A second call does nothing."""
        self._process.kill()
        self._process.wait()
        self._connection.close()

    def _exchange(self, job: ExtractJob | None, seconds: float) -> ExtractAnswer:
        """Sends a job and returns the next answer; without a job, waits for the answer that the worker is ready."""
        # The worker may stop reading or writing. The timer then kills it, which ends the wait here.
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
"""Number of waiting jobs that the queue has room for, per worker."""
_JOBS: Final = 500
"""Number of jobs after which a worker is replaced, even if it has accumulated no memory."""
_PAUSE: Final = 30.0
"""Seconds after a failed start of a worker during which no other start is tried."""


class Busy(Exception):  # noqa: N818 - no error: the caller tries again later, or does the job itself
    """No worker is free, or no worker can be started."""


class Workers:
    """The pool of workers. Any thread may use it; `close` ends it."""

    def __init__(self, count: int, *, seconds: float, memory: int) -> None:
        """Starts no process yet.

        Args:
            count: maximum number of processes; with 0, every job is refused as Busy.
            seconds: wall time that a job may take. Before it begins, a job may wait for a worker as long again.
            memory: bytes of address space that a process may use.
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
        """Number of processes that were started so far."""
        self.lost = 0
        """Number of processes that were lost while they had a job."""

    @property
    def pids(self) -> set[int]:
        """Returns the IDs of the running processes."""
        with self._lock:
            return {worker.pid for worker in self._all}

    def submit(self, job: ExtractJob) -> "Future[ExtractAnswer]":
        """Gives a job to a worker as soon as a worker is free; returns a future of the answer.

        The future raises WorkerLost if the worker is lost with this job, and Busy if no worker becomes free in time.

        Raises:
            Busy: too many jobs wait already, or the pool has no workers or is closed.
        """
        with self._lock:
            if self._closed or self._given >= self._count * (1 + _QUEUE):
                raise Busy
            self._given += 1
        try:
            future = self._threads.submit(self._run, job, time.monotonic() + self._seconds)
        except RuntimeError as error:  # the pool was closed in the meantime
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
        self._threads.shutdown()  # returns soon: waiting jobs get no worker, and running jobs have lost theirs
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
        """Returns an idle worker, or starts a new one.

        Raises Busy if the pool is closed, or if a start fails now or has failed in the last 30 seconds (_PAUSE).
        """
        with self._lock:
            if self._idle and not self._closed:
                return self._idle.pop()
            if self._closed or time.monotonic() < self._unstartable_until:
                raise Busy
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
