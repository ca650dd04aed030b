"""Upkeep by several replicas at once: each thing is done once, by the database's clock, along an index."""
# pyright: reportPrivateUsage=false

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, event

from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.postgres_connection import PostgresLimits
from coatcheck.core.artifact import DeclaredMetadata, Gone
from coatcheck.ports.artifacts import DeleteArtifact, DeleteSession, IngestResult, PatchArtifact, StoreArtifact, Touch
from coatcheck.ports.blobs import BeginUpload
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.maintenance import ExpireArtifacts, ForgetBlobs, PurgeRecords, ReapUploads, TakeLease
from contract.sample_changes import DAY, START, fresh_blob_id, number_of, store
from support.catalogs import open_replicas
from support.postgres import connect

REPLICAS = 3
HOUR = timedelta(hours=1)


@pytest.fixture
async def replicas(url: str) -> AsyncIterator[list[PostgresCatalog]]:
    async with open_replicas(url, REPLICAS) as opened:
        yield opened


async def test_sweeps_at_once_bury_each_artifact_once(replicas: list[PostgresCatalog]) -> None:
    changes = [store(b"%d" % (i % 60), ttl=10 + i % 3, namespace=f"n{i % 3}") for i in range(180)]
    await asyncio.gather(*map(replicas[0].commit, changes))
    now = START + HOUR

    async def sweep(catalog: PostgresCatalog) -> int:
        counts = [await catalog.commit(ExpireArtifacts(now=now, tombstone_until=now + DAY, limit=20))]
        while counts[-1]:
            counts.append(await catalog.commit(ExpireArtifacts(now=now, tombstone_until=now + DAY, limit=20)))
        return sum(counts)

    counted = await asyncio.gather(*map(sweep, replicas))
    # A sweep that finds everything taken by others stops early: what is left is the next one's.
    assert sum(counted) + await sweep(replicas[0]) == len(changes)
    found = [await replicas[0].find(change.namespace, number_of(change), now) for change in changes]
    assert {type(each) for each in found} == {Gone}
    dead = await replicas[0].dead_blobs(datetime(2100, 1, 1, tzinfo=UTC), 500)
    assert len(dead) == len({(change.namespace, change.blob.sha256) for change in changes})


async def test_late_uploads_and_old_records_are_taken_once_by_sweeps_at_once(replicas: list[PostgresCatalog]) -> None:
    for _ in range(40):
        await replicas[0].commit(
            BeginUpload(namespace="acme", blob_id=fresh_blob_id(), placement="file", lease_until=START)
        )
    changes = [store(b"%d" % i) for i in range(40)]
    await asyncio.gather(*map(replicas[0].commit, changes))
    for change in changes:
        await replicas[0].commit(
            DeleteArtifact(namespace="acme", number=number_of(change), now=START, tombstone_until=START + HOUR)
        )
    now = START + DAY
    reaped = await asyncio.gather(*(c.commit(ReapUploads(now=now, limit=15)) for c in replicas))
    purged = await asyncio.gather(*(c.commit(PurgeRecords(now=now, limit=15)) for c in replicas))
    rest = [
        await replicas[0].commit(ReapUploads(now=now, limit=99)),
        await replicas[0].commit(PurgeRecords(now=now, limit=99)),
    ]
    assert (sum(reaped) + rest[0], sum(purged) + rest[1]) == (40, 40)
    dead = await replicas[0].dead_blobs(now + DAY, 200)
    assert len(dead) == 80
    names = tuple((blob.namespace, blob.id) for blob in dead)
    await asyncio.gather(*(c.commit(ForgetBlobs(blobs=names)) for c in replicas))
    assert await replicas[0].dead_blobs(now + DAY, 200) == []


