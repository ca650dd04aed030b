"""The catalogue on SQLite: implements Catalog and Upkeep in one process, on one local file.

One writer commits changes in groups. Reads run in a few threads, each with a read-only connection; a statement on such
a connection sees one state of the data and never waits for the writer. The catalogue locks the data directory and
refuses a network file system.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeVar, cast

from sqlalchemy import Connection, Engine
from typing_extensions import override

from coatcheck.adapters.sql.catalog import SqlCatalog
from coatcheck.adapters.sql.change_group import ChangeWriter
from coatcheck.adapters.sql.changes.dedupe import Numberer
from coatcheck.adapters.sql.engine import (
    DirectoryLock,
    looking_engine,
    make_private,
    reading_engine,
    refuse_network_file_system,
    sqlite_url,
    writing_engine,
)
from coatcheck.adapters.sql.faults import closed_error, fault_of
from coatcheck.adapters.sql.sqlite.damage import CatalogDamage
from coatcheck.adapters.sql.sqlite.writer import EMPTY_LOG, GroupWriter
from coatcheck.adapters.system import DiskReserve
from coatcheck.core import ids
from coatcheck.core.errors import CoatcheckError

T = TypeVar("T")


class ReaderPool:
    """Runs queries concurrently in a pool of threads."""

    def __init__(self, engine: Engine, threads: int, damage: CatalogDamage | None = None) -> None:
        """Starts no thread and opens no connection yet; the first reads do.

        `damage` records damage that reads meet; None: damage is not recorded.
        """
        self._fault_of = fault_of if damage is None else damage.explain
        self._engine = engine
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="coatcheck-reader")
        self._mine = threading.local()
        """The connection of each thread, so that reads run concurrently."""
        self._all: set[Connection] = set()
        """The connections of all threads, for `close`, which runs in another thread."""

    async def run(self, call: Callable[[Connection], T]) -> T:
        """Calls a function with a connection, in a thread."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, call)
        # A pool that was shut down raises no error class of its own. Only the message shows the cause.
        except RuntimeError as error:
            if "shutdown" in str(error):
                raise closed_error() from error
            raise

    def close(self) -> None:
        """Lets running reads finish, then closes the connections. Blocks."""
        self._pool.shutdown()
        for conn in self._all:
            with contextlib.suppress(Exception):
                conn.close()
        self._all.clear()

    def _read(self, call: Callable[[Connection], T]) -> T:
        try:
            conn: Connection | None = getattr(self._mine, "conn", None)
            if conn is None:
                conn = self._engine.connect()
                self._mine.conn = conn
                self._all.add(conn)
            return call(conn)
        except Exception as error:
            fault = self._fault_of(error)
            if fault is None:
                raise
            # After a failure the state of the connection is unknown, so the next read in this thread opens a new one.
            self._drop()
            raise fault from error

    def _drop(self) -> None:
        conn: Connection | None = getattr(self._mine, "conn", None)
        self._mine.conn = None
        if conn is not None:
            self._all.discard(conn)
            with contextlib.suppress(Exception):
                conn.close()


class SqliteCatalog(SqlCatalog):
    """Implements Catalog and Upkeep on a migrated SQLite file. Create it with `open`, and close it with `close`."""

    def __init__(
        self,
        writer: GroupWriter | None,
        readers: ReaderPool,
        lock: DirectoryLock | None,
        damage: CatalogDamage | None = None,
    ) -> None:
        super().__init__(writer)
        self._group_writer = writer
        self._readers = readers
        self._lock = lock
        self.damage = damage or CatalogDamage()
        """Records whether the database is damaged."""

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        threads: int = 4,
        number: Numberer = ids.number,
        reserve: DiskReserve | None = None,
        damage: CatalogDamage | None = None,
        alone: bool = False,
    ) -> Self:
        """Opens a database file that `migrate` has created. Blocks briefly.

        Args:
            path: the file, on a local disk.
            threads: maximum concurrent reads.
            number: returns the number of an identity's n-th candidate ID.
            reserve: the disk reserve for deletions on a full disk; None: there is none.
            damage: records damage, and says whether any was found in the file before. A damaged file is only read, but
                the directory is locked nevertheless. None: no damage is known.
            alone: whether to lock out all other processes, even those that only read, which takes less disk space.

        Raises:
            CoatcheckError: `storage_unavailable` if another server uses the directory, it is on a network file system,
                or the file cannot be opened.
        """
        # The directory is created first, so that its file system can be checked. It is locked before anything opens the
        # database.
        make_private(path)
        refuse_network_file_system(path.parent)
        lock = DirectoryLock(path.parent)
        damage = damage or CatalogDamage()
        # The directory stays locked: another service must not open a damaged file either.
        if damage.error is not None:
            return cls(None, ReaderPool(looking_engine(path), threads, damage), lock, damage)
        reserve = reserve or DiskReserve(path.parent, 0)
        try:
            writer = GroupWriter(writing_engine(sqlite_url(path), alone=alone), number, reserve, damage)
        except Exception as error:
            # After a failure, the lock must not prevent another attempt in this process.
            lock.release()
            fault = fault_of(error)
            if fault is None:
                raise
            raise fault from error
        return cls(writer, ReaderPool(reading_engine(sqlite_url(path), alone=alone), threads, damage), lock, damage)

    @classmethod
    def look(cls, path: Path, *, threads: int = 4) -> Self:
        """Opens a database read-only, beside a service or on a read-only file system. Creates no file.

        Every change is refused with `storage_unavailable`. If the file does not exist, the first read fails.
        """
        return cls(None, ReaderPool(looking_engine(path), threads), None)

    @classmethod
    def beside(cls, path: Path) -> Self:
        """Opens a database to change a few rows, even while a service uses it.

        Does not lock the directory, and never checkpoints.

        Only change rows that the service reads again whenever it needs them. Blocks briefly; raises SQLite's errors.
        """
        damage, reserve = CatalogDamage(), DiskReserve(path.parent, 0)
        writer = GroupWriter(writing_engine(sqlite_url(path), checkpoints=False), ids.number, reserve, damage)
        return cls(writer, ReaderPool(reading_engine(sqlite_url(path)), 1), None, damage)

    def close(self) -> None:
        """Commits the changes that wait, then closes everything. Blocks."""
        # Readers are closed first, because an open snapshot prevents a checkpoint from emptying the log. The lock is
        # released last.
        self._readers.close()
        if self._group_writer is not None:
            self._group_writer.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @override
    async def empty_log(self) -> bool:
        """Truncates the write-ahead log; returns whether the log is empty now."""
        return cast("bool", await self._writer.carry_out(EMPTY_LOG))

    @override
    async def check_reads(self) -> None:
        try:
            await super().check_reads()
        except CoatcheckError as error:
            raise self.damage.error or error from error  # reports damage, instead of storage that does not respond

    @override
    async def check_writes(self, *, room: bool = False) -> None:
        if self.damage.error is not None:
            raise self.damage.error
        await super().check_writes(room=room)

    @property
    @override
    def _writer(self) -> ChangeWriter:
        if self.damage.error is not None:
            raise self.damage.refusal()
        return super()._writer

    @override
    async def ask(self, namespace: str | None, question: Callable[[Connection], T]) -> T:
        if self.damage.unreadable:
            raise self.damage.refusal()
        return await self._readers.run(question)
