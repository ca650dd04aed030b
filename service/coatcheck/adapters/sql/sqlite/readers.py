"""A few threads with a read-only connection each. A statement sees one moment; no read waits for a writer."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine

from coatcheck.adapters.sql.faults import closed_error, fault_of
from coatcheck.adapters.sql.sqlite.damage import CatalogDamage

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
        self._all: set[Connection] = set()

    async def run(self, call: Callable[[Connection], T]) -> T:
        """Calls a function with a connection, in a thread."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, call)
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
            self._drop()
            raise fault from error

    def _drop(self) -> None:
        conn: Connection | None = getattr(self._mine, "conn", None)
        self._mine.conn = None
        if conn is not None:
            self._all.discard(conn)
            with contextlib.suppress(Exception):
                conn.close()
