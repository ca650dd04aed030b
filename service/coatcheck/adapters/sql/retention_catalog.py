"""The port of retention in SQL, whatever the database: which function carries out each of its methods."""

from typing import cast

from coatcheck.adapters.sql import audit_reads, removed_reads
from coatcheck.adapters.sql import retention_reads as reads
from coatcheck.adapters.sql.change_group import Work
from coatcheck.adapters.sql.changes import plans, restore, runs, usage
from coatcheck.adapters.sql.port_methods import SqlAccess, asks, asks_namespace, changes
from coatcheck.core.retention.changes import RestoreArtifact
from coatcheck.core.retention.plan import PART
from coatcheck.ports.artifacts import IngestResult, UploadFenced

_WEIGHT = 1024


class SqlRetention(SqlAccess):
    """Plans, runs, what was removed, the schedule and the audit log. What each method does: see `ports/retention`."""

    candidates = asks_namespace(reads.candidates)
    sample = asks_namespace(reads.sample)
    first_expired = asks_namespace(reads.first_expired)
    held_back = asks_namespace(reads.held_back)
    oldest_read = asks_namespace(reads.oldest_read)
    live = asks_namespace(reads.live)
    items = asks(reads.items)
    open_plan = changes(plans.apply_open)
    keep_parts = changes(plans.apply_parts, lambda change: 4 * len(change.parts))
    close_plan = changes(plans.apply_close)
    kept_plan = asks(reads.kept_plan)
    plan_parts = asks(reads.parts)
    begin_run = changes(runs.apply_begin_run)
    claim_run = changes(runs.apply_claim)
    remove_batch = changes(runs.apply_batch, lambda _: PART)
    end_run = changes(runs.apply_end)
    note_round = changes(runs.add_round)
    run = asks(reads.run)
    list_runs = asks(reads.list_runs)
    set_job = changes(runs.apply_set_job)
    mark_job = changes(runs.apply_mark_job)
    list_jobs = asks(reads.list_jobs)
    removed_artifact = asks_namespace(removed_reads.removed_artifact)
    removed_by_run = asks(removed_reads.removed_by_run)
    forget_removed = changes(plans.apply_forget_removed, lambda change: change.limit)
    find_audit_lines = asks(audit_reads.find_lines)

    async def restore_artifact(self, change: RestoreArtifact, /) -> IngestResult | UploadFenced | None:
        """Bring an artifact back."""
        work = Work(restore.apply_restore, change, change.namespace, len(change.inline or b"") + _WEIGHT)
        try:
            return cast("IngestResult | UploadFenced | None", await self._commit(work))
        except usage.NamespaceClosing as error:
            raise usage.closing(change.namespace) from error
