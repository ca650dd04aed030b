"""Upkeep: what goes when its time has come, and what stays."""

import asyncio
from datetime import timedelta

import pytest

from coatcheck.core import ids
from coatcheck.core.encoding.frames import new_blob_id
from coatcheck.core.errors import Code
from coatcheck.ports.blobs import BeginUpload
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.storing.ingestion import KEY_LIFE
from coatcheck.upkeep import maintenance
from coatcheck.upkeep.maintenance import BATCH, MaintenanceRound
from support.clock import INSTANT, START
from support.harness import CALLER, GRACE, LEASE, TOMBSTONE_LIFE, Harness
from support.refusals import code_of
from support.samples import lines, noise

NOTHING = MaintenanceRound()


async def test_what_expires_is_dead_at_once_and_swept_only_after_the_grace(harness: Harness) -> None:
    filed, inline = await harness.put(noise(100_000), ttl=60), await harness.put(b"small\n", ttl=60)
    kept = await harness.put(noise(100_000, seed=2), ttl=None)
    harness.clock.forward(timedelta(seconds=60) - INSTANT)
    assert await harness.tidy()() == NOTHING
    harness.clock.forward(INSTANT)
    assert await harness.tidy()() == MaintenanceRound(expired=2)
    assert harness.count("blobs", "dead_at IS NOT NULL") == 2
    assert len(harness.stored_files()) == 2, "a reader may still hold them"
    harness.clock.forward(GRACE)
    assert await harness.tidy()() == NOTHING
    harness.clock.forward(INSTANT)
    assert await harness.tidy()() == MaintenanceRound(removed=2)
    assert (harness.count("blobs"), harness.count("inline_bytes"), len(harness.stored_files())) == (1, 0, 1)
    assert await harness.content(kept.id) == noise(100_000, seed=2)
    harness.clock.moment = START + timedelta(seconds=60) + TOMBSTONE_LIFE - INSTANT
    assert (await harness.tidy()()).purged == 0
    harness.clock.forward(INSTANT)
    assert (await harness.tidy()()).purged == 2
    for receipt in (filed, inline):
        assert await code_of(harness.find(CALLER, ids.parse(receipt.id))) is Code.ARTIFACT_NOT_FOUND


async def _open_upload(harness: Harness, seed: int) -> str:
    """A writer that began and died: an intent, and a file that was half written."""
    blob_id = new_blob_id(harness.clock.now(), noise(10, seed))
    await harness.catalog.commit(
        BeginUpload(namespace="default", blob_id=blob_id, placement="file", lease_until=harness.clock.now() + LEASE)
    )
    writer = await harness.blobs.create("default", blob_id)
    await writer.write(b"half")
    await writer.finish()
    return blob_id


async def test_a_writer_that_died_is_reaped_when_its_lease_is_over_and_its_file_follows(
    harness: Harness,
) -> None:
    await _open_upload(harness, 1)
    harness.clock.forward(LEASE)
    assert await harness.tidy()() == NOTHING
    harness.clock.forward(INSTANT)
    assert await harness.tidy()() == MaintenanceRound(reaped=1)
    assert len(harness.stored_files()) == 1
    harness.clock.forward(GRACE + INSTANT)
    assert await harness.tidy()() == MaintenanceRound(removed=1)
    assert harness.is_empty()


async def test_rounds_repeated_and_at_once_do_everything_exactly_once(harness: Harness) -> None:
    for n in range(40):
        await harness.put(noise(40_000, seed=n) if n % 8 == 0 else f"{n}\n".encode(), ttl=60, key=f"k{n}")
    for n in range(3):
        await _open_upload(harness, n)
    kept = [await harness.put(lines(3_000, seed=n), ttl=None) for n in range(3)]

    async def rounds() -> MaintenanceRound:
        done = await asyncio.gather(*(harness.tidy()() for _ in range(4)))
        assert await harness.tidy()() == NOTHING
        return MaintenanceRound(*(sum(getattr(d, field) for d in done) for field in MaintenanceRound.__struct_fields__))

    harness.clock.forward(LEASE + INSTANT)
    assert await rounds() == MaintenanceRound(expired=40, reaped=3)
    harness.clock.forward(GRACE + INSTANT)
    done = await rounds()
    assert (done.expired, done.reaped, done.purged) == (0, 0, 0)
    assert done.removed >= 43, "rounds at once may both find a blob; removing it twice is harmless"
    assert (harness.count("blobs"), harness.stored_files()) == (3, [])
    harness.clock.forward(KEY_LIFE)
    assert (await rounds()).purged == 40
    for receipt in kept:
        await harness.find(CALLER, ids.parse(receipt.id))


