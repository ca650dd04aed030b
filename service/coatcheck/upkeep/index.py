"""Keeps the full-text index: indexes queued artifacts, merges segments, drops what is gone.

Crash story: an artifact is queued in the transaction that stores it, and leaves the queue in the one that adds its
document. Whatever happens in between, it is read again; a document in two segments does no harm. Any number of
processes may index at once. An artifact that cannot be read at the moment stays queued; a damaged payload is found by
its declared metadata. The text view of a document format is made here if nobody has read it before. A damaged segment
is dropped, and everything that it may have contained is queued again.

`check_text_index` finds what queries miss; given an index to repair, it also drops damaged segments and queues what is
missing. What is in the index but not among the artifacts is harmless and not examined.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from coatcheck.core.artifact import Artifact
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.findings import Finding
from coatcheck.core.fulltext import (
    ENDS,
    MAX_DOCUMENTS,
    IndexedDocument,
    PackedSegment,
    SegmentSize,
    build_segment,
    documents_of,
    is_whole,
    keys_of,
    merge_segments,
    to_merge,
)
from coatcheck.core.media.documents import is_document
from coatcheck.core.read_answer import is_binary, opens_document
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.text_index import DropSegment, IndexDocuments, MergeSegments, Reindex, TextIndex, Unindexed
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import Content, OpenContent
from coatcheck.storing.keep_text import KeepText
from coatcheck.storing.redaction import RedactionPolicy

log = logging.getLogger(__name__)

BATCH = 256
"""Documents read together; their segment has some hundreds of kilobytes."""
_TEXT_BYTES = 512 * 1024
"""Bytes of text in memory whose words are read together: fewer have more different words, more do not fit a cache."""
MAX_CAUGHT_UP_DOCUMENTS = 1_000
"""Maximum number of documents that a query waits for."""
CATCH_UP_SECONDS = 2.0
"""Maximum seconds that it waits."""
_REST = 15
"""Pause of indexing while artifacts keep arriving, as a multiple of a batch's duration."""
_MAX_REST_SECONDS = 20.0
"""Maximum of that pause, in seconds."""
_SEGMENTS_PER_ROUND = 4
"""Segments per round that are examined for documents that are gone."""
_WITHOUT_TEXT = frozenset({Code.INTEGRITY, Code.ARTIFACT_NOT_FOUND})
"""Codes that mean that no text can be read: damage, or a deletion in the meantime."""
_GONE_SHARE = 4
"""A segment is rewritten if one document in this many is gone."""


class _Done(NamedTuple):
    """The result of a batch."""

    documents: int
    """Documents removed from the queue."""
    whole: bool
    """Whether all of them could be read."""


class _Text(NamedTuple):
    """The text of a document."""

    row: int
    fingerprint: int
    artifact: Artifact
    parts: tuple[bytes, ...]
    """The whole text, or its two ends."""


