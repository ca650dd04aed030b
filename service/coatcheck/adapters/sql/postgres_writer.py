"""Group commit on PostgreSQL: one task, one connection, as many waiting changes as possible in one transaction.

While one group is being committed, the next one gathers, and it waits up to 3 ms for changes known to be on their way;
a single caller never waits. If a group fails, it is undone and its changes are tried one by one, unless the database
itself has failed. If the answer to a commit is lost, its token is looked up: no caller is told that a change is
durable, or that it is not, before that is known.

Tokens by which a transaction is recognised after the answer to its commit was lost.

Each transaction writes a unique word into a row that only its connection uses. A later query first waits for that row,
so the transaction is over by then, and reads the word: it is there exactly if the transaction was committed. A
transaction's number would not do: numbers that a crash took back are reused, and would then be "committed" for another.
"""

import asyncio
import contextlib
import os
import random
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func
from sqlalchemy.ext.asyncio import AsyncEngine
from typing_extensions import override

from coatcheck.adapters.sql.change_group import (
    GATHER_SECONDS,
    MAX_GROUP_BYTES,
    MAX_GROUP_CHANGES,
    ChangeFailure,
    ChangeWriter,
    carry_out,
    resolve,
)
from coatcheck.adapters.sql.changes.dedupe import Numberer
from coatcheck.adapters.sql.dialect import UtcDateTime, upsert
from coatcheck.adapters.sql.faults import closed_error
from coatcheck.adapters.sql.postgres_connection import PostgresConnection, PostgresLimits
from coatcheck.adapters.sql.postgres_faults import (
    DEADLOCK,
    is_of_the_connection,
    is_worth_a_retry,
    postgres_fault_of,
    sqlstate,
    unavailable,
)
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import writers
from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.decisions import CatalogChange

_TOKENS_PER_ROW = 1000
"""Tokens in one row. While something keeps old versions of rows alive, such as a backup, a row that is rewritten
forever gets slower each time."""

# The server's clock writes `at`, by which upkeep deletes the rows of connections that ended: see `forget`.
_ROW = upsert(writers).values(id=bindparam("id"), nonce=bindparam("nonce"), at=func.clock_timestamp(type_=UtcDateTime))
_LEAVE = Prepared(
    _ROW.on_conflict_do_update(
        index_elements=[writers.c.id], set_={"nonce": _ROW.excluded.nonce, "at": _ROW.excluded.at}
    )
)
# Even if there is no row: a plain query would not wait for one that is about to be inserted.
_READ_NONCE = Prepared(
    _ROW.on_conflict_do_update(index_elements=[writers.c.id], set_={"at": writers.c.at}).returning(writers.c.nonce)
)


class CommitToken(NamedTuple):
    """The token of a transaction, and its row."""

    row: str
    """The key of a row in `writers`, which transactions of one connection rewrite."""
    nonce: bytes
    """Random, so that no other transaction has the same."""

    def leave(self, conn: Connection) -> None:
        """Writes the token in the open transaction."""
        _LEAVE.run(conn, {"id": self.row, "nonce": self.nonce})

    def is_there(self, conn: Connection) -> bool:
        """Returns whether the token's transaction is committed; waits until it is over.

        Undo the querying transaction.
        """
        return _READ_NONCE.rows(conn, {"id": self.row, "nonce": os.urandom(16)})[0][0] == self.nonce


class CommitTokens:
    """The tokens of one connection. Each has rows of its own: nobody waits for what remains of a broken one."""

    def __init__(self) -> None:
        self._row = ""
        self._left = 0
        """How many more transactions may use the row."""

    def next(self) -> CommitToken:
        """Returns a token that no transaction has had."""
        if not self._left:
            self._row, self._left = os.urandom(16).hex(), _TOKENS_PER_ROW
        self._left -= 1
        return CommitToken(self._row, os.urandom(16))


_MAX_ATTEMPTS = 5
"""Attempts at a transaction that conflicts with another replica's: each one sees a later state of the rows."""
_LOOK_UP_SECONDS = 0.1
"""Seconds between two look-ups of a commit."""
_RETRY_SECONDS = 0.02
"""Maximum seconds that a transaction waits before its second attempt, twice that before its third, and so on. The
actual time is random: two replicas that lock the same rows in a different order would otherwise conflict again in
step."""


