"""Plan a job: find what it would remove, count it, and keep exactly that set for an hour, to be applied.

Planning changes nothing but its own record. Crash story: parts are written first, and last the digest by which the plan
is found; a plan that was never finished cannot be found and is forgotten with the others.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from coatcheck.core.artifact import Caller
from coatcheck.core.keys import is_everywhere, require_everywhere, resolve_administered
from coatcheck.core.retention.jobs import REMOVING, Criteria, JobScope, RetentionJob, check_scope
from coatcheck.core.retention.plan import PlanBuilder, PlanPart, PlanSample, RetentionPlan
from coatcheck.ports.retention import KeepPlan, LiveTotals, Retention
from coatcheck.ports.telemetry import DeletionClock

_CANDIDATE_ROWS: Final = 5_000
"""Candidates that one statement asks for, in tens of milliseconds."""
_COUNTED_ROWS: Final = 5_000
"""Rows that one statement counts: so few that PostgreSQL looks their blobs up instead of reading all blobs."""
_PARTS_PER_COMMIT: Final = 64
"""Parts that one transaction keeps: 256 KiB."""
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Earlier than any read: the cut of a plan that evicts nothing."""


@dataclass(frozen=True)
class PlanRetention:
    """Plans a retention job: what it would remove now, and why."""

    retention: Retention
    clock: DeletionClock
    new_id: Callable[[], str]
    """Makes names that are unique."""
    _: KW_ONLY
    grace: timedelta
    """How long removed bytes are kept."""
    audit_life: timedelta | None = None
    """How long audit lines are kept; None: a purge removes none."""
    flush_reads: Callable[[], Awaitable[datetime]]
    """Returns a moment up to which every read is in its row, so that what had expired by then stays expired."""

    async def __call__(self, caller: Caller, job: RetentionJob, scope: JobScope) -> RetentionPlan:
        """Returns the plan of a job; without a namespace, of the one that the caller administers, or of all.

        Raises:
            CoatcheckError: `forbidden`; `invalid_request` for a scope that does not fit; `deletions_paused`;
                `storage_unavailable`.
        """
        if job not in REMOVING:
            require_everywhere(caller)  # about the whole store, whichever namespace is named
        if scope.namespace is not None or not is_everywhere(caller):
            scope = replace(scope, namespace=resolve_administered(caller, scope.namespace))
        check_scope(job, scope)
        # For expiry, unwritten reads go to their rows first: they may keep alive what looks expired.
        moment = await self.flush_reads() if job is RetentionJob.EXPIRE else self.clock.deletion_time()
        plan_id = self.new_id()
        drafting = PlanBuilder(job, scope, moment)
        # The record comes first, without a digest: parts need its ID, and nobody can apply it yet.
        plan_draft = KeepPlan(plan_id=plan_id, scope=scope, criteria=await self._criteria(job, scope, moment))
        await self.retention.commit(plan_draft)
        if job in REMOVING:
            live = await self._draft(plan_draft, drafting)
            plan = drafting.plan(live.artifacts, live.bytes, await self._samples(drafting))
        else:
            before = moment - self.grace if job is RetentionJob.SWEEP else moment
            items, size = await self.retention.items(job, before, self.audit_life)
            plan = drafting.plan(0, 0, items=items, item_bytes=size)
        # Last of all, the digest: from here on the plan can be found.
        await self.retention.commit(replace(plan_draft, plan=plan))
        return plan

    async def live(self, scope: JobScope) -> LiveTotals:
        """Returns what exists within a scope."""
        total = LiveTotals()
        async for namespace in self._namespaces(scope.namespace):
            total += await self._live_of(namespace)
        return total

    async def _criteria(self, job: RetentionJob, scope: JobScope, moment: datetime) -> Criteria:
        if job is not RetentionJob.EVICT:
            return Criteria(job=job, moment=moment, namespace=scope.namespace, session=scope.session)
        read_until, seq = await self._cut(scope, moment)
        return Criteria(job=job, moment=moment, namespace=scope.namespace, read_until=read_until, read_until_seq=seq)

    async def _cut(self, scope: JobScope, moment: datetime) -> tuple[datetime, int]:
        """Returns the last read and the row up to which artifacts must go for the rest to fit."""
        namespace = scope.namespace or ""
        live = await self._live_of(namespace)
        bytes_over = 0 if scope.max_bytes is None else live.bytes - scope.max_bytes
        artifacts_over = 0 if scope.max_artifacts is None else live.artifacts - scope.max_artifacts
        last = (_NEVER, 0)
        # In pages, least recently read first, so that no statement reads a whole namespace.
        while bytes_over > 0 or artifacts_over > 0:
            page = await self.retention.oldest_read(namespace, moment, after=last, limit=_CANDIDATE_ROWS)
            for read_at, seq, size in page:
                if bytes_over <= 0 and artifacts_over <= 0:
                    break
                last = (read_at, seq)
                bytes_over -= size
                artifacts_over -= 1
            if len(page) < _CANDIDATE_ROWS:
                break
        return last

    async def _draft(self, plan_draft: KeepPlan, drafting: PlanBuilder) -> LiveTotals:
        """Collects every candidate and keeps parts as they fill; returns what exists where the candidates are."""
        total, criteria = LiveTotals(), plan_draft.criteria
        waiting: list[PlanPart] = []
        async for namespace in self._namespaces(criteria.namespace):
            total += await self._live_of(namespace)
            drafting.held += await self.retention.count_held(namespace, criteria, criteria.moment)
            if criteria.job is RetentionJob.EXPIRE:
                first = await self.retention.first_expired(namespace, criteria.moment)
                drafting.oldest = min(filter(None, (drafting.oldest, first)), default=None)
            after = 0
            while True:
                page = await self.retention.candidates(
                    namespace, criteria, criteria.moment, after=after, limit=_CANDIDATE_ROWS
                )
                waiting += drafting.take(namespace, page)
                # Parts are written as they fill: a plan of millions is never in memory as a whole.
                if len(waiting) >= _PARTS_PER_COMMIT:
                    await self.retention.commit(replace(plan_draft, parts=tuple(waiting)))
                    waiting.clear()
                if len(page) < _CANDIDATE_ROWS:
                    break
                after = page[-1].seq
        waiting += drafting.cut()
        await self.retention.commit(replace(plan_draft, parts=tuple(waiting)))
        return total

    async def _samples(self, drafting: PlanBuilder) -> list[PlanSample]:
        samples = [await self.retention.sample(namespace, number) for namespace, number in drafting.largest]
        return [sample for sample in samples if sample is not None]

    async def _live_of(self, namespace: str) -> LiveTotals:
        total, after = LiveTotals(), 0
        while True:
            live, last = await self.retention.live(namespace, after=after, limit=_COUNTED_ROWS)
            total += live
            if last is None:
                return total
            after = last

    async def _namespaces(self, only: str | None) -> AsyncGenerator[str]:
        namespace = only or await self.retention.next_namespace("")
        while namespace is not None:
            yield namespace
            namespace = None if only else await self.retention.next_namespace(namespace)
