"""Builds retention: plan, run, undo, the audit log; and resumes interrupted runs."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from coatcheck.bootstrap.stores import Store, is_embedded
from coatcheck.core.retention.jobs import Job
from coatcheck.core.text.plural import plural
from coatcheck.jobs.schedule import rounds
from coatcheck.ports.clock import DeletionClock
from coatcheck.ports.telemetry import Meter
from coatcheck.settings import Settings
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.policies import Policies
from coatcheck.upkeep.job_schedule import JobSchedule
from coatcheck.upkeep.maintenance import Maintenance, MaintenanceJobResult
from coatcheck.usecases.operations.verify_store import VerifyStore
from coatcheck.usecases.retention.administer_retention import AdministerRetention
from coatcheck.usecases.retention.plan_retention import PlanRetention
from coatcheck.usecases.retention.run_retention import MaintenanceJobs, RunRetention
from coatcheck.usecases.retention.undo_removal import UndoRemoval

_RESUME_SECONDS: Final = 5.0
"""Seconds between two checks for interrupted runs."""
_LAST_SECONDS: Final = 5.0
"""Seconds that a run may continue when the service stops; it is resumed from wherever it was left."""


def administer_retention(
    settings: Settings,
    store: Store,
    deps: IngestDeps,
    maintenance: Maintenance,
    policies: Policies,
    job_schedule: JobSchedule,
    deletions: DeletionClock,
) -> AdministerRetention:
    """Returns everything that administers retention."""
    grace = timedelta(seconds=settings.grace_seconds)
    new_id = deps.new_blob_id
    audit_life = timedelta(seconds=settings.audit_ttl)
    plan = PlanRetention(
        store.catalog, deletions, new_id, grace=grace, audit_life=audit_life, flush_reads=maintenance.flush_reads
    )
    run = RunRetention(
        store.catalog,
        deletions,
        plan,
        new_id,
        me=secrets.token_hex(8),
        tombstone_life=timedelta(seconds=settings.tombstone_ttl),
        lives=policies.tombstone_lives,
        maintenance_jobs=_chores(store, maintenance),
        alone=is_embedded(settings),
    )
    undo = UndoRemoval(store.catalog, deps, store.open_content, grace=grace)
    return AdministerRetention(
        retention=store.catalog,
        accounts=store.catalog,
        clock=store.clock,
        plan=plan,
        running=run,
        undo=undo,
        job_schedule=job_schedule,
    )


@asynccontextmanager
async def retaining(retention: AdministerRetention, meter: Meter) -> AsyncGenerator[None]:
    """Resumes interrupted runs while the service runs; on exit, stops what is in progress."""
    stop = asyncio.Event()
    resuming = asyncio.create_task(
        rounds("taking up runs", retention.running.resume, _RESUME_SECONDS, stop, meter=meter), name="taking up runs"
    )
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait([resuming])
        await retention.running.close(_LAST_SECONDS)


def when_due(job_schedule: JobSchedule, lead: Callable[[], Awaitable[bool]] | None) -> Callable[[], Awaitable[bool]]:
    """Returns a function that tells whether to index now: not if paused, and only in one of several processes."""

    async def now() -> bool:
        return await job_schedule.runs("index") and (lead is None or await lead())

    return now


def _chores(store: Store, maintenance: Maintenance) -> MaintenanceJobs:
    audit = VerifyStore(
        store.catalog,
        store.blobs,
        store.open_content,
        store.clock,
        examinations=store.examinations,
        texts=store.catalog,
    )

    async def check(*, digests: bool) -> MaintenanceJobResult:
        audited = await audit(digests=digests)
        wrong = [f for f in audited.findings if not f.repaired]
        coverage = f"looked at {plural(audited.blobs, 'blob')} of {plural(audited.content, 'byte')}"
        summary = f"{coverage}; {plural(len(wrong), 'finding')}"
        first = f"; the first: {wrong[0].what}: {wrong[0].detail}" if wrong else ""
        return MaintenanceJobResult(items=len(wrong), bytes=audited.content, detail=f"{summary}{first}"[:1000])

    return {
        Job.SWEEP: maintenance.sweep,
        Job.PURGE: maintenance.purge,
        Job.STORAGE: lambda: check(digests=False),
        Job.VERIFY: lambda: check(digests=True),
    }
