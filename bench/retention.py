"""How long a plan takes among a million artifacts, and how fast expiry goes beside ingest, on both databases.

Ratios against something of the same run mean more than the times themselves.
"""

import asyncio
import contextlib
import hashlib
import itertools
import secrets
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bench import expiry
from coatcheck.adapters.redaction_rules import Masks
from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.schema import migrate
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.adapters.system import SystemClock, steady_seconds
from coatcheck.core.artifact import Caller
from coatcheck.core.encoding.frames import new_blob_id
from coatcheck.core.retention.jobs import WHOLE_STORE, RetentionJob, RunOutcome
from coatcheck.jobs.schedule import PeriodicJob, repeat
from coatcheck.ports.telemetry import Clock
from coatcheck.runtime.noop_telemetry import UNMETERED
from coatcheck.storing.find import SessionNames
from coatcheck.storing.ledger import NoteReads, ReadLog
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.upkeep.clock_jumps import ClockJumpGuard
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.upkeep.maintenance import Maintenance, maintenance_lease
from coatcheck.usecases.retention.plan_retention import PlanRetention
from coatcheck.usecases.retention.run_retention import RunRetention
from contract.sample_changes import store
from support.memory_blobs import MemoryBlobStore
from support.postgres import running_postgres

MANY = 1_000_000
GRACE = timedelta(minutes=10)
RATE = 1000
SECONDS = 60
"""Six rounds of the schedule."""
PAUSE = 10.0
"""Seconds between two rounds, as the settings have it."""
CATCH_UP = 60
"""Seconds in which what was overdue at the start goes."""
CALLERS = 4


def run() -> None:
    """Print both tables."""
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'database':>12} | {'plan among a million':<28} | {'artifacts':>9} | {'s':>7}")
        path = Path(folder) / "many.db"
        migrate(sqlite_url(path))
        expiry.fill_sqlite(path, MANY)
        asyncio.run(_on_sqlite(path))
        with running_postgres(Path(folder) / "postgres", durable=True) as server:
            asyncio.run(_on_postgres(server))
            asyncio.run(_rate(server))


async def _on_sqlite(path: Path) -> None:
    catalog = SqliteCatalog.open(path)
    try:
        await _plans("sqlite", catalog)
    finally:
        catalog.close()


async def _on_postgres(server: Any) -> None:  # noqa: ANN401 - a server of the support
    url = server.database()
    migrate(url)
    await asyncio.to_thread(expiry.fill_postgres, server, url, MANY)
    catalog = await PostgresCatalog.open(url)
    try:
        await _plans("postgresql", catalog)
    finally:
        await catalog.close()


def _new_id() -> str:
    return new_blob_id(SystemClock().now(), secrets.token_bytes(10))


