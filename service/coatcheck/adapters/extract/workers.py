"""A few worker processes, each behind a thread: started when first needed, kept warm, replaced when lost.

If all are busy and the queue is full, a job is refused at once.
"""

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from coatcheck.adapters.extract.process import Worker, WorkerLost
from coatcheck.adapters.extract.wire import ExtractAnswer, ExtractJob

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