class Index:
    """Keeps the full-text index: adds documents, merges segments, drops what is gone."""

    def __init__(
        self,
        texts: TextIndex,
        open_content: OpenContent,
        pool: Executor,
        new_id: Callable[[], int],
        lead: Callable[[], Awaitable[bool]] | None = None,
        keep_text: KeepText | None = None,
        redacting: RedactionPolicy | None = None,
    ) -> None:
        """Reads nothing until the first round.

        Args:
            texts: the index.
            open_content: opens payloads and views.
            pool: reads words.
            new_id: returns random numbers of 62 bits.
            lead: if several processes share the catalogue, returns whether this one indexes, to save work.
            redacting: keeps secrets out of the index, if the policy masks them.
            keep_text: makes documents' text views; without it, unread documents are found by their declared metadata.
        """
        self._keep_text = keep_text
        self._redacting = redacting
        self._lead = lead
        self._texts = texts
        self._open = open_content
        self._pool = pool
        self._new_id = new_id
        self._last_segment = 0
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self) -> None:
        """Indexes the queue, merges segments when there are many, and examines a few for what is gone.

        Raises:
            CoatcheckError: `storage_unavailable`, `storage_full`; what was done so far stays.
        """
        failed: CoatcheckError | None = None
        # The queue is looked at before the lease is taken, so that idle replicas write nothing.
        namespace = await self._texts.next_unindexed("")
        if self._lead is not None and not await self._lead():
            return
        while namespace is not None:
            try:
                await self._index_queue(namespace)
                await self._merge(namespace)
            except CoatcheckError as error:
                failed = error  # a failure in one namespace must not keep others from being indexed
            namespace = await self._texts.next_unindexed(namespace)
        for _ in range(_SEGMENTS_PER_ROUND):
            await self._clean_next()
        if failed is not None:
            raise failed

    async def drop(self, namespace: str, damaged: Sequence[int]) -> None:
        """Drops segments that cannot be read, and queues what they contained. A storage refusal is logged."""
        for segment in damaged:
            log.warning("a damaged segment of the full-text index of %s is discarded and rebuilt", namespace)
            try:
                await self._texts.commit(DropSegment(namespace=namespace, segment_id=segment))
            except CoatcheckError as error:
                log.warning("the damaged segment is not discarded yet: %s", error.detail)

    async def catch_up(self, namespace: str) -> bool:
        """Indexes a namespace's queue now, within limits, for a query. Returns whether all of it is indexed.

        Artifacts that cannot be read raise nothing; they stay in the queue.
        """
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                newest = await self._texts.newest_unindexed(namespace)
                return newest is None or await self._index_until(namespace, newest)
        except TimeoutError:
            return False
        except CoatcheckError as error:
            log.info("a query did not wait for the index: %s", error.detail)
            return False

    async def _index_until(self, namespace: str, newest: int) -> bool:
        count = after = 0
        # One at a time: a caller that waited finds the work done.
        async with self._lock(namespace):
            while (batch := (await self._batch(namespace, after))[0]) and batch[0].row <= newest:
                if count >= MAX_CAUGHT_UP_DOCUMENTS:
                    return False
                if not (await self._index(namespace, batch)).whole:
                    after = batch[-1].row
                count += len(batch)
        return after == 0

    def _lock(self, namespace: str) -> asyncio.Lock:
        lock = self._locks.get(namespace)
        if lock is None:
            lock = self._locks[namespace] = asyncio.Lock()
        return lock

    async def _index_queue(self, namespace: str) -> None:
        newest = after = 0
        while True:
            began = time.monotonic()
            async with self._lock(namespace):
                batch, more = await self._batch(namespace, after)
                outcome = await self._index(namespace, batch) if batch else _Done(0, whole=True)
            if not outcome.whole:
                after = batch[-1].row
            elif not outcome.documents:
                return
            if not more:
                return
            took = time.monotonic() - began
            last = await self._texts.newest_unindexed(namespace) or 0
            if last > newest > 0:  # they keep arriving, and storing them has priority
                await asyncio.sleep(min(_MAX_REST_SECONDS, _REST * took))
            newest = last

    async def _batch(self, namespace: str, after: int) -> tuple[list[Unindexed], bool]:
        """Returns the next batch to index, and whether there may be more.

        It contains at most one document whose text view must be made first, which may take seconds.
        """
        waiting = await self._texts.list_unindexed(namespace, BATCH, after=after)
        first = next((n for n, each in enumerate(waiting, 1) if each.entry and self._is_to_make(each.entry)), BATCH)
        return waiting[:first], len(waiting) >= first

    def _is_to_make(self, entry: FoundArtifact) -> bool:
        a = entry.artifact
        if self._keep_text is None or entry.text_view is not None:
            return False
        return a.facts.form is not None or (opens_document(a.facts.kind) and is_document(a.facts.media_type))

    async def _index(self, namespace: str, batch: list[Unindexed]) -> _Done:
        """Indexes what can be read of a batch; the rest stays queued and blocks nothing after it.

        Raises:
            CoatcheckError: if none of them can be read.
        """
        documents: list[IndexedDocument] = []
        indexed_rows: list[tuple[int, int | None]] = []
        failed: CoatcheckError | None = None
        texts: list[_Text] = []
        size = 0
        for each in batch:
            try:
                if each.entry is not None:
                    texts.append(await self._text(each.row, each.fingerprint, each.entry))
                    size += sum(map(len, texts[-1].parts))
                indexed_rows.append((each.row, each.fingerprint))
            except CoatcheckError as error:
                failed = error
            # Words are found for some texts at a time: all of a batch could be hundreds of megabytes.
            if size >= _TEXT_BYTES:
                documents += await in_pool(self._pool, _documents, texts)
                texts, size = [], 0
        if texts:
            documents += await in_pool(self._pool, _documents, texts)
        # If some could be read, these are indexed, and the others stay in the queue behind them.
        if failed is not None and not indexed_rows:
            raise failed
        segment = await in_pool(self._pool, build_segment, documents) if documents else None
        change = IndexDocuments(
            namespace=namespace, documents=tuple(indexed_rows), segment_id=self._new_id(), segment=segment
        )
        return _Done(await self._texts.commit(change), failed is None)

    async def _text(self, row: int, fingerprint: int | None, entry: FoundArtifact) -> "_Text":
        assert fingerprint is not None  # noqa: S101 - goes with what was found
        entry = entry if self._redacting is None else self._redacting.mask_entry(entry)
        return _Text(row, fingerprint, entry.artifact, await self._texts_of(entry))

    async def _texts_of(self, entry: FoundArtifact) -> tuple[bytes, ...]:
        """Returns the text view if one is kept, else the payload; only the two ends of long ones."""
        try:
            content = await self._content(entry)
            if content is None:
                return ()
            mask = None if self._redacting is None else self._redacting.mask_of(entry.artifact)
            if self._redacting is not None and mask is not None:
                content = self._redacting.content(content, mask, text=True)
            if content.size <= 2 * ENDS:
                return (await content.read(0, content.size),)
            return (await content.read(0, ENDS), await content.read(content.size - ENDS, content.size))
        except CoatcheckError as error:
            if error.code not in _WITHOUT_TEXT:
                raise
            return ()

    async def _content(self, entry: FoundArtifact) -> Content | None:
        a, view = entry.artifact, entry.text_view
        if self._keep_text is not None and self._is_to_make(entry):
            view = await self._keep_text(entry)
        if view is not None and view.blob is not None:
            return await self._open.of_view(a.namespace, view)
        return None if is_binary(a) else self._open(entry)

    async def _merge(self, namespace: str) -> None:
        while segment_ids := to_merge(await self._texts.segment_sizes(namespace), MAX_DOCUMENTS):
            if not await self._rewrite(namespace, segment_ids):
                return

    async def _clean_next(self) -> None:
        """Rewrites the next segment without what is gone, if that is a large part of it."""
        candidate = await self._texts.next_segment(self._last_segment)
        if candidate is None:
            self._last_segment = 0
            return
        namespace, size = candidate
        self._last_segment = size.id
        await self._rewrite(namespace, [size.id], worth=size)

    async def _rewrite(self, namespace: str, ids: list[int], worth: SegmentSize | None = None) -> bool:
        """Merges segments into one; returns whether they were replaced.

        They stay if another process was faster, or if it is not worth it.
        """
        segments = await self._texts.read_segments(namespace, ids)
        if segments is None:
            return False
        # A damaged segment must not be merged into a whole one.
        damaged = await in_pool(self._pool, _find_damaged, ids, segments)
        if damaged:
            await self.drop(namespace, damaged)
            return False
        live = [await self._live(namespace, segment) for segment in segments]
        if worth is not None and _GONE_SHARE * int(sum(np.count_nonzero(~mine) for mine in live)) < worth.documents:
            return False
        segment = await in_pool(self._pool, merge_segments, segments, live)
        change = MergeSegments(namespace=namespace, old=tuple(ids), segment_id=self._new_id(), segment=segment)
        return await self._texts.commit(change)

    async def _live(self, namespace: str, segment: PackedSegment) -> NDArray[np.bool_]:
        rows, prints = documents_of(segment.packed_documents)
        now = await self._texts.fingerprints(namespace, rows.tolist())
        pairs = zip(rows.tolist(), prints.tolist(), strict=True)
        return np.fromiter((now.get(row) == mark for row, mark in pairs), dtype=np.bool_, count=len(rows))


