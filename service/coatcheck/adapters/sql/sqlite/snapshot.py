"""A snapshot of a SQLite catalogue, read and copied beside a process that serves it.

A snapshot is an open read transaction. In WAL mode it blocks no writer; it keeps the log from being restarted, so the
log grows by what is written meanwhile. It never writes to the database that it reads, and never checkpoints.
"""

import contextlib
import sqlite3
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Self, cast

from msgspec import Struct
from sqlalchemy import Connection, func, select

from coatcheck.adapters.sql.engine import looking_engine, sqlite_url, writing_engine
from coatcheck.adapters.sql.faults import fault_of
from coatcheck.adapters.sql.schema import revision_of
from coatcheck.adapters.sql.tables import artifacts, blobs, uploads
from coatcheck.core.errors import CoatcheckError, Code

_BLOBS_PER_PAGE = 1000
"""Blobs per query of the copied catalogue. Chosen, not measured."""
_STEP_PAGES = 4096
"""Database pages per step of the copy: 16 MiB."""


class FileBlob(Struct, frozen=True):
    """A live blob whose bytes are a file."""

    id: str
    """Its name in the blob store."""
    stored_size: int
    """Bytes of the file."""
    condemned: bool
    """Whether its bytes are known to be missing or damaged."""


class SnapshotCounts(Struct, frozen=True):
    """How much a catalogue holds."""

    artifacts: int
    """Rows, including those of expired artifacts that are not removed yet."""
    blobs: int
    """Live ones, inline and as files."""
    uploads: int
    """Intents: payloads that were being uploaded."""


class Snapshot:
    """A context manager; within it, every query sees the same moment. Blocks.

    Raises:
        CoatcheckError: `storage_unavailable` if the database cannot be opened, `integrity` if it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._engine = looking_engine(path)

    def __enter__(self) -> Self:
        """Takes the snapshot."""
        with explain_database_errors():
            self._conn = self._engine.connect()
            try:
                # Without IMMEDIATE it takes no lock, and waits for no writer.
                self._conn.exec_driver_sql("BEGIN")
                self._conn.exec_driver_sql("SELECT count(*) FROM sqlite_master")  # the first read determines the moment
            except BaseException:
                self._conn.close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        """Releases the snapshot."""
        self._conn.close()
        self._engine.dispose()

    def revision(self) -> str | None:
        """Returns the schema's revision."""
        return revision_of(self._conn)

    def counts(self) -> SnapshotCounts:
        """Returns how much it holds."""
        with explain_database_errors():
            live = blobs.c.dead_at.is_(None)
            return SnapshotCounts(
                artifacts=self._conn.execute(select(func.count()).select_from(artifacts)).scalar_one(),
                blobs=self._conn.execute(select(func.count()).where(live)).scalar_one(),
                uploads=self._conn.execute(select(func.count()).select_from(uploads)).scalar_one(),
            )

    def file_blobs(self) -> Iterator[FileBlob]:
        """Yields every live blob that is a file."""
        yield from _file_blobs(self._conn)

    def copy(self, path: Path) -> None:
        """Writes the snapshot to a new file, in rollback mode: a single file, which needs no other to be read.

        It is not synced. SQLite's online backup restarts whenever the source has changed between two steps; under this
        open transaction it has not.
        """
        with explain_database_errors():
            source = cast("sqlite3.Connection", self._conn.connection.driver_connection)
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as target:
                target.execute("PRAGMA journal_mode=OFF")  # if interrupted, the copy is discarded anyway
                # The caller syncs the finished file.
                target.execute("PRAGMA synchronous=OFF")
                # No pause between steps: nobody waits for a lock of this copy.
                source.backup(target, pages=_STEP_PAGES, sleep=0)
                target.execute("PRAGMA journal_mode=DELETE")
                # The check is of the copy: damage in the source would otherwise replace the last good backup unnoticed.
                answers = [str(row[0]) for row in target.execute("PRAGMA quick_check(3)")]
        if answers != ["ok"]:
            raise CoatcheckError(
                Code.INTEGRITY,
                f"The catalogue's database is damaged ({'; '.join(answers)}). No backup was made of it: "
                "run `coatcheck check`, and keep the last good backup.",
            )


def _file_blobs(conn: Connection) -> Iterator[FileBlob]:
    b, after = blobs.c, 0
    mine = (b.placement == "file", b.dead_at.is_(None))
    files = select(b.seq, b.id, b.stored_size, b.condemned_at.is_not(None)).where(*mine).order_by(b.seq)
    while True:
        with explain_database_errors():
            # In row order, so that a page continues after the last row of the one before, whatever has died meanwhile.
            page = conn.execute(files.where(b.seq > after).limit(_BLOBS_PER_PAGE)).all()
        for after, name, size, condemned in page:  # noqa: B007 - the last one continues the walk
            yield FileBlob(name, size, condemned)
        if len(page) < _BLOBS_PER_PAGE:
            return


def live_file_blobs(path: Path) -> Iterator[FileBlob]:
    """Yields the live blobs in files, page by page and not of one moment: for a first, long pass."""
    engine = looking_engine(path)
    try:
        with explain_database_errors(), engine.connect() as conn:
            yield from _file_blobs(conn)
    finally:
        engine.dispose()


@contextlib.contextmanager
def writers_waiting(path: Path) -> Generator[None]:
    """Holds the write lock, so nothing is stored or dies meanwhile.

    It writes nothing, and so does not reset the log.
    """
    # Only the server's connection may checkpoint.
    engine = writing_engine(sqlite_url(path), checkpoints=False)
    try:
        with explain_database_errors(), engine.connect() as conn:
            # `BEGIN IMMEDIATE`: waits for the transaction in progress, and keeps the next one waiting.
            transaction = conn.begin()
            try:
                yield
            finally:
                transaction.rollback()
    finally:
        engine.dispose()


@contextlib.contextmanager
def explain_database_errors() -> Generator[None]:
    """Turns a database error into a CoatcheckError with a sentence."""
    try:
        yield
    except (CoatcheckError, OSError):
        raise
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        raise fault from error
