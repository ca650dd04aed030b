"""Maintains the full-text index: indexes queued artifacts, merges segments, drops documents of deleted artifacts.

Crash story: the transaction that stores an artifact also queues the artifact for the index. The transaction that adds
its document to the index removes the artifact from the queue. After a crash between the two, the artifact is still
queued and is read again; a document that is in two segments does no harm. Any number of processes may index at the same
time. An artifact that cannot be read at the moment stays queued. An artifact whose payload is damaged is indexed by its
declared metadata alone. If a document such as a PDF has no text view yet, this module makes the view. A damaged segment
is dropped, and every artifact that it may have contained is queued again.

`check_text_index` finds artifacts that no query would find. If it is given an index to repair, it also drops damaged
segments and queues the missing artifacts. It does not look for documents in the index whose artifact no longer exists:
they are harmless.
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
"""Maximum number of documents in a batch, which becomes one segment of some hundreds of kilobytes."""
_TEXT_BYTES = 512 * 1024
"""Bytes of text that are collected before their words are extracted in one call.

In less text fewer words repeat, so that more distinct words are handled per byte. More text would not fit the
processor's cache.
"""
MAX_CAUGHT_UP_DOCUMENTS = 1_000
"""Maximum number of queued documents that a query waits for."""
CATCH_UP_SECONDS = 2.0
"""Maximum seconds that a query waits for the index."""
_PAUSE_FACTOR = 15
"""Pause between two batches while artifacts keep arriving, as a multiple of the last batch's duration."""
_MAX_PAUSE_SECONDS = 20.0
"""Maximum pause between two batches, in seconds."""
_SEGMENTS_PER_ROUND = 4
"""Segments that each round examines for documents whose artifact was deleted or changed."""
_WITHOUT_TEXT = frozenset({Code.INTEGRITY, Code.ARTIFACT_NOT_FOUND})
"""Error codes after which an artifact is indexed without its text: the payload is damaged, or was deleted meanwhile."""
_OUTDATED_SHARE = 4
"""A segment is rewritten once at least one in this many of its documents is out of date."""


class _BatchResult(NamedTuple):
    """The result of indexing one batch."""

    documents: int
    """Number of documents that were removed from the queue."""
    is_complete: bool
    """Whether every document of the batch could be read."""


class _Text(NamedTuple):
    """A queued artifact with the text that its document is built from."""

    row: int
    fingerprint: int
    artifact: Artifact
    parts: tuple[bytes, ...]
    """The whole text, or the beginning and the end of a long text; empty if no text can be read."""


