"""Whatever is done to the audit behind its back shows, as far as it can; and every line is written once, or not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, delete, update

from coatcheck.adapters.sql.changes import audit as writing
from coatcheck.adapters.sql.engine import sqlite_url, writing_engine
from coatcheck.adapters.sql.schema import migrate
from coatcheck.adapters.sql.tables import audit, audit_head
from coatcheck.core import ids
from coatcheck.core.artifact import Caller
from coatcheck.core.audit import (
    AuditLine,
    Breach,
    Chain,
    Head,
    SealedAuditLine,
    digest_of,
    head_of,
    merged,
    seal,
    unpack_numbers,
)
from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.artifacts import DeleteArtifact
from contract.conftest import CATALOGS
from contract.sample_changes import START, number_of, store
from retention.retention_harness import LIFE, RetentionHarness, harness_in

CALLER = Caller(namespace="acme", name="alice")


def _line(n: int, **said: Any) -> AuditLine:  # noqa: ANN401 - of a line
    return AuditLine(at=START + timedelta(seconds=n), action="key.created", actor=f"a{n}", **said)


def _chain(count: int) -> list[SealedAuditLine]:
    head = Head()
    entries: list[SealedAuditLine] = []
    for n in range(count):
        entry = seal(head, _line(n, numbers=(n + 10**17,), size=n, details={"n": n, "name": "é\0"}))
        entries.append(entry)
        head = head_of(entry)
    return entries


def _verdict(entries: Sequence[SealedAuditLine], stored: Head | None, kept: Head | None = None) -> str | None:
    chain = Chain(kept)
    for entry in entries:
        breach = chain.follow(entry)
        if breach is not None:
            return breach.what
    breach = chain.end(stored)
    return None if breach is None else breach.what


def test_each_field_of_a_line_is_covered_by_its_hash() -> None:
    entries = _chain(3)
    others: dict[str, Any] = {
        "at": START,
        "action": "key.revoked",
        "actor": "b",
        "key_id": "k",
        "namespace": "n",
        "reason": "r",
        "run_id": "run_1",
        "artifacts": 2,
        "size": 7,
        "numbers": bytes(8),
        "details": "{}",
    }
    assert set(others) == set(SealedAuditLine.__struct_fields__) - {"seq", "previous", "digest"}
    for name, value in others.items():
        changed = [entries[0], replace(entries[1], **{name: value}), entries[2]]
        assert _verdict(changed, head_of(entries[2])) == "changed", name


def test_lines_that_are_removed_inserted_moved_or_replaced_show() -> None:
    entries = _chain(5)
    head = head_of(entries[-1])
    assert _verdict(entries, head) is None
    assert _verdict([*entries[:2], *entries[3:]], head) == "missing"
    assert _verdict(entries[1:], head) == "missing"
    assert _verdict([*entries[:3], entries[2], *entries[3:]], head) == "inserted"
    swapped = [entries[0], replace(entries[2], seq=2), replace(entries[1], seq=3), *entries[3:]]
    assert _verdict(swapped, head) == "changed"
    forged = replace(entries[2], actor="mallory")
    forged = replace(forged, digest=digest_of(forged))
    assert _verdict([*entries[:2], forged, *entries[3:]], head) == "unlinked"


def test_a_cut_end_shows_by_the_head_and_a_chain_written_anew_only_by_a_head_that_was_kept() -> None:
    entries = _chain(5)
    assert _verdict(entries[:3], head_of(entries[-1])) == "truncated"
    assert _verdict(entries[:3], head_of(entries[2])) is None  # whoever cut it has moved the head, too
    assert _verdict(entries[:3], head_of(entries[2]), kept=head_of(entries[3])) == "truncated"
    assert _verdict(entries, None) == "head"
    anew = _chain(2)
    anew.append(seal(head_of(anew[-1]), _line(2, reason="another")))
    assert _verdict(anew, head_of(anew[-1])) is None
    assert _verdict(anew, head_of(anew[-1]), kept=head_of(entries[2])) == "not_kept"
    assert _verdict(entries, head_of(entries[-1]), kept=head_of(entries[2])) is None


def test_a_head_is_read_as_it_was_printed_and_nothing_else() -> None:
    head = head_of(_chain(3)[-1])
    assert Head.parse(f"{head}\n") == head
    for wrong in ("", "3", "3:", f"-1:{head.digest.hex()}", f"3:{head.digest.hex()[:-2]}", f"x:{head.digest.hex()}"):
        with pytest.raises(CoatcheckError):
            Head.parse(wrong)


def test_removals_of_one_hand_and_reason_are_one_line_and_nothing_else_is() -> None:
    def gone(number: int, reason: str = "expired", **said: Any) -> AuditLine:  # noqa: ANN401 - of a line
        return AuditLine(
            at=START, action="artifact.removed", actor="a", reason=reason, size=10, numbers=(number,), **said
        )

    lines = [gone(1), gone(2, "deleted"), gone(3), gone(4, run_id="r"), _line(1), _line(1)]
    assert [(line.numbers, line.size) for line in merged(lines)] == [
        ((1, 3), 20),
        ((2,), 10),
        ((4,), 10),
        ((), 0),
        ((), 0),
    ]


@pytest.fixture(params=CATALOGS)
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RetentionHarness]:
    async with harness_in(request.param, tmp_path) as opened:
        yield opened


async def test_deletes_at_once_are_each_in_the_audit_once(harness: RetentionHarness) -> None:
    changes = [store(b"%d" % n, namespace=f"space{n % 3}") for n in range(60)]
    await asyncio.gather(*(harness.catalog.store_artifact(change) for change in changes))
    deletes = [
        DeleteArtifact(
            namespace=change.namespace,
            number=number_of(change),
            now=harness.now(),
            tombstone_until=harness.now() + LIFE,
        )
        for change in changes
    ]
    answers = await asyncio.gather(*(harness.catalog.delete_artifact(change) for change in [*deletes, *deletes]))
    assert answers.count(True) == 60
    assert sorted(await harness.removed_lines()) == sorted(map(number_of, changes))
    lines = await harness.catalog.audit_lines(after=0, limit=1000)
    spaces = {(number, line.namespace) for line in lines for number in unpack_numbers(line.numbers)}
    assert spaces == {(number_of(change), change.namespace) for change in changes}
    assert (await harness.trail.verify()).breach is None


async def test_what_is_posted_again_over_an_expired_one_is_told_as_its_expiry(harness: RetentionHarness) -> None:
    said = {"session": "s", "tool_call_id": "c"}
    number = await harness.put(b"again\n", ttl=60, **said)
    harness.clock.forward(seconds=100)
    assert await harness.put(b"again\n", **said) == number
    (line,) = await harness.trail.lines(limit=9)
    assert (line.action, line.reason, line.actor, unpack_numbers(line.numbers), line.size) == (
        "artifact.removed",
        "expired",
        "schedule",
        (number,),
        6,
    )


def _tampered(path: Path, what: Callable[[Connection], object]) -> None:
    engine = writing_engine(sqlite_url(path))
    with engine.begin() as conn:
        what(conn)
    engine.dispose()


@pytest.mark.parametrize(
    ("what", "breach"),
    [
        pytest.param(update(audit).where(audit.c.seq == 2).values(actor="mallory"), (2, "changed"), id="changed"),
        pytest.param(delete(audit).where(audit.c.seq == 2), (2, "missing"), id="removed"),
        pytest.param(delete(audit).where(audit.c.seq == 3), (3, "truncated"), id="cut"),
        pytest.param(delete(audit_head), (3, "head"), id="headless"),
    ],
)
async def test_a_verification_finds_what_was_done_to_the_tables(
    tmp_path: Path,
    what: Any,  # noqa: ANN401 - a statement
    breach: tuple[int, str],
) -> None:
    async with harness_in("sqlite", tmp_path) as harness:
        for n in range(3):
            await harness.forget_session(CALLER, "none")
            number = await harness.put(b"%d" % n)
            await harness.forget(CALLER, number)
        assert (await harness.trail.verify()).lines == 3
        _tampered(tmp_path / "catalog.db", lambda conn: conn.execute(what))
        found = (await harness.trail.verify()).breach
        assert isinstance(found, Breach)
        assert (found.seq, found.what) == breach


async def test_a_lost_head_neither_stops_deletions_nor_heals_what_was_cut(tmp_path: Path) -> None:
    async with harness_in("sqlite", tmp_path) as harness:
        numbers = [await harness.put(b"%d" % n) for n in range(3)]
        await harness.forget(CALLER, numbers[0])
        await harness.forget(CALLER, numbers[1])
        _tampered(tmp_path / "catalog.db", lambda conn: conn.execute(delete(audit_head)))
        await harness.forget(CALLER, numbers[2])
        found = await harness.trail.verify()
        assert (found.lines, None if found.breach is None else found.breach.what) == (2, "unlinked")


def test_what_is_taken_back_was_never_written(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    migrate(sqlite_url(path))
    engine = writing_engine(sqlite_url(path))
    with engine.connect() as conn:
        writing.begin(conn)
        writing.append(conn, _line(1))
        writing.begin(conn)  # the transaction was taken back, and the next one begins
        with conn.begin():
            writing.append(conn, _line(2, numbers=(ids.check_digits(7),)))
            writing.flush(conn, lambda _conn, _namespace: None)
        assert [row.actor for row in conn.execute(audit.select())] == ["a2"]
    engine.dispose()
