"""A blob is looked for where it was put: what lies in a place that was not given is neither condemned nor given up."""

import logging
from dataclasses import replace
from typing import cast

import pytest
from typing_extensions import override

from coatcheck.core import ids
from coatcheck.core.artifact import Placement
from coatcheck.core.errors import Code
from coatcheck.ports.blobs import BlobStore
from coatcheck.storing.blob_health import BlobHealth
from coatcheck.storing.content import OpenContent
from coatcheck.upkeep.maintenance import Maintenance, MaintenanceRound
from coatcheck.usecases.operations.verify_store import VerifyStore
from support.clock import INSTANT
from support.harness import CALLER, GRACE, Harness
from support.memory_blobs import MemoryBlobStore
from support.refusals import code_of
from support.samples import noise

PAYLOAD = noise(200_000)


class Bucket(MemoryBlobStore):
    """A store that poses as S3."""

    @property
    @override
    def placement(self) -> Placement:
        return "s3"


def switched(bucket: Bucket, before: BlobStore) -> Bucket:
    bucket.others = (before,)
    return bucket


async def read(harness: Harness, blobs: BlobStore, artifact_id: str) -> bytes:
    trust = BlobHealth(harness.catalog, blobs, harness.clock)
    found = await harness.find(CALLER, ids.parse(artifact_id), with_bytes=True)
    try:
        content = OpenContent(harness.catalog, blobs, harness.pool, trust.report_damage)(found)
        return await content.read(0, content.size)
    finally:
        await trust.wait_until_recorded()


def audit(harness: Harness, blobs: BlobStore) -> VerifyStore:
    opened = OpenContent(harness.catalog, blobs, harness.pool)
    return VerifyStore(harness.catalog, blobs, opened, harness.clock, repairs=harness.catalog)


def tidy(harness: Harness, blobs: BlobStore) -> Maintenance:
    return replace(harness.tidy(), blobs=blobs)


async def test_what_lies_in_a_place_that_was_not_given_cannot_be_read_and_is_not_condemned(
    harness: Harness,
) -> None:
    receipt = await harness.put(PAYLOAD)
    bucket = Bucket(harness.clock)
    assert await code_of(read(harness, bucket, receipt.id)) is Code.STORAGE_UNAVAILABLE
    found = await harness.find(CALLER, ids.parse(receipt.id))
    assert await BlobHealth(harness.catalog, bucket, harness.clock).holds("default", found.artifact.blob) is True
    assert harness.count("blobs", "condemned_at IS NOT NULL") == 0
    assert await read(harness, harness.blobs, receipt.id) == PAYLOAD


async def test_a_payload_that_lies_elsewhere_is_posted_again_without_harm(harness: Harness) -> None:
    receipt = await harness.put(PAYLOAD)
    bucket = Bucket(harness.clock)
    again = await harness.put(PAYLOAD, settings={"blobs": bucket})
    assert (again.id, again.created) == (receipt.id, False)
    assert harness.count("blobs", "condemned_at IS NOT NULL") == 0
    assert await read(harness, switched(bucket, harness.blobs), receipt.id) == PAYLOAD


async def test_what_lies_elsewhere_keeps_its_row_and_its_bytes_when_it_is_swept_and_that_is_said_once(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    receipt = await harness.put(PAYLOAD)
    await harness.forget(CALLER, ids.parse(receipt.id))
    harness.clock.forward(GRACE + INSTANT)
    bucket = Bucket(harness.clock)
    round_ = tidy(harness, bucket)
    assert [await round_() for _ in range(3)] == [MaintenanceRound()] * 3
    assert (harness.count("blobs"), len(harness.stored_files())) == (1, 1)
    (said,) = [r for r in caplog.records if r.name == "coatcheck.upkeep.maintenance"]
    assert said.levelno == logging.WARNING
    assert "COATCHECK_DATA" in said.getMessage()
    assert await tidy(harness, switched(bucket, harness.blobs))() == MaintenanceRound(removed=1)
    assert harness.is_empty()


async def test_a_check_says_what_it_was_not_given_and_marks_nothing(harness: Harness) -> None:
    await harness.put(PAYLOAD)
    audited = await audit(harness, Bucket(harness.clock))(apply=True)
    assert [f.what for f in audited.findings] == ["elsewhere"]
    assert (audited.clean, audited.condemned, audited.removed) == (False, 0, 0)
    assert harness.count("blobs", "condemned_at IS NOT NULL") == 0


async def test_after_a_switch_both_places_are_read_checked_and_searched_for_orphans(harness: Harness) -> None:
    before = await harness.put(PAYLOAD)
    both = bucket = switched(Bucket(harness.clock), harness.blobs)
    after = await harness.put(noise(200_000, seed=2), settings={"blobs": both})
    assert [await read(harness, both, r.id) for r in (before, after)] == [PAYLOAD, noise(200_000, seed=2)]
    assert (len(harness.stored_files()), len([n async for n in bucket.names()])) == (1, 1), (
        "the new one is in the bucket"
    )
    told = await audit(harness, both)()
    assert (told.blobs, told.stored, told.findings) == (2, 2, ())
    for store in (harness.blobs, cast("BlobStore", bucket)):
        writer = await store.create("default", noise(16, seed=len(store.placement)).hex())
        await writer.write(b"lost property")
        await writer.finish()
    harness.clock.forward(GRACE)
    swept = await audit(harness, both)(apply=True, orphan_age=-GRACE * 10**6)
    assert ([f.what for f in swept.findings], swept.removed) == (["orphan", "orphan"], 2)
    assert (len(harness.stored_files()), len([n async for n in bucket.names()])) == (1, 1)