async def test_a_blob_that_cannot_be_removed_keeps_its_row_and_holds_up_no_other(harness: Harness) -> None:
    receipts = [await harness.put(noise(50_000, seed=n)) for n in range(3)]
    stuck = harness.stored_files()[1]
    for receipt in receipts:
        await harness.forget(CALLER, ids.parse(receipt.id))
    harness.clock.forward(GRACE + INSTANT)
    harness.files.keeps = lambda path: path == str(stuck)
    assert await harness.tidy()() == MaintenanceRound(removed=2)
    assert harness.stored_files() == [stuck]
    assert harness.count("blobs", f"id = '{stuck.name}'") == harness.count("blobs") == 1
    assert await harness.tidy()() == NOTHING
    harness.files.keeps = lambda _: False
    assert await harness.tidy()() == MaintenanceRound(removed=1)
    assert harness.is_empty()


async def test_many_that_are_stuck_starve_no_other_and_are_said_once(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(maintenance, "BATCH", 2)
    for n in range(6):
        receipt = await harness.put(noise(50_000, seed=n))
        await harness.forget(CALLER, ids.parse(receipt.id))
        harness.clock.forward(INSTANT)
    stuck = {
        str(path) for path in harness.stored_files() if path.name < sorted(p.name for p in harness.stored_files())[5]
    }
    harness.clock.forward(GRACE + INSTANT)
    harness.files.keeps = lambda path: path in stuck
    round_ = harness.tidy()
    assert [await round_() for _ in range(3)] == [MaintenanceRound(removed=1), NOTHING, NOTHING]
    assert len([r for r in caplog.records if r.name == "coatcheck.upkeep.maintenance"]) == 1
    harness.files.keeps = lambda _: False
    assert await round_() == MaintenanceRound(removed=5)
    assert harness.is_empty()


async def test_a_blob_whose_file_is_gone_already_is_finished(harness: Harness) -> None:
    receipt = await harness.put(noise(50_000))
    await harness.forget(CALLER, ids.parse(receipt.id))
    harness.stored_files()[0].unlink()
    harness.clock.forward(GRACE + INSTANT)
    assert await harness.tidy()() == MaintenanceRound(removed=1)
    assert harness.is_empty()


async def test_more_than_one_batch_is_done_in_one_round(harness: Harness) -> None:
    count = BATCH + 3
    await asyncio.gather(*(harness.put(b"%d\n" % n, ttl=120, idle_ttl=80, key=f"{n}") for n in range(count)))
    harness.clock.forward(timedelta(seconds=60))
    page = await harness.browse(CALLER, ArtifactFilter(), None, 200)
    for artifact in page.items:
        await harness.find(CALLER, ids.parse(artifact.id))
    harness.clock.forward(timedelta(seconds=20))
    assert await harness.tidy()() == MaintenanceRound(expired=count - 200)
    harness.clock.forward(timedelta(seconds=40))
    assert await harness.tidy()() == MaintenanceRound(expired=200)
    harness.clock.forward(GRACE + INSTANT)
    assert await harness.tidy()() == MaintenanceRound(removed=count)
    harness.clock.forward(TOMBSTONE_LIFE)
    assert await harness.tidy()() == MaintenanceRound(purged=2 * count)
    assert harness.is_empty()
    assert (harness.count("tombstones"), harness.count("idempotency_keys")) == (0, 0)
