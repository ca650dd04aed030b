"""The database's time, known without a query, so that replicas with different clocks agree.

It is this machine's steady clock plus the last known offset of the database's. It never steps back a little; if a clock
was wrong by more and has been corrected, it follows, and logs that. While the database is away, it continues with what
it knew.
"""

import asyncio
import contextlib
import logging
import time
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, text

from coatcheck.adapters.clock import STEADY_CLOCK
from coatcheck.adapters.sql.postgres_pool import PostgresReadPool
from coatcheck.core.errors import CoatcheckError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ASK = text("SELECT clock_timestamp()")
_EVERY = 30.0
_STEP = timedelta(seconds=5)
"""More than a slow answer or a gradually adjusted clock can cause: the database's clock was set."""

log = logging.getLogger(__name__)


class DatabaseClock:
    """The Clock port by the database's clock. `learn` once before the first `now`; `start` keeps it accurate."""

    def __init__(self, pool: PostgresReadPool, *, every: float = _EVERY) -> None:
        """Queries through these connections, every `every` seconds."""
        self._pool = pool
        self._every = every
        self._ahead: int | None = None
        self._last = _EPOCH
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
        if abs(step) > _STEP:
            log.warning("the database's clock was set by %+.0f s: expiry follows the new time", step.total_seconds())
        if self._last - self._moment(self._ahead) > _STEP:
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
    moment: datetime = conn.execute(_ASK).scalar_one()
    after = time.clock_gettime_ns(STEADY_CLOCK)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000 - (before + after) // 2
