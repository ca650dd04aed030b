"""Plans, their runs and undos among the random sequences; and the audit, compared with what became of the rows."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace
from sqlalchemy import Connection, select

from coatcheck.adapters.redaction_rules import Masks
from coatcheck.adapters.sql.tables import artifacts, audit_log, plan_parts
from coatcheck.core.artifact import Artifact, Blob, Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.retention.audit import By, unpack_numbers
from coatcheck.core.retention.jobs import JobScope, RetentionJob
from coatcheck.core.retention.plan import RetentionPlan
from coatcheck.ports.artifacts import IngestResult
from coatcheck.ports.blobs import BeginUpload
from coatcheck.ports.retention import ForgetRemoved, RestoreArtifact, RestoredView
from coatcheck.storing.find import SessionNames
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.usecases.retention.plan_retention import PlanRetention
from coatcheck.usecases.retention.run_retention import RunRetention
from contract.sample_changes import fresh_blob_id
from support.clock import HandClock
from support.harness import GRACE

if TYPE_CHECKING:
    from retention.sequences import World

_CALLER = Caller(name="test")
_BY = By.of(_CALLER)

Row = tuple[str, int, datetime]
"""Namespace, number, and when it was created: what tells an artifact's lives apart."""


@dataclass
class Kept:
    """What a sequence remembers of its plans, and of the audit so far."""

    plans: list[tuple[RetentionPlan, frozenset[tuple[str, int]]]] = field(
        default_factory=list[tuple[RetentionPlan, frozenset[tuple[str, int]]]]
    )
    audit_seq: int | None = None
    rows: frozenset[Row] = frozenset()


def _planning(world: "World") -> PlanRetention:
    async def settled() -> datetime:
        return world.now

    return PlanRetention(
        world.catalog,
        HandClock(world.now),
        fresh_blob_id,
        grace=GRACE,
        flush_reads=settled,
        session_names=SessionNames(world.catalog, RedactionPolicy("off", Masks(), ThreadPoolExecutor())),
    )


async def plan(world: "World") -> None:
    """Rehearse a job in one namespace."""
    rng = world.rng
    job = rng.choice(
        [RetentionJob.EXPIRE, RetentionJob.EVICT, RetentionJob.SESSION, RetentionJob.NAMESPACE, RetentionJob.LOST]
    )
    scope = JobScope(
        namespace=world.space(),
        session=rng.choice(["s", "t"]) if job is RetentionJob.SESSION else None,
        max_bytes=rng.choice([None, 0, 100, 3000]) if job is RetentionJob.EVICT else None,
        max_artifacts=rng.choice([0, 2]) if job is RetentionJob.EVICT else None,
    )
    made = await _planning(world)(_CALLER, job, scope)
    kept = await world.catalog.find_plan(made.digest, world.now)
    assert kept is not None
    parts = select(plan_parts.c.namespace, plan_parts.c.numbers).where(plan_parts.c.plan_id == kept.id)
    rows = await world.opened.ask(lambda conn: conn.execute(parts).all())
    members = [(namespace, number) for namespace, numbers in rows for number in unpack_numbers(numbers)]
    assert len(set(members)) == len(members) == made.artifacts
    world.kept.plans.append((made, frozenset(members)))
    world.did[f"planned to {job.value}: {bool(members)}"] += 1


async def apply(world: "World") -> None:
    """Apply a plan of before, which may be out of date by now."""
    if world.kept.plans:
        await _apply(world, *world.rng.choice(world.kept.plans))


async def _apply(world: "World", made: RetentionPlan, members: frozenset[tuple[str, int]]) -> None:
    before = await _rows(world)
    world.evicting = made.job is RetentionJob.EVICT
    world.expiring = made.job is RetentionJob.EXPIRE
    runs = RunRetention(
        world.catalog,
        HandClock(world.now),
        _planning(world),
        fresh_blob_id,
        me="test",
        tombstone_life=timedelta(days=30),
    )
    try:
        run = await runs.apply(_CALLER, made.digest, confirm=world.rng.random() < 0.8, wait=30)
    except CoatcheckError as error:
        if error.code not in {Code.PLAN_CHANGED, Code.CONFIRMATION_NEEDED}:
            raise
        assert await _rows(world) == before, "a plan that was refused removed something"
        world.did[f"apply refused: {error.code.value}"] += 1
        return
    gone = before - await _rows(world)
    assert {(namespace, number) for namespace, number, _ in gone} <= members, (
        "a run removed what its plan does not cover"
    )
    assert all(created <= made.planned_at for _, _, created in gone), "a run removed what came after its plan"
    assert run.artifacts == len(gone)
    world.did[f"applied to {made.job.value}: {bool(gone)}"] += 1