class _Job(NamedTuple):
    """A change, and its waiting caller."""

    change: CatalogChange[Any]
    waiter: "asyncio.Future[object]"
    """Gets the answer or the error. A caller that is cancelled does not stop its change."""
    since: float
    """When it was requested, by the monotonic clock."""


class PostgresWriter(ChangeWriter):
    """The only writer of this process."""

    def __init__(self, engine: AsyncEngine, limits: PostgresLimits, number: Numberer) -> None:
        """Starts the task; connects with the first change."""
        super().__init__()
        self._engine = engine
        self._limits = limits
        self._number = number
        self._connection: PostgresConnection | None = None
        self._commit_tokens = CommitTokens()
        self._jobs: deque[_Job] = deque()
        self._there = asyncio.Event()
        """Wakes the task: a change has come, or nothing more will."""
        self._closed = False
        self._task = asyncio.create_task(self._run(), name="coatcheck-writer")

    @override
    async def carry_out(self, change: CatalogChange[Any]) -> object:
        """Carries out a change, in a transaction that it may share, and returns its answer once durable."""
        if self._closed:
            raise closed_error()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[object] = loop.create_future()
        self._jobs.append(_Job(change, waiter, time.monotonic()))
        self._there.set()
        late = ChangeFailure(unavailable("it did not say in time what became of the change"))
        # The caller gets an answer in time whatever the task is doing; the change may still be committed.
        alarm = loop.call_later(self._limits.answer, resolve, waiter, late)
        try:
            return await waiter
        finally:
            alarm.cancel()

    async def close(self) -> None:
        """Finishes what is waiting, then stops. May be repeated."""
        self._closed = True
        self._there.set()
        # A caller that no longer waits must not cancel a commit.
        await asyncio.shield(self._task)

    async def _run(self) -> None:
        try:
            while group := await self._gather():
                began = time.monotonic()
                for job, answer in zip(group, await self._answers(group), strict=True):
                    resolve(job.waiter, answer)
                if self.watch is not None:
                    self.watch(len(group), began - group[0].since, time.monotonic() - began)
        finally:
            self._closed = True
            # Only after a failure of the task itself is anything left here.
            for job in self._jobs:
                resolve(job.waiter, ChangeFailure(closed_error()))
            await self._disconnect()

    async def _gather(self) -> list[_Job]:
        """Waits for a job, then takes those that are waiting or on their way. Empty: the end."""
        while not self._jobs:
            if self._closed:
                return []
            self._there.clear()
            await self._there.wait()
        # Changes that are on their way join this transaction: a commit waits for the disk, so one for several costs
        # little more than one for one.
        end = time.monotonic() + GATHER_SECONDS
        while self.approaching() and (seconds_left := end - time.monotonic()) > 0 and not self._closed:
            self._there.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._there.wait(), seconds_left)
        # A change that locks rows nobody knows in advance gets a transaction of its own: see `CatalogChange.alone`.
        group: list[_Job] = []
        weight = 0
        oldest = time.monotonic() - self._limits.answer / 2
        while self._jobs and len(group) < MAX_GROUP_CHANGES and weight < MAX_GROUP_BYTES:
            # It begins the next group.
            if group and self._jobs[0].change.alone:
                break
            job = self._jobs.popleft()
            if job.since < oldest:
                # Never begun, and soon too late to be answered in time.
                resolve(job.waiter, ChangeFailure(unavailable("too many changes wait")))
                continue
            group.append(job)
            weight += job.change.weight
            if job.change.alone:
                break
        # The group is empty if all of them were too old.
        return group or await self._gather()

    async def _answers(self, group: list[_Job]) -> list[object]:
        end = time.monotonic() + self._limits.answer / 2
        if len(group) == 1:
            # A change retried alone after its group must not delay those behind it for longer than they can wait.
            end = min(end, group[0].since + self._limits.answer)
        try:
            return await self._commit([job.change for job in group], end)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to one of the group
            fault = _fault(error)
            if len(group) == 1:
                return [ChangeFailure(fault or error)]
            # A database that cannot be reached fails all of them; retried one by one, each would wait for it in vain.
            if fault is not None and _is_everybodys(error):
                return [ChangeFailure(CoatcheckError(fault.code, fault.detail)) for _ in group]
        # One of the group is at fault. Alone, each change gets its own answer, and only that one fails.
        return [(await self._answers([job]))[0] for job in group]

    async def _commit(self, group: Sequence[CatalogChange[Any]], end: float) -> list[object]:
        """Tries until it is committed, fails through its own fault, or time is up."""
        for tries_left in reversed(range(_MAX_ATTEMPTS)):
            try:
                answers = await self._transaction(group, end)
            except Exception as error:
                # Members of a group that deadlocked with another replica's would do so again together.
                circle = len(group) > 1 and sqlstate(error) == DEADLOCK
                if circle or not (is_worth_a_retry(error) and tries_left):
                    self.fault = _fault(error) or self.fault
                    raise
                longest = _RETRY_SECONDS * 2 ** (_MAX_ATTEMPTS - 1 - tries_left)
                await asyncio.sleep(min(random.uniform(0, longest), max(0.0, end - time.monotonic())))  # noqa: S311 - no secret
            else:
                if answers is not None:
                    self.fault = None
                    return answers
        # Every other failure has left the loop as an exception.
        self.fault = unavailable("the connection was lost each time")
        raise self.fault

    async def _transaction(self, group: Sequence[CatalogChange[Any]], end: float) -> list[object] | None:
        """Returns the answers once durable; None if the connection broke and took the transaction with it."""
        if time.monotonic() >= end:
            raise unavailable("it took too long")
        line = await self._connect()
        fresh = not line.used
        # If the answer to the commit is lost, the token tells whether it happened.
        mark = self._commit_tokens.next()

        def work(conn: Connection) -> list[object]:
            mark.leave(conn)
            return carry_out(conn, group, line.enter, self._number)

        try:
            answers = await line.work(work, end - time.monotonic())
        except Exception as error:
            if not line.is_lost:
                await line.undo(end - time.monotonic())
            if line.is_lost or is_of_the_connection(error):
                await self._disconnect()
                # An idle connection may have been closed by the server at any time: only a new one that breaks says
                # that the database is away.
                if fresh or time.monotonic() >= end:
                    raise _fault(error) or unavailable("the connection was lost") from error
                return None
            raise
        try:
            await line.commit(end - time.monotonic())
        except Exception as error:
            # The server itself refused the commit, so it is certain that nothing is durable.
            if not (line.is_lost or is_of_the_connection(error)):
                await line.undo(end - time.monotonic())
                raise
            await self._disconnect()
            # Repeating a transaction that is committed would return other answers: an artifact that it created would be
            # found.
            return answers if await self._was_committed(mark, error) else None
        return answers

    async def _was_committed(self, mark: CommitToken, error: Exception) -> bool:
        """Returns whether a transaction was committed after the answer to its commit was lost."""
        # A quarter of the call's time, after the half that the attempts may take.
        end = time.monotonic() + self._limits.answer / 4
        while time.monotonic() < end:
            try:
                line = await self._connect()
                there = await line.work(mark.is_there, end - time.monotonic())
                await line.undo(end - time.monotonic())
            except Exception as failure:  # noqa: BLE001 - as long as nobody says, nobody knows
                await self._disconnect()
                # A bug, which more attempts would only repeat.
                if _fault(failure) is None:
                    break
                await asyncio.sleep(_LOOK_UP_SECONDS)
            else:
                return there
        raise unavailable("the connection was lost during the commit, which may have succeeded") from error

    async def _connect(self) -> PostgresConnection:
        if self._connection is not None and self._connection.is_lost:
            await self._disconnect()
        if self._connection is None:
            # New rows: a transaction of the lost connection may still hold the lock on the former one.
            self._commit_tokens = CommitTokens()
            self._connection = await PostgresConnection.connect(self._engine, autocommit=False)
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _fault(error: Exception) -> CoatcheckError | None:
    return error if isinstance(error, CoatcheckError) else postgres_fault_of(error)


def _is_everybodys(error: Exception) -> bool:
    """Returns whether no change of the group can be tried alone, because the database could not be reached."""
    return is_of_the_connection(error) or isinstance(error, CoatcheckError)
