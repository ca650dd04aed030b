"""Carries out an administrator's commands (check, back up, restore), and builds the use cases of retention."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from coatcheck import __version__
from coatcheck.adapters.backup.make import backup_to
from coatcheck.adapters.backup.manifest import Manifest
from coatcheck.adapters.backup.restore import restore_backup
from coatcheck.adapters.system import SystemClock
from coatcheck.bootstrap import embedded
from coatcheck.bootstrap.foundation import Foundation
from coatcheck.bootstrap.stores import Store, is_embedded, open_store
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.findings import HARMLESS
from coatcheck.core.progress import Progress, untold
from coatcheck.core.retention.jobs import RetentionJob
from coatcheck.core.text.count import plural
from coatcheck.settings import Settings
from coatcheck.storing.find import SessionNames
from coatcheck.upkeep.maintenance import Maintenance, MaintenanceJobResult
from coatcheck.usecases.operations.verify_store import RepairCatalog, VerifyStore
from coatcheck.usecases.retention.administer_retention import AdministerRetention
from coatcheck.usecases.retention.plan_retention import PlanRetention
from coatcheck.usecases.retention.run_retention import MaintenanceJobs, RunRetention
from coatcheck.usecases.retention.undo_removal import UndoRemoval


def _audit_of(store: Store, repairs: RepairCatalog | None = None) -> VerifyStore:
    return VerifyStore(
        store.catalog,
        store.blobs,
        store.open_content,
        store.clock,
        examinations=store.examinations,
        repairs=repairs,
        texts=store.catalog,
    )


@asynccontextmanager
async def open_audit(settings: Settings, *, repair: bool) -> AsyncGenerator[tuple[VerifyStore, str | None]]:
    """Opens the verification of a store that others may be serving, for the command line.

    With `repair`, the verification can also repair rows. For repairs, no service may be using an embedded store. If one
    is, the second value says why nothing can be repaired; otherwise the second value is None.
    """
    async with open_store(settings, beside=True) as store:
        if not repair:
            yield _audit_of(store), None
        elif is_embedded(settings):
            async with embedded.open_embedded_repair(Path(settings.data), store.pool) as (catalog, why):
                yield _audit_of(store, catalog), why
        else:
            from coatcheck.bootstrap import scale  # noqa: PLC0415 - the embedded store does without the driver

            async with scale.open_scale_repair(settings) as catalog:
                yield _audit_of(store, catalog), None


class BackupResult(Struct, frozen=True, kw_only=True):
    """A finished backup."""

    path: str
    manifest: Manifest
    linked: int
    """Number of files that are hard links to the store's own files instead of copies."""
    verified: bool
    """Whether every blob in the backup was read and compared with its digest."""


def backup(
    settings: Settings, target: Path, *, digests: bool, links: bool, progress: Progress = untold
) -> BackupResult:
    """Copies the embedded store, which a service may be using, to a new directory. Blocks.

    Raises:
        CoatcheckError: as `backup_to`, and `integrity` if digests were requested and something is damaged;
            `invalid_request` if the files belong to another database.
    """
    # This is checked before anything is copied: a backup of one database with the files of another could not be
    # restored.
    asyncio.run(_refuse_foreign(settings))
    clock = SystemClock()
    with backup_to(
        Path(settings.data), target, links=links, release=__version__, now=clock.now, progress=progress
    ) as staged:
        if digests:
            asyncio.run(_verify(settings, staged.path, "No backup was made", progress))
    return BackupResult(path=str(target), manifest=staged.manifest, linked=staged.linked, verified=digests)


class RestoreResult(Struct, frozen=True, kw_only=True):
    """A finished restore."""

    data: str
    manifest: Manifest
    verified: bool
    outdated: bool
    """Whether the restored schema is older than this release's. The next start migrates it, and digests can be compared
    only after that."""


