"""Upkeep: what goes when its time has come, and what stays."""

import asyncio
from datetime import timedelta

import pytest

from coatcheck.core import ids
from coatcheck.core.blob_ids import new_blob_id
from coatcheck.core.errors import Code
from coatcheck.ports.catalog import Filter
from coatcheck.ports.uploads import BeginUpload
from coatcheck.usecases import tidy
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
