"""The use cases over a real catalogue and real files, at an hour that the test decides: what all suites build on."""

import asyncio
import contextlib
import errno
import itertools
import random
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic

from typing_extensions import TypeVar

from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.blobs.filesystem import FileSystem
from coatcheck.adapters.redaction_rules import Masks
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core import ids
from coatcheck.core.artifact import Caller, DeclaredMetadata
from coatcheck.core.encoding.frames import new_blob_id
from coatcheck.ports.blobs import AbandonUpload, BlobStore
from coatcheck.ports.catalog import Catalog
from coatcheck.runtime.circuit_breaker import CircuitBreaker
from coatcheck.storing.content import OpenContent
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.find import Find, SessionNames
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.ingest_request import IngestRequest, Receipt
from coatcheck.storing.ledger import NoteReads, ReadLog
from coatcheck.storing.policies import Policies
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.upkeep.maintenance import Maintenance
from coatcheck.upkeep.store_binding import SealKey
from coatcheck.usecases.operations.flush_fallback import FlushFallback
from coatcheck.usecases.operations.show_overview import CheckReadiness, StoreCheck
from coatcheck.usecases.operations.verify_store import VerifyStore
from coatcheck.usecases.payloads.browse import Browse
from coatcheck.usecases.payloads.describe import Describe
from coatcheck.usecases.payloads.extend import Extend
from coatcheck.usecases.payloads.forget import Forget, ForgetSession
from coatcheck.usecases.payloads.ingest import Ingest
from contract.sample_changes import Everything
from support.clock import HandClock
from support.samples import stream

LEASE = timedelta(seconds=900)
GRACE = timedelta(seconds=600)
TOMBSTONE_LIFE = timedelta(days=30)
CALLER = Caller()
THREADS = 2

Numberer = Callable[[bytes, int], int]
CatalogT = TypeVar("CatalogT", bound=Everything, default=SqliteCatalog)
BlobsT = TypeVar("BlobsT", bound=BlobStore, default=FileBlobStore)


class StubbornFiles(FileSystem):
    """The real system calls, except that some files cannot be removed for a while."""

    def __init__(self) -> None:
        self.keeps: Callable[[str], bool] = lambda _: False

    def unlink(self, path: str) -> None:
        if self.keeps(path):
            raise OSError(errno.EIO, "Input/output error")
        super().unlink(path)


