"""The audit log: every line is written once, or not, and goes when its time is over."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from coatcheck.adapters.sql.changes import audit
from coatcheck.adapters.sql.engine import sqlite_url, writing_engine
from coatcheck.adapters.sql.schema import migrate
from coatcheck.adapters.sql.tables import audit_log
from coatcheck.core import ids
from coatcheck.core.artifact import Caller
from coatcheck.core.retention.audit import AuditLine, By, merge_lines
from coatcheck.core.retention.jobs import RetentionJob
from coatcheck.ports.artifacts import DeleteArtifact
from contract.sample_changes import START, number_of, store
from retention.retention_harness import ALICE, AUDIT_LIFE, RetentionHarness
from support.harness import TOMBSTONE_LIFE

CALLER = Caller(namespace="acme", name="alice")


def _line(n: int, **said: Any) -> AuditLine:  # noqa: ANN401 - of a line
    return AuditLine(at=START + timedelta(seconds=n), action="key.created", by=By(f"a{n}"), **said)


def test_removals_of_one_hand_and_reason_are_one_line_and_nothing_else_is() -> None:
    def gone(number: int, reason: str = "expired", by: By = ALICE) -> AuditLine:
        return AuditLine(at=START, action="artifact.removed", by=by, reason=reason, size=10, numbers=(number,))

    in_a_run = By(ALICE.actor, ALICE.key_id, "r")
    lines = [gone(1), gone(2, "deleted"), gone(3), gone(4, by=in_a_run), _line(1), _line(1)]
    assert [(line.numbers, line.size) for line in merge_lines(lines)] == [
        ((1, 3), 20),
        ((2,), 10),
        ((4,), 10),
        ((), 0),
        ((), 0),
    ]


async def test_deletes_at_once_are_each_in_the_audit_once(harness: RetentionHarness) -> None:
    changes = [store(b"%d" % n, namespace=f"space{n % 3}") for n in range(60)]
    await asyncio.gather(*(harness.catalog.commit(change) for change in changes))
    deletes = [
        DeleteArtifact(
            namespace=change.namespace,
            number=number_of(change),
            now=harness.clock.now(),
            tombstone_until=harness.clock.now() + TOMBSTONE_LIFE,
        )
        for change in changes
    ]
    answers = await asyncio.gather(*(harness.catalog.commit(change) for change in [*deletes, *deletes]))
    assert answers.count(True) == 60
    assert sorted(await harness.removed_lines()) == sorted(map(number_of, changes))
    spaces = {(number, line.namespace) for line in await harness.audit_lines() for number in line.numbers}
    assert spaces == {(number_of(change), change.namespace) for change in changes}


async def test_what_is_posted_again_over_an_expired_one_is_told_as_its_expiry(harness: RetentionHarness) -> None:
    said = {"session": "s", "tool_call_id": "c"}
    number = await harness.store(b"again\n", ttl=60, **said)
    harness.clock.forward(seconds=100)
    assert await harness.store(b"again\n", **said) == number
    (line,) = await harness.audit_lines()
    assert (line.action, line.reason, line.by.actor, line.numbers, line.size) == (
        "artifact.removed",
        "expired",
        "schedule",
        (number,),
        6,
    )


async def test_the_schedule_prunes_lines_that_are_too_old_and_a_plan_counts_them_before(
    harness: RetentionHarness,
) -> None:
    for n in range(3):
        await harness.forget(CALLER, await harness.store(b"%d" % n))
        harness.clock.forward(days=1)
    assert [line.at for line in await harness.audit_lines()] == [START + timedelta(days=n) for n in (2, 1, 0)]
    await harness.maintenance()
    harness.clock.forward(seconds=(START + AUDIT_LIFE + timedelta(days=1) - harness.clock.now()).total_seconds())
    assert (
        await harness.maintenance.purge()
    ).items == 3 + 1  # tombstones, and the line that is older than that to the moment
    assert [line.at for line in await harness.audit_lines()] == [START + timedelta(days=n) for n in (2, 1)]
    harness.clock.forward(days=1)
    assert (await harness.plan(RetentionJob.PURGE)).items == 1
    assert (await harness.maintenance()).purged == 1
    assert [line.at for line in await harness.audit_lines(action="artifact")] == [START + timedelta(days=2)]


async def test_signs_of_patterns_in_an_action_are_literal(harness: RetentionHarness) -> None:
    await harness.forget(CALLER, await harness.store(b"x"))
    assert await harness.audit_lines(action="artifact")
    for action in ("%", "artifac_", "%t"):
        assert await harness.audit_lines(action=action) == []


async def test_lines_written_after_all_others_were_pruned_are_found(harness: RetentionHarness) -> None:
    await harness.forget(CALLER, await harness.store(b"first"))
    harness.clock.forward(days=AUDIT_LIFE.days + 1)
    await harness.maintenance.purge()
    assert await harness.audit_lines() == []
    number = await harness.store(b"second")
    await harness.forget(CALLER, number)
    assert [line.numbers for line in await harness.audit_lines()] == [(number,)]


def test_what_is_taken_back_was_never_written(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    migrate(sqlite_url(path))
    engine = writing_engine(sqlite_url(path))
    with engine.connect() as conn:
        audit.begin(conn)
        audit.append(conn, _line(1))
        audit.begin(conn)  # the transaction was taken back, and the next one begins
        with conn.begin():
            audit.append(conn, _line(2, numbers=(ids.check_digits(7),)))
            audit.flush(conn, lambda _conn, _namespace: None)
        assert [row.actor for row in conn.execute(audit_log.select())] == ["a2"]
    engine.dispose()