async def test_everything_at_once_from_three_replicas_ends_without_an_error_and_consistently(
    url: str, replicas: list[PostgresCatalog]
) -> None:
    rng = random.Random(3)
    said = [DeclaredMetadata(tool_call_id=str(i), session=f"s{i % 3}") for i in range(12)]

    def change(now: datetime) -> StoreArtifact:
        ttl = rng.choice([None, 5, 50])
        return store(b"%d" % rng.randrange(6), said=rng.choice(said), now=now, ttl=ttl, idle_ttl=rng.choice([None, 9]))

    async def client(catalog: PostgresCatalog) -> None:
        for step in range(40):
            now = START + timedelta(seconds=step)
            number = number_of(change(now))
            ends: dict[str, Any] = {"now": now, "tombstone_until": now + timedelta(seconds=20)}
            session = f"s{rng.randrange(3)}"
            patch = PatchArtifact(namespace="acme", number=number, now=now, ttl=rng.choice([None, 30]))
            calls: list[Callable[[], Awaitable[Any]]] = [
                partial(catalog.commit, change(now)),
                partial(catalog.commit, change(now)),
                partial(catalog.commit, DeleteArtifact(namespace="acme", number=number, **ends)),
                partial(catalog.commit, ExpireArtifacts(limit=5, **ends)),
                partial(catalog.commit, DeleteSession(namespace="acme", session=session, limit=4, **ends)),
                partial(catalog.commit, patch),
                partial(catalog.commit, Touch(reads=(("acme", number, now),))),
                partial(catalog.commit, PurgeRecords(now=now, limit=5)),
                partial(swept, catalog, now),
            ]
            await rng.choice(calls)()

    async def swept(catalog: PostgresCatalog, now: datetime) -> None:
        dead = await catalog.dead_blobs(now, 9)
        await catalog.commit(ForgetBlobs(blobs=tuple((blob.namespace, blob.id) for blob in dead)))

    await asyncio.gather(*(client(catalog) for catalog in replicas for _ in range(6)))
    conn = await connect(url)
    await conn.execute("SET coatcheck.upkeep = 'on'")
    wrong = await conn.fetchrow(
        """SELECT
        (SELECT count(*) FROM artifacts a JOIN blobs b ON b.seq = a.blob_seq WHERE b.dead_at IS NOT NULL) AS on_dead,
        (SELECT count(*) FROM blobs b WHERE dead_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM artifacts a WHERE a.blob_seq = b.seq)) AS unused,
        (SELECT count(*) FROM blobs b FULL JOIN inline_bytes i ON i.blob_seq = b.seq
           WHERE b.seq IS NULL OR i.blob_seq IS NULL) AS torn"""
    )
    await conn.close()
    assert dict(wrong) == {"on_dead": 0, "unused": 0, "torn": 0}


async def test_replicas_agree_on_the_time_and_no_sweep_believes_a_clock_that_is_an_hour_ahead(
    replicas: list[PostgresCatalog],
) -> None:
    moments = [catalog.clock.now() for catalog in replicas]
    assert max(moments) - min(moments) < timedelta(seconds=1)
    true = moments[0]
    wrong = true + HOUR
    soon = store(b"soon", now=true, ttl=600)
    gone = store(b"gone", now=true)
    for change in (soon, gone):
        assert isinstance(await replicas[0].commit(change), IngestResult)
    blob_id = fresh_blob_id()
    lease = true + timedelta(seconds=600)
    await replicas[0].commit(BeginUpload(namespace="acme", blob_id=blob_id, placement="file", lease_until=lease))
    await replicas[0].commit(DeleteArtifact(namespace="acme", number=number_of(gone), now=lease, tombstone_until=lease))
    ahead = replicas[1]
    assert await ahead.commit(ExpireArtifacts(now=wrong, tombstone_until=wrong + DAY, limit=9)) == 0
    assert await ahead.commit(ReapUploads(now=wrong, limit=9)) == 0
    purge = PurgeRecords(now=wrong, limit=9, audit_life=timedelta(minutes=30))
    assert await ahead.commit(purge) == 0
    assert await ahead.dead_blobs(wrong, 9) == []
    assert isinstance(await ahead.find("acme", number_of(soon), true), FoundArtifact)


async def test_leases_go_by_the_databases_clock_alone(url: str, replicas: list[PostgresCatalog]) -> None:
    def wanted(holder: str, now: datetime) -> TakeLease:
        return TakeLease(name="sweep", holder=holder, seconds=60, now=now)

    true = replicas[0].clock.now()
    assert await replicas[0].commit(wanted("a", true - HOUR)) is True
    assert await replicas[1].commit(wanted("b", true + HOUR)) is False
    conn = await connect(url)
    await conn.execute("UPDATE leases SET until = clock_timestamp() - interval '1 second'")
    await conn.close()
    assert await replicas[1].commit(wanted("b", true - HOUR)) is True
    assert await replicas[0].commit(wanted("a", true + HOUR)) is False


