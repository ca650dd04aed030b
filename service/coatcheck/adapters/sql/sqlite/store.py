"""The catalogue on SQLite: Catalog and Upkeep in one process, on one local file.

Changes go to one writer that commits them in groups; reads go to a few threads with a read-only connection each, where
a statement sees one moment and waits for no writer. The catalogue locks the data directory and refuses a network file
system.
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
    """Runs reads, each in a thread of its own."""

    def __init__(self, engine: Engine, threads: int, damage: CatalogDamage | None = None) -> None:
        """Starts nothing: threads and connections are created by the first reads.

        `damage` is that of a catalogue that is served, and learns what reads meet.
        """
        self._fault_of = fault_of if damage is None else damage.explain
        self._engine = engine
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="coatcheck-reader")
        self._mine = threading.local()
        """Each thread's own connection, so that reads run side by side."""
        self._all: set[Connection] = set()
        """Every thread's connection, for `close`, which runs in another thread."""

    async def run(self, call: Callable[[Connection], T]) -> T:
        """Calls a function with a connection, in a thread."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, call)
        # An executor that was shut down has no error of its own, only this word in the message.
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
            # The connection's state is uncertain after a failure; the next read in this thread opens another.
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
    """Catalog and Upkeep on a migrated SQLite file. Create it with `open`; close it."""

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
        """What is known of the database's damage."""

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
            number: how identities become candidate numbers.
            reserve: the space for deletions on a full disk.
            damage: what is known of the file; a damaged one is only read, and locked.
            alone: whether to lock out other processes, also those that look, which takes less space.

        Raises:
            CoatcheckError: `storage_unavailable` if another server uses the directory, it is on a network file system,
                or the file cannot be opened.
        """
        # The directory must exist before its file system can be examined, and be locked before anything opens the
        # database.
        make_private(path)
        refuse_network_file_system(path.parent)
        lock = DirectoryLock(path.parent)
        damage = damage or CatalogDamage()
        # The lock stays: a second server must not open a damaged file either.
        if damage.error is not None:
            return cls(None, ReaderPool(looking_engine(path), threads, damage), lock, damage)
        reserve = reserve or DiskReserve(path.parent, 0)
        try:
            writer = GroupWriter(writing_engine(sqlite_url(path), alone=alone), number, reserve, damage)
        except Exception as error:
            # A failed start must not keep the directory from another attempt in this process.
            lock.release()
            fault = fault_of(error)
            if fault is None:
                raise
            raise fault from error
        return cls(writer, ReaderPool(reading_engine(sqlite_url(path), alone=alone), threads, damage), lock, damage)

    @classmethod
    def look(cls, path: Path, *, threads: int = 4) -> Self:
        """Opens it read-only, beside a server or on a read-only file system. It creates no file and starts no writer.

        Every change is refused with `storage_unavailable`; a missing file is noticed by the first read.
        """
        return cls(None, ReaderPool(looking_engine(path), threads), None)

    @classmethod
    def beside(cls, path: Path) -> Self:
        """Opens it to change a few rows, whether or not it is being served: it takes no lock and never checkpoints.

        For rows that a server reads again each time that it needs them. Blocks briefly; raises what SQLite raises.
        """
        damage, reserve = CatalogDamage(), DiskReserve(path.parent, 0)
        writer = GroupWriter(writing_engine(sqlite_url(path), checkpoints=False), ids.number, reserve, damage)
        return cls(writer, ReaderPool(reading_engine(sqlite_url(path)), 1), None, damage)

    def close(self) -> None:
        """Commits what is waiting, then closes everything. Blocks."""
        # Readers first, because an open snapshot keeps a checkpoint from emptying the log; the lock last.
        self._readers.close()
        if self._group_writer is not None:
            self._group_writer.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @override
    async def empty_log(self) -> bool:
        """Truncates the write-ahead log."""
        return cast("bool", await self._writer.carry_out(EMPTY_LOG))

    @override
    async def check_reads(self) -> None:
        try:
            await super().check_reads()
        except CoatcheckError as error:
            raise self.damage.error or error from error  # as damage, not as a store that is silent

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
