"""Worker processes: real ones, within their limits, and what comes after one that was lost."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import wait

import pytest

from coatcheck.adapters.extract.extractor import TextExtractor
from coatcheck.adapters.extract.wire import ExtractJob, check
from coatcheck.adapters.extract.workers import Busy, Worker, WorkerLost, Workers
from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.extract import extract_text, strip_markup
from coatcheck.core.views.view import ExtractedText, Section, TextForm
from extract.sample_pages import article, page

MEMORY = 1024**3
SECONDS = 60.0
"""Longer than any job of these tests takes on a busy machine."""
LARGE = page(article(1_000)).encode()
"""More than is done in a thread."""
SLOW = b"<p>a<br>" * 700_000
"""A page that no worker reads within a hundredth of a second."""


def job(payload: bytes, form: TextForm = "page") -> ExtractJob:
    return ExtractJob(form, None, None, payload, int(SECONDS))


@pytest.fixture
def workers() -> Iterator[Workers]:
    pool = Workers(1, seconds=SECONDS, memory=MEMORY)
    yield pool
    pool.close()


@pytest.fixture
def extractor() -> Iterator[TextExtractor]:
    made = TextExtractor(1, seconds=int(SECONDS), memory=MEMORY)
    yield made
    made.close()


def test_none_is_started_before_it_is_needed_and_one_does_many_jobs(workers: Workers) -> None:
    assert workers.pids == set()
    first = workers.submit(job(LARGE)).result()
    kept = workers.pids
    assert first.extracted == extract_text("page", None, None, LARGE)
    assert [workers.submit(job(LARGE)).result().extracted for _ in range(3)] == [first.extracted] * 3
    assert workers.pids == kept
    assert len(kept) == 1


def test_a_worker_that_is_killed_is_replaced(workers: Workers) -> None:
    workers.submit(job(LARGE)).result()
    (pid,) = workers.pids
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerLost):
        workers.submit(job(LARGE)).result()
    assert workers.pids == set()
    assert workers.submit(job(LARGE)).result().extracted is not None
    assert workers.pids.isdisjoint({pid})


def test_a_job_that_takes_too_long_ends_its_worker() -> None:
    worker = Worker.start(MEMORY)
    with pytest.raises(WorkerLost, match="TimeoutError"):
        worker.run(job(SLOW), 0.01)
    with pytest.raises(ProcessLookupError):
        os.kill(worker.pid, 0)


def test_a_worker_that_hangs_is_ended() -> None:
    worker = Worker.start(MEMORY)
    os.kill(worker.pid, signal.SIGSTOP)
    with pytest.raises(WorkerLost, match="TimeoutError"):
        worker.run(job(LARGE), 0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(worker.pid, 0)


def test_a_worker_may_not_take_more_memory_than_it_is_given() -> None:
    worker = Worker.start(256 * 1024**2)
    nested = b"[" * 3 + b'{"a":1},' * 4_000_000 + b"1" + b"]" * 3
    try:
        made = worker.run(job(nested, "json"), SECONDS)
    except WorkerLost:
        return  # the system's way of saying it
    worker.kill()
    assert (made.extracted, made.failed) == (None, "MemoryError")


def test_what_waits_too_much_is_refused_at_once(workers: Workers) -> None:
    taken = [workers.submit(job(SLOW)) for _ in range(5)]
    with pytest.raises(Busy):
        workers.submit(job(LARGE))
    for pid in workers.pids:
        os.kill(pid, signal.SIGKILL)
    workers.close()
    assert wait(taken, SECONDS).not_done == set()


def test_no_workers_are_always_busy() -> None:
    none = Workers(0, seconds=SECONDS, memory=MEMORY)
    with pytest.raises(Busy):
        none.submit(job(LARGE))
    none.close()


def test_closing_ends_every_worker_even_one_at_work(workers: Workers) -> None:
    workers.submit(job(LARGE)).result()
    at_work = workers.submit(job(SLOW))
    pids = workers.pids
    workers.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert isinstance(at_work.exception(), WorkerLost | Busy)
    with pytest.raises(Busy):
        workers.submit(job(LARGE))


PARENT = """
import sys
from coatcheck.adapters.extract.workers import Worker
worker = Worker.start(1 << 30)
print(worker.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux tells when a process ends that is not ours")
def test_a_worker_dies_with_its_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        ended = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        try:
            assert poll.poll(60_000), "the worker outlived the service"
        finally:
            os.close(ended)


async def test_a_busy_pool_changes_no_view(extractor: TextExtractor) -> None:
    without = TextExtractor(0, seconds=60, memory=MEMORY)
    try:
        here = await without.extract(Kind.WEB_PAGE, None, "https://e.org/", LARGE)
    finally:
        without.close()
    away = await extractor.extract(Kind.WEB_PAGE, None, "https://e.org/", LARGE)
    assert here == away
    assert len(extractor.workers.pids) == 1


async def test_what_its_worker_does_not_survive_loses_its_markup_and_nothing_else() -> None:
    extractor = TextExtractor(1, seconds=60, memory=256 * 1024**2)
    cells = b"<table>" + b"<tr><td>a cell</td><td>and one more</td></tr>" * 60_000 + b"</table>"
    try:
        made = await extractor.extract(Kind.WEB_PAGE, None, None, cells)
    finally:
        extractor.close()
    assert made in (strip_markup(None, cells), extract_text("page", None, None, cells))
    assert made is not None


async def test_a_worker_killed_by_somebody_else_costs_no_view(extractor: TextExtractor) -> None:
    whole = await extractor.extract(Kind.WEB_PAGE, None, None, LARGE)
    (pid,) = extractor.workers.pids
    os.kill(pid, signal.SIGKILL)
    assert await extractor.extract(Kind.WEB_PAGE, None, None, LARGE) == whole
    assert whole != strip_markup(None, LARGE)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [(Kind.WEB_PAGE, b"<p>word</p>" * 200_000), (Kind.JSON, b"[1]" + b" " * 2 * 1024**2)],
    ids=["page", "json"],
)
async def test_a_busy_pool_says_come_again_and_not_that_there_is_no_text(
    extractor: TextExtractor, kind: Kind, payload: bytes
) -> None:
    taken = [extractor.workers.submit(job(SLOW)) for _ in range(5)]
    with pytest.raises(CoatcheckError) as caught:
        await extractor.extract(kind, None, None, payload)
    assert caught.value.code is Code.OVERLOADED
    assert await extractor.extract(Kind.WEB_PAGE, None, None, LARGE) == extract_text("page", None, None, LARGE)
    extractor.close()
    assert wait(taken, SECONDS).not_done == set()


