"""Group commit on PostgreSQL: one task, one connection, as many waiting changes as possible in one transaction.

While one group is being committed, the next group gathers. It waits up to 3 ms for changes that are known to be on
their way; a single caller never waits. If a group fails, its transaction is rolled back, and its changes are tried one
by one, unless the database itself has failed. If the answer to a commit is lost, the writer looks up the commit token
of the transaction: a caller is told that its change is durable, or that it is not, only when this is certain.

A commit token identifies a transaction after the answer to its commit was lost. Each transaction writes a unique word
into a row that only its own connection uses. A later query for that row waits for the row's lock, so the transaction
has ended when the query reads the row: the word is there exactly if the transaction was committed. The transaction ID
of PostgreSQL would not do: after a crash, IDs of lost transactions are reused, and another transaction's commit could
be mistaken for ours.
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
"""Tokens that are written to one row before the next row is used. A row that is rewritten forever gets slower with each
write while something, such as a backup, keeps the old versions of rows alive."""

# `at` is set by the server's clock. Maintenance deletes rows whose `at` is long past: see `forget`.
_ROW = upsert(writers).values(id=bindparam("id"), nonce=bindparam("nonce"), at=func.clock_timestamp(type_=UtcDateTime))
_LEAVE = Prepared(
    _ROW.on_conflict_do_update(
        index_elements=[writers.c.id], set_={"nonce": _ROW.excluded.nonce, "at": _ROW.excluded.at}
    )
)
# Inserts the row if there is none, since a plain query would not wait for a row that is about to be inserted.
_READ_NONCE = Prepared(
    _ROW.on_conflict_do_update(index_elements=[writers.c.id], set_={"at": writers.c.at}).returning(writers.c.nonce)
)


class CommitToken(NamedTuple):
    """The token of a transaction, and the row that it is written to."""

    row: str
    """The key of a row in `writers`, which the transactions of one connection rewrite one after the other."""
    nonce: bytes
    """A random word that no other transaction has."""

    def leave(self, conn: Connection) -> None:
        """Writes the token in the open transaction."""
        _LEAVE.run(conn, {"id": self.row, "nonce": self.nonce})

    def is_there(self, conn: Connection) -> bool:
        """Returns whether the token's transaction was committed; waits until that transaction has ended.

        The query writes to the row, so the caller must roll back its own transaction afterwards.
        """
        return _READ_NONCE.rows(conn, {"id": self.row, "nonce": os.urandom(16)})[0][0] == self.nonce


class CommitTokens:
    """The tokens of one connection.

    Each connection has rows of its own, so that nobody has to wait for the lock of a broken connection.
    """

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
"""Attempts at a transaction that conflicts with other replicas. Each attempt sees a later state of the rows."""
_LOOK_UP_SECONDS = 0.1
"""Seconds between two look-ups of a commit token."""
_RETRY_SECONDS = 0.02
"""Maximum seconds that a transaction waits before its second attempt; the maximum doubles with each further attempt.
The actual time is random: otherwise two replicas that lock the same rows in a different order would keep in step and
conflict again."""


class _Job(NamedTuple):
    """A change, and the future on which its caller waits."""

    change: CatalogChange[Any]
    waiter: "asyncio.Future[object]"
    """Receives the answer or the error. If the caller is cancelled, its change is carried out nevertheless."""
    since: float
    """When the caller requested the change, in seconds by the monotonic clock."""


class PostgresWriter(ChangeWriter):
    """The only writer of this process to the database."""

    def __init__(self, engine: AsyncEngine, limits: PostgresLimits, number: Numberer) -> None:
        """Starts the writer's task, which connects to the database when the first change comes."""
        super().__init__()
        self._engine = engine
        self._limits = limits
        self._number = number
        self._connection: PostgresConnection | None = None
        self._commit_tokens = CommitTokens()
        self._jobs: deque[_Job] = deque()
        self._wake_up = asyncio.Event()
        """Is set to wake the task, when a change has come or the writer is closed."""
        self._closed = False
        self._task = asyncio.create_task(self._run(), name="coatcheck-writer")

    @override
    async def carry_out(self, change: CatalogChange[Any]) -> object:
        """Carries out a change, perhaps in one transaction with others, and returns its answer once it is durable."""
        if self._closed:
            raise closed_error()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[object] = loop.create_future()
        self._jobs.append(_Job(change, waiter, time.monotonic()))
        self._wake_up.set()
        late = ChangeFailure(unavailable("it did not say in time what became of the change"))
        # The caller gets this error in time, whatever the task is doing. The change may still be committed later.
        alarm = loop.call_later(self._limits.answer, resolve, waiter, late)
        try:
            return await waiter
        finally:
            alarm.cancel()

    async def close(self) -> None:
        """Carries out the changes that wait, then stops. A second call does nothing."""
        self._closed = True
        self._wake_up.set()
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
            # Changes are left here only if the task itself has failed.
            for job in self._jobs:
                resolve(job.waiter, ChangeFailure(closed_error()))
            await self._disconnect()

    async def _gather(self) -> list[_Job]:
        """Waits for a change, then returns the next group; an empty one if the writer is closed and no change waits."""
        while not self._jobs:
            if self._closed:
                return []
            self._wake_up.clear()
            await self._wake_up.wait()
        # Changes that are on their way join this transaction. A commit waits for the disk, so a commit of several
        # changes costs little more than a commit of one.
        end = time.monotonic() + GATHER_SECONDS
        while self.approaching() and (seconds_left := end - time.monotonic()) > 0 and not self._closed:
            self._wake_up.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake_up.wait(), seconds_left)
        # If it is not known in advance which rows a change locks, the change gets a transaction of its own: see
        # `CatalogChange.alone`.
        group: list[_Job] = []
        weight = 0
        oldest = time.monotonic() - self._limits.answer / 2
        while self._jobs and len(group) < MAX_GROUP_CHANGES and weight < MAX_GROUP_BYTES:
            # A change that needs a transaction of its own begins the next group.
            if group and self._jobs[0].change.alone:
                break
            job = self._jobs.popleft()
            if job.since < oldest:
                # The change was not begun, and could hardly be answered in time any more.
                resolve(job.waiter, ChangeFailure(unavailable("too many changes wait")))
                continue
            group.append(job)
            weight += job.change.weight
            if job.change.alone:
                break
        # The group is empty if all waiting changes were too old: then wait for the next one.
        return group or await self._gather()

    async def _answers(self, group: list[_Job]) -> list[object]:
        end = time.monotonic() + self._limits.answer / 2
        if len(group) == 1:
            # A change that is tried again alone, after its group has failed, must not take so long that the changes
            # that wait for it cannot be answered in time.
            end = min(end, group[0].since + self._limits.answer)
        try:
            return await self._commit([job.change for job in group], end)
        except Exception as error:  # noqa: BLE001 - whatever the error is, a change of the group gets it
            fault = _fault(error)
            if len(group) == 1:
                return [ChangeFailure(fault or error)]
            # If the database cannot be reached, the whole group fails, since each change alone would wait in vain.
            if fault is not None and _concerns_all(error):
                return [ChangeFailure(CoatcheckError(fault.code, fault.detail)) for _ in group]
        # One change of the group is at fault. Tried alone, each change gets its own answer, and only that one fails.
        return [(await self._answers([job]))[0] for job in group]

    async def _commit(self, group: Sequence[CatalogChange[Any]], end: float) -> list[object]:
        """Tries until the group is committed, one of its changes is at fault, or the time until `end` is used up."""
        for tries_left in reversed(range(_MAX_ATTEMPTS)):
            try:
                answers = await self._transaction(group, end)
            except Exception as error:
                # If two replicas' groups have deadlocked, they would do so again. Changes are then tried one by one.
                is_deadlock = len(group) > 1 and sqlstate(error) == DEADLOCK
                if is_deadlock or not (is_worth_a_retry(error) and tries_left):
                    self.fault = _fault(error) or self.fault
                    raise
                longest = _RETRY_SECONDS * 2 ** (_MAX_ATTEMPTS - 1 - tries_left)
                await asyncio.sleep(min(random.uniform(0, longest), max(0.0, end - time.monotonic())))  # noqa: S311 - no secret
            else:
                if answers is not None:
                    self.fault = None
                    return answers
        # Every other failure has ended the loop by an exception.
        self.fault = unavailable("the connection was lost each time")
        raise self.fault

    async def _transaction(self, group: Sequence[CatalogChange[Any]], end: float) -> list[object] | None:
        """Returns the answers once they are durable; None if the connection broke and nothing was committed."""
        if time.monotonic() >= end:
            raise unavailable("it took too long")
        connection = await self._connect()
        fresh = not connection.used
        # If the answer to the commit is lost, this token shows whether the transaction was committed.
        token = self._commit_tokens.next()

        def work(conn: Connection) -> list[object]:
            token.leave(conn)
            return carry_out(conn, group, connection.enter, self._number)

        try:
            answers = await connection.work(work, end - time.monotonic())
        except Exception as error:
            if not connection.is_lost:
                await connection.undo(end - time.monotonic())
            if connection.is_lost or is_of_the_connection(error):
                await self._disconnect()
                # The server may close an idle connection at any time. Only a new connection that breaks shows that the
                # database cannot be reached.
                if fresh or time.monotonic() >= end:
                    raise _fault(error) or unavailable("the connection was lost") from error
                return None
            raise
        try:
            await connection.commit(end - time.monotonic())
        except Exception as error:
            # The server itself has refused the commit, so it is certain that nothing is durable.
            if not (connection.is_lost or is_of_the_connection(error)):
                await connection.undo(end - time.monotonic())
                raise
            await self._disconnect()
            # A committed transaction must not be repeated, because the answers would differ: an artifact that it has
            # created would now exist already.
            return answers if await self._was_committed(token, error) else None
        return answers

    async def _was_committed(self, token: CommitToken, error: Exception) -> bool:
        """Returns whether a transaction was committed after the answer to its commit was lost."""
        # The look-up may take a quarter of the call's time; the attempts before it may take half of it.
        end = time.monotonic() + self._limits.answer / 4
        while time.monotonic() < end:
            try:
                connection = await self._connect()
                is_committed = await connection.work(token.is_there, end - time.monotonic())
                await connection.undo(end - time.monotonic())
            except Exception as failure:  # noqa: BLE001 - until a look-up succeeds, the result is unknown
                await self._disconnect()
                # Any other error is a bug, which more attempts would only repeat.
                if _fault(failure) is None:
                    break
                await asyncio.sleep(_LOOK_UP_SECONDS)
            else:
                return is_committed
        raise unavailable("the connection was lost during the commit, which may have succeeded") from error

    async def _connect(self) -> PostgresConnection:
        if self._connection is not None and self._connection.is_lost:
            await self._disconnect()
        if self._connection is None:
            # A new connection uses new rows: a transaction of the lost one may still hold the lock of its row.
            self._commit_tokens = CommitTokens()
            self._connection = await PostgresConnection.connect(self._engine, autocommit=False)
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _fault(error: Exception) -> CoatcheckError | None:
    return error if isinstance(error, CoatcheckError) else postgres_fault_of(error)


def _concerns_all(error: Exception) -> bool:
    """Returns whether an error concerns every change of a group, because the database could not be reached."""
    return is_of_the_connection(error) or isinstance(error, CoatcheckError)
