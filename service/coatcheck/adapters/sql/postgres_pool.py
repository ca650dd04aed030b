"""Runs queries on PostgreSQL: a few connections, on which each statement is a transaction of its own.

A query runs in a task that continues if its caller is cancelled, so that no connection is left in an unknown state. The
time of a query is limited, so that every such task ends. If a connection has broken while it was idle, the query that
notices this is sent again on another connection. A caller that gets no connection in time learns whether the database
does not respond, or is busy with other queries of this process.

`DatabaseClock` returns the database's time without a query, so that replicas with different clocks agree. It adds the
last known offset of the database's clock to the steady clock of this machine. A small correction never makes it step
back. If the database's clock was set by more than 5 seconds, `DatabaseClock` follows it and logs that. While the
database does not respond, it uses the last known offset.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from coatcheck.adapters.sql.faults import closed_error
from coatcheck.adapters.sql.postgres_connection import PostgresConnection, PostgresLimits
from coatcheck.adapters.sql.postgres_faults import is_worth_a_retry, overload_error, postgres_fault_of, unavailable
from coatcheck.adapters.system import STEADY_CLOCK
from coatcheck.core.errors import CoatcheckError

T = TypeVar("T")


class Tasks:
    """Runs work in tasks that continue if their caller is cancelled."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        """The running tasks. This keeps them alive, since an event loop has only weak references to its tasks."""

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of the work, which runs to its end even if the caller is cancelled."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._discard_task)
        return await asyncio.shield(task)

    async def wait_until_idle(self) -> None:
        """Waits until all work has ended."""
        while self._running:
            await asyncio.wait(self._running)

    def _discard_task(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved; a caller that still waits gets it from the task


class PostgresReadPool:
    """Runs queries concurrently, each on a connection of its own."""

    def __init__(self, engine: AsyncEngine, limits: PostgresLimits) -> None:
        """Opens no connection yet."""
        self._engine = engine
        self._limits = limits
        self._free = asyncio.Semaphore(limits.connections)
        self._idle: list[PostgresConnection] = []
        """Open connections that no query uses, in the order of their last use."""
        self._tasks = Tasks()
        self._closed = False
        self._heard = 0.0
        """When the database last responded to any query, in seconds by the monotonic clock."""

    async def run(self, namespace: str | None, call: Callable[[Connection], T]) -> T:
        """Calls a function with a connection that sees only a namespace; None: it sees all namespaces."""
        if self._closed:
            raise closed_error()
        return await self._tasks.finish(self._run(namespace, call))

    async def close(self) -> None:
        """Lets running queries finish, then closes the connections."""
        self._closed = True
        await self._tasks.wait_until_idle()
        connections, self._idle = self._idle, []
        for connection in connections:
            await connection.close(politely=True)

    async def _run(self, namespace: str | None, call: Callable[[Connection], T]) -> T:
        began = time.monotonic()
        end = began + self._limits.answer
        try:
            # Waiting for a connection may take half of the time, so that the query has the other half.
            async with asyncio.timeout(self._limits.answer / 2):
                await self._free.acquire()
        except TimeoutError:
            # The database has responded to other queries meanwhile, so this process sends it too many.
            if self._heard > began:
                raise overload_error() from None
            raise unavailable("all connections wait for it") from None
        try:
            return await self._query(namespace, call, end)
        except Exception as error:
            fault = postgres_fault_of(error)
            if fault is None:
                raise
            raise fault from error
        finally:
            self._free.release()

    async def _query(self, namespace: str | None, call: Callable[[Connection], T], end: float) -> T:
        while True:
            connection = await self._enter_connection(namespace)
            # `used` is read before `work`, which sets it.
            fresh = not connection.used

            def enter_and_call(conn: Connection, connection: PostgresConnection = connection) -> T:
                connection.enter(conn, namespace)
                return call(conn)

            try:
                answer = await connection.work(enter_and_call, end - time.monotonic())
            except Exception as error:
                is_lost, again = connection.is_lost, is_worth_a_retry(error)
                # An error that the server reports shows that the database responds.
                self._heard = self._heard if is_lost else time.monotonic()
                if again:
                    connection.cut()  # the prepared statements of this connection are outdated
                await self._give_back(connection)
                # A connection that was idle may have broken long ago. The query changes nothing, so it is sent again.
                if not fresh and (is_lost or again) and time.monotonic() < end:
                    continue
                if is_lost:
                    raise unavailable("the connection was lost") from error
                raise
            else:
                self._heard = time.monotonic()
                await self._give_back(connection)
                return answer

    async def _enter_connection(self, namespace: str | None) -> PostgresConnection:
        """Returns an idle connection, preferably one that has entered this namespace; opens one if none is idle."""
        idle = self._idle
        # Search from the end, where the most recently used connections are. A connection that has entered this
        # namespace saves a round trip.
        at = next((i for i in range(len(idle) - 1, -1, -1) if idle[i].has_entered(namespace)), -1)
        while idle:
            connection = idle.pop(at)
            if not connection.is_lost:
                return connection
            await connection.close()
            at = -1
        return await PostgresConnection.connect(self._engine, autocommit=True)

    async def _give_back(self, connection: PostgresConnection) -> None:
        if connection.is_lost:
            await self._drop_idle(connection)
        else:
            self._idle.append(connection)

    async def _drop_idle(self, broken: PostgresConnection) -> None:
        """Closes a broken connection and all idle ones."""
        # If the server went away, all idle connections are broken too, and each would make one more query fail at its
        # first attempt.
        connections, self._idle = [broken, *self._idle], []
        for connection in connections:
            await connection.close()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_READ_CLOCK = text("SELECT clock_timestamp()")
"""Reads the database's clock. `now()` would return the time at which the transaction began."""
_CLOCK_SECONDS = 30.0
"""Seconds between two readings of the database's clock. Two clocks that differ by 100 ppm drift apart by 3 ms in this
time."""
_MAX_CLOCK_STEP = timedelta(seconds=5)
"""Maximum step of the offset that a slow answer or a gradual adjustment may cause. After a larger step, the database's
clock was set."""

