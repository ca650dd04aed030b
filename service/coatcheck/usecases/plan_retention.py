"""Rehearse a job: find what it would remove, count it, and keep exactly that set for an hour, to be applied.

It changes nothing but its own record. Crash story: parts first, the digest that makes the plan findable last; a plan
that was never finished is found by nobody and forgotten with the others.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from coatcheck.core.retention import (
    PLAN_LIFE,
    REMOVING,
    Criteria,
    Job,
    JobScope,
    PlanBuilder,
    PlanPart,
    RetentionPlan,
    Sample,
    check_scope,
)
from coatcheck.core.retention.changes import ClosePlan, KeepParts, LiveTotals, OpenPlan
from coatcheck.ports.clock import Clock
from coatcheck.ports.retention import Retention

_PAGE: Final = 5_000
"""Candidates asked for at once: tens of milliseconds."""
_COUNTED: Final = 5_000
"""Rows counted at once: so few that PostgreSQL looks their blobs up, and does not read all there are each time."""
_AT_ONCE: Final = 64
"""Parts kept in one transaction: 256 KiB."""
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PlanRetention:
    """The verb."""

    def __init__(
        self,
        retention: Retention,
        clock: Clock,
        new_id: Callable[[], str],
        *,
        grace: timedelta,
        audit_life: timedelta | None = None,
        settled: Callable[[], Awaitable[datetime]],
    ) -> None:
        """Make the verb.

        Args:
            retention: the catalogue.
            clock: the time that decides.
            new_id: makes names that are used once.
            grace: how long removed bytes are kept.
            audit_life: how long audit lines are kept; None: a purge removes none.
            settled: answers a moment up to which every read is in its row, so that what had expired by then stays so.
        """
        self._retention = retention
        self._clock = clock
        self._new_id = new_id
        self._grace = grace
        self._audit_life = audit_life
        self._settled = settled

    async def __call__(self, job: Job, scope: JobScope) -> RetentionPlan:
        """Plan it.

        Raises:
            CoatcheckError: `invalid_request` for a scope that does not fit; `storage_unavailable`.
        """
        check_scope(job, scope)
        moment = await self._settled() if job is Job.EXPIRE else self._clock.now()
        plan_id = self._new_id()
        drafting = PlanBuilder(job, scope, moment)
        criteria = await self._criteria(job, scope, moment)
        await self._retention.open_plan(
            OpenPlan(plan_id=plan_id, job=job, scope=scope, criteria=criteria, until=moment + PLAN_LIFE)
        )
        if job in REMOVING:
            live = await self._draft(plan_id, drafting, criteria)
            plan = drafting.plan(live.artifacts, live.bytes, await self._samples(drafting))
        else:
            items, size = await self._retention.items(job, self._before(job, moment), self._audit_life)
            plan = drafting.plan(0, 0, items=items, item_bytes=size)
        await self._retention.close_plan(ClosePlan(plan_id=plan_id, plan=plan))
        return plan

    async def live(self, scope: JobScope) -> LiveTotals:
        """What there is where a scope points."""
        total = LiveTotals()
        async for namespace in self._namespaces(scope):
            total = _sum(total, await self._live_of(namespace))
        return total

    def _before(self, job: Job, moment: datetime) -> datetime:
        return moment - self._grace if job is Job.SWEEP else moment

    async def _criteria(self, job: Job, scope: JobScope, moment: datetime) -> Criteria:
        if job is not Job.EVICT:
            return Criteria(job=job, moment=moment, namespace=scope.namespace, session=scope.session)
        read_until, seq = await self._cut(scope, moment)
        return Criteria(job=job, moment=moment, namespace=scope.namespace, read_until=read_until, read_until_seq=seq)

    async def _cut(self, scope: JobScope, moment: datetime) -> tuple[datetime, int]:
        """The last read and the row up to which artifacts have to go for the rest to fit."""
        namespace = scope.namespace or ""
        live = await self._live_of(namespace)
        bytes_over = 0 if scope.max_bytes is None else live.bytes - scope.max_bytes
        artifacts_over = 0 if scope.max_artifacts is None else live.artifacts - scope.max_artifacts
        last = (_NEVER, 0)
        while bytes_over > 0 or artifacts_over > 0:
            page = await self._retention.oldest_read(namespace, moment, after=last, limit=_PAGE)
            for read_at, seq, size in page:
                if bytes_over <= 0 and artifacts_over <= 0:
                    break
                last = (read_at, seq)
                bytes_over -= size
                artifacts_over -= 1
            if len(page) < _PAGE:
                break
        return last

    async def _draft(self, plan_id: str, drafting: PlanBuilder, criteria: Criteria) -> LiveTotals:
        """Take every candidate, and keep the parts as they fill; answers what there is where they are."""
        total = LiveTotals()
        waiting: list[PlanPart] = []
        scope = JobScope(namespace=criteria.namespace)
        async for namespace in self._namespaces(scope):
            total = _sum(total, await self._live_of(namespace))
            drafting.held += await self._retention.held_back(namespace, criteria, criteria.moment)
            if criteria.job is Job.EXPIRE:
                first = await self._retention.first_expired(namespace, criteria.moment)
                drafting.oldest = min(filter(None, (drafting.oldest, first)), default=None)
            after = 0
            while True:
                page = await self._retention.candidates(namespace, criteria, criteria.moment, after=after, limit=_PAGE)
                waiting += drafting.take(namespace, page)
                if len(waiting) >= _AT_ONCE:
                    await self._keep(plan_id, waiting)
                if len(page) < _PAGE:
                    break
                after = page[-1].seq
        waiting += drafting.cut()
        await self._keep(plan_id, waiting)
        return total

    async def _samples(self, drafting: PlanBuilder) -> list[Sample]:
        by_namespace: dict[str, list[int]] = {}
        for namespace, number in drafting.largest:
            by_namespace.setdefault(namespace, []).append(number)
        found = [
            sample
            for namespace, numbers in by_namespace.items()
            for sample in await self._retention.samples(namespace, numbers)
        ]
        return sorted(found, key=lambda sample: (-sample.bytes, sample.namespace, sample.id))

    async def _keep(self, plan_id: str, waiting: list[PlanPart]) -> None:
        if waiting:
            await self._retention.keep_parts(KeepParts(plan_id=plan_id, parts=tuple(waiting)))
            waiting.clear()

    async def _live_of(self, namespace: str) -> LiveTotals:
        total, after = LiveTotals(), 0
        while True:
            live, last = await self._retention.live(namespace, after=after, limit=_COUNTED)
            total = _sum(total, live)
            if last is None:
                return total
            after = last

    async def _namespaces(self, scope: JobScope) -> AsyncGenerator[str]:
        if scope.namespace is not None:
            yield scope.namespace
            return
        namespace = ""
        while (following := await self._retention.next_namespace(namespace)) is not None:
            namespace = following
            yield namespace


def _sum(one: LiveTotals, other: LiveTotals) -> LiveTotals:
    return LiveTotals(one.artifacts + other.artifacts, one.bytes + other.bytes)
