"""One spoilt answer is no damaged blob: what fails is read again, past caches, before it is condemned."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from typing_extensions import override

from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.blobs.filesystem import missing, too_short
from coatcheck.core import ids
from coatcheck.core.errors import Code
from coatcheck.storing.blob_health import BlobHealth
from coatcheck.storing.content import OpenContent
from support.harness import CALLER, Harness
from support.refusals import code_of
from support.samples import noise

PAYLOAD = noise(300_000)


def flipped(data: bytes) -> bytes:
    return data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]


def cut(data: bytes) -> bytes:
    raise too_short("b", len(data), 5000)


def absent(_: bytes) -> bytes:
    raise missing("b")


class Spoiling(FileBlobStore):
    """Real files, whose first answers are spoilt; it notes which reads asked for fresh bytes."""

    def __init__(self, harness: Harness, spoil: Callable[[bytes], bytes], times: int) -> None:
        super().__init__(Path(harness.root), harness.pool)
        self._spoil = spoil
        self._left = times
        self.asked: list[bool] = []

    @override
    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        data = await super().read(namespace, blob_id, start, length, fresh=fresh)
        self.asked.append(fresh)
        self._left -= 1
        return self._spoil(data) if self._left >= 0 else data

    @override
    async def size(self, namespace: str, blob_id: str) -> int | None:
        self._left -= 1
        return None if self._left >= 0 else await super().size(namespace, blob_id)


@pytest.mark.parametrize("spoil", [flipped, cut, absent])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_range_that_fails_is_condemned_only_when_it_fails_again_afresh(
    harness: Harness, spoil: Callable[[bytes], bytes], times: int, caplog: pytest.LogCaptureFixture
) -> None:
    receipt = await harness.put(PAYLOAD)
    blobs = Spoiling(harness, spoil, times)
    trust = BlobHealth(harness.catalog, blobs, harness.clock)
    found = await harness.find(CALLER, ids.parse(receipt.id), with_bytes=True)
    content = OpenContent(harness.catalog, blobs, harness.pool, trust.report_damage)(found)
    if times == 1:
        assert await content.read(0, content.size) == PAYLOAD
        assert [r.levelno for r in caplog.records if r.name == "coatcheck.storing.content"] == [logging.WARNING]
    else:
        assert await code_of(content.read(0, content.size)) is Code.INTEGRITY
    await trust.wait_until_recorded()
    assert blobs.asked == [False, True]
    assert harness.count("blobs", "condemned_at IS NOT NULL") == times - 1


@pytest.mark.parametrize("times", [1, 2])
async def test_a_size_that_is_wrong_once_condemns_nothing(harness: Harness, times: int) -> None:
    receipt = await harness.put(PAYLOAD)
    found = await harness.find(CALLER, ids.parse(receipt.id))
    trust = BlobHealth(harness.catalog, Spoiling(harness, flipped, times), harness.clock)
    assert await trust.holds("default", found.artifact.blob) is (times == 1)
    assert harness.count("blobs", "condemned_at IS NOT NULL") == times - 1


async def test_a_read_past_the_systems_cache_gives_the_same_bytes(harness: Harness) -> None:
    await harness.put(PAYLOAD)
    (path,) = harness.stored_files()
    data = await harness.blobs.read("default", path.name, 100, 5000, fresh=True)
    assert data == path.read_bytes()[100:5100]
    path.unlink()
    assert await code_of(harness.blobs.read("default", path.name, 0, 1, fresh=True)) is Code.INTEGRITY
