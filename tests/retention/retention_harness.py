"""The verbs of retention over a real catalogue and real files, at an hour that the test decides."""

import random
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core import ids
from coatcheck.core.artifact import Caller, DeclaredMetadata
from coatcheck.core.audit import AuditLine, By
from coatcheck.core.blob_ids import new_blob_id
from coatcheck.core.retention import Job, JobScope, Outcome, RetentionPlan, RetentionRun
from coatcheck.ports.catalog import ArtifactFilter, FoundArtifact
from coatcheck.runtime.circuit_breaker import CircuitBreaker
from coatcheck.storing.content import OpenContent
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.ingest_request import IngestRequest
from coatcheck.storing.reads import ReadLog
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.upkeep.maintenance import Maintenance
from coatcheck.usecases.forget import Forget, ForgetSession
from coatcheck.usecases.ingest import Ingest
from coatcheck.usecases.plan_retention import PlanRetention
from coatcheck.usecases.run_retention import RunRetention
from coatcheck.usecases.undo_removal import UndoRemoval
from contract.conftest import CATALOGS
from contract.sample_changes import START, Everything
from usecases.service_harness import stream

GRACE = timedelta(seconds=600)
LIFE = timedelta(days=30)
AUDIT_LIFE = timedelta(days=90)
ALICE = By("alice", "k1")


class MovedClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self._now = START

    def now(self) -> datetime:
        return self._now

    def forward(self, **by: float) -> None:
        self._now += timedelta(**by)

    def seconds(self) -> float:
        return self.now().timestamp()


class RetentionHarness:
    """Everything opened."""

    def __init__(self, catalog: Everything, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.catalog = catalog
        self.clock = MovedClock()
        self._rng = random.Random(8102)
        self.blobs = FileBlobStore(folder, pool)
        self.open_content = OpenContent(catalog, self.blobs, pool)
        self.places = IngestDeps(
            catalog=catalog,
            blobs=self.blobs,
            clock=self.clock,
            pool=pool,
            tokenizer=load_tokenizer(),
            new_blob_id=self.new_id,
            lease=timedelta(seconds=900),
            inline_bytes=4 * 1024,
            payload_limit=1 << 30,
            ttl=30 * 86400,
            card_tokens=600,
            inline_tokens=1000,
            fallback=FallbackBuffer(0),
            catalog_breaker=CircuitBreaker("catalogue", self.clock.seconds),
            blobs_breaker=CircuitBreaker("blob store", self.clock.seconds),
        )
        self.job_schedule = JobSchedule(catalog, self.clock, default=10, monotonic=self.clock.seconds)
        self.tidy = Maintenance(
            catalog,
            catalog,
            self.blobs,
            self.clock,
            ReadLog(),
            tombstone_life=LIFE,
            grace=GRACE,
            audit_life=AUDIT_LIFE,
            job_schedule=self.job_schedule,
            retention=catalog,
        )
        self.plan_retention = PlanRetention(
            catalog, self.clock, self.new_id, grace=GRACE, audit_life=AUDIT_LIFE, settled=self.tidy.settled
        )
        self.runs = self.worker("first")
        self.undo = UndoRemoval(catalog, self.places, self.open_content, grace=GRACE)
        self.forget = Forget(catalog, self.clock, LIFE)
        self.forget_session = ForgetSession(catalog, self.clock, LIFE)

    def new_id(self) -> str:
        return new_blob_id(self.clock.now(), self._rng.randbytes(10))

    def worker(self, name: str) -> RunRetention:
        """Another process's way to carry out runs."""
        return RunRetention(
            self.catalog,
            self.clock,
            self.plan_retention,
            self.new_id,
            me=name,
            tombstone_life=LIFE,
            chores={Job.SWEEP: self.tidy.sweep},
        )

    async def put(self, payload: bytes, *, namespace: str = "acme", **said: Any) -> int:  # noqa: ANN401 - of an Offer
        """Store a payload; answers its number."""
        offer = {name: said.pop(name) for name in ("ttl", "idle_ttl", "pinned") if name in said}
        asked = IngestRequest(said=DeclaredMetadata(**said), **offer)
        receipt = await Ingest(self.places)(Caller(namespace=namespace), stream(payload), lambda: asked)
        assert receipt.stored
        return ids.parse(receipt.id)

    async def plan(self, job: Job, **scope: Any) -> RetentionPlan:  # noqa: ANN401 - of a Scope
        return await self.plan_retention(job, JobScope(**scope))

    async def apply(self, plan: RetentionPlan, *, confirm: bool = False) -> RetentionRun:
        """Apply a plan, to the end of its run."""
        run = await self.runs.apply(plan.digest, confirm=confirm, by=ALICE, wait=60)
        assert run.outcome is not Outcome.RUNNING
        return run

    async def there(self, namespace: str = "acme") -> set[int]:
        """The numbers of all rows of a namespace that are live."""
        found: set[int] = set()
        before: int | None = None
        while True:
            page = await self.catalog.list_artifacts(
                namespace, ArtifactFilter(), self.clock.now(), before=before, limit=200
            )
            found |= {ids.parse(a.id) for a in page.artifacts}
            if page.before is None:
                return found
            before = page.before

    async def removed_lines(self) -> list[int]:
        """Every removal that the audit tells of."""
        return [n for line in await self.audit(action="artifact.removed") for n in line.numbers]

    async def audit(self, *, action: str | None = None, run_id: str | None = None) -> list[AuditLine]:
        """Lines of the audit log, the latest first."""
        return await self.catalog.find_audit_lines(limit=10_000, action=action, run_id=run_id)

    async def bytes_of(self, number: int, namespace: str = "acme") -> bytes:
        """An artifact's payload, read anew."""
        found = await self.catalog.find(namespace, number, self.clock.now(), with_bytes=True)
        assert isinstance(found, FoundArtifact)
        return await self.open_content(found).read(0, found.artifact.measure.size)

    def now(self) -> datetime:
        return self.clock.now()


@asynccontextmanager
async def harness_in(database: str, folder: Path) -> AsyncGenerator[RetentionHarness]:
    """A shop on a database of this kind."""
    opening: AbstractAsyncContextManager[Any] = CATALOGS[database](folder)
    with ThreadPoolExecutor(4) as pool:
        async with opening as catalog:
            yield RetentionHarness(catalog, folder, pool)


__all__ = ["ALICE", "GRACE", "START", "Everything", "RetentionHarness", "harness_in"]
