"""Apply a plan: check that it still describes what is stored, begin a run, and carry it out part by part.

Crash story: a part is one transaction, which removes its artifacts, writes the line in the audit log and advances the
run. If its worker is gone, any process resumes the run once its lease has passed, at the part where it stopped; a
worker that was only slow finds its part done. Nothing outside the plan is ever removed: a part names its artifacts.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.retention import REMOVING, Job, Outcome, PlanPart, RetentionRun, check_share, check_still
from coatcheck.core.retention.audit import By, unpack_numbers
from coatcheck.ports.clock import Clock
from coatcheck.ports.retention import Retention
from coatcheck.ports.retention_changes import BeginRun, ClaimRun, EndRun, KeptPlan, RemoveBatch
from coatcheck.upkeep.maintenance import MaintenanceJobResult
from coatcheck.usecases.retention.plan_retention import PlanRetention

log = logging.getLogger(__name__)

_LEASE: Final = timedelta(seconds=60)
"""Time without a finished part after which any process may take a run."""
_CHORE_LEASE: Final = timedelta(hours=2)
"""Time after which any process may take a run of one part, which reports no progress."""
_MOST_LEFT: Final = 200
_PARTS: Final = 20
"""Parts that are compared at once with what is stored: 10,000 artifacts."""
_PAGE: Final = 5_000

Chore = Callable[[], Awaitable[MaintenanceJobResult]]
Chores = Mapping[Job, Chore]
Lives = Callable[[timedelta], tuple[timedelta, Mapping[str, timedelta]]]


@dataclass(eq=False)
class RunRetention:
    """Applies retention plans as runs, and resumes interrupted runs."""

    retention: Retention
    clock: Clock
    plan: PlanRetention
    """Tells what is stored."""
    new_id: Callable[[], str]
    """Makes names that are unique."""
    _: KW_ONLY
    me: str
    """A name that no other process has."""
    tombstone_life: timedelta
    lives: Lives = lambda life: (life, {})
    """How long tombstones last by the policies: in general, and in the namespaces that policies name."""
    chores: Chores = field(default_factory=dict[Job, Chore])
    """Run the jobs that remove no artifacts."""
    alone: bool = False
    """Whether no other process has the store, so that an interrupted run can be resumed at once."""
    _working: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"], init=False)

    async def apply(self, digest: str, *, confirm: bool, by: By, wait: float = 0.0) -> RetentionRun:
        """Begins to carry out a plan and returns its run, or the one already under way; waits that long for its end.

        Raises:
            CoatcheckError: `plan_changed` if there is no such plan any more, or too little of it is left;
                `confirmation_needed` if it would remove a large part of what is stored; `storage_unavailable`.
        """
        now = self.clock.now()
        kept_plan = await self.retention.kept_plan(digest, now)
        if kept_plan is None:
            raise no_such_plan()
        if kept_plan.plan.job in REMOVING:
            check_still(kept_plan.plan, *await self._still(kept_plan))
            check_share(kept_plan.plan, (await self.plan.live(kept_plan.plan.scope)).bytes, confirm=confirm)
        run = RetentionRun(
            id=f"run_{self.new_id()}",
            job=kept_plan.plan.job.value,
            scope=kept_plan.plan.scope,
            actor=by.actor,
            key_id=by.key_id,
            started_at=now,
            updated_at=now,
            outcome=Outcome.RUNNING,
            plan_id=kept_plan.id,
            plan_digest=digest,
            planned=kept_plan.plan.artifacts,
            parts=kept_plan.parts,
        )
        lease = _LEASE if kept_plan.plan.job in REMOVING else _CHORE_LEASE
        begun = await self.retention.commit(BeginRun(run=run, worker=self.me, lease_until=now + lease))
        if begun.id == run.id:
            self._start(begun)
        return await self._ended(begun, wait)

    async def resume(self) -> int:
        """Resumes interrupted runs; returns how many. They continue in the background.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        if self.alone:
            # Nobody else can be at them: whoever was is gone, whatever its leases say.
            left = await self.retention.list_runs(limit=_MOST_LEFT, outcome=Outcome.RUNNING)
            self.alone = False
            return sum([self._take_up(run) for run in left])
        taken = 0
        while True:
            now = self.clock.now()
            run = await self.retention.commit(ClaimRun(worker=self.me, now=now, lease_until=now + _LEASE))
            if run is None:
                return taken
            taken += self._take_up(run)

    def _take_up(self, run: RetentionRun) -> bool:
        """Resumes a run, unless this process is already carrying it out."""
        if run.id in self._working:
            return False
        log.info("run %s was left at part %d of %d, and is taken up", run.id, run.next_part, run.parts)
        self._start(run)
        return True

    async def carry_on(self, run: RetentionRun) -> None:
        """Carries a run to its end.

        Raises:
            CoatcheckError: storage's refusal; the run is then resumed when its lease has passed.
        """
        began = time.monotonic()
        job = Job(run.job)
        if job not in REMOVING:
            chore = self.chores.get(job)
            if chore is None:
                await self._end(run, Outcome.FAILED, began, MaintenanceJobResult(detail="This service cannot do it."))
            else:
                await self._end(run, Outcome.FINISHED, began, await chore())
            return
        now: RetentionRun | None = run
        while now is not None and now.outcome is Outcome.RUNNING and now.next_part < now.parts:
            now = await self._part(now)
        if now is None or now.outcome is not Outcome.RUNNING:
            return
        detail = f"{now.left:,} of its artifacts were gone, pinned, held or changed by then." if now.left else ""
        await self._end(now, Outcome.FINISHED, began, MaintenanceJobResult(detail=detail))

    async def close(self, seconds: float) -> None:
        """Lets runs go on for that long; the rest is resumed after its lease."""
        if not self._working:
            return
        _, left = await asyncio.wait(list(self._working.values()), timeout=seconds)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    async def _part(self, run: RetentionRun) -> RetentionRun | None:
        now = self.clock.now()
        life, own = self.lives(self.tombstone_life)
        return await self.retention.commit(
            RemoveBatch(
                run_id=run.id,
                part=run.next_part,
                worker=self.me,
                now=now,
                lease_until=now + _LEASE,
                tombstone_until=now + life,
                tombstone_lives=own,
            )
        )

    async def _end(self, run: RetentionRun, outcome: Outcome, began: float, done: MaintenanceJobResult) -> None:
        await self.retention.commit(
            EndRun(
                run_id=run.id,
                now=self.clock.now(),
                outcome=outcome,
                detail=done.detail,
                items=done.items,
                bytes=done.bytes,
                busy_seconds=time.monotonic() - began,
            )
        )

    def _start(self, run: RetentionRun) -> None:
        task = asyncio.create_task(self._watched(run), name=f"retention {run.id}")
        self._working[run.id] = task
        task.add_done_callback(lambda _: self._working.pop(run.id, None))

    async def _watched(self, run: RetentionRun) -> None:
        try:
            await self.carry_on(run)
        except CoatcheckError as error:
            log.warning("run %s is interrupted and will be taken up again: %s", run.id, error.detail)
        except Exception:
            log.exception("run %s failed", run.id)
            try:
                failure = MaintenanceJobResult(detail="An error of the service; see its log.")
                await self._end(run, Outcome.FAILED, time.monotonic(), failure)
            except CoatcheckError as error:
                log.warning("run %s could not be ended: %s", run.id, error.detail)

    async def _ended(self, run: RetentionRun, wait: float) -> RetentionRun:
        task = self._working.get(run.id)
        if task is not None and wait > 0:
            await asyncio.wait([task], timeout=wait)
        return await self.retention.run(run.id) or run

    async def _still(self, kept_plan: KeptPlan) -> tuple[int, int]:
        """Returns how many of a plan's artifacts meet its criteria now, and their bytes."""
        artifacts = size = 0
        async for parts in self._groups(kept_plan):
            members = {number for part in parts for number in unpack_numbers(part.numbers)}
            after, last = parts[0].first_seq - 1, parts[-1].last_seq
            while after < last:
                page = await self.retention.candidates(
                    parts[0].namespace, kept_plan.criteria, self.clock.now(), after=after, limit=_PAGE
                )
                there = [each for each in page if each.seq <= last and each.number in members]
                artifacts += len(there)
                size += sum(each.size for each in there)
                if len(page) < _PAGE:
                    break
                after = page[-1].seq
        return artifacts, size

    async def _groups(self, kept_plan: KeptPlan) -> AsyncGenerator[list[PlanPart]]:
        """Yields the parts of a plan, some of one namespace at a time."""
        first = 0
        while first < kept_plan.parts:
            found = await self.retention.plan_parts(kept_plan.id, first=first, limit=_PARTS)
            if not found:
                return
            group = [part for part in found if part.namespace == found[0].namespace]
            yield group
            first = group[-1].part + 1


def no_such_plan() -> CoatcheckError:
    """Returns the error for a plan that does not exist, is too old, or is not the caller's to apply."""
    return CoatcheckError(
        Code.PLAN_CHANGED,
        "There is no such plan, or it is older than an hour. Nothing was done. Make a new plan, review it, and apply "
        "that one.",
    )
