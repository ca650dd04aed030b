"""The Extractor port: small payloads in a thread, larger ones in a worker process, and a simpler way if that fails.

Extraction is linear and gives the same result wherever it runs, so a busy pool changes no view that is small enough for
a thread; for larger ones the caller retries. A worker may die through no fault of the payload, so a second one is
tried; if that dies too, a page or a document is read in a simpler way. Document formats, archives and databases are
only opened in a worker.
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from msgspec import structs

from coatcheck.adapters.extract.documents import is_extractable
from coatcheck.adapters.extract.wire import ExtractAnswer, ExtractJob, check
from coatcheck.adapters.extract.workers import Busy, WorkerDied, WorkerLost, Workers
from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.extract import PAGE_BYTES, extract_text, reads_as_document, strip_markup
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.views.view import ExtractedText, TextForm

log = logging.getLogger(__name__)

_SMALL: Final = 64 * 1024
"""Size of a payload that takes no longer than handing it to another process."""
_HERE: Final = 2 * 1024**2
"""Size of a payload that is extracted in a thread if no worker is free."""
_INPUT: Final = 64 * 1024**2
"""Maximum size of anything but a page; larger payloads only have the raw view."""
_THREADS: Final = 2
"""Threads for payloads that no worker gets, so that these never wait for a large one."""


class TextExtractor:
    """Makes text views. `close` ends its workers."""

    def __init__(self, workers: int, *, seconds: int, memory: int) -> None:
        """Starts nothing. The arguments are those of Workers."""
        self._seconds = seconds
        self._no_workers = workers == 0
        self.workers = Workers(workers, seconds=float(seconds), memory=memory)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="extract-here")

    async def extract(
        self, kind: Kind, media_type: str | None, url: str | None, payload: bytes
    ) -> ExtractedText | None:
        """See Extractor."""
        form = spec_of(kind).text_view
        media_type = media_type[:300] if media_type else None
        source = _select_source(form, media_type, url, payload)
        if source is None:
            return None
        job = ExtractJob(form, media_type, url, source, self._seconds)
        if len(source) <= _SMALL and form != "document":
            return await self._here(partial(extract_text, form, media_type, url, source), source)
        try:
            return await self._by_worker(job)
        except WorkerLost:
            return await self._simply(job)
        except Busy as busy:
            return await self._without_worker(partial(extract_text, form, media_type, url, source), job, busy)

    async def _by_worker(self, job: ExtractJob) -> ExtractedText | None:
        try:
            return await self._away(job)
        except WorkerDied:
            return await self._away(job)

    async def _simply(self, job: ExtractJob) -> ExtractedText | None:
        """Returns the words of a page, or the files of a document, that no worker survived; None for anything else."""
        if job.form not in {"page", "document"}:
            return None
        job = structs.replace(job, simple=True)
        try:
            return await self._by_worker(job)
        except WorkerLost:
            return None
        except Busy as busy:
            return await self._without_worker(partial(strip_markup, job.media_type, job.payload), job, busy)

    async def _without_worker(
        self, work: "partial[ExtractedText | None]", job: ExtractJob, busy: Busy
    ) -> ExtractedText | None:
        """Extracts small payloads in a thread. For others it is not known yet whether they have a text view."""
        if len(job.payload) <= _HERE and job.form != "document":
            return await self._here(work, job.payload)
        if self._no_workers:
            return None
        raise CoatcheckError(Code.OVERLOADED, "All text-view workers are busy.") from busy

    async def _away(self, job: ExtractJob) -> ExtractedText | None:
        answer: ExtractAnswer = await asyncio.wrap_future(self.workers.submit(job))
        if answer.failed is None and _is_sound(answer.extracted, job.payload):
            return answer.extracted
        log.warning("no text view of %s, %d bytes: %s", job.form, len(job.payload), answer.failed or "not sound")
        raise WorkerLost

    async def _here(self, work: "partial[ExtractedText | None]", payload: bytes) -> ExtractedText | None:
        loop = asyncio.get_running_loop()
        try:
            text_view = await loop.run_in_executor(self._threads, work)
            return text_view if _is_sound(text_view, payload) else None
        except Exception:  # a bug of ours is no reason to refuse a payload
            log.exception("no text view of %d bytes", len(payload))
            return None

    def close(self) -> None:
        """Ends the workers. Blocks briefly."""
        self.workers.close()
        self._threads.shutdown(cancel_futures=True)


def _select_source(form: TextForm, media_type: str | None, url: str | None, payload: bytes) -> bytes | None:
    """Returns the part of a payload that a view is made from; None if there is no view to make."""
    if form == "document":
        return payload if is_extractable(payload, media_type) else None
    if form == "same" or not payload or (form == "mixed" and not reads_as_document(media_type, url, payload)):
        return None
    if form == "page":
        return payload[: PAGE_BYTES + 1]  # one more byte shows that there is more
    return payload if len(payload) <= _INPUT else None


def _is_sound(text_view: ExtractedText | None, payload: bytes) -> bool:
    if text_view is None:
        return True
    try:
        check(text_view, payload)
    except ValueError as error:
        log.warning("a text view was refused: %s", error)
        return False
    return True