async def test_without_workers_large_payloads_and_documents_have_no_text() -> None:
    without = TextExtractor(0, seconds=60, memory=MEMORY)
    try:
        assert await without.extract(Kind.BINARY, None, None, b"%PDF-1.7\n") is None
        assert await without.extract(Kind.JSON, None, None, b"[1]" + b" " * 2 * 1024**2) is None
    finally:
        without.close()


@pytest.mark.parametrize("kind", [Kind.LOG, Kind.IMAGE, Kind.TABLE, Kind.DIFF, Kind.COMMAND_OUTPUT])
async def test_most_kinds_are_read_as_they_are_and_start_nothing(extractor: TextExtractor, kind: Kind) -> None:
    assert await extractor.extract(kind, None, None, LARGE) is None
    assert extractor.workers.pids == set()


@pytest.mark.parametrize(
    "section",
    [
        Section(name="s1", title="", level=1, start=0, end=9, line=1, lines=1),
        Section(name="s1", title="", level=1, start=1, end=4, line=1, lines=1),
        Section(name="s1", title="", level=1, start=0, end=2, line=1, lines=1),
    ],
    ids=["beyond the view", "starts inside a line", "ends inside a line"],
)
def test_an_answer_whose_sections_are_not_at_lines_is_refused(section: Section) -> None:
    with pytest.raises(ValueError, match="not at lines"):
        check(ExtractedText(text=b"abc\n", sections=(section,), extractor="x"), b"")


def test_an_answer_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        check(ExtractedText(text=b"\xff", extractor="x"), b"")
