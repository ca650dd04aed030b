"""The catalogue on SQLite: Catalog and Upkeep in one process, on one local file.

Changes go to one writer that commits them in groups; reads go to a few read-only connections. It takes the data
directory for itself, and it refuses a directory on a network.
"""

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from sqlalchemy import Connection

from coatcheck.adapters.sql import reads
from coatcheck.adapters.sql.changes import alter, bury, forget, store, uploads
from coatcheck.adapters.sql.datadir import DirectoryLock, make_private, refuse_network_file_system
from coatcheck.adapters.sql.engine import looking_engine, reading_engine, sqlite_url, writing_engine
from coatcheck.adapters.sql.faults import known_fault
from coatcheck.adapters.sql.readers import ReaderPool
from coatcheck.adapters.sql.schema import check_revision, try_write
from coatcheck.adapters.sql.writer import GroupWriter
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, Gone
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports import (
    AbandonUpload,
    BeginUpload,
    CondemnBlob,
    DeadBlob,
    DeleteArtifact,
    DeleteSession,
    ExpireArtifacts,
    Filter,
    ForgetBlobs,
    Found,
    KeyRecord,
    Page,
    PatchArtifact,
    PurgeRecords,
    ReapUploads,
    RenewUpload,
    StoreArtifact,
    Touch,
)

C = TypeVar("C")
T = TypeVar("T")

_ROW_BYTES = 1024
_PAGE = 500


