"""A blob is looked for where it was put: what lies in a place that was not given is neither condemned nor given up."""

import logging
from typing import cast

import pytest
from typing_extensions import override

from coatcheck.adapters.blobs.memory import MemoryBlobStore
from coatcheck.adapters.blobs.switched import SwitchedBlobStore
from coatcheck.core import ids
from coatcheck.core.artifact import Placement
from coatcheck.core.errors import Code
from coatcheck.ports.blobs import BlobStore
from coatcheck.usecases.audit import Audit
from coatcheck.usecases.content import OpenContent
from coatcheck.usecases.tidy import Tidied, Tidy
from coatcheck.usecases.trust import Trust
from usecases.house import CALLER, GRACE, INSTANT, TOMBSTONE_LIFE, House, code_of, noise

PAYLOAD = noise(200_000)


class Bucket(MemoryBlobStore):
    """A store that poses as S3."""

    @property
    @override
    def placement(self) -> Placement:
        return "s3"


async def read(house: House, blobs: BlobStore, artifact_id: str) -> bytes:
    trust = Trust(house.catalog, blobs, house.clock)
    found = await house.find(CALLER, ids.parse(artifact_id), with_bytes=True)
    try:
        content = OpenContent(house.catalog, blobs, house.pool, trust.damaged)(found)
        return await content.read(0, content.size)
    finally:
        await trust.settled()


def audit(house: House, blobs: BlobStore) -> Audit:
    opened = OpenContent(house.catalog, blobs, house.pool)
    return Audit(house.catalog, blobs, opened, house.clock, repairs=house.catalog)


def tidy(house: House, blobs: BlobStore) -> Tidy:
    return Tidy(
        house.catalog, house.catalog, blobs, house.clock, house.reads, tombstone_life=TOMBSTONE_LIFE, grace=GRACE
    )


async def test_what_lies_in_a_place_that_was_not_given_cannot_be_read_and_is_not_condemned(house: House) -> None:
    receipt = await house.put(PAYLOAD)
    bucket = Bucket(house.clock)
    assert await code_of(read(house, bucket, receipt.id)) is Code.STORAGE_UNAVAILABLE
    found = await house.find(CALLER, ids.parse(receipt.id))
    assert await Trust(house.catalog, bucket, house.clock).holds("default", found.artifact.blob) is True
    assert house.count("blobs", "condemned_at IS NOT NULL") == 0
    assert await read(house, house.blobs, receipt.id) == PAYLOAD


async def test_a_payload_that_lies_elsewhere_is_posted_again_without_harm(house: House) -> None:
    receipt = await house.put(PAYLOAD)
    bucket = Bucket(house.clock)
    again = await house.put(PAYLOAD, settings={"blobs": bucket})
    assert (again.id, again.created) == (receipt.id, False)
    assert house.count("blobs", "condemned_at IS NOT NULL") == 0
    assert await read(house, SwitchedBlobStore(bucket, house.blobs), receipt.id) == PAYLOAD


async def test_what_lies_elsewhere_keeps_its_row_and_its_bytes_when_it_is_swept_and_that_is_said_once(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    receipt = await house.put(PAYLOAD)
    await house.forget(CALLER, ids.parse(receipt.id))
    house.clock.forward(GRACE + INSTANT)
    bucket = Bucket(house.clock)
    round_ = tidy(house, bucket)
    assert [await round_() for _ in range(3)] == [Tidied()] * 3
    assert (house.count("blobs"), len(house.stored_files())) == (1, 1)
    (said,) = [r for r in caplog.records if r.name == "coatcheck.usecases.tidy"]
    assert said.levelno == logging.WARNING
    assert "COATCHECK_DATA" in said.getMessage()
    assert await tidy(house, SwitchedBlobStore(bucket, house.blobs))() == Tidied(removed=1)
    assert house.is_empty()


async def test_a_check_says_what_it_was_not_given_and_marks_nothing(house: House) -> None:
    await house.put(PAYLOAD)
    audited = await audit(house, Bucket(house.clock))(apply=True)
    assert [f.what for f in audited.findings] == ["elsewhere"]
    assert (audited.clean, audited.condemned, audited.removed) == (False, 0, 0)
    assert house.count("blobs", "condemned_at IS NOT NULL") == 0


async def test_after_a_switch_both_places_are_read_checked_and_searched_for_orphans(house: House) -> None:
    before = await house.put(PAYLOAD)
    both = SwitchedBlobStore(bucket := Bucket(house.clock), house.blobs)
    after = await house.put(noise(200_000, seed=2), settings={"blobs": both})
    assert [await read(house, both, r.id) for r in (before, after)] == [PAYLOAD, noise(200_000, seed=2)]
    assert (len(house.stored_files()), len([n async for n in bucket.names()])) == (1, 1), "the new one is in the bucket"
    told = await audit(house, both)()
    assert (told.blobs, told.stored, told.findings) == (2, 2, ())
    for store in (house.blobs, cast("BlobStore", bucket)):
        writer = await store.create("default", noise(16, seed=len(store.placement)).hex())
        await writer.write(b"lost property")
        await writer.finish()
    house.clock.forward(GRACE)
    swept = await audit(house, both)(apply=True, orphan_age=-GRACE * 10**6)
    assert ([f.what for f in swept.findings], swept.removed) == (["orphan", "orphan"], 2)
    assert (len(house.stored_files()), len([n async for n in bucket.names()])) == (1, 1)
