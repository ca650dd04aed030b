"""Upkeep and audit: what goes when its time has come, what stays, and what an audit finds and touches."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path

import pytest

from coatcheck.core import ids
from coatcheck.core.blob_ids import new_blob_id
from coatcheck.core.errors import Code
from coatcheck.ports import BeginUpload, Filter
from coatcheck.usecases import tidy
from coatcheck.usecases.audit import ORPHAN_AGE, Audited, Finding
from coatcheck.usecases.ingest import KEY_LIFE
from coatcheck.usecases.tidy import BATCH, Tidied
from usecases.house import CALLER, GRACE, INSTANT, LEASE, START, TOMBSTONE_LIFE, House, code_of, lines, noise

NOTHING = Tidied()


async def test_what_expires_is_dead_at_once_and_swept_only_after_the_grace(house: House) -> None:
    filed, inline = await house.put(noise(100_000), ttl=60), await house.put(b"small\n", ttl=60)
    kept = await house.put(noise(100_000, seed=2), ttl=None)
    house.clock.forward(timedelta(seconds=60) - INSTANT)
    assert await house.tidy()() == NOTHING
    house.clock.forward(INSTANT)
    assert await house.tidy()() == Tidied(expired=2)
    assert house.count("blobs", "dead_at IS NOT NULL") == 2
    assert len(house.stored_files()) == 2, "a reader may still hold them"
    house.clock.forward(GRACE)
    assert await house.tidy()() == NOTHING
    house.clock.forward(INSTANT)
    assert await house.tidy()() == Tidied(removed=2)
    assert (house.count("blobs"), house.count("inline_bytes"), len(house.stored_files())) == (1, 0, 1)
    assert await house.content(kept.id) == noise(100_000, seed=2)
    house.clock.moment = START + timedelta(seconds=60) + TOMBSTONE_LIFE - INSTANT
    assert (await house.tidy()()).purged == 0
    house.clock.forward(INSTANT)
    assert (await house.tidy()()).purged == 2
    for receipt in (filed, inline):
        assert await code_of(house.find(CALLER, ids.parse(receipt.id))) is Code.ARTIFACT_NOT_FOUND


async def _open_upload(house: House, seed: int) -> str:
    """A writer that began and died: an intent, and a file that was half written."""
    blob_id = new_blob_id(house.clock.now(), noise(10, seed))
    await house.catalog.begin_upload(
        BeginUpload(namespace="default", blob_id=blob_id, placement="file", lease_until=house.clock.now() + LEASE)
    )
    writer = await house.blobs.create("default", blob_id)
    await writer.write(b"half")
    await writer.finish()
    return blob_id


async def test_a_writer_that_died_is_reaped_when_its_lease_is_over_and_its_file_follows(house: House) -> None:
    await _open_upload(house, 1)
    house.clock.forward(LEASE)
    assert await house.tidy()() == NOTHING
    house.clock.forward(INSTANT)
    assert await house.tidy()() == Tidied(reaped=1)
    assert len(house.stored_files()) == 1
    house.clock.forward(GRACE + INSTANT)
    assert await house.tidy()() == Tidied(removed=1)
    assert house.is_empty()


async def test_rounds_repeated_and_at_once_do_everything_exactly_once(house: House) -> None:
    for n in range(40):
        await house.put(noise(40_000, seed=n) if n % 8 == 0 else f"{n}\n".encode(), ttl=60, key=f"k{n}")
    for n in range(3):
        await _open_upload(house, n)
    kept = [await house.put(lines(3_000, seed=n), ttl=None) for n in range(3)]

    async def rounds() -> Tidied:
        done = await asyncio.gather(*(house.tidy()() for _ in range(4)))
        assert await house.tidy()() == NOTHING
        return Tidied(*(sum(getattr(d, field) for d in done) for field in Tidied.__struct_fields__))

    house.clock.forward(LEASE + INSTANT)
    assert await rounds() == Tidied(expired=40, reaped=3)
    house.clock.forward(GRACE + INSTANT)
    done = await rounds()
    assert (done.expired, done.reaped, done.purged) == (0, 0, 0)
    assert done.removed >= 43, "rounds at once may both find a blob; removing it twice is harmless"
    assert (house.count("blobs"), house.stored_files()) == (3, [])
    house.clock.forward(KEY_LIFE)
    assert (await rounds()).purged == 40
    for receipt in kept:
        await house.find(CALLER, ids.parse(receipt.id))


async def test_a_blob_that_cannot_be_removed_keeps_its_row_and_holds_up_no_other(house: House) -> None:
    receipts = [await house.put(noise(50_000, seed=n)) for n in range(3)]
    stuck = house.stored_files()[1]
    for receipt in receipts:
        await house.forget(CALLER, ids.parse(receipt.id))
    house.clock.forward(GRACE + INSTANT)
    house.files.keeps = lambda path: path == str(stuck)
    assert await house.tidy()() == Tidied(removed=2)
    assert house.stored_files() == [stuck]
    assert house.count("blobs", f"id = '{stuck.name}'") == house.count("blobs") == 1
    assert await house.tidy()() == NOTHING
    house.files.keeps = lambda _: False
    assert await house.tidy()() == Tidied(removed=1)
    assert house.is_empty()


async def test_many_that_are_stuck_starve_no_other_and_are_said_once(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tidy, "BATCH", 2)
    for n in range(6):
        receipt = await house.put(noise(50_000, seed=n))
        await house.forget(CALLER, ids.parse(receipt.id))
        house.clock.forward(INSTANT)
    stuck = {str(path) for path in house.stored_files() if path.name < sorted(p.name for p in house.stored_files())[5]}
    house.clock.forward(GRACE + INSTANT)
    house.files.keeps = lambda path: path in stuck
    round_ = house.tidy()
    assert [await round_() for _ in range(3)] == [Tidied(removed=1), NOTHING, NOTHING]
    assert len([r for r in caplog.records if r.name == "coatcheck.usecases.tidy"]) == 1
    house.files.keeps = lambda _: False
    assert await round_() == Tidied(removed=5)
    assert house.is_empty()


async def test_an_audit_goes_on_past_what_the_disk_will_not_give(house: House) -> None:
    for n in range(2):
        await house.put(noise(50_000, seed=n))
    path, _ = house.stored_files()
    path.unlink()
    path.mkdir()
    (path / "x").touch()
    audited = await house.audit()()
    path.joinpath("x").unlink()
    assert [f.blob_id for f in audited.findings] == [path.name]
    assert (audited.blobs, audited.clean) == (2, False)


async def test_a_blob_whose_file_is_gone_already_is_finished(house: House) -> None:
    receipt = await house.put(noise(50_000))
    await house.forget(CALLER, ids.parse(receipt.id))
    house.stored_files()[0].unlink()
    house.clock.forward(GRACE + INSTANT)
    assert await house.tidy()() == Tidied(removed=1)
    assert house.is_empty()


async def test_more_than_one_batch_is_done_in_one_round(house: House) -> None:
    count = BATCH + 3
    await asyncio.gather(*(house.put(b"%d\n" % n, ttl=120, idle_ttl=80, key=f"{n}") for n in range(count)))
    house.clock.forward(timedelta(seconds=60))
    page = await house.browse(CALLER, Filter(), None, 200)
    for artifact in page.items:
        await house.find(CALLER, ids.parse(artifact.id))
    house.clock.forward(timedelta(seconds=20))
    assert await house.tidy()() == Tidied(expired=count - 200)
    house.clock.forward(timedelta(seconds=40))
    assert await house.tidy()() == Tidied(expired=200)
    house.clock.forward(GRACE + INSTANT)
    assert await house.tidy()() == Tidied(removed=count)
    house.clock.forward(TOMBSTONE_LIFE)
    assert await house.tidy()() == Tidied(purged=2 * count)
    assert house.is_empty()
    assert (house.count("tombstones"), house.count("idempotency_keys")) == (0, 0)


def _damage(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


async def test_the_audit_of_a_clean_store_finds_nothing_and_changes_nothing(house: House) -> None:
    for n in range(3):
        await house.put(noise(300_000, seed=n))
        await house.put(lines(5_000, seed=n))
    await house.put(b"")
    await house.forget(CALLER, ids.parse((await house.put(noise(50_000))).id))
    await _open_upload(house, 1)
    for digests in (True, False):
        audited = await house.audit()(digests=digests, apply=True, orphan_age=timedelta(0))
        assert audited == Audited(blobs=7, stored=5, findings=(), removed=0)
        assert audited.clean
    assert len(house.stored_files()) == 5


async def test_bytes_that_no_row_knows_are_an_orphan_once_they_are_old_and_removed_only_when_told(
    house: House,
) -> None:
    receipt = await house.put(noise(50_000))
    (known,) = house.stored_files()
    orphan = new_blob_id(START, noise(10))
    writer = await house.blobs.create("default", orphan)
    await writer.write(b"lost")
    await writer.finish()
    path = next(p for p in house.stored_files() if p.name == orphan)
    edge = (START - ORPHAN_AGE).timestamp()
    for old in (known, path):
        os.utime(old, (edge + 1, edge + 1))
    clean = Audited(blobs=1, stored=2, findings=(), removed=0)
    assert await house.audit()(apply=True) == clean
    house.clock.forward(timedelta(seconds=1))
    told = await house.audit()()
    assert told == Audited(
        blobs=1, stored=2, findings=(Finding("orphan", "", orphan, "4 bytes that no row knows."),), removed=0
    )
    assert told.clean, "it costs space, not data"
    removed = await house.audit()(apply=True)
    assert (removed.removed, [f.blob_id for f in removed.findings]) == (1, [orphan])
    assert house.stored_files() == [known]
    assert await house.audit()(apply=True) == Audited(blobs=1, stored=1, findings=(), removed=0)
    assert await house.content(receipt.id) == noise(50_000)


async def test_missing_cut_and_flipped_bytes_are_each_found_and_nothing_else_is_touched(house: House) -> None:
    receipts = [await house.put(noise(300_000, seed=n)) for n in range(5)]
    blobs = [(await house.find(CALLER, ids.parse(r.id))).artifact.blob.id for r in receipts]
    paths = {p.name: p for p in house.stored_files()}
    paths[blobs[0]].unlink()
    with paths[blobs[1]].open("r+b") as cut:
        cut.truncate(200_000)
    _damage(paths[blobs[2]], 150_000)
    before = {p: p.read_bytes() for p in house.stored_files()}
    audited = await house.audit()(apply=True, orphan_age=timedelta(0))
    assert {(f.what, f.blob_id) for f in audited.findings} == {
        ("missing", blobs[0]),
        ("corrupt", blobs[1]),
        ("corrupt", blobs[2]),
    }
    assert (audited.blobs, audited.stored, audited.removed, audited.clean) == (5, 4, 0, False)
    assert {p: p.read_bytes() for p in house.stored_files()} == before
    names_only = await house.audit()(digests=False)
    assert [(f.what, f.blob_id) for f in names_only.findings] == [("missing", blobs[0]), ("corrupt", blobs[1])]
    for receipt, n in zip(receipts[3:], (3, 4), strict=True):
        assert await house.content(receipt.id) == noise(300_000, seed=n)


async def test_a_flipped_bit_is_found_in_whichever_frame_it_lies(house: House) -> None:
    await house.put(lines(200_000), settings={"inline_bytes": 0})
    (path,) = house.stored_files()
    whole = path.read_bytes()
    content_end = len(whole) - 8 - 9 - 12 * 2
    for at in range(0, content_end, content_end // 40):
        _damage(path, at)
        audited = await house.audit()()
        assert [f.what for f in audited.findings] == ["corrupt"], at
        path.write_bytes(whole)
    assert (await house.audit()()).clean