class Index:
    """Maintains the full-text index: adds documents, merges segments, removes the documents of deleted artifacts."""

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
        """Stores its arguments; the first round reads the catalogue.

        Args:
            texts: the index in the catalogue.
            open_content: opens payloads and views.
            pool: the executor in which words are extracted and segments are built.
            new_id: returns random numbers of 62 bits, the IDs of new segments.
            lead: returns whether this process does the indexing, which only one of several processes need do; None: no
                other process shares the catalogue.
            keep_text: makes the text views of documents such as PDFs; None: a document without a text view is indexed
                without its text.
            redacting: keeps secrets out of the index, if the policy masks them; None: no secret is masked.
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
        """Runs one round: indexes the queues of all namespaces, merges segments, and cleans a few outdated segments.

        Raises:
            CoatcheckError: `storage_unavailable`, `storage_full`; the work done before the error is kept.
        """
        failed: CoatcheckError | None = None
        # The queue is read before the lease is taken, so that an idle replica writes nothing to the catalogue.
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
        """Drops damaged segments and queues the artifacts that they contained.

        Raises nothing: if the catalogue refuses, the refusal is logged and the segment stays.
        """
        for segment in damaged:
            log.warning("a damaged segment of the full-text index of %s is discarded and rebuilt", namespace)
            try:
                await self._texts.commit(DropSegment(namespace=namespace, segment_id=segment))
            except CoatcheckError as error:
                log.warning("the damaged segment is not discarded yet: %s", error.detail)

    async def catch_up(self, namespace: str) -> bool:
        """Indexes a namespace's queue before a query; returns whether the whole queue was indexed.

        It stops after `MAX_CAUGHT_UP_DOCUMENTS` documents or `CATCH_UP_SECONDS`. Raises nothing: an artifact that
        cannot be read stays queued, and the result is False.
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
        # Only one caller at a time indexes a namespace: the others wait, and then find the queue indexed already.
        async with self._lock(namespace):
            while (batch := (await self._batch(namespace, after))[0]) and batch[0].row <= newest:
                if count >= MAX_CAUGHT_UP_DOCUMENTS:
                    return False
                if not (await self._index(namespace, batch)).is_complete:
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
                outcome = await self._index(namespace, batch) if batch else _BatchResult(0, is_complete=True)
            if not outcome.is_complete:
                after = batch[-1].row
            elif not outcome.documents:
                return
            if not more:
                return
            took = time.monotonic() - began
            last = await self._texts.newest_unindexed(namespace) or 0
            if last > newest > 0:  # artifacts keep arriving, and storing them takes priority over indexing
                await asyncio.sleep(min(_MAX_PAUSE_SECONDS, _PAUSE_FACTOR * took))
            newest = last

    async def _batch(self, namespace: str, after: int) -> tuple[list[Unindexed], bool]:
        """Returns the next batch to index, and whether the queue may hold more.

        A batch ends at the first document whose text view must be made, because that may take seconds.
        """
        waiting = await self._texts.list_unindexed(namespace, BATCH, after=after)
        size = next((n for n, each in enumerate(waiting, 1) if each.entry and self._needs_text_view(each.entry)), BATCH)
        return waiting[:size], len(waiting) >= size

    def _needs_text_view(self, entry: FoundArtifact) -> bool:
        """Returns whether an artifact's text view must be made before the artifact can be indexed by its text."""
        facts = entry.artifact.facts
        if self._keep_text is None or entry.text_view is not None:
            return False
        return facts.form is not None or (opens_document(facts.kind) and is_document(facts.media_type))

    async def _index(self, namespace: str, batch: list[Unindexed]) -> _BatchResult:
        """Indexes the artifacts of a batch that can be read; the others stay queued, and the next batch follows them.

        Raises:
            CoatcheckError: if no artifact of the batch can be read.
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
            # Words are extracted from a few texts at a time: the texts of a whole batch could be hundreds of megabytes.
            if size >= _TEXT_BYTES:
                documents += await in_pool(self._pool, _documents, texts)
                texts, size = [], 0
        if texts:
            documents += await in_pool(self._pool, _documents, texts)
        # If at least one artifact could be read, all readable artifacts are indexed, and the others stay queued.
        if failed is not None and not indexed_rows:
            raise failed
        segment = await in_pool(self._pool, build_segment, documents) if documents else None
        change = IndexDocuments(
            namespace=namespace, documents=tuple(indexed_rows), segment_id=self._new_id(), segment=segment
        )
        return _BatchResult(await self._texts.commit(change), failed is None)

    async def _text(self, row: int, fingerprint: int | None, entry: FoundArtifact) -> "_Text":
        assert fingerprint is not None  # noqa: S101 - every queued artifact that exists has one
        entry = entry if self._redacting is None else self._redacting.mask_entry(entry)
        return _Text(row, fingerprint, entry.artifact, await self._texts_of(entry))

    async def _texts_of(self, entry: FoundArtifact) -> tuple[bytes, ...]:
        """Returns the text view if there is one, else the payload; of a long text, only the beginning and the end.

        Returns an empty tuple if there is no text to index: the payload is binary, damaged or deleted.
        """
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
        artifact, view = entry.artifact, entry.text_view
        if self._keep_text is not None and self._needs_text_view(entry):
            view = await self._keep_text(entry)
        if view is not None and view.blob is not None:
            return await self._open.of_view(artifact.namespace, view)
        return None if is_binary(artifact) else self._open(entry)

    async def _merge(self, namespace: str) -> None:
        while segment_ids := to_merge(await self._texts.segment_sizes(namespace), MAX_DOCUMENTS):
            if not await self._rewrite(namespace, segment_ids):
                return

    async def _clean_next(self) -> None:
        """Examines the next segment; if many of its documents are outdated, rewrites the segment without them."""
        candidate = await self._texts.next_segment(self._last_segment)
        if candidate is None:
            self._last_segment = 0
            return
        namespace, size = candidate
        self._last_segment = size.id
        await self._rewrite(namespace, [size.id], alone=size)

    async def _rewrite(self, namespace: str, ids: list[int], alone: SegmentSize | None = None) -> bool:
        """Merges segments into one without their outdated documents; returns whether the segments were replaced.

        The segments stay if another process has replaced them meanwhile, or if one of them is damaged. With
        `alone`, the size of a segment that is rewritten alone, it also stays if few of its documents are outdated.
        """
        segments = await self._texts.read_segments(namespace, ids)
        if segments is None:
            return False
        # A damaged segment must not be merged: its damage would enter the new segment.
        damaged = await in_pool(self._pool, _find_damaged, ids, segments)
        if damaged:
            await self.drop(namespace, damaged)
            return False
        live = [await self._live(namespace, segment) for segment in segments]
        if alone is not None and _OUTDATED_SHARE * int(sum(np.count_nonzero(~each) for each in live)) < alone.documents:
            return False
        segment = await in_pool(self._pool, merge_segments, segments, live)
        change = MergeSegments(namespace=namespace, old=tuple(ids), segment_id=self._new_id(), segment=segment)
        return await self._texts.commit(change)

    async def _live(self, namespace: str, segment: PackedSegment) -> NDArray[np.bool_]:
        """Returns for each document of a segment whether its artifact still exists and is unchanged."""
        rows, prints = documents_of(segment.packed_documents)
        present = await self._texts.fingerprints(namespace, rows.tolist())
        pairs = zip(rows.tolist(), prints.tolist(), strict=True)
        return np.fromiter((present.get(row) == mark for row, mark in pairs), dtype=np.bool_, count=len(rows))


def _documents(texts: Sequence[_Text]) -> list[IndexedDocument]:
    keys = keys_of([(each.artifact, each.parts) for each in texts])
    return [IndexedDocument(each.row, each.fingerprint, mine) for each, mine in zip(texts, keys, strict=True)]


def _find_damaged(ids: Sequence[int], segments: Sequence[PackedSegment]) -> list[int]:
    return [each for each, segment in zip(ids, segments, strict=True) if not is_whole(segment)]


async def check_text_index(texts: TextIndex, repairs: TextIndex | None) -> list[Finding]:
    """Returns a finding for each namespace whose index is damaged or lacks artifacts.

    Args:
        texts: the index that is examined.
        repairs: the same index, through a catalogue that may write; None: nothing is repaired.

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
        segments = await texts.read_segments(namespace, [size.id])
        if segments is not None and not is_whole(segments[0]):
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
