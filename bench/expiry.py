"""How long 500 expired artifacts take to be buried, among few live ones and among many, on both databases."""

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.schema import migrate
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.ports.maintenance import ExpireArtifacts, Upkeep
from support.postgres import Server, running_postgres

FEW, MANY = 10_000, 1_000_000
BATCH = 500
ROUNDS = 6

# A third of what a real payload's row has, in rows of the same shape; every index is filled as in service.
_BLOB_COLUMNS = "seq, id, namespace, placement, sha256, digest, size, stored_size, frames"
_ARTIFACT_COLUMNS = (
    "seq, namespace, number, identity, blob_seq, session, kind, created_at, read_at, expires_at, ttl, pinned, engine, "
    "said, measure, facts"
)


def run() -> None:
    """Print the table."""
    print(f"{'database':>12} | {'live':>9} | {'500 expiries, ms: median':>24} {'worst':>7} | of few")
    with tempfile.TemporaryDirectory() as folder:
        few, many = (asyncio.run(_on_sqlite(Path(folder), live)) for live in (FEW, MANY))
        _show("sqlite", few, many)
        with running_postgres(Path(folder) / "postgres", durable=True) as server:
            few, many = (asyncio.run(_on_postgres(server, live)) for live in (FEW, MANY))
            _show("postgresql", few, many)


def _show(name: str, few: list[float], many: list[float]) -> None:
    for live, times in ((FEW, few), (MANY, many)):
        ratio = statistics.median(times) / statistics.median(few)
        print(f"{name:>12} | {live:>9,} | {statistics.median(times):24.1f} {max(times):7.1f} | {ratio:.2f}", flush=True)


async def _on_sqlite(folder: Path, live: int) -> list[float]:
    path = folder / f"{live}.db"
    migrate(sqlite_url(path))
    fill_sqlite(path, live)
    catalog = SqliteCatalog.open(path)
    try:
        return await _expire(catalog)
    finally:
        catalog.close()


def fill_sqlite(path: Path, live: int) -> None:
    database = sqlite3.connect(path)
    past = int((datetime.now(UTC) - timedelta(days=1)).timestamp() * 1e6)  # noqa: TID251 - a benchmark's own clock
    far = past + 10**13
    number = "(n * 7919 * 104729) % 1000000000000000000"
    database.executescript(f"""
        CREATE TEMP TABLE n AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {live + ROUNDS * BATCH})
            SELECT n FROM c;
        INSERT INTO blobs ({_BLOB_COLUMNS}) SELECT n, printf('%032x', n), 'default', 'inline', randomblob(32),
            random(), 9000, 3000, randomblob(38) FROM n;
        INSERT INTO artifacts ({_ARTIFACT_COLUMNS}) SELECT n, 'default', {number}, randomblob(16), n, 's' || (n / 100), 'log',
            {past}, {past}, CASE WHEN n > {live} THEN {past} + n ELSE {far} + n END, 86400, 0, 1, '{{}}', '{{}}', '{{}}' FROM n;
    """)  # noqa: E501 - one statement a line reads better
    database.close()


async def _on_postgres(server: Server, live: int) -> list[float]:
    url = server.database()
    migrate(url)
    fill_postgres(server, url, live)
    async with _opened(url) as catalog:
        return await _expire(catalog)


def fill_postgres(server: Server, url: str, live: int, expired: int = ROUNDS * BATCH, apart: int = 1) -> None:
    """Put live artifacts into a database, and others, so many microseconds apart, the first a minute overdue."""
    count = live + expired
    number = "(n::numeric * 7919 * 104729 % 1000000000000000000)::bigint"
    server.run(
        f"INSERT INTO blobs ({_BLOB_COLUMNS}) OVERRIDING SYSTEM VALUE SELECT n, lpad(to_hex(n), 32, '0'), 'default', "
        f"'inline', sha256(n::text::bytea), hashtextextended(n::text, 0), 9000, 3000, sha256(n::text::bytea) "
        f"FROM generate_series(1, {count}) n",
        f"INSERT INTO artifacts ({_ARTIFACT_COLUMNS}) OVERRIDING SYSTEM VALUE SELECT n, 'default', {number}, "
        f"sha256(n::text::bytea), n, 's' || (n / 100), 'log', now() - interval '2 days', now(), "
        f"now() + CASE WHEN n > {live} THEN interval '-1 minute' + (n - {live}) * interval '{apart} us' "
        f"ELSE interval '30 days' + n * interval '1 us' END, "
        f"86400, false, 1, '{{}}', '{{}}', '{{}}' FROM generate_series(1, {count}) n",
        f"SELECT setval(pg_get_serial_sequence('blobs', 'seq'), {count + 1}), "
        f"setval(pg_get_serial_sequence('artifacts', 'seq'), {count + 1})",
        "ANALYZE",
        url=server.url(url.rpartition("/")[2]),
    )


@asynccontextmanager
async def _opened(url: str) -> AsyncGenerator[PostgresCatalog]:
    catalog = await PostgresCatalog.open(url)
    try:
        yield catalog
    finally:
        await catalog.close()


async def _expire(upkeep: Upkeep) -> list[float]:
    times: list[float] = []
    for _ in range(ROUNDS):
        now = datetime.now(UTC)  # noqa: TID251 - as above
        began = time.perf_counter()
        done = await upkeep.commit(ExpireArtifacts(now=now, tombstone_until=now + timedelta(days=30), limit=BATCH))
        times.append(1000 * (time.perf_counter() - began))
        assert done == BATCH
    return times[1:]  # the first one prepares statements
