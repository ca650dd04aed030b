"""Plan a retention job: find and count the artifacts that it would remove, and store exactly this set for an hour.

An administrator may apply the plan within that hour. Planning changes nothing in the store except the plan's own
record.

Crash story: the parts of a plan are written first, and its digest last. A plan is found only by its digest, so after a
crash an unfinished plan cannot be found; it is deleted when plans of its age are deleted.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from coatcheck.core.artifact import Caller
from coatcheck.core.keys import EVERYWHERE, is_everywhere, require_everywhere, resolve_administered
from coatcheck.core.retention.jobs import LIVE_ONLY, REMOVING, Criteria, JobScope, RetentionJob, check_scope
from coatcheck.core.retention.plan import PlanBuilder, PlanPart, PlanSample, RetentionPlan
from coatcheck.ports.retention import KeepPlan, LiveTotals, Retention
from coatcheck.ports.telemetry import DeletionClock
from coatcheck.storing.find import SessionNames

_CANDIDATE_ROWS: Final = 5_000
"""Maximum candidates that one query reads, which takes tens of milliseconds."""
_COUNTED_ROWS: Final = 5_000
"""Maximum rows that one query counts: so few that PostgreSQL looks up their blobs instead of reading all blobs."""
_PARTS_PER_COMMIT: Final = 64
"""Maximum parts of a plan that one transaction writes: 256 KiB."""
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""A moment before any read and any expiry: the limit up to which a plan evicts artifacts if it need not evict any."""