async def test_the_clock_goes_on_while_the_database_is_away_and_never_back(replicas: list[PostgresCatalog]) -> None:
    clock = replicas[0].clock
    first = clock.now()
    clock._ahead = (clock._ahead or 0) - 10**10  # as after a correction by ten seconds
    assert clock.now() == first
    await clock.learn()
    assert timedelta() <= clock.now() - first < timedelta(seconds=5)


async def test_a_clock_that_was_set_wrong_and_right_again_is_followed_both_times(
    replicas: list[PostgresCatalog], caplog: pytest.LogCaptureFixture
) -> None:
    clock = replicas[0].clock
    true = clock.now()
    clock._ahead = (clock._ahead or 0) + 3600 * 10**9  # as learnt while the database's clock was an hour ahead
    assert clock.now() - true >= HOUR
    await clock.learn()
    # Asked twice, the database's clock is the same to within half of the way there and back.
    assert timedelta(seconds=-5) < clock.now() - true < timedelta(minutes=5)
    assert [record.getMessage() for record in caplog.records] == [
        "the database's clock was set by -3600 s: expiry follows the new time"
    ]


async def test_a_dead_blob_that_an_artifact_points_at_stops_nobody_else_from_being_forgotten(
    url: str, replicas: list[PostgresCatalog], caplog: pytest.LogCaptureFixture
) -> None:
    changes = [store(b"%d" % i) for i in range(5)]
    for change in changes:
        await replicas[0].commit(change)
    conn = await connect(url)
    await conn.execute("SET coatcheck.upkeep = 'on'")
    await conn.execute("UPDATE blobs SET dead_at = now() - interval '1 day'")
    await conn.execute("DELETE FROM artifacts WHERE number <> $1", number_of(changes[2]))
    await conn.close()
    names = [("acme", change.blob.id) for change in changes]
    await replicas[0].commit(ForgetBlobs(blobs=tuple(names)))
    assert await replicas[0].find_known_blobs(names) == {names[2]}
    assert [changes[2].blob.id in record.getMessage() for record in caplog.records] == [True]


async def test_no_upkeep_statement_scans_a_table_that_grows(url: str) -> None:
    catalog = await PostgresCatalog.open(url, limits=PostgresLimits(connections=1))
    seen: dict[str, Any] = {}

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:  # noqa: ANN401 - SQLAlchemy's
        if not many:
            seen[statement] = parameters

    event.listen(catalog._engine.sync_engine, "before_cursor_execute", note)
    change = store(said=DeclaredMetadata(session="s"), ttl=60)
    await catalog.commit(change)
    now = START + DAY
    ends: dict[str, Any] = {"now": now, "tombstone_until": now + DAY}
    await catalog.commit(ExpireArtifacts(limit=500, **ends))
    await catalog.commit(ReapUploads(now=now, limit=500))
    await catalog.commit(PurgeRecords(now=now, limit=500))
    await catalog.commit(DeleteSession(namespace="acme", session="s", limit=500, **ends))
    await catalog.dead_blobs(now, 500)
    await catalog.find_known_blobs([("acme", change.blob.id)])
    assert len(seen) > 8

    def plans(conn: Connection) -> list[str]:
        # Small tables are scanned because that is quicker; what matters is what else there is to do.
        conn.exec_driver_sql("SET LOCAL enable_seqscan = off")
        told: list[str] = []
        for statement, parameters in list(seen.items()):
            if statement.startswith(("SELECT", "DELETE", "UPDATE", "WITH")) and "pg_catalog" not in statement:
                rows = conn.exec_driver_sql(f"EXPLAIN {statement}", parameters)
                told += [f"{row[0]} <- {statement}" for row in rows]
        return told

    told = await catalog._writer.run(plans)
    await catalog.close()
    scans = [step for step in told if re.search(r"Seq Scan on (artifacts|blobs|uploads|tombstones|idem|inline)", step)]
    assert scans == []
    assert [step for step in told if "ix_artifacts_expires_at" in step]