async def undo(world: "World") -> None:
    """Bring back what was removed, if it can be."""
    space, number = world.some()
    since = world.now - GRACE
    was = await world.catalog.find_removal(space, number, since)
    if was is None or was.artifact is None:
        return
    over = was.artifact.expires_at is not None and was.artifact.expires_at <= world.now
    copy, inline = await _copied(world, space, was.artifact.blob)
    views = [(each.view.name, await _copied(world, space, each.blob)) for each in was.views if each.blob is not None]
    own = [RestoredView(each.view.name, None, None) for each in was.views if each.blob is None]
    change = RestoreArtifact(
        namespace=space,
        number=number,
        seq=was.seq,
        now=world.now,
        ttl=100 if over else UNSET,
        blob=copy,
        inline=inline,
        views=(*own, *(RestoredView(name, *copied) for name, copied in views)),
        by=_BY,
        since=since,
    )
    try:
        answer = await world.catalog.commit(change)
    except CoatcheckError as error:
        if error.code is not Code.NAMESPACE_DELETING:
            raise
        world.did["no undo in a namespace that goes"] += 1
        return
    assert isinstance(answer, IngestResult)
    world.did[f"undone: {answer.created}"] += 1
    if answer.created and not over:
        assert _alike(answer.artifact) == _alike(was.artifact)


def _alike(artifact: Artifact) -> Artifact:
    return replace(artifact, blob=replace(artifact.blob, id="", placement="inline", condemned=False))


async def _copied(world: "World", space: str, blob: Blob) -> tuple[Blob, bytes | None]:
    new = replace(blob, id=fresh_blob_id(), condemned=False)
    inline = await world.catalog.inline_bytes(space, blob.id) if blob.placement == "inline" else None
    if inline is None:
        begin = BeginUpload(
            namespace=space, blob_id=new.id, placement="file", lease_until=world.now + timedelta(minutes=15)
        )
        await world.catalog.commit(begin)
        return replace(new, placement="file"), None
    return new, inline


_ROWS = select(artifacts.c.namespace, artifacts.c.number, artifacts.c.created_at)
_LINE = audit_log.c
_LINES = select(_LINE.seq, _LINE.action, _LINE.namespace, _LINE.numbers).order_by(_LINE.seq)


async def _rows(world: "World") -> frozenset[Row]:
    return await world.opened.ask(lambda conn: frozenset((row[0], row[1], row[2]) for row in conn.execute(_ROWS)))


async def compare_audit(world: "World", what: str) -> None:
    """Each artifact that went since the last look is in the audit once, and nothing else is."""
    kept = world.kept

    def question(conn: Connection) -> tuple[frozenset[Row], list[Any]]:
        rows = frozenset((row[0], row[1], row[2]) for row in conn.execute(_ROWS))
        return rows, list(conn.execute(_LINES.where(_LINE.seq > (kept.audit_seq or 0))))

    rows, lines = await world.opened.ask(question)
    if kept.audit_seq is not None:
        told = _told(lines, "artifact.removed")
        restored = _told(lines, "artifact.restored")
        gone = Counter((namespace, number) for namespace, number, _ in kept.rows - rows)
        came = Counter((namespace, number) for namespace, number, _ in rows - kept.rows)
        assert told == gone, f"{what}: the audit tells of {told}, and {gone} went"
        assert restored <= came, f"{what}: the audit tells that {restored} came back, and {came} came"
    kept.rows = rows
    kept.audit_seq = lines[-1][0] if lines else (kept.audit_seq or 0)


def _told(lines: Iterable[Any], action: str) -> Counter[tuple[str, int]]:
    return Counter(
        (line.namespace, number) for line in lines if line.action == action for number in unpack_numbers(line.numbers)
    )


async def forget(world: "World") -> None:
    """What the sweep does first: give up what cannot be undone any more."""
    change = ForgetRemoved(before=world.now - GRACE, now=world.now, limit=500)
    world.did["given up"] += await world.catalog.commit(change)


async def clear(world: "World") -> None:
    """Leave neither plans nor what an undo would need."""
    later = world.now + timedelta(days=1)
    await world.catalog.commit(ForgetRemoved(before=later, now=later, limit=100_000))


async def plan_and_apply(world: "World") -> None:
    """Apply a plan at once."""
    await plan(world)
    await _apply(world, *world.kept.plans[-1])


OPERATIONS: list[tuple[int, "Callable[[World], Awaitable[None]]"]] = [
    (2, plan),
    (3, plan_and_apply),
    (2, apply),
    (3, undo),
    (1, forget),
]