@dataclass(frozen=True)
class PlanRetention:
    """Plans a retention job: finds the artifacts that the job would remove now, and why."""

    retention: Retention
    clock: DeletionClock
    new_id: Callable[[], str]
    """Returns an ID that is unique."""
    _: KW_ONLY
    grace: timedelta
    """How long the bytes of a dead blob are kept before a sweep removes them."""
    audit_life: timedelta | None = None
    """How long audit lines are kept; None: a purge removes no audit lines."""
    flush_reads: Callable[[], Awaitable[datetime]]
    """Writes the recorded reads, and returns a moment up to which every read is written. An artifact that has expired
    by then stays expired."""
    session_names: SessionNames

    async def __call__(self, caller: Caller, job: RetentionJob, scope: JobScope) -> RetentionPlan:
        """Makes the plan of a job, stores it and returns it, with secrets in the names of sessions masked.

        A plan for several namespaces masks the names of its groups as the policies of all namespaces say.

        Args:
            caller: the caller.
            job: the job.
            scope: the part of the store that the job concerns; a session by its real name or as lists show it. Without
                a namespace, the scope is the namespace that the caller administers, or all namespaces.

        Raises:
            CoatcheckError: `forbidden`; `invalid_request` for a scope that the job cannot have; `deletions_paused`;
                `storage_unavailable`.
        """
        if job not in REMOVING:
            require_everywhere(caller)  # such a job concerns the whole store, whatever the scope says
        if scope.namespace is not None or not is_everywhere(caller):
            scope = replace(scope, namespace=resolve_administered(caller, scope.namespace))
        check_scope(job, scope)
        # Recorded reads are written first: a read may extend the life of an artifact that looks expired, and an
        # artifact that was just read is not evicted as the least recently read one.
        moment = self.clock.deletion_time()
        if job in {RetentionJob.EXPIRE, RetentionJob.EVICT}:
            until = await self.flush_reads()
            moment = until if job is RetentionJob.EXPIRE else moment
        plan_id = self.new_id()
        session = scope.session
        if session is not None and scope.namespace is not None:
            session = await self.session_names.real(replace(caller, namespace=scope.namespace), session)
            scope = replace(scope, session=self.session_names.shown(scope.namespace, session))
        builder = PlanBuilder(job, scope, moment)
        # The record is written first, because parts need its ID. It has no digest yet, so nobody can apply it.
        plan_draft = KeepPlan(plan_id=plan_id, scope=scope, criteria=await self._criteria(job, scope, session, moment))
        await self.retention.commit(plan_draft)
        if job in REMOVING:
            live = await self._draft(plan_draft, builder)
            plan = builder.plan(live.artifacts, live.bytes, await self._samples(builder))
            groups = [replace(each, name=self._mask(scope.namespace, each.name)) for each in plan.by_session]
            plan = replace(plan, by_session=tuple(groups))
        else:
            before = moment - self.grace if job is RetentionJob.SWEEP else moment
            items, size = await self.retention.items(job, before, self.audit_life)
            plan = builder.plan(0, 0, items=items, item_bytes=size)
        # The digest is written last. From here on the plan can be found and applied.
        await self.retention.commit(replace(plan_draft, plan=plan))
        return plan

    async def live(self, job: RetentionJob, scope: JobScope, now: datetime) -> LiveTotals:
        """Returns how many artifacts exist in the namespaces of a job, and their bytes.

        Expired artifacts that are not removed yet count only if the job may remove them.
        """
        total = LiveTotals()
        async for namespace in self._namespaces(scope.namespace):
            total += await self._live_of(namespace, job, now)
        return total

    def _mask(self, namespace: str | None, session: str) -> str:
        return self.session_names.shown(namespace or EVERYWHERE, session)

    async def _criteria(self, job: RetentionJob, scope: JobScope, session: str | None, moment: datetime) -> Criteria:
        """Returns the criteria that an artifact must meet to be removed; `session` is the real name."""
        if job is not RetentionJob.EVICT:
            return Criteria(job=job, moment=moment, namespace=scope.namespace, session=session)
        read_until, seq = await self._cut(scope, moment)
        return Criteria(job=job, moment=moment, namespace=scope.namespace, read_until=read_until, read_until_seq=seq)

    async def _cut(self, scope: JobScope, moment: datetime) -> tuple[datetime, int]:
        """Returns the last read of the last artifact that an eviction must remove, and the artifact's row number.

        An eviction removes this artifact and all artifacts that were read earlier; the rest fits the scope's limits.
        """
        namespace = scope.namespace or ""
        live = await self._live_of(namespace, RetentionJob.EVICT, moment)
        bytes_over = 0 if scope.max_bytes is None else live.bytes - scope.max_bytes
        artifacts_over = 0 if scope.max_artifacts is None else live.artifacts - scope.max_artifacts
        last = (_NEVER, 0)
        # Artifacts are read in pages, the least recently read first, so that no query reads a whole namespace.
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

    async def _draft(self, plan_draft: KeepPlan, builder: PlanBuilder) -> LiveTotals:
        """Collects all candidates, and writes the parts of the plan as they fill.

        Returns the totals of live artifacts in the namespaces of the plan.
        """
        total, criteria = LiveTotals(), plan_draft.criteria
        waiting: list[PlanPart] = []
        async for namespace in self._namespaces(criteria.namespace):
            total += await self._live_of(namespace, criteria.job, criteria.moment)
            builder.held += await self.retention.count_held(namespace, criteria, criteria.moment)
            if criteria.job is RetentionJob.EXPIRE:
                first = await self.retention.first_expired(namespace, criteria.moment)
                builder.oldest = min(filter(None, (builder.oldest, first)), default=None)
            after = 0
            while True:
                page = await self.retention.candidates(
                    namespace, criteria, criteria.moment, after=after, limit=_CANDIDATE_ROWS
                )
                waiting += builder.take(namespace, page)
                # Parts are written as they fill, so that a plan of millions of artifacts is never in memory as a whole.
                if len(waiting) >= _PARTS_PER_COMMIT:
                    await self.retention.commit(replace(plan_draft, parts=tuple(waiting)))
                    waiting.clear()
                if len(page) < _CANDIDATE_ROWS:
                    break
                after = page[-1].seq
        waiting += builder.cut()
        await self.retention.commit(replace(plan_draft, parts=tuple(waiting)))
        return total

    async def _samples(self, builder: PlanBuilder) -> list[PlanSample]:
        samples = [await self.retention.sample(namespace, number) for namespace, number in builder.largest]
        return [
            replace(sample, session=sample.session and self._mask(sample.namespace, sample.session))
            for sample in samples
            if sample is not None
        ]

    async def _live_of(self, namespace: str, job: RetentionJob, now: datetime) -> LiveTotals:
        total, after, live_at = LiveTotals(), 0, now if job in LIVE_ONLY else _NEVER
        while True:
            live, last = await self.retention.live(namespace, live_at, after=after, limit=_COUNTED_ROWS)
            total += live
            if last is None:
                return total
            after = last

    async def _namespaces(self, only: str | None) -> AsyncGenerator[str]:
        namespace = only or await self.retention.next_namespace("")
        while namespace is not None:
            yield namespace
            namespace = None if only else await self.retention.next_namespace(namespace)