async def _plans(name: str, catalog: Any) -> None:  # noqa: ANN401 - either catalogue
    clock = SystemClock()

    async def now() -> datetime:
        return clock.now()

    deletions = _deletion_clock(catalog, clock)
    names = SessionNames(catalog, RedactionPolicy("off", Masks(), ThreadPoolExecutor()))
    plan = PlanRetention(catalog, deletions, _new_id, grace=GRACE, flush_reads=now, session_names=names)
    runs = RunRetention(catalog, deletions, plan, _new_id, me="bench", tombstone_life=timedelta(days=30))
    whole = replace(WHOLE_STORE, namespace="default")
    session = replace(whole, session="s77")
    everything = await _timed(name, "everything of a namespace", lambda: plan(Caller(), RetentionJob.NAMESPACE, whole))
    await _timed(name, "what has expired", lambda: plan(Caller(), RetentionJob.EXPIRE, WHOLE_STORE))
    await _timed(name, "a session", lambda: plan(Caller(), RetentionJob.SESSION, session))
    half = replace(whole, max_bytes=everything.live_bytes // 2)
    await _timed(name, "half of it, evicted", lambda: plan(Caller(), RetentionJob.EVICT, half))
    began = time.perf_counter()
    run = await runs.apply(Caller(), everything.digest, confirm=True)
    asked = time.perf_counter() - began
    assert run.outcome is RunOutcome.RUNNING
    await asyncio.sleep(10)
    await runs.close(0.0)
    run = await catalog.run(run.id)
    took = time.perf_counter() - began - asked
    print(f"{name:>12} | apply, until it has begun      | {run.planned:>9,} | {asked:7.2f}")
    print(f"{name:>12} | removed of it, a second        | {run.artifacts / took:>9,.0f} |")


async def _timed(name: str, what: str, make: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - a Plan
    began = time.perf_counter()
    plan = await make()
    print(f"{name:>12} | {what:<28} | {plan.artifacts:>9,} | {time.perf_counter() - began:7.2f}", flush=True)
    return plan


# ------------------------------------------------------------------------------------------------- the rate


async def _rate(server: Any) -> None:  # noqa: ANN401 - as above
    """Ingest alone, then with RATE artifacts a second expiring, tidied by three replicas."""
    print(f"\n{'postgresql, 3 replicas':>24} | {'ingests/s':>9} | p99 ms | expiries/s | most overdue s")
    alone = await _round(server, expiring=False)
    beside = await _round(server, expiring=True)
    for name, (rate, p99, expired, overdue) in (("ingest alone", alone), ("ingest and expiry", beside)):
        print(f"{name:>24} | {rate:9,.0f} | {p99:6.1f} | {expired:10,.0f} | {overdue:.1f}")
    print(f"{'ratio':>24} | {beside[0] / alone[0]:9.2f} | {beside[1] / alone[1]:6.2f} |")


async def _round(server: Any, *, expiring: bool) -> tuple[float, float, float, float]:  # noqa: ANN401 - as above
    """Steady expiry: what is overdue at the start goes before the clock starts."""
    url = server.database()
    migrate(url)
    count = RATE * (60 + CATCH_UP + SECONDS + 60)
    # So many expire each second, from a minute ago to long after the end of the round.
    await asyncio.to_thread(expiry.fill_postgres, server, url, 10_000, expired=count, apart=1_000_000 // RATE)
    catalogs = [await PostgresCatalog.open(url) for _ in range(3)]
    stop = asyncio.Event()
    try:
        tidying = [
            asyncio.create_task(
                repeat(PeriodicJob(name="maintenance", work=_tidy(catalog, name), pause=PAUSE), stop, UNMETERED)
            )
            for name, catalog in enumerate(catalogs if expiring else [])
        ]
        if expiring:
            await asyncio.sleep(CATCH_UP)
        buried = await _buried(catalogs[0])
        began = time.perf_counter()
        watching = asyncio.create_task(_overdue(catalogs[0], stop))
        times = await asyncio.gather(*(_ingest(catalogs[n % 3], n, began + SECONDS) for n in range(CALLERS)))
        took = time.perf_counter() - began
        buried = await _buried(catalogs[0]) - buried
        stop.set()
        await asyncio.gather(*tidying)
        overdue = await watching
    finally:
        for catalog in catalogs:
            await catalog.close()
    all_times = sorted(itertools.chain.from_iterable(times))
    p99 = 1000 * statistics.quantiles(all_times, n=100)[98]
    return len(all_times) / took, p99, buried / took, overdue if expiring else 0.0


def _tidy(catalog: PostgresCatalog, name: int) -> Maintenance:
    """As a replica has it; all bytes are inline."""
    reads = ReadLog()
    return Maintenance(
        catalog,
        MemoryBlobStore(catalog.clock),
        _deletion_clock(catalog, catalog.clock),
        reads,
        NoteReads(catalog, reads),
        tombstone_life=timedelta(days=30),
        grace=GRACE,
        leader=maintenance_lease(catalog, catalog.clock, f"replica {name}", PAUSE),
        retention=catalog,
    )


def _deletion_clock(catalog: Any, clock: Clock) -> ClockJumpGuard:  # noqa: ANN401 - either catalogue
    return ClockJumpGuard(clock, JobSchedule(catalog, clock, default=PAUSE), steady_seconds)


async def _buried(catalog: PostgresCatalog) -> int:
    """How many artifacts the schedule's runs have removed; each transaction adds its own."""
    runs = await catalog.list_runs(job="expire", outcome=None, before=None, limit=50)
    return sum(run.artifacts for run in runs)


async def _ingest(catalog: PostgresCatalog, caller: int, end: float) -> list[float]:
    times: list[float] = []
    for n in itertools.count():
        now = catalog.clock.now()
        content = hashlib.sha256(f"{caller} {n}".encode()).digest() * 100
        change = store(content, namespace=f"space{caller}", now=now, blob_id=_new_id())
        began = time.perf_counter()
        if began >= end:
            return times
        await catalog.commit(change)
        times.append(time.perf_counter() - began)
        await asyncio.sleep(0.02)  # a steady load, not all that there is room for
    raise AssertionError


async def _overdue(catalog: PostgresCatalog, stop: asyncio.Event) -> float:
    """The most that anything was overdue."""
    most = 0.0
    while not stop.is_set():
        found = await catalog.overdue(datetime.now(UTC), 1)  # noqa: TID251 - a benchmark's own clock
        if found.oldest is not None:
            most = max(most, (datetime.now(UTC) - found.oldest).total_seconds())  # noqa: TID251 - as above
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1.0)
    return most
