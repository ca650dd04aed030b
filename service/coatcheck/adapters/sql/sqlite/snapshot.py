"""Takes a snapshot of a SQLite catalogue while a service uses it, and reads and copies the snapshot.

A snapshot is an open read transaction. In WAL mode it blocks no writer. While it is open, SQLite cannot reuse the
write-ahead log from its beginning, so the log grows by all changes. A snapshot never writes to the database and never
checkpoints.
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
"""Blobs that one query returns. Chosen, not measured."""
_STEP_PAGES = 4096
"""Pages of the database that one step of the copy copies: 16 MiB."""


class FileBlob(Struct, frozen=True):
    """A live blob whose bytes are in a file."""

    id: str
    """The name of the file in the blob store."""
    stored_size: int
    """The size of the file in bytes, according to the blob's row."""
    condemned: bool
    """Whether the bytes are known to be missing or damaged."""


class SnapshotCounts(Struct, frozen=True):
    """The numbers of rows in a catalogue."""

    artifacts: int
    """Artifacts, including expired ones that are not removed yet."""
    blobs: int
    """Live blobs, inline or in files."""
    uploads: int
    """Intents of uploads that were in progress."""


class Snapshot:
    """A context manager in which every query sees the same state of the database. Blocks.

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
                # Without IMMEDIATE, the transaction takes no write lock and waits for no writer.
                self._conn.exec_driver_sql("BEGIN")
                self._conn.exec_driver_sql("SELECT count(*) FROM sqlite_master")  # the first read takes the snapshot
            except BaseException:
                self._conn.close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        """Releases the snapshot."""
        self._conn.close()
        self._engine.dispose()

    def revision(self) -> str | None:
        """Returns the schema's revision; None if the database was never migrated."""
        return revision_of(self._conn)

    def counts(self) -> SnapshotCounts:
        """Returns the numbers of artifacts, live blobs and intents in the snapshot."""
        with explain_database_errors():
            live = blobs.c.dead_at.is_(None)
            return SnapshotCounts(
                artifacts=self._conn.execute(select(func.count()).select_from(artifacts)).scalar_one(),
                blobs=self._conn.execute(select(func.count()).where(live)).scalar_one(),
                uploads=self._conn.execute(select(func.count()).select_from(uploads)).scalar_one(),
            )

    def file_blobs(self) -> Iterator[FileBlob]:
        """Yields every live blob whose bytes are in a file."""
        yield from _file_blobs(self._conn)

    def copy(self, path: Path) -> None:
        """Writes the snapshot to a new file. The copy is in rollback mode, and so complete without a second file.

        The caller must sync the file. SQLite's online backup restarts if the source has changed between two steps; this
        does not happen here, because the open transaction sees no changes.

        Raises:
            CoatcheckError: `integrity` if the copy is damaged, which means that the database is damaged too.
        """
        with explain_database_errors():
            source = cast("sqlite3.Connection", self._conn.connection.driver_connection)
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as target:
                target.execute("PRAGMA journal_mode=OFF")  # if interrupted, the copy is discarded anyway
                # Syncing is not needed here, because the caller syncs the finished file.
                target.execute("PRAGMA synchronous=OFF")
                # There is no pause between two steps, since nobody waits for a lock of this copy.
                source.backup(target, pages=_STEP_PAGES, sleep=0)
                target.execute("PRAGMA journal_mode=DELETE")
                # The copy is checked, because otherwise damage in the source could replace the last good backup
                # unnoticed.
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
            # Pages are in row order, so that each page continues after the last row of the previous one, even if blobs
            # have died meanwhile.
            page = conn.execute(files.where(b.seq > after).limit(_BLOBS_PER_PAGE)).all()
        for after, name, size, condemned in page:  # noqa: B007 - the next page begins after the last `after`
            yield FileBlob(name, size, condemned)
        if len(page) < _BLOBS_PER_PAGE:
            return


def live_file_blobs(path: Path) -> Iterator[FileBlob]:
    """Yields the live blobs whose bytes are in files, without a snapshot.

    Each page is read at another time, so blobs that are added or die meanwhile may be missing or included.
    """
    engine = looking_engine(path)
    try:
        with explain_database_errors(), engine.connect() as conn:
            yield from _file_blobs(conn)
    finally:
        engine.dispose()


@contextlib.contextmanager
def writers_waiting(path: Path) -> Generator[None]:
    """Holds the write lock of a database in a `with` block, so that no blob is added or dies meanwhile.

    Nothing is written, so the write-ahead log is not reset.
    """
    # Only the connection of the service may checkpoint.
    engine = writing_engine(sqlite_url(path), checkpoints=False)
    try:
        with explain_database_errors(), engine.connect() as conn:
            # This is `BEGIN IMMEDIATE`: it waits for the present writer's transaction, and makes the next one wait.
            transaction = conn.begin()
            try:
                yield
            finally:
                transaction.rollback()
    finally:
        engine.dispose()


@contextlib.contextmanager
def explain_database_errors() -> Generator[None]:
    """Turns an error of the database into a CoatcheckError with a text for users."""
    try:
        yield
    except (CoatcheckError, OSError):
        raise
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        raise fault from error