def _documents(texts: Sequence[_Text]) -> list[IndexedDocument]:
    keys = keys_of([(each.artifact, each.parts) for each in texts])
    return [IndexedDocument(each.row, each.fingerprint, mine) for each, mine in zip(texts, keys, strict=True)]


def _find_damaged(ids: Sequence[int], segments: Sequence[PackedSegment]) -> list[int]:
    return [each for each, segment in zip(ids, segments, strict=True) if not is_whole(segment)]


async def check_text_index(texts: TextIndex, repairs: TextIndex | None) -> list[Finding]:
    """Returns a finding for each namespace with artifacts that are missing in the index.

    Raises:
        CoatcheckError: `storage_unavailable` if the catalogue cannot be queried.
    """
    findings: list[Finding] = []
    namespace = await texts.next_namespace("")
    while namespace is not None:
        finding = await _of_namespace(texts, repairs, namespace)
        findings += [] if finding is None else [finding]
        namespace = await texts.next_namespace(namespace)
    return findings


async def _of_namespace(texts: TextIndex, repairs: TextIndex | None, namespace: str) -> Finding | None:
    damaged = 0
    for size in await texts.segment_sizes(namespace):
        whole = await texts.read_segments(namespace, [size.id])
        if whole is not None and not is_whole(whole[0]):
            damaged += 1
            if repairs is not None:
                await repairs.commit(DropSegment(namespace=namespace, segment_id=size.id))
    if damaged:
        return _of_damage(namespace, damaged, repaired=repairs is not None)
    missing = 0
    row: int | None = 0
    while row is not None:
        rows, row = await texts.find_unlisted(namespace, row)
        missing += len(rows)
        if rows and repairs is not None:
            await repairs.commit(Reindex(namespace=namespace, rows=tuple(rows)))
    if not missing:
        return None
    detail = f"{missing:,} artifacts are not in the full-text index: no query finds them."
    if repairs is None:
        return Finding("unlisted", namespace, "", detail)
    return Finding("unlisted", namespace, "", f"{detail} They are indexed by the running service.", repaired=True)


def _of_damage(namespace: str, damaged: int, *, repaired: bool) -> Finding:
    detail = f"{damaged:,} segments of the full-text index are damaged: queries do not find what they hold."
    more = " It is indexed again by the running service." if repaired else " No artifact is damaged by that."
    return Finding("unlisted", namespace, "", f"{detail}{more}", repaired=repaired)
