"""Group commit on SQLite: one thread, one connection, as many waiting changes as possible in one transaction.

While one group is being synced to disk, the next group gathers. It waits up to 3 ms for changes that are known to be on
their way; a single caller never waits. Changes gather on their event loop, and each group wakes the thread only once,
because a wake-up takes the interpreter from the loop, and costs as much as a change.

A caller is answered after the commit of its change, and never fails through the fault of another change: if a group
fails, its transaction is rolled back, and its changes are tried one by one, unless the database itself has failed. If
the disk is full, changes that free space are carried out one by one in the disk reserve, and the write-ahead log is
emptied after each of them. A damaged database is not changed.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import Connection, Engine
from typing_extensions import override

from coatcheck.adapters.sql.change_group import (
    GATHER_SECONDS,
    MAX_GROUP_BYTES,
    MAX_GROUP_CHANGES,
    ChangeFailure,
    ChangeWriter,
    FunctionChange,
    carry_out,
    resolve,
)
from coatcheck.adapters.sql.changes.dedupe import Numberer
from coatcheck.adapters.sql.engine import BUSY_MS
from coatcheck.adapters.sql.faults import closed_error
from coatcheck.adapters.sql.sqlite.damage import CatalogDamage
from coatcheck.adapters.system import DiskReserve
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.decisions import CatalogChange

_SHRINK_PAGES: Final = 1000
"""Free pages that are given back to a full disk in one step: 4 MiB. The write-ahead log may grow as much meanwhile."""
_SHRINK_STEPS: Final = 16
"""Maximum steps of one round, so that other changes wait about a second at most."""

EMPTY_LOG: Final = FunctionChange[None](call=lambda _: None)
"""Copies the write-ahead log into the database and truncates the log, between two transactions.

Until then, the log contains old versions of pages, with data that was deleted since. The answer says whether the log is
empty now: false if a reader still needs it."""


class _Job(NamedTuple):
    """A change on its way to the thread, with the future on which its caller waits."""

    change: CatalogChange[Any]
    loop: asyncio.AbstractEventLoop
    """The event loop of the caller, on which the writer's thread must deliver the answer."""
    waiter: "asyncio.Future[Any]"
    """The future that receives the answer or the error; only code on its loop may use it."""
    since: float
    """When the caller requested the change, in seconds by the monotonic clock."""


