"""Ingests stored together are what they would be one by one: the same answers, the same rows."""
# pyright: reportPrivateUsage=false

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from msgspec import Struct
from sqlalchemy import Connection, delete, select

from coatcheck.adapters.sql.changes.store import apply_stores
from coatcheck.adapters.sql.tables import (
    artifacts,
    blobs,
    idempotency_keys,
    inline_bytes,
    surveys,
    tombstones,
    uploads,
    views,
)
from coatcheck.core import ids
from coatcheck.core.artifact import DeclaredMetadata, Kind
from coatcheck.ports.artifacts import DeleteArtifact, IdempotencyKey, StoreAnswer, StoreArtifact
from coatcheck.ports.blobs import BeginUpload
from coatcheck.ports.maintenance import ExpireArtifacts, MarkBlobCorrupt
from contract.sample_changes import DAY, START, Everything, store, view
from support.catalogs import CATALOGS

T = TypeVar("T")
SEQUENCES = 10


def number_of(identity: bytes, probe: int = 0) -> int:
    """Numbers that collide often."""
    return ids.check_digits(identity[0] % 5 if probe == 0 else 5 + int.from_bytes(identity[:5]) * 100 + probe)


class Batch(Struct, frozen=True):
    """What happens before a group of ingests, and the group."""

    uploads: list[BeginUpload]
    spoilt: list[int]
    """Which of the blobs so far are condemned."""
    deleted: list[int]
    swept: bool
    now: datetime
    changes: list[StoreArtifact]


def batches(rng: random.Random) -> list[Batch]:
    made: list[Batch] = []
    now = START
    for _ in range(4):
        now += timedelta(seconds=rng.choice([1, 30, 90]))
        changes = [change(rng, now) for _ in range(rng.randrange(2, 14))]
        if rng.random() < 0.3:
            changes.append(changes[0])  # the same change twice: its intent is there once
        made.append(
            Batch(
                uploads=[
                    BeginUpload(namespace="acme", blob_id=c.blob.id, placement="file", lease_until=now + DAY)
                    for c in {c.blob.id: c for c in changes}.values()
                    if c.blob.placement == "file" and rng.random() < 0.8
                ],
                spoilt=[rng.randrange(50) for _ in range(rng.randrange(3))],
                deleted=[rng.randrange(50) for _ in range(rng.randrange(4))],
                swept=rng.random() < 0.3,
                now=now,
                changes=changes,
            )
        )
    return made


def change(rng: random.Random, now: datetime) -> StoreArtifact:
    key = IdempotencyKey(
        key=rng.choice("kl"), fingerprint=rng.choice([b"f", b"g"]), expires_at=now + timedelta(seconds=40)
    )
    call = rng.choice("123")
    # Another kind drops a view, whose bytes a neighbour may share or not, by the order: only payloads without views.
    kind = rng.choice([None, Kind.LOG, Kind.TEXT]) if call == "3" else None
    title = rng.choice([None, None, "t", "u"])
    said = DeclaredMetadata(tool_call_id=call, session=rng.choice(["s", None]), labels=("x",), kind=kind, title=title)
    return store(
        b"%d\n" % rng.randrange(8),
        said=said,
        placement=rng.choice(["inline", "file"]),
        now=now,
        ttl=rng.choice([None, 20, 60]),
        idle_ttl=rng.choice([None, 50]),
        pinned=rng.random() < 0.1,
        key=key if rng.random() < 0.15 else None,
        # Of the payloads' bytes, too, and of other views'.
        text_view=view(rng.choice([None, b"%d\n" % rng.randrange(12)])) if rng.random() < 0.4 and call != "3" else None,
        survey=b"%d" % rng.randrange(99) if rng.random() < 0.5 else None,
    )


def together(conn: Connection, changes: list[StoreArtifact]) -> list[StoreAnswer]:
    return apply_stores(conn, changes, number_of)


def one_by_one(conn: Connection, changes: list[StoreArtifact]) -> list[StoreAnswer]:
    return [apply_stores(conn, [each], number_of)[0] for each in changes]


def rows(conn: Connection) -> list[list[Any]]:
    """All rows without their places in the order of arrival."""
    blob = {row.seq: row.id for row in conn.execute(select(blobs.c.seq, blobs.c.id))} | {None: None}
    number = {row.seq: row.number for row in conn.execute(select(artifacts.c.seq, artifacts.c.number))}
    seqs = {"blob_seq": blob, "artifact_seq": number}
    found: list[list[Any]] = []
    for table in (artifacts, surveys, views, blobs, inline_bytes, uploads, tombstones, idempotency_keys):
        columns = [c for c in table.c if c.name != "seq"]
        named = [
            tuple(seqs[c.name][value] if c.name in seqs else value for c, value in zip(columns, row, strict=True))
            for row in conn.execute(select(*columns))
        ]
        found.append(sorted(named, key=repr))
    return found


def emptied(conn: Connection) -> None:
    for table in (views, artifacts, inline_bytes, blobs, uploads, tombstones, idempotency_keys):
        conn.execute(delete(table))


Run = Callable[[Callable[[Connection], Any]], Any]


async def prepare(catalog: Everything, batch: Batch, answers: list[Any]) -> None:
    for upload in batch.uploads:
        await catalog.commit(upload)
    stored = [answer.artifact for answer in answers if hasattr(answer, "artifact")]
    # By content, and not by ID, which is random: the same seed is the same sequence in every run.
    kept = sorted([(blob.sha256, blob.size, blob.placement, blob.id) async for _, blob in catalog.all_blobs()])
    for at in batch.spoilt:
        if kept:
            *_, blob_id = kept[at % len(kept)]
            await catalog.commit(MarkBlobCorrupt(namespace="acme", blob_id=blob_id, now=batch.now))
    for at in batch.deleted:
        if stored:
            number = ids.parse(stored[at % len(stored)].id)
            until = batch.now + timedelta(seconds=45)
            await catalog.commit(DeleteArtifact(namespace="acme", number=number, now=batch.now, tombstone_until=until))
    if batch.swept:
        await catalog.commit(ExpireArtifacts(now=batch.now, tombstone_until=batch.now + DAY, limit=100))


@pytest.mark.parametrize("kind", CATALOGS)
async def test_together_and_one_by_one_give_the_same_answers_and_leave_the_same_rows(kind: str, tmp_path: Path) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    async with CATALOGS[kind](folders[0]) as first, CATALOGS[kind](folders[1]) as second:
        runs = [cast("Run", catalog._writer.run) for catalog in cast("list[Any]", [first, second])]
        for seed in range(SEQUENCES):
            for run in runs:
                await run(emptied)
            answers: list[Any] = []
            for batch in batches(random.Random(seed)):
                for catalog in (first, second):
                    await prepare(catalog, batch, answers)
                one: list[Any] = await runs[0](lambda conn, b=batch: together(conn, b.changes))
                other: list[Any] = await runs[1](lambda conn, b=batch: one_by_one(conn, b.changes))
                assert one == other, seed
                answers += one
                left = [await run(rows) for run in runs]
                assert left[0] == left[1], seed
