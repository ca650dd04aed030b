"""Queries to PostgreSQL: a few connections, each statement a transaction of its own.

A query runs in a task that its caller's cancellation does not reach, so that no connection is left in an unknown state;
its time is limited, so no such task remains. A connection that broke while idle is replaced once for the query that
finds out. A caller that got no connection in time learns whether the database does not respond, or others keep it busy.

`DatabaseClock` tells the database's time without a query, so that replicas with different clocks agree. It is this
machine's steady clock plus the last known offset of the database's. It never steps back a little; if a clock was wrong
by more and has been corrected, it follows, and logs that. While the database is away, it continues with what it knew.
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
    """Work that continues when its caller no longer waits."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        """Keeps the tasks alive: an event loop refers to its tasks only weakly."""

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
            task.exception()  # the caller gets it, if it still waits


class PostgresReadPool:
    """Runs reads, each on a connection of its own."""

    def __init__(self, engine: AsyncEngine, limits: PostgresLimits) -> None:
        """Opens no connection yet."""
        self._engine = engine
        self._limits = limits
        self._free = asyncio.Semaphore(limits.connections)
        self._idle: list[PostgresConnection] = []
        """Open connections that nobody uses, the last used one at the end."""
        self._tasks = Tasks()
        self._closed = False
        self._heard = 0.0
        """When the database last responded to anybody."""

    async def run(self, namespace: str | None, call: Callable[[Connection], T]) -> T:
        """Calls a function with a connection that has entered a namespace; None: one that sees all."""
        if self._closed:
            raise closed_error()
        return await self._tasks.finish(self._run(namespace, call))

    async def close(self) -> None:
        """Lets running queries finish, then closes the connections."""
        self._closed = True
        await self._tasks.wait_until_idle()
        lines, self._idle = self._idle, []
        for line in lines:
            await line.close(politely=True)

    async def _run(self, namespace: str | None, call: Callable[[Connection], T]) -> T:
        began = time.monotonic()
        end = began + self._limits.answer
        try:
            # Half of the time for getting a connection, so that the query has the other half.
            async with asyncio.timeout(self._limits.answer / 2):
                await self._free.acquire()
        except TimeoutError:
            # The database responds to others, so it is not silent: this process asks too much of it.
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
            # Read first, because `work` sets it.
            fresh = not connection.used

            def enter_and_call(conn: Connection, line: PostgresConnection = connection) -> T:
                line.enter(conn, namespace)
                return call(conn)

            try:
                answer = await connection.work(enter_and_call, end - time.monotonic())
            except Exception as error:
                is_lost, again = connection.is_lost, is_worth_a_retry(error)
                # An error that the server reports is a response: the database is there.
                self._heard = self._heard if is_lost else time.monotonic()
                if again:
                    connection.cut()  # its prepared statements are out of date
                await self._back(connection)
                # A connection that had been idle may have broken long ago: the query, which changes nothing, is sent
                # again.
                if not fresh and (is_lost or again) and time.monotonic() < end:
                    continue
                if is_lost:
                    raise unavailable("the connection was lost") from error
                raise
            else:
                self._heard = time.monotonic()
                await self._back(connection)
                return answer

    async def _enter_connection(self, namespace: str | None) -> PostgresConnection:
        """Returns an idle connection, preferably an open one; else a new one."""
        idle = self._idle
        # From the end, the most recently used first: one that has entered this namespace saves a round trip.
        at = next((i for i in range(len(idle) - 1, -1, -1) if idle[i].has_entered(namespace)), -1)
        while idle:
            line = idle.pop(at)
            if not line.is_lost:
                return line
            await line.close()
            at = -1
        return await PostgresConnection.connect(self._engine, autocommit=True)

    async def _back(self, line: PostgresConnection) -> None:
        if line.is_lost:
            await self._drop_idle(line)
        else:
            self._idle.append(line)

    async def _drop_idle(self, broken: PostgresConnection) -> None:
        """Drops all connections that were idle when one broke."""
        # A server that went away took all of them with it: each would fail one more query's first attempt.
        lines, self._idle = [broken, *self._idle], []
        for line in lines:
            await line.close()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_READ_CLOCK = text("SELECT clock_timestamp()")
"""Not `now()`, which is the moment when its transaction began."""
_CLOCK_SECONDS = 30.0
"""Seconds between two readings of the database's clock. Monotonic clocks drift apart by some 3 ms in that time, at 100
ppm."""
_MAX_CLOCK_STEP = timedelta(seconds=5)
"""More than a slow answer or a gradually adjusted clock can cause: the database's clock was set."""

log = logging.getLogger(__name__)


class DatabaseClock:
    """The Clock port by the database's clock. `learn` once before the first `now`; `start` keeps it accurate."""

    def __init__(self, pool: PostgresReadPool, *, every: float = _CLOCK_SECONDS) -> None:
        """Queries through these connections, every `every` seconds."""
        self._pool = pool
        self._every = every
        self._ahead: int | None = None
        """Nanoseconds from the steady clock to the database's; None: not learnt yet."""
        self._last = _EPOCH
        """The latest time that `now` has returned, so that it never returns an earlier one."""
        self._task: asyncio.Task[None] | None = None

    def now(self) -> datetime:
        """Returns the database's time, aware, in UTC, to the microsecond."""
        if self._ahead is None:
            raise RuntimeError("the clock was not learnt")
        self._last = max(self._last, self._moment(self._ahead))
        return self._last

    async def learn(self) -> None:
        """Queries the database. Raises what the query raises; the last known offset stays."""
        before, self._ahead = self._ahead, await self._pool.run(None, _ahead)
        if before is None:
            return
        step = timedelta(microseconds=(self._ahead - before) // 1000)
        if abs(step) > _MAX_CLOCK_STEP:
            log.warning("the database's clock was set by %+.0f s: expiry follows the new time", step.total_seconds())
        # The database's clock was ahead and was set back: `now` would otherwise stand still until the time has caught
        # up.
        if self._last - self._moment(self._ahead) > _MAX_CLOCK_STEP:
            self._last = _EPOCH

    def start(self) -> None:
        """Queries again from time to time, until `stop`."""
        self._task = asyncio.create_task(self._keep(), name="coatcheck-clock")

    async def stop(self) -> None:
        """Stops the queries."""
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
    """Returns the nanoseconds from the steady clock to the database's, minus half of the round trip."""
    before = time.clock_gettime_ns(STEADY_CLOCK)
    moment: datetime = conn.execute(_READ_CLOCK).scalar_one()
    after = time.clock_gettime_ns(STEADY_CLOCK)
    # The middle of the round trip is the best guess at when the server read its clock.
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000 - (before + after) // 2