class SqliteCatalog:
    """Catalog and Upkeep on a migrated SQLite file. Make it with `open`; close it."""

    def __init__(
        self, writer: GroupWriter | None, readers: ReaderPool, lock: DirectoryLock | None, number: store.Numberer
    ) -> None:
        self._only_writer = writer
        self._readers = readers
        self._lock = lock
        self._number = number

    @classmethod
    def open(cls, path: Path, *, threads: int = 4, number: store.Numberer = ids.number) -> Self:
        """Open a database file that `migrate` has made. Blocks for a moment.

        Args:
            path: the file, on a local disk.
            threads: most reads at once.
            number: how identities become candidate numbers.

        Raises:
            CoatcheckError: `storage_unavailable` when another server has the directory, when it is on a network
                file system, or when the file cannot be opened.
        """
        make_private(path)
        refuse_network_file_system(path.parent)
        lock = DirectoryLock(path.parent)
        try:
            writer = GroupWriter(writing_engine(sqlite_url(path)))
        except Exception as error:
            lock.release()
            fault = known_fault(error)
            if fault is None:
                raise
            raise fault from error
        return cls(writer, ReaderPool(reading_engine(sqlite_url(path)), threads), lock, number)

    @classmethod
    def look(cls, path: Path, *, threads: int = 4) -> Self:
        """Open it for reading, beside a server or where nothing can be written. It makes no file and starts no writer.

        Every change is refused with `storage_unavailable`; a file that is not there shows at the first read.
        """
        return cls(None, ReaderPool(looking_engine(path), threads), None, ids.number)

    def close(self) -> None:
        """Commit what is waiting, then let go of everything. Blocks."""
        self._readers.close()
        if self._only_writer is not None:
            self._only_writer.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    async def begin_upload(self, change: BeginUpload) -> None:
        """Record the intent to write a blob."""
        await self._change(uploads.apply_begin, change)

    async def renew_upload(self, change: RenewUpload) -> bool:
        """Move a lease; false when it was reaped."""
        return await self._change(uploads.apply_renew, change)

    async def abandon_upload(self, change: AbandonUpload) -> None:
        """Forget an intent."""
        await self._change(uploads.apply_abandon, change)

    async def store_artifact(self, change: StoreArtifact) -> store.Answer:
        """The one transaction of an ingest."""
        apply = partial(store.apply_store, number=self._number)
        return await self._change(apply, change, len(change.inline or b"") + len(change.blob.index))

    async def condemn_blob(self, change: CondemnBlob) -> bool:
        """Trust a blob no more."""
        return await self._change(forget.apply_condemn, change)

    async def same_bytes(self, namespace: str, sha256: bytes, size: int) -> Blob | None:
        """The blob that storing this content would point at."""
        return await self._readers.run(lambda conn: reads.same_bytes(conn, namespace, sha256, size))

    async def patch_artifact(self, change: PatchArtifact) -> Artifact | Gone | None:
        """Change what may change."""
        return await self._change(alter.apply_patch, change)

    async def delete_artifact(self, change: DeleteArtifact) -> bool | Gone | None:
        """Replace an artifact by its tombstone."""
        return await self._change(bury.apply_delete, change)

    async def delete_session(self, change: DeleteSession) -> int:
        """The same for a session, in part."""
        return await self._change(bury.apply_delete_session, change, change.limit * _ROW_BYTES)

    async def touch(self, change: Touch) -> None:
        """Note reads."""
        await self._change(alter.apply_touch, change, len(change.reads) * _ROW_BYTES)

    async def find(
        self, namespace: str, number: int, now: datetime, *, with_bytes: bool = False
    ) -> Found | Gone | None:
        """The artifact, its tombstone, or None."""
        return await self._readers.run(lambda conn: reads.find(conn, namespace, number, now, with_bytes=with_bytes))

    async def inline_bytes(self, namespace: str, blob_id: str) -> bytes | None:
        """The stored bytes of an inline blob."""
        return await self._readers.run(lambda conn: reads.stored_bytes(conn, namespace, blob_id))

    async def find_key(self, namespace: str, key: str, now: datetime) -> KeyRecord | None:
        """What an idempotency key stands for."""
        return await self._readers.run(lambda conn: reads.find_key(conn, namespace, key, now))

    async def list_artifacts(
        self, namespace: str, where: Filter, now: datetime, *, before: int | None, limit: int
    ) -> Page:
        """Live artifacts, newest first."""
        return await self._readers.run(
            lambda conn: reads.list_artifacts(conn, namespace, where, now, before=before, limit=limit)
        )

    async def ready(self) -> None:
        """Return if the database answers, took the last write that was tried, and has this release's schema."""
        await self._readers.run(check_revision)
        if self._only_writer is not None and self._only_writer.fault is not None:
            # Without this a service that nobody writes to any more could never become ready again.
            await self._only_writer.run(try_write)

    async def expire_artifacts(self, change: ExpireArtifacts) -> int:
        """Bury what has expired."""
        return await self._change(bury.apply_expire, change, change.limit * _ROW_BYTES)

    async def reap_uploads(self, change: ReapUploads) -> int:
        """Turn late uploads into dead blobs."""
        return await self._change(uploads.apply_reap, change, change.limit * _ROW_BYTES)

    async def forget_blobs(self, change: ForgetBlobs) -> None:
        """Drop dead blobs' rows."""
        await self._change(forget.apply_forget, change, len(change.blobs) * _ROW_BYTES)

    async def purge_records(self, change: PurgeRecords) -> int:
        """Drop tombstones and keys that are over."""
        return await self._change(forget.apply_purge, change, change.limit * _ROW_BYTES)

    async def dead_blobs(self, before: datetime, limit: int, after: DeadBlob | None = None) -> list[DeadBlob]:
        """Blobs that died before a moment."""
        return await self._readers.run(lambda conn: reads.dead_blobs(conn, before, limit, after))

    async def known_blobs(self, names: list[tuple[str, str]]) -> set[tuple[str, str]]:
        """The names that a row knows."""
        return await self._readers.run(lambda conn: reads.known_blobs(conn, names))

    async def all_blobs(self) -> AsyncIterator[tuple[str, Blob]]:
        """Every live blob, page by page: one that is added or dies meanwhile may or may not be among them."""
        after = 0
        while page := await self._readers.run(lambda conn, after=after: reads.live_blobs(conn, after, _PAGE)):
            for after, namespace, blob in page:  # noqa: B007 - the last one continues the walk
                yield namespace, blob

    @property
    def _writer(self) -> GroupWriter:
        if self._only_writer is None:
            raise CoatcheckError(Code.STORAGE_UNAVAILABLE, "The catalogue was opened for looking only.")
        return self._only_writer

    async def _change(self, apply: Callable[[Connection, C], T], change: C, weight: int = 0) -> T:
        return await self._writer.run(lambda conn: apply(conn, change), weight + _ROW_BYTES)
