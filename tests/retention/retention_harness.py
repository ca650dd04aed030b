"""The verbs of retention beside all others, over a real catalogue of either kind and real files."""

from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.core import ids
from coatcheck.core.artifact import Caller
from coatcheck.core.retention.audit import AuditLine, By
from coatcheck.core.retention.jobs import WHOLE_STORE, RetentionJob, RetentionRun, RunOutcome
from coatcheck.core.retention.plan import RetentionPlan
from coatcheck.ports.catalog import ArtifactFilter, FoundArtifact
from coatcheck.storing.ledger import NoteReads
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.upkeep.maintenance import Maintenance
from coatcheck.usecases.retention.plan_retention import PlanRetention
from coatcheck.usecases.retention.run_retention import RunRetention
from coatcheck.usecases.retention.undo_removal import UndoRemoval
from contract.sample_changes import Everything
from support.catalogs import CATALOGS
from support.harness import GRACE, TOMBSTONE_LIFE, Harness
from support.refusals import expect

AUDIT_LIFE = timedelta(days=90)
EVERYONES = Caller(namespace="*", name="alice", key_id="k1")
"""An administrator of all namespaces."""
ALICE = By.of(EVERYONES)


class RetentionHarness(Harness[Everything, FileBlobStore]):
    """Everything opened, in the namespace `acme` unless a test says otherwise."""

    def __init__(self, catalog: Everything, root: Path, pool: ThreadPoolExecutor) -> None:
        super().__init__(root, pool, catalog, FileBlobStore(root, pool), fallback_bytes=0)
        self.job_schedule = JobSchedule(catalog, self.clock, default=10, monotonic=self.clock.seconds)
        self.maintenance = Maintenance(
            catalog,
            self.blobs,
            self.clock,
            self.reads,
            NoteReads(catalog, self.reads),
            tombstone_life=TOMBSTONE_LIFE,
            grace=GRACE,
            audit_life=AUDIT_LIFE,
            job_schedule=self.job_schedule,
            retention=catalog,
        )
        self.plan_retention = PlanRetention(
            catalog,
            self.clock,
            self.new_id,
            grace=GRACE,
            audit_life=AUDIT_LIFE,
            flush_reads=self.maintenance.flush_reads,
            session_names=self.session_names,
        )
        self.runs = self.worker("first")
        undo_deps = self.deps(inline_bytes=4 * 1024, rules=self.policies.now)
        self.undo = UndoRemoval(catalog, undo_deps, self.opened(), grace=GRACE)

    def worker(self, name: str) -> RunRetention:
        """Another process's way to carry out runs."""
        return RunRetention(
            self.catalog,
            self.clock,
            self.plan_retention,
            self.new_id,
            me=name,
            tombstone_life=TOMBSTONE_LIFE,
            maintenance_jobs={RetentionJob.SWEEP: self.maintenance.sweep},
        )

    async def store(self, payload: bytes, *, namespace: str = "acme", **said: Any) -> int:  # noqa: ANN401 - as `put`
        """Store a payload, as a file if it is larger than 4 KiB; its number."""
        offer = {name: said.pop(name) for name in ("ttl", "idle_ttl", "pinned") if name in said}
        settings = {"inline_bytes": 4 * 1024}
        receipt = await self.put(payload, settings=settings, caller=Caller(namespace=namespace), said=said, **offer)
        assert receipt.stored
        return ids.parse(receipt.id)

    async def plan(self, job: RetentionJob, **scope: Any) -> RetentionPlan:  # noqa: ANN401 - of a Scope
        return await self.plan_retention(EVERYONES, job, replace(WHOLE_STORE, **scope))

    async def apply(self, plan: RetentionPlan, *, confirm: bool = False) -> RetentionRun:
        """Apply a plan, to the end of its run."""
        run = await self.runs.apply(EVERYONES, plan.digest, confirm=confirm, wait=30)
        assert run.outcome is not RunOutcome.RUNNING
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
        return [n for line in await self.audit_lines(action="artifact.removed") for n in line.numbers]

    async def audit_lines(self, *, action: str | None = None, run_id: str | None = None) -> list[AuditLine]:
        """Lines of the audit log, the latest first."""
        return await self.catalog.find_audit_lines(limit=10_000, action=action, run_id=run_id)

    async def bytes_of(self, number: int, namespace: str = "acme") -> bytes:
        """An artifact's payload, read anew."""
        found = expect(FoundArtifact, await self.catalog.find(namespace, number, self.clock.now(), with_bytes=True))
        return await self.opened()(found).read(0, found.artifact.measure.size)


@asynccontextmanager
async def harness_on(database: str, folder: Path) -> AsyncGenerator[RetentionHarness]:
    """The verbs on a database of this kind."""
    async with CATALOGS[database](folder) as catalog:
        with ThreadPoolExecutor(4) as pool:
            yield RetentionHarness(catalog, folder, pool)
