"""Implements the port Extractor: extracts small payloads in a thread and larger ones in a worker process.

Extraction takes linear time and has the same result in a thread and in a worker. If all workers are busy, a payload
that is small enough is extracted in a thread, and for a larger one the caller has to try again. A worker may die for a
reason other than its payload, so a second worker is tried. If the second worker dies too, or a worker fails in another
way, a page or a document is read in a simpler way. Document formats, archives and databases are only opened in a
worker.
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
"""Maximum bytes of a payload that is always extracted in a thread, since passing it to another process takes longer."""
_HERE: Final = 2 * 1024**2
"""Maximum bytes of a payload that is extracted in a thread if no worker is free."""
_INPUT: Final = 64 * 1024**2
"""Maximum bytes of a payload that has a text view, unless it is a page or a document."""
_THREADS: Final = 2
"""Threads for payloads that are not given to a worker, so that they do not wait for the payloads in workers."""


class TextExtractor:
    """Extracts text views. `close` ends its workers."""

    def __init__(self, workers: int, *, seconds: int, memory: int) -> None:
        """Starts no process yet. The arguments are those of Workers."""
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
            return await self._extract_in_thread(partial(extract_text, form, media_type, url, source), source)
        try:
            return await self._extract_by_worker(job)
        except WorkerLost:
            return await self._extract_simply(job)
        except Busy as busy:
            return await self._without_worker(partial(extract_text, form, media_type, url, source), job, busy)

    async def _extract_by_worker(self, job: ExtractJob) -> ExtractedText | None:
        try:
            return await self._send_to_worker(job)
        except WorkerDied:
            return await self._send_to_worker(job)

    async def _extract_simply(self, job: ExtractJob) -> ExtractedText | None:
        """Extracts a payload in a simpler way, after two workers have died or one has failed in another way.

        Returns the words of a page, or a note with the list of a document's files; None for any other payload.
        """
        if job.form not in {"page", "document"}:
            return None
        job = structs.replace(job, simple=True)
        try:
            return await self._extract_by_worker(job)
        except WorkerLost:
            return None
        except Busy as busy:
            return await self._without_worker(partial(strip_markup, job.media_type, job.payload), job, busy)

    async def _without_worker(
        self, work: "partial[ExtractedText | None]", job: ExtractJob, busy: Busy
    ) -> ExtractedText | None:
        """Extracts a payload in a thread, if it is small enough, because no worker is free.

        Raises CoatcheckError `overloaded` for other payloads, because it is not known yet whether they have a text
        view. If the service has no workers at all, returns None for other payloads instead.
        """
        if len(job.payload) <= _HERE and job.form != "document":
            return await self._extract_in_thread(work, job.payload)
        if self._no_workers:
            return None
        raise CoatcheckError(Code.OVERLOADED, "All text-view workers are busy.") from busy

    async def _send_to_worker(self, job: ExtractJob) -> ExtractedText | None:
        answer: ExtractAnswer = await asyncio.wrap_future(self.workers.submit(job))
        if answer.failed is None and _is_sound(answer.extracted, job.payload):
            return answer.extracted
        log.warning("no text view of %s, %d bytes: %s", job.form, len(job.payload), answer.failed or "not sound")
        raise WorkerLost

    async def _extract_in_thread(self, work: "partial[ExtractedText | None]", payload: bytes) -> ExtractedText | None:
        loop = asyncio.get_running_loop()
        try:
            text_view = await loop.run_in_executor(self._threads, work)
            return text_view if _is_sound(text_view, payload) else None
        except Exception:  # a bug in the extraction is no reason to refuse the payload
            log.exception("no text view of %d bytes", len(payload))
            return None

    def close(self) -> None:
        """Ends the workers. Blocks briefly."""
        self.workers.close()
        self._threads.shutdown(cancel_futures=True)


def _select_source(form: TextForm, media_type: str | None, url: str | None, payload: bytes) -> bytes | None:
    """Returns the part of a payload from which its text view is extracted; None if it has no text view."""
    if form == "document":
        return payload if is_extractable(payload, media_type) else None
    if form == "same" or not payload or (form == "mixed" and not reads_as_document(media_type, url, payload)):
        return None
    if form == "page":
        return payload[: PAGE_BYTES + 1]  # one byte more shows the extraction that the page is cut
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