class GroupWriter(ChangeWriter):
    """The only writer of the database."""

    def __init__(self, engine: Engine, number: Numberer, reserve: DiskReserve, damage: CatalogDamage) -> None:
        """Opens the connection and starts the thread; raises the error with which opening the connection fails."""
        super().__init__()
        self._number = number
        self._reserve = reserve
        self._damage = damage
        self._engine = engine
        self._conn: Connection | None = engine.connect()
        """The connection, which only the thread uses; None after a failure, until the next transaction."""
        self._gathering: list[_Job] = []
        """Changes of one loop that wait for other changes on their way."""
        self._handed: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        """Groups for the thread; None: the thread has to stop."""
        self._queue_lock = threading.Lock()
        """Guards `_gathering` and `_closed`, since several loops may hand changes over."""
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="coatcheck-writer", daemon=True)
        self._thread.start()

    @override
    async def carry_out(self, change: CatalogChange[Any]) -> object:
        """Carries out a change, perhaps in one transaction with others, and returns its answer once it is durable."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[object] = loop.create_future()
        with self._queue_lock:
            if self._closed:
                raise closed_error()
            # All changes of a group are of one loop, because a timer of this loop hands the group over.
            if self._gathering and self._gathering[0].loop is not loop:
                self._hand_over()
            self._gathering.append(_Job(change, loop, waiter, time.monotonic()))
            if not self.approaching() or len(self._gathering) == MAX_GROUP_CHANGES:
                self._hand_over()
            elif len(self._gathering) == 1:
                loop.call_later(GATHER_SECONDS, self._hand_over_late, self._gathering)
        return await waiter

    def _hand_over(self) -> None:
        """Passes the gathered changes to the thread; the caller must hold the lock."""
        if self._gathering:
            self._handed.put(self._gathering)
            self._gathering = []

    def _hand_over_late(self, group: list[_Job]) -> None:
        """Passes a group to the thread when its time to gather is over, unless this has happened before."""
        with self._queue_lock:
            if self._gathering is group:
                self._hand_over()

    def close(self) -> None:
        """Carries out the changes that wait, then stops. Blocks until the thread has ended, even at a second call."""
        with self._queue_lock:
            if not self._closed:
                self._closed = True
                self._hand_over()
                self._handed.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (group := self._handed.get()) is not None:
            last = False
            # Add the groups that have arrived while the group before was synced.
            while not (last or self._handed.empty() or _is_full(group)):
                more = self._handed.get()
                last = more is None
                group += more or ()
            began = time.monotonic()
            _answer(group, self._commit(group))
            if self.watch is not None:
                self.watch(len(group), began - group[0].since, time.monotonic() - began)
            if last:
                break
        self._disconnect(checkpoint=True)

    def _commit(self, group: list[_Job]) -> list[object]:
        changes = [job for job in group if job.change is not EMPTY_LOG]
        if len(changes) == len(group):
            return self._commit_changes(group)
        # The changes come first: SQLite checkpoints only outside of a transaction, and the checkpoint must also remove
        # data from the log that the changes have deleted.
        answers = iter(self._commit_changes(changes) if changes else [])
        # If the disk is full, it also gets back the pages of the file that are unused since deletions.
        emptied = self._shrink() if self._reserve.is_full() else self._empty_log()
        return [emptied if job.change is EMPTY_LOG else next(answers) for job in group]

    def _shrink(self) -> object:
        """Gives unused pages of the file back to a full disk and empties the log, in steps; returns the last answer."""
        emptied: object = False
        for _ in range(_SHRINK_STEPS):
            with self._reserve.lent():
                try:
                    # `executescript` runs the statement to its end; with `execute`, the driver's cursor would end it
                    # after one page.
                    self._raw().executescript(f"PRAGMA incremental_vacuum({_SHRINK_PAGES})")
                    pages = self._raw().execute("PRAGMA freelist_count").fetchone()[0]
                except Exception as error:  # noqa: BLE001 - whatever the error is, it is the answer to this job
                    return ChangeFailure(self._damage.explain(error) or error)
                emptied = self._empty_log()
            if not pages:
                break
        return emptied

    def _empty_log(self) -> object:
        try:
            raw = self._raw()
            # Do not wait long for readers, because changes wait behind this checkpoint.
            raw.execute("PRAGMA busy_timeout=50")
            try:
                busy = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                raw.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        except Exception as error:  # noqa: BLE001 - whatever the error is, it is the answer to this job
            return ChangeFailure(self._damage.explain(error) or error)
        return busy == 0

    def _commit_changes(self, group: list[_Job]) -> list[object]:
        if self._damage.error is not None:
            return [ChangeFailure(self._damage.refusal()) for _ in group]
        if self._reserve.is_full():
            return [self._commit_in_reserve(job) for job in group]
        return self._commit_group(group)

    def _commit_group(self, group: list[_Job]) -> list[object]:
        try:
            return self._transaction(group)
        except Exception as error:  # noqa: BLE001 - whatever the error is, a change of the group gets it as answer
            fault = self._damage.explain(error)
            if fault is not None and fault.code is Code.STORAGE_FULL and self._reserve.note_full():
                return [self._commit_in_reserve(job) for job in group]
            if len(group) == 1:
                return [ChangeFailure(fault or error)]
            if fault is not None and fault.code is Code.STORAGE_UNAVAILABLE:
                # No change is at fault. Tried one by one, each change might wait for the same lock again.
                return [ChangeFailure(CoatcheckError(fault.code, fault.detail)) for _ in group]
        return [self._commit_changes([job])[0] for job in group]

    def _commit_in_reserve(self, job: _Job) -> object:
        """Carries out a change on a full disk in the disk reserve, unless the change takes room itself.

        Afterwards the log is emptied, because it has grown in space that is only lent from the reserve.
        """
        if job.change.takes_room:
            return ChangeFailure(self._reserve.refusal())
        with self._reserve.lent():
            try:
                (answer,) = self._transaction([job])
            except Exception as error:  # noqa: BLE001 - whatever the error is, it is the answer to this job
                answer = ChangeFailure(self._damage.explain(error) or error)
            self._empty_log()
        return answer

    def _transaction(self, group: list[_Job]) -> list[object]:
        try:
            conn = self._connection()
            write_count = _count_changes(conn)
            with conn.begin():
                answers = carry_out(conn, [job.change for job in group], _enter_nothing, self._number)
        except Exception as error:
            fault = self._damage.explain(error)
            if fault is not None:
                self.fault = fault
                # After a disk failure, the connection's own state cannot be trusted.
                self._disconnect()
            raise
        if _count_changes(conn) != write_count:  # a transaction that changes no row proves nothing about the disk
            self.fault = None
        return answers

    def _raw(self) -> sqlite3.Connection:
        return cast("sqlite3.Connection", self._connection().connection.driver_connection)

    def _connection(self) -> Connection:
        if self._conn is None:
            self._conn = self._engine.connect()
        return self._conn

    def _disconnect(self, *, checkpoint: bool = False) -> None:
        conn, self._conn = self._conn, None
        if conn is None:
            return
        with contextlib.suppress(Exception):
            if checkpoint:
                # SQLite recommends this before a long-lived connection is closed: it refreshes the statistics of the
                # query planner where they are outdated.
                conn.exec_driver_sql("PRAGMA optimize")
        with contextlib.suppress(Exception):
            conn.close()


def _is_full(group: list[_Job]) -> bool:
    return len(group) >= MAX_GROUP_CHANGES or sum([job.change.weight for job in group]) >= MAX_GROUP_BYTES


def _count_changes(conn: Connection) -> int:
    """Returns how many rows the connection has changed so far."""
    return cast("sqlite3.Connection", conn.connection.driver_connection).total_changes


def _enter_nothing(_conn: Connection, _namespace: str | None) -> None:
    """Enters a namespace for row-level security, which SQLite does not have: does nothing."""


def _answer(group: list[_Job], answers: list[object]) -> None:
    """Delivers the answers of a group, with one wake-up for each event loop instead of one for each caller."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], object]]] = {}
    for job, answer in zip(group, answers, strict=True):
        by_loop.setdefault(job.loop, []).append((job.waiter, answer))
    for loop, pairs in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits any more
            loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: "list[tuple[asyncio.Future[Any], object]]") -> None:
    for waiter, answer in pairs:
        resolve(waiter, answer)
