"""The database's time, known without asking: replicas whose own clocks differ agree by it.

It is this machine's steady clock plus what the database's was ahead of it when it was last asked. It never runs
backwards. While the database is away it goes on by what it knew.
"""

import asyncio
import contextlib
import time
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, text

from coatcheck.adapters.sql.postgres_pool import LinePool
from coatcheck.core.errors import CoatcheckError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ASK = text("SELECT clock_timestamp()")
_EVERY = 30.0
# Linux's CLOCK_MONOTONIC stands still while the machine sleeps.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class DatabaseClock:
    """The Clock port by the database's clock. `learn` once before the first `now`; `start` keeps it true."""

    def __init__(self, pool: LinePool, *, every: float = _EVERY) -> None:
        """Ask through these connections, every so many seconds."""
        self._pool = pool
        self._every = every
        self._ahead: int | None = None
        self._last = _EPOCH
        self._task: asyncio.Task[None] | None = None

    def now(self) -> datetime:
        """The moment by the database's clock, aware, in UTC, to the microsecond."""
        if self._ahead is None:
            raise RuntimeError("the clock was not learnt")
        moment = _EPOCH + timedelta(microseconds=(time.clock_gettime_ns(_STEADY) + self._ahead) // 1000)
        self._last = max(self._last, moment)
        return self._last

    async def learn(self) -> None:
        """Ask the database. Raises what asking raises; what was known stays."""
        self._ahead = await self._pool.run(None, _ahead)

    def start(self) -> None:
        """Ask again from time to time, until `stop`."""
        self._task = asyncio.create_task(self._keep(), name="coatcheck-clock")

    async def stop(self) -> None:
        """Ask no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            with contextlib.suppress(CoatcheckError):
                await self.learn()


def _ahead(conn: Connection) -> int:
    """Nanoseconds from the steady clock to the database's; half of the way there and back is taken off."""
    before = time.clock_gettime_ns(_STEADY)
    moment: datetime = conn.execute(_ASK).scalar_one()
    after = time.clock_gettime_ns(_STEADY)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000 - (before + after) // 2
