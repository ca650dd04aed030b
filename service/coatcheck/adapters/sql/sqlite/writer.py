"""Group commit on SQLite: one thread, one connection, as many waiting changes as possible in one transaction.

While one group is being synced, the next one gathers, and it waits for changes known to be on their way, for up to 3
ms; a single caller never waits. Changes gather on their loop and wake the thread once: each wake-up takes the
interpreter from the loop, and costs as much as the change. A caller is answered after the commit of its change, and
never because of another's fault: if a group fails, it is undone and its changes are tried one by one, unless the
database itself has failed. While the disk is full, changes that free space are made one by one in its reserve, and the
log is emptied after each; a damaged database is not changed.
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
"""Free pages that are given back to a full disk in one step: 4 MiB, which the log may take as well."""
_SHRINK_STEPS: Final = 16
"""Steps of one round, so that other changes wait about a second at most."""

EMPTY_LOG: Final = FunctionChange[None](call=lambda _: None)
"""Copies the write-ahead log into the database and truncates it, between two transactions; its answer is a bool.

Until then the log contains old versions of pages, with what was deleted since. False: a reader still needs it."""


class _Job(NamedTuple):
    """A change on its way: what to do, its weight, who waits on which loop, and since when."""

    change: CatalogChange[Any]
    loop: asyncio.AbstractEventLoop
    """The event loop of the caller, to which the answer goes: the writer is a thread."""
    waiter: "asyncio.Future[Any]"
    """Only its own loop may touch it."""
    since: float
    """When the caller handed the change over, by the monotonic clock."""


class GroupWriter(ChangeWriter):
    """The only writer of the database."""

    def __init__(self, engine: Engine, number: Numberer, reserve: DiskReserve, damage: CatalogDamage) -> None:
        """Opens the connection; raises what opening it raises."""
        super().__init__()
        self._number = number
        self._reserve = reserve
        self._damage = damage
        self._engine = engine
        self._conn: Connection | None = engine.connect()
        """Only the thread uses it; None after a failure, until the next transaction."""
        self._gathering: list[_Job] = []
        """Changes of one loop that wait for others on their way."""
        self._handed: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        """Groups for the thread; None: stop."""
        self._queue_lock = threading.Lock()
        """Guards `_gathering` and `_closed`, since several loops may hand changes over."""
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="coatcheck-writer", daemon=True)
        self._thread.start()

    @override
    async def carry_out(self, change: CatalogChange[Any]) -> object:
        """Carries out a change, in a transaction that it may share, and returns its answer once durable."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[object] = loop.create_future()
        with self._queue_lock:
            if self._closed:
                raise closed_error()
            # A group has the changes of one loop, because a timer of that loop hands it over.
            if self._gathering and self._gathering[0].loop is not loop:
                self._hand_over()
            self._gathering.append(_Job(change, loop, waiter, time.monotonic()))
            if not self.approaching() or len(self._gathering) == MAX_GROUP_CHANGES:
                self._hand_over()
            elif len(self._gathering) == 1:
                loop.call_later(GATHER_SECONDS, self._hand_over_late, self._gathering)
        return await waiter

    def _hand_over(self) -> None:
        """Passes what has gathered to the thread, holding the lock."""
        if self._gathering:
            self._handed.put(self._gathering)
            self._gathering = []

    def _hand_over_late(self, group: list[_Job]) -> None:
        """Passes a group that has waited long enough to the thread, if it still waits."""
        with self._queue_lock:
            if self._gathering is group:
                self._hand_over()

    def close(self) -> None:
        """Finishes what is waiting, then stops. Blocks; may be repeated."""
        with self._queue_lock:
            if not self._closed:
                self._closed = True
                self._hand_over()
                self._handed.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (group := self._handed.get()) is not None:
            last = False
            while not (last or self._handed.empty() or _is_full(group)):  # arrived while others were synced
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
        # The changes first: SQLite checkpoints only outside of a transaction, and the log then includes what they
        # deleted.
        answers = iter(self._commit_changes(changes) if changes else [])
        # A full disk also gets back the pages that deletions left unused in the file.
        emptied = self._shrink() if self._reserve.is_full() else self._empty_log()
        return [emptied if job.change is EMPTY_LOG else next(answers) for job in group]

    def _shrink(self) -> object:
        """Gives the pages that nothing uses back to a full disk, then empties the log."""
        emptied: object = False
        for _ in range(_SHRINK_STEPS):
            with self._reserve.lent():
                try:
                    # With `execute`, the driver's cursor would end the statement after one page.
                    self._raw().executescript(f"PRAGMA incremental_vacuum({_SHRINK_PAGES})")
                    pages = self._raw().execute("PRAGMA freelist_count").fetchone()[0]
                except Exception as error:  # noqa: BLE001 - as below
                    return ChangeFailure(self._damage.explain(error) or error)
                emptied = self._empty_log()
            if not pages:
                break
        return emptied

    def _empty_log(self) -> object:
        try:
            raw = self._raw()
            # Do not wait for readers: changes wait behind this.
            raw.execute("PRAGMA busy_timeout=50")
            try:
                busy = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                raw.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this job's answer
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
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to one of the group
            fault = self._damage.explain(error)
            if fault is not None and fault.code is Code.STORAGE_FULL and self._reserve.note_full():
                return [self._commit_in_reserve(job) for job in group]
            if len(group) == 1:
                return [ChangeFailure(fault or error)]
            if fault is not None and fault.code is Code.STORAGE_UNAVAILABLE:
                # Not the fault of a change, and trying each could wait as often for the same lock.
                return [ChangeFailure(CoatcheckError(fault.code, fault.detail)) for _ in group]
        return [self._commit_changes([job])[0] for job in group]

    def _commit_in_reserve(self, job: _Job) -> object:
        """Carries out a change on a full disk, if it may be; nothing of it stays in the log, whose space is lent."""
        if job.change.takes_room:
            return ChangeFailure(self._reserve.refusal())
        with self._reserve.lent():
            try:
                (answer,) = self._transaction([job])
            except Exception as error:  # noqa: BLE001 - as above
                answer = ChangeFailure(self._damage.explain(error) or error)
            self._empty_log()
        return answer

    def _transaction(self, group: list[_Job]) -> list[object]:
        try:
            conn = self._connection()
            write_count = _count_changes(conn)
            with conn.begin():
                answers = carry_out(conn, [job.change for job in group], _anywhere, self._number)
        except Exception as error:
            fault = self._damage.explain(error)
            if fault is not None:
                self.fault = fault
                # After a disk failure, the connection's own state cannot be trusted.
                self._disconnect()
            raise
        if _count_changes(conn) != write_count:  # a commit of nothing proves nothing about the disk
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
                # SQLite's advice before a long-lived connection is closed: it refreshes statistics of the planner where
                # needed.
                conn.exec_driver_sql("PRAGMA optimize")
        with contextlib.suppress(Exception):
            conn.close()


def _is_full(group: list[_Job]) -> bool:
    return len(group) >= MAX_GROUP_CHANGES or sum([job.change.weight for job in group]) >= MAX_GROUP_BYTES


def _count_changes(conn: Connection) -> int:
    """Returns how many rows the connection has changed so far."""
    return cast("sqlite3.Connection", conn.connection.driver_connection).total_changes


def _anywhere(_conn: Connection, _namespace: str | None) -> None:
    """Does nothing: SQLite has no row-level security."""


def _answer(group: list[_Job], answers: list[object]) -> None:
    """Wakes each loop once, not each caller."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], object]]] = {}
    for job, answer in zip(group, answers, strict=True):
        by_loop.setdefault(job.loop, []).append((job.waiter, answer))
    for loop, pairs in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: "list[tuple[asyncio.Future[Any], object]]") -> None:
    for waiter, answer in pairs:
        resolve(waiter, answer)