def restore(settings: Settings, source: Path, *, digests: bool, progress: Progress = untold) -> RestoreResult:
    """Restores a backup to a data directory that contains no store. Blocks.

    Raises:
        CoatcheckError: as `restore_backup`, and `integrity` if digests were requested and something is damaged.
    """
    with restore_backup(source, Path(settings.data), progress) as copied:
        # An older schema cannot be opened by this code, so its digests are compared after the first start.
        verified = digests and not copied.outdated
        if verified:
            asyncio.run(_verify(settings, copied.path, "Nothing was restored", progress))
    return RestoreResult(data=settings.data, manifest=copied.manifest, verified=verified, outdated=copied.outdated)


async def _refuse_foreign(settings: Settings) -> None:
    """Raises if the store's files belong to another database. Other faults are reported by the backup itself."""
    try:
        async with open_store(settings, beside=True):
            pass
    except CoatcheckError as error:
        if error.code is Code.INVALID_REQUEST:
            raise


async def _verify(settings: Settings, data: Path, outcome: str, progress: Progress) -> None:
    """Reads every blob of a copy. Raises `integrity` if any is damaged, except those already known to be lost."""
    async with open_store(replace(settings, data=str(data)), beside=True) as store:
        audited = await _audit_of(store)(
            progress=lambda _, size: progress(0, size)
        )  # only bytes: the copying has already counted the files
    faults = [f for f in audited.findings if f.what not in HARMLESS | {"lost"}]
    if faults:
        raise CoatcheckError(
            Code.INTEGRITY,
            f"{outcome}: of {audited.blobs:,} blobs {len(faults):,} are damaged; the first is {faults[0].blob_id}: "
            f"{faults[0].detail} `coatcheck check` lists what is damaged in a store.",
        )


def administer_retention(base: Foundation, session_names: SessionNames) -> AdministerRetention:
    """Returns the use case that administers retention, with all its parts."""
    settings, store, new_id = base.settings, base.store, base.deps.new_blob_id
    grace = timedelta(seconds=settings.grace_seconds)
    plan = PlanRetention(
        store.catalog,
        base.deletions,
        new_id,
        grace=grace,
        audit_life=timedelta(seconds=settings.audit_ttl),
        # Reads that are not written yet may keep artifacts alive. A plan must not count such artifacts, so the reads
        # are written first.
        flush_reads=base.maintenance.flush_reads,
        session_names=session_names,
    )
    run = RunRetention(
        store.catalog,
        base.deletions,
        plan,
        new_id,
        me=secrets.token_hex(8),
        tombstone_life=base.tombstone_life,
        lives=base.policies.tombstone_lives,
        maintenance_jobs=_maintenance_jobs(store, base.maintenance),
        alone=is_embedded(settings),
    )
    return AdministerRetention(
        retention=store.catalog,
        accounts=store.catalog,
        clock=store.clock,
        plan=plan,
        running=run,
        undo=UndoRemoval(store.catalog, base.deps, store.open_content, grace=grace),
        job_schedule=base.job_schedule,
    )


def _maintenance_jobs(store: Store, maintenance: Maintenance) -> MaintenanceJobs:
    audit = _audit_of(store)

    async def check(*, digests: bool) -> MaintenanceJobResult:
        audited = await audit(digests=digests)
        wrong = [f for f in audited.findings if not f.repaired]
        coverage = f"looked at {plural(audited.blobs, 'blob')} of {plural(audited.content, 'byte')}"
        summary = f"{coverage}; {plural(len(wrong), 'finding')}"
        first = f"; the first: {wrong[0].what}: {wrong[0].detail}" if wrong else ""
        return MaintenanceJobResult(items=len(wrong), bytes=audited.content, detail=f"{summary}{first}"[:1000])

    return {
        RetentionJob.SWEEP: maintenance.sweep,
        RetentionJob.PURGE: maintenance.purge,
        RetentionJob.STORAGE: lambda: check(digests=False),
        RetentionJob.VERIFY: lambda: check(digests=True),
    }
