"""Catalog and Upkeep in SQL, whatever the database: each port's method is one change or one question.

How changes are committed and where questions are asked is the database's own; see `sqlite.py` and `postgres.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import TypeVar, cast

from sqlalchemy import Connection

from coatcheck.adapters.sql import backlog, listing, matching, reads, texts
from coatcheck.adapters.sql.change_group import Work
from coatcheck.adapters.sql.changes import (
    alter,
    evict,
    forget,
    holds,
    leases,
    quota,
    runs,
    store,
    tombstone,
    uploads,
    usage,
    views,
)
from coatcheck.adapters.sql.changes.texts import apply_drop, apply_index, apply_merge, apply_reindex
from coatcheck.adapters.sql.decisions_catalog import SqlDecisions
from coatcheck.adapters.sql.key_catalog import SqlKeys
from coatcheck.adapters.sql.retention_catalog import SqlRetention
from coatcheck.adapters.sql.session_accounts import SqlSessionAccounts
from coatcheck.core.artifact import Artifact, Blob, Gone
from coatcheck.core.fulltext import PackedSegment, SegmentSize
from coatcheck.core.holds import HoldConflict
from coatcheck.core.quota import QuotaExceeded, Usage
from coatcheck.ports.artifacts import (
    DeleteArtifact,
    DeleteSession,
    KeyRecord,
    NewView,
    PatchArtifact,
    StoreArtifact,
    StoredView,
    StoreView,
    Touch,
    UploadFenced,
)
from coatcheck.ports.catalog import ArtifactFilter, ArtifactPage, FoundArtifact, RunKey
from coatcheck.ports.maintenance import (
    DeadBlob,
    EvictArtifacts,
    EvictionResult,
    ExpireArtifacts,
    ForgetBlobs,
    MarkBlobCorrupt,
    PurgeRecords,
    ReapUploads,
    TakeLease,
)
from coatcheck.ports.telemetry import Overdue
from coatcheck.ports.text_index import DropSegment, IndexDocuments, MergeSegments, Reindex, Unindexed
from coatcheck.ports.uploads import AbandonUpload, BeginUpload, RenewUpload, ReserveMore

C = TypeVar("C")
T = TypeVar("T")

_ROW_BYTES = 1024
_SECTION_BYTES = 100
_PAGE = 500


class SqlCatalog(SqlRetention, SqlKeys, SqlDecisions, SqlSessionAccounts, ABC):
    """Both ports over a way to commit changes and a way to ask questions."""

    @abstractmethod
    async def _commit(self, work: Work) -> object:
        """The answer of a change, once it is durable."""

    @abstractmethod
    async def _ask(self, namespace: str | None, question: Callable[[Connection], T]) -> T:
        """The answer to a question about a namespace; None: about all of them."""

    async def _ask_for_list(self, namespace: str, question: Callable[[Connection], T]) -> T:
        """The same where others who ask much must not get into the way."""
        return await self._ask(namespace, question)

    async def begin_upload(self, change: BeginUpload) -> QuotaExceeded | None:
        """Record the intent to write a blob."""
        return await self._change(uploads.apply_begin, change, change.namespace)

    async def reserve_more(self, change: ReserveMore) -> bool | QuotaExceeded:
        """Raise a reservation."""
        return await self._change(quota.apply_reserve_more, change, change.namespace)

    async def renew_upload(self, change: RenewUpload) -> bool:
        """Move a lease; false when it was reaped."""
        return await self._change(uploads.apply_renew, change, change.namespace)

    async def abandon_upload(self, change: AbandonUpload) -> None:
        """Forget an intent."""
        await self._change(uploads.apply_abandon, change, change.namespace)

    async def store_artifact(self, change: StoreArtifact) -> store.Answer:
        """The one transaction of an ingest."""
        weight = len(change.inline or b"") + len(change.blob.index) + _view_weight(change.text_view)
        weight += len(change.survey or b"")
        try:
            return await self._change(store.apply_store, change, change.namespace, weight)
        except usage.NamespaceClosing as error:
            raise usage.closing(change.namespace) from error

    async def mark_blob_corrupt(self, change: MarkBlobCorrupt) -> bool:
        """Trust a blob no more."""
        return await self._change(forget.apply_condemn, change, change.namespace)

    async def same_bytes(self, namespace: str, sha256: bytes, size: int) -> Blob | None:
        """The blob that storing this content would point at."""
        return await self._ask(namespace, lambda conn: reads.same_bytes(conn, namespace, sha256, size))

    async def store_view(self, change: StoreView) -> StoredView | UploadFenced | None:
        """Keep a derived view."""
        return await self._change(views.apply_store_view, change, change.namespace, _view_weight(change.new))

    async def patch_artifact(self, change: PatchArtifact) -> Artifact | Gone | None:
        """Change what may change."""
        return await self._change(alter.apply_patch, change, change.namespace)

    async def delete_artifact(self, change: DeleteArtifact) -> bool | Gone | HoldConflict | None:
        """Replace an artifact by its tombstone."""
        return await self._change(tombstone.apply_delete, change, change.namespace)

    async def delete_session(self, change: DeleteSession) -> int | HoldConflict:
        """The same for a session, in part."""
        return await self._change(tombstone.apply_delete_session, change, change.namespace, change.limit * _ROW_BYTES)

    async def evict_artifacts(self, change: EvictArtifacts) -> EvictionResult:
        """Make room."""
        return await self._change(evict.apply_evict, change, change.namespace, change.limit * _ROW_BYTES)

    async def holds_within(self, namespace: str, session: str | None, now: datetime) -> HoldConflict | None:
        """The holds that cover something there is."""
        return await self._ask(namespace, lambda conn: holds.holds_within(conn, namespace, session, now))

    async def usage_of(self, namespace: str) -> Usage:
        """What a namespace holds."""
        return await self._ask(namespace, lambda conn: usage.seen(conn, namespace))

    async def touch(self, change: Touch) -> None:
        """Note reads."""
        await self._change(alter.apply_touch, change, None, len(change.reads) * _ROW_BYTES)

    async def find(
        self,
        namespace: str,
        number: int,
        now: datetime,
        *,
        with_bytes: bool = False,
        with_view: bool = False,
        with_survey: bool = False,
    ) -> FoundArtifact | Gone | None:
        """The artifact, its tombstone, or None."""
        return await self._ask(
            namespace,
            lambda conn: reads.find(
                conn,
                namespace,
                number,
                now,
                with_bytes=with_bytes,
                with_view=with_view,
                with_survey=with_survey,
            ),
        )

    async def latest_run(self, run: RunKey, now: datetime) -> int | None:
        """The number of a run's last artifact."""
        return await self._ask(run.namespace, lambda conn: reads.latest_run(conn, run, now))

    async def inline_bytes(self, namespace: str, blob_id: str) -> bytes | None:
        """The stored bytes of an inline blob."""
        return await self._ask(namespace, lambda conn: reads.stored_bytes(conn, namespace, blob_id))

    async def find_key(self, namespace: str, key: str, now: datetime) -> KeyRecord | None:
        """What an idempotency key stands for."""
        return await self._ask(namespace, lambda conn: reads.find_key(conn, namespace, key, now))

    async def list_artifacts(
        self, namespace: str, where: ArtifactFilter, now: datetime, *, before: int | None, limit: int
    ) -> ArtifactPage:
        """Live artifacts, newest first."""
        question = listing.list_artifacts if where.terms is None else matching.list_matching
        return await self._ask_for_list(
            namespace, lambda conn: question(conn, namespace, where, now, before=before, limit=limit)
        )

    async def index_documents(self, change: IndexDocuments) -> int:
        """Add documents to the full-text index."""
        return await self._change(apply_index, change, change.namespace, _segment_bytes(change.segment))

    async def merge_segments(self, change: MergeSegments) -> bool:
        """Put one segment in the place of several."""
        return await self._change(apply_merge, change, change.namespace, _segment_bytes(change.segment))

    async def drop_segment(self, change: DropSegment) -> None:
        """Give up a damaged segment."""
        await self._change(apply_drop, change, change.namespace, _ROW_BYTES)

    async def reindex(self, change: Reindex) -> None:
        """Have artifacts wait for the index again."""
        await self._change(apply_reindex, change, change.namespace, len(change.rows) * _ROW_BYTES)

    async def unindexed(self, namespace: str, limit: int, *, after: int = 0) -> list[Unindexed]:
        """The oldest that wait for the index."""
        return await self._ask(namespace, lambda conn: texts.waiting(conn, namespace, limit, after))

    async def newest_unindexed(self, namespace: str) -> int | None:
        """The newest that waits."""
        return await self._ask(namespace, lambda conn: texts.newest_waiting(conn, namespace))

    async def next_unindexed(self, after: str) -> str | None:
        """The next namespace where some wait."""
        return await self._ask(None, lambda conn: texts.next_unindexed(conn, after))

    async def segment_sizes(self, namespace: str) -> list[SegmentSize]:
        """The segments of a namespace."""
        return await self._ask(namespace, lambda conn: texts.sizes(conn, namespace))

    async def next_segment(self, after: int) -> tuple[str, SegmentSize] | None:
        """The next segment of all."""
        return await self._ask(None, lambda conn: texts.next_segment(conn, after))

    async def read_segments(self, namespace: str, ids: list[int]) -> list[PackedSegment] | None:
        """Segments whole."""
        return await self._ask(namespace, lambda conn: texts.whole(conn, namespace, ids))

    async def fingerprints(self, namespace: str, rows: list[int]) -> dict[int, int]:
        """What the artifacts in these rows are now."""
        return await self._ask(namespace, lambda conn: texts.fingerprints(conn, namespace, rows))

    async def unlisted(self, namespace: str, after: int) -> tuple[list[int], int | None]:
        """Rows that the index lacks."""
        return await self._ask(namespace, lambda conn: texts.unlisted(conn, namespace, after))

    async def next_namespace(self, after: str) -> str | None:
        """The next namespace that has artifacts."""
        return await self._ask(None, lambda conn: texts.next_namespace(conn, after))

    async def expire_artifacts(self, change: ExpireArtifacts) -> int:
        """Bury what has expired."""
        return await self._change(runs.apply_expire, change, None, change.limit * _ROW_BYTES)

    async def reap_uploads(self, change: ReapUploads) -> int:
        """Turn late uploads into dead blobs."""
        return await self._change(uploads.apply_reap, change, None, change.limit * _ROW_BYTES)

    async def forget_blobs(self, change: ForgetBlobs) -> None:
        """Drop dead blobs' rows."""
        await self._change(forget.apply_forget, change, None, len(change.blobs) * _ROW_BYTES)

    async def purge_records(self, change: PurgeRecords) -> int:
        """Drop tombstones and keys that are over."""
        return await self._change(forget.apply_purge, change, None, change.limit * _ROW_BYTES)

    async def empty_log(self) -> bool:
        """Nothing to do where the database's log is not ours to keep."""
        return True

    async def take_lease(self, change: TakeLease) -> bool:
        """Become or stay the holder."""
        return await self._change(leases.apply_take, change, None)

    async def lease_holder(self, name: str) -> str | None:
        """Who took a lease last."""
        return await self._ask(None, lambda conn: leases.holder(conn, name))

    async def dead_blobs(self, before: datetime, limit: int, after: DeadBlob | None = None) -> list[DeadBlob]:
        """Blobs that died before a moment."""
        return await self._ask(None, lambda conn: reads.dead_blobs(conn, before, limit, after))

    async def overdue(self, now: datetime, limit: int) -> Overdue:
        """Count what upkeep has to do."""
        return await self._ask(None, lambda conn: backlog.overdue(conn, now, limit))

    async def known_blobs(self, names: list[tuple[str, str]]) -> set[tuple[str, str]]:
        """The names that a row knows."""
        return await self._ask(None, lambda conn: reads.known_blobs(conn, names))

    async def all_blobs(self) -> AsyncIterator[tuple[str, Blob]]:
        """Every live blob, page by page: one that is added or dies meanwhile may or may not be among them."""
        after = 0
        while page := await self._ask(None, lambda conn, after=after: reads.live_blobs(conn, after, _PAGE)):
            for after, namespace, blob in page:  # noqa: B007 - the last one continues the walk
                yield namespace, blob

    async def _change(
        self, apply: Callable[[Connection, C], T], change: C, namespace: str | None, weight: int = 0
    ) -> T:
        return cast("T", await self._commit(Work(apply, change, namespace, weight + _ROW_BYTES)))


def _view_weight(new: NewView | None) -> int:
    """Bytes that a view adds, roughly."""
    if new is None:
        return 0
    index = 0 if new.blob is None else len(new.blob.index)
    return len(new.inline or b"") + index + len(new.view.sections) * _SECTION_BYTES


def _segment_bytes(segment: PackedSegment | None) -> int:
    return 0 if segment is None else len(segment.listed) + sum(map(len, segment.parts))
