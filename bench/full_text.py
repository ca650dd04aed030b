"""Full-text lists over 10,000 artifacts of about 4 KB: indexing, the index's size, queries against a LIKE scan."""

import asyncio
import random
import sqlite3
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from bench.throughput import text
from bench.wire import Timings
from coatcheck.adapters.redaction_rules import Masks
from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.schema import migrate
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.adapters.system import SystemClock
from coatcheck.core.artifact import Caller
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.storing.content import OpenContent
from coatcheck.storing.find import SessionNames
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.upkeep.index import Index
from coatcheck.upkeep.store_binding import SealKey
from coatcheck.usecases.payloads.browse import Browse
from contract.sample_changes import Everything, store
from support.memory_blobs import MemoryBlobStore

COUNT = 10_000
QUERIES = {
    "in one artifact": "zeppelin4711",
    "in one artifact, three words": "zeppelin4711 license work",
    "in a hundredth": "hundredth",
    "in all": "license",
    "in none": "gondola",
    "Chinese, in a hundredth": "数据库连接",
}
TIMES = 7


def documents(count: int) -> list[str]:
    """Texts of words, each with one of its own; every hundredth says so."""
    rng = random.Random(4711)
    block = text(rng, 4_000_000).decode("utf-8", "replace")
    out: list[str] = []
    for i in range(count):
        at = rng.randrange(len(block) - 5_000)
        mark = " hundredth 数据库连接失败" if i % 100 == 0 else ""
        out.append(f"zeppelin{i} license{mark}\n{block[at : at + rng.randint(3_000, 5_000)]}")
    return out


async def measure(catalog: Everything, texts: Sequence[str], like: sqlite3.Connection) -> None:
    """Store, index and ask; print a line for each."""
    clock = SystemClock()
    size = sum(len(each.encode()) for each in texts)
    with ThreadPoolExecutor(2) as pool:
        rng = random.Random(1)
        index = Index(catalog, OpenContent(catalog, MemoryBlobStore(clock), pool), pool, lambda: rng.getrandbits(62))
        redacting = RedactionPolicy("off", Masks(), pool)
        seal_key = SealKey(catalog, clock, lambda: "a key for the bench")
        browse = Browse(catalog, clock, seal_key, redacting, SessionNames(catalog, redacting))
        for start in range(0, len(texts), 256):
            changes = [store(each.encode(), now=clock.now()) for each in texts[start : start + 256]]
            await asyncio.gather(*map(catalog.commit, changes))
        began, cpu = time.perf_counter(), time.process_time()
        await index()
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        print(f"indexed {len(texts):,} documents of {size / 1e6:.1f} MB in {took:.1f} s, {cpu:.1f} s of processor time")
        segments = await catalog.segment_sizes("acme")
        whole = await catalog.read_segments("acme", [each.id for each in segments])
        assert whole is not None
        stored = sum(len(each.packed_documents) + sum(map(len, each.parts)) for each in whole)
        print(f"index: {stored / 1e6:.2f} MB in {len(segments)} segments, {stored / size:.3f} of the payloads")
        for what, query in QUERIES.items():
            ours, scan, found = Timings(), Timings(), 0
            for _ in range(TIMES):
                at = time.perf_counter()
                listing = await browse(Caller("acme"), ArtifactFilter(), None, 50, query=query)
                ours.each.append(time.perf_counter() - at)
                at = time.perf_counter()
                words = [f"%{word}%" for word in query.split()]
                where = " AND ".join("body LIKE ?" for _ in words)
                like.execute(f"SELECT id FROM texts WHERE {where} ORDER BY id DESC LIMIT 50", words).fetchall()
                scan.each.append(time.perf_counter() - at)
                found = len(listing.items)
            ratio = scan.at(0.0) / ours.at(0.0)
            print(
                f"{what}: {found} found, best {ours.at(0):.1f} ms, median {ours.at(0.5):.1f} ms; "
                f"LIKE best {scan.at(0):.1f} ms, {ratio:.1f} times",
                flush=True,
            )


@asynccontextmanager
async def embedded(folder: Path) -> AsyncGenerator[Everything]:
    """A new SQLite catalogue."""
    path = folder / "catalog.db"
    migrate(sqlite_url(path))
    catalog = SqliteCatalog.open(path)
    try:
        yield catalog
    finally:
        catalog.close()


def scanned(folder: Path, texts: Sequence[str]) -> sqlite3.Connection:
    """The same texts in a plain table."""
    conn = sqlite3.connect(folder / "plain.db")
    conn.execute("CREATE TABLE texts (id INTEGER PRIMARY KEY, body TEXT)")
    conn.executemany("INSERT INTO texts (body) VALUES (?)", [(each,) for each in texts])
    conn.commit()
    return conn


def run(count: int = COUNT) -> None:
    """Make a store and measure."""
    texts = documents(count)

    async def all_of(folder: Path) -> None:
        async with embedded(folder) as catalog:
            await measure(catalog, texts, scanned(folder, texts))

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(all_of(Path(folder)))