log = logging.getLogger(__name__)


class DatabaseClock:
    """Implements the port Clock with the database's clock.

    Call `learn` once before the first `now`. After `start`, the clock is kept accurate in the background.
    """

    def __init__(self, pool: PostgresReadPool, *, every: float = _CLOCK_SECONDS) -> None:
        """Sends no query yet. After `start`, reads the database's clock through `pool` every `every` seconds."""
        self._pool = pool
        self._every = every
        self._ahead: int | None = None
        """Nanoseconds by which the database's clock is ahead of the steady clock; None: not known yet."""
        self._last = _EPOCH
        """The latest time that `now` has returned, so that it never returns an earlier one."""
        self._task: asyncio.Task[None] | None = None

    def now(self) -> datetime:
        """Returns the database's time in UTC, as an aware datetime. Raises RuntimeError before the first `learn`."""
        if self._ahead is None:
            raise RuntimeError("the clock was not learnt")
        self._last = max(self._last, self._moment(self._ahead))
        return self._last

    async def learn(self) -> None:
        """Reads the database's clock. If the query fails, raises its error and keeps the last known offset."""
        before, self._ahead = self._ahead, await self._pool.run(None, _ahead)
        if before is None:
            return
        step = timedelta(microseconds=(self._ahead - before) // 1000)
        if abs(step) > _MAX_CLOCK_STEP:
            log.warning("the database's clock was set by %+.0f s: expiry follows the new time", step.total_seconds())
        # If the database's clock was ahead and was set back, `now` must step back too. Otherwise it would return the
        # same time until the clock has caught up.
        if self._last - self._moment(self._ahead) > _MAX_CLOCK_STEP:
            self._last = _EPOCH

    def start(self) -> None:
        """Begins to read the database's clock regularly, until `stop`."""
        self._task = asyncio.create_task(self._keep(), name="coatcheck-clock")

    async def stop(self) -> None:
        """Stops the regular readings."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @staticmethod
    def _moment(ahead: int) -> datetime:
        return _EPOCH + timedelta(microseconds=(time.clock_gettime_ns(STEADY_CLOCK) + ahead) // 1000)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            with contextlib.suppress(CoatcheckError):
                await self.learn()


def _ahead(conn: Connection) -> int:
    """Returns the nanoseconds by which the database's clock is ahead of the steady clock."""
    before = time.clock_gettime_ns(STEADY_CLOCK)
    moment: datetime = conn.execute(_READ_CLOCK).scalar_one()
    after = time.clock_gettime_ns(STEADY_CLOCK)
    # The server is assumed to have read its clock in the middle of the round trip.
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000 - (before + after) // 2