class Harness(Generic[CatalogT, BlobsT]):
    """Everything opened in one directory."""

    def __init__(
        self,
        root: Path,
        pool: ThreadPoolExecutor,
        catalog: CatalogT,
        blobs: BlobsT,
        clock: HandClock | None = None,
        *,
        files: StubbornFiles | None = None,
        fallback_bytes: int = 16 * 1024**2,
    ) -> None:
        self.root = root
        self.pool = pool
        self.catalog = catalog
        self.clock = clock or HandClock()
        self.reads = ReadLog()
        self.files = files or StubbornFiles()
        self.blobs = blobs
        self.tokenizer = load_tokenizer()
        self.fallback = FallbackBuffer(fallback_bytes)
        self.redacting = RedactionPolicy("off", Masks(), pool)
        self.policies = Policies(catalog, self.clock)
        self.session_names = SessionNames(catalog, self.redacting)
        self.find = Find(catalog, self.clock, self.reads, self.fallback)
        note = NoteReads(catalog, self.reads)
        self.extend = Extend(catalog, self.clock, self.fallback, self.redacting, note)
        self.seal_key = SealKey(catalog, self.clock, lambda: "a key for tests")
        self.browse = Browse(catalog, self.clock, self.seal_key, self.redacting, self.session_names)
        deleting = catalog, self.clock, TOMBSTONE_LIFE, self.fallback, self.policies, note
        self.forget, self.forget_session = Forget(*deleting), ForgetSession(*deleting, self.session_names)
        self._rng = random.Random("blob IDs of the harness")

    def new_id(self) -> str:
        """A blob's name, or a run's."""
        return new_blob_id(self.clock.now(), self._rng.randbytes(10))

    def ingest(self, **changed: Any) -> Ingest:  # noqa: ANN401 - settings
        """The verb, with settings of the test's choice."""
        return Ingest(self.deps(**changed))

    def deps(self, *, catalog: Catalog | None = None, **changed: Any) -> IngestDeps:  # noqa: ANN401 - settings
        asked: dict[str, Any] = {
            "catalog": catalog or self.catalog,
            "blobs": self.blobs,
            "clock": self.clock,
            "pool": self.pool,
            "tokenizer": self.tokenizer,
            "new_blob_id": self.new_id,
            "lease": LEASE,
            "inline_bytes": 32 * 1024,
            "payload_limit": 1 << 30,
            "ttl": 30 * 86400,
            "card_tokens": 600,
            "inline_tokens": 1000,
            "fallback": self.fallback,
            "catalog_breaker": CircuitBreaker("catalogue", self.clock.seconds),
            "blobs_breaker": CircuitBreaker("blob store", self.clock.seconds),
            "redacting": self.redacting,
        }
        return IngestDeps(**(asked | changed))

    async def put(
        self,
        payload: bytes | AsyncIterator[bytes],
        *,
        keep_ends: bool = False,
        settings: dict[str, Any] | None = None,
        caller: Caller = CALLER,
        said: dict[str, Any] | None = None,
        **offer: Any,  # noqa: ANN401 - fields of an Offer
    ) -> Receipt:
        """Hand over a payload; a `str` field of `said` is what the caller says about it."""
        source = stream(payload) if isinstance(payload, bytes) else payload
        asked = IngestRequest(declared=DeclaredMetadata(**(said or {})), keep_ends=keep_ends, **offer)
        return await self.ingest(**(settings or {}))(caller, source, asked)

    async def content(self, artifact_id: str, caller: Caller = CALLER) -> bytes:
        """The stored payload, read through a reader that has cached nothing."""
        found = await self.find(caller, ids.parse(artifact_id), with_bytes=True)
        content = self.opened()(found)
        return b"".join([block async for block in content.blocks(0, content.size)])

    def opened(self) -> OpenContent:
        return OpenContent(self.catalog, self.blobs, self.pool)

    def describe(self) -> Describe:
        return Describe(self.find, self.opened(), self.tokenizer, self.pool, 600, self.redacting)

    def tidy(self) -> Maintenance:
        note = NoteReads(self.catalog, self.reads)
        return Maintenance(
            self.catalog, self.blobs, self.clock, self.reads, note, tombstone_life=TOMBSTONE_LIFE, grace=GRACE
        )

    def audit(self) -> VerifyStore:
        return VerifyStore(self.catalog, self.blobs, self.opened(), self.clock)

    async def rest(self) -> None:
        """Return when every thread has done what it was given."""
        loop = asyncio.get_running_loop()
        for _ in range(3):
            meeting = threading.Barrier(THREADS)
            await asyncio.gather(*(loop.run_in_executor(self.pool, meeting.wait) for _ in range(THREADS)))
        # The writer does one thing after the other: what it was given before is done when this is.
        await self.catalog.commit(AbandonUpload(namespace=CALLER.namespace, blob_id="none"))

    async def written(self, table: str) -> None:
        """Return when a table has a row; the test's time limit ends it otherwise."""
        while not self.count(table):  # noqa: ASYNC110 - nothing tells: it is what another process would see
            await asyncio.sleep(0)

    async def flowing(self) -> None:
        """Return when a blob has bytes: the step that began it has looked at its lease and will not again."""
        while not any(p.stat().st_size for p in self.stored_files()):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)

    def stored_files(self) -> list[Path]:
        return sorted(p for p in (self.root / "blobs").rglob("*") if p.is_file())

    def count(self, table: str, where: str = "1") -> int:
        """Rows of a table, as another process sees them."""
        with contextlib.closing(sqlite3.connect(self.root / "coatcheck.db")) as conn:
            number: int = conn.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[0]  # noqa: S608
        return number

    def clear(self) -> None:
        """Take away every row that a test has made."""
        with contextlib.closing(sqlite3.connect(self.root / "coatcheck.db")) as conn, conn:
            # Foreign keys are not enforced on this connection.
            for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                if name not in {"alembic_version", "leases"} and not name.startswith("sqlite_"):
                    conn.execute(f'DELETE FROM "{name}"')  # noqa: S608 - a table of this schema

    def is_empty(self) -> bool:
        """No artifact, no intent, no blob, no file."""
        return self.stored_files() == [] and not any(map(self.count, ("artifacts", "uploads", "blobs")))


def readiness_of(deps: IngestDeps) -> CheckReadiness:
    """A check of the stores behind these breakers that is made anew each time."""
    catalog = StoreCheck(deps.catalog, deps.catalog_breaker)
    blobs = StoreCheck(deps.blobs, deps.blobs_breaker)
    return CheckReadiness(catalog, blobs, ticks=itertools.count(step=60).__next__)


def flushing(deps: IngestDeps) -> FlushFallback:
    """What stores the payloads that wait."""
    return FlushFallback(deps, readiness_of(deps))


@contextlib.contextmanager
def sqlite_in(root: Path, template: Path, number: Numberer = ids.number) -> Generator[SqliteCatalog]:
    """A catalogue in a directory, from a copy of a migrated database where there is none yet."""
    if not (root / "coatcheck.db").exists():
        shutil.copy(template, root / "coatcheck.db")
    catalog = SqliteCatalog.open(root / "coatcheck.db", threads=2, number=number)
    try:
        yield catalog
    finally:
        catalog.close()


@contextlib.contextmanager
def harness_in(root: Path, template: Path, number: Numberer = ids.number) -> Generator[Harness]:
    """The use cases in a directory, over a copy of a migrated database."""
    with sqlite_in(root, template, number) as catalog, ThreadPoolExecutor(THREADS) as pool:
        files = StubbornFiles()
        yield Harness(root, pool, catalog, FileBlobStore(root, pool, files), files=files)
