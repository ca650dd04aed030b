"""The database's clock jumps: every replica stops deleting, and they agree when it is over."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.system import steady_seconds
from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.retention import Retention
from coatcheck.upkeep.clock_jumps import MAX_DRIFT, ClockJumpGuard
from coatcheck.upkeep.job_schedule import JobSchedule
from support.postgres import connect

SHIFTED = """
CREATE SCHEMA shifted;
CREATE TABLE shifted.shift (days integer);
INSERT INTO shifted.shift VALUES (0);
GRANT ALL ON SCHEMA shifted TO PUBLIC;
GRANT ALL ON shifted.shift TO PUBLIC;
CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
    AS 'SELECT pg_catalog.clock_timestamp() + make_interval(days => days) FROM shifted.shift';
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET search_path = shifted, public, pg_catalog', current_database());
END $$;
"""
"""The clock of a database as its clients see it: a function that comes before the system's own."""


async def _run(url: str, statements: str) -> None:
    connection = await connect(url)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


class Replica:
    """A process over the database, whose clock it learns when a test says so."""

    def __init__(self, catalog: PostgresCatalog) -> None:
        rereads: Callable[[], float] = itertools.count(step=10.0).__next__
        retention: Retention = catalog
        self.clock = catalog.clock
        schedule = JobSchedule(retention, self.clock, default=10, monotonic=rereads)
        self.guard = ClockJumpGuard(self.clock, schedule, steady_seconds, self.clock.learn)

    def deletes(self) -> bool:
        """Whether it would delete now."""
        try:
            self.guard.deletion_time()
        except CoatcheckError:
            return False
        return True


@pytest.fixture
async def start_replica(url: str) -> AsyncIterator[Callable[[], Awaitable[Replica]]]:
    await _run(url, SHIFTED)
    async with AsyncExitStack() as stack:

        async def start() -> Replica:
            catalog = await PostgresCatalog.open(url)
            stack.push_async_callback(catalog.close)
            replica = Replica(catalog)
            await replica.guard.check()
            return replica

        yield start


async def test_replicas_stop_deleting_and_go_on_together(
    url: str, start_replica: Callable[[], Awaitable[Replica]]
) -> None:
    start = start_replica
    first, second = await start(), await start()
    assert (first.deletes(), second.deletes()) == (True, True)  # the control
    await _run(url, "UPDATE shifted.shift SET days = 400")
    await first.clock.learn()
    assert not first.deletes()
    await first.guard.check()
    await second.guard.check()
    third = await start()
    assert abs(second.guard.drift) < MAX_DRIFT  # it has not learned of the jump itself
    assert abs(third.guard.drift) < MAX_DRIFT  # it started after the jump
    assert (second.deletes(), third.deletes()) == (False, False)
    await _run(url, "UPDATE shifted.shift SET days = 0")
    await first.clock.learn()
    for replica in (first, second, third, first):
        await replica.guard.check()
    assert [replica.deletes() for replica in (first, second, third)] == [True] * 3
    assert abs(third.clock.now() - first.clock.now()) < timedelta(minutes=1)
