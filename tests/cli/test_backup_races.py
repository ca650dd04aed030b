"""Blobs that die and are swept while a backup is made: a later moment is held, and in the end writers wait."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from coatcheck.adapters.backup.make import StagedBackup, backup_to
from coatcheck.adapters.backup.manifest import Disk
from coatcheck.adapters.backup.restore import restore_backup
from coatcheck.core import ids
from coatcheck.core.encoding.frames import new_blob_id
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.blobs import BeginUpload
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.upkeep.maintenance import MaintenanceRound
from support.clock import INSTANT, START
from support.harness import CALLER, GRACE, LEASE, Harness, harness_in
from support.samples import noise


@pytest.fixture
def harness(tmp_path: Path, template: Path) -> Iterator[Harness]:
    (tmp_path / "data").mkdir(mode=0o700)
    with harness_in(tmp_path / "data", template) as opened:
        yield opened


class Racing(Disk):
    """Runs something just before a file is linked."""

    def __init__(self, before: Callable[[str], None]) -> None:
        super().__init__()
        self._before = before

    def link(self, source: Path, target: Path) -> bool:
        self._before(source.name)
        return super().link(source, target)


class Rival:
    """Posts a payload before each moment is held; deletes and sweeps it before its file is taken, so many times."""

    def __init__(self, harness: Harness, times: int) -> None:
        self._house = harness
        self._loop = asyncio.get_running_loop()
        self._left = times
        self._newest: dict[str, str] = {}
        self.posted: list[str] = []
        self.locked: list[bool] = []

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever it answers
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def now(self) -> datetime:
        self._run(self._post())
        return START

    async def _post(self) -> None:
        receipt = await self._house.put(noise(50_000, seed=len(self.posted) + 100))
        self.posted.append(receipt.id)
        found = await self._house.find(CALLER, ids.parse(receipt.id))
        self._newest = {found.artifact.blob.id: receipt.id}

    def before(self, blob_id: str) -> None:
        if blob_id not in self._newest:
            return
        with sqlite3.connect(self._house.root / "coatcheck.db", timeout=0, isolation_level=None) as conn:
            try:
                conn.execute("BEGIN IMMEDIATE")
                conn.execute("ROLLBACK")
                self.locked.append(False)
            except sqlite3.OperationalError:
                self.locked.append(True)
        conn.close()
        if self._left:
            self._left -= 1
            self._run(self._sweep(self._newest[blob_id]))

    async def _sweep(self, artifact_id: str) -> None:
        await self._house.forget(CALLER, ids.parse(artifact_id))
        self._house.clock.forward(GRACE + INSTANT)
        await self._house.tidy()()

    def backed_up(self, target: Path) -> StagedBackup:
        disk = Racing(self.before)
        with backup_to(self._house.root, target, links=True, release="1", now=self.now, disk=disk) as staged:
            return staged


@pytest.mark.parametrize("times", [0, 1, 3, 4])
async def test_a_moment_whose_files_were_swept_under_it_is_given_up_for_a_later_one(
    harness: Harness, tmp_path: Path, times: int
) -> None:
    kept = await harness.put(noise(50_000))
    small = await harness.put(b"small\n")
    rival = Rival(harness, times)
    staged = await asyncio.to_thread(rival.backed_up, tmp_path / "b")
    assert staged.attempts == times + 1
    assert rival.locked == [False] * min(times + 1, 4) + [True] * (times == 4), "writers wait for the last one only"
    assert (staged.manifest.artifacts, staged.manifest.files, staged.linked) == (3, 2, 2)
    assert len([p for p in (tmp_path / "b" / "blobs").rglob("*") if p.is_file()]) == 2
    with restore_backup(tmp_path / "b", tmp_path / "new"):
        pass
    with harness_in(tmp_path / "new", tmp_path / "none") as again:
        assert await again.content(kept.id) == noise(50_000)
        assert await again.content(small.id) == b"small\n"
        assert await again.content(rival.posted[-1]) == noise(50_000, seed=len(rival.posted) + 99)
        assert (await again.audit()()).findings == ()


async def test_a_file_that_vanishes_under_a_live_row_is_lost_not_raced(harness: Harness, tmp_path: Path) -> None:
    receipt = await harness.put(noise(50_000))
    (path,) = harness.stored_files()

    def vanish(blob_id: str) -> None:
        path.unlink(missing_ok=True)
        assert blob_id == path.name

    def make() -> None:
        with backup_to(
            harness.root, tmp_path / "b", links=True, release="1", now=harness.clock.now, disk=Racing(vanish)
        ):
            raise AssertionError("there is no backup without its bytes")

    with pytest.raises(CoatcheckError) as refused:
        await asyncio.to_thread(make)
    assert refused.value.code is Code.INTEGRITY
    assert path.name in refused.value.detail
    assert not (tmp_path / "b").exists()
    assert (await harness.find(CALLER, ids.parse(receipt.id))).artifact.id == receipt.id


class Unlinking(Disk):
    """A file system without hard links."""

    def link(self, source: Path, target: Path) -> bool:  # noqa: ARG002 - whatever they are
        return False


async def test_what_died_before_the_moment_is_not_in_the_backup_even_if_its_file_was_taken(
    harness: Harness, tmp_path: Path
) -> None:
    gone, kept = await harness.put(noise(50_000)), await harness.put(noise(50_000, seed=2))
    loop = asyncio.get_running_loop()

    def now() -> datetime:  # between the first pass and the moment
        asyncio.run_coroutine_threadsafe(harness.forget(CALLER, ids.parse(gone.id)), loop).result(30)
        return START

    def make() -> StagedBackup:
        with backup_to(harness.root, tmp_path / "b", links=True, release="1", now=now, disk=Unlinking()) as staged:
            return staged

    staged = await asyncio.to_thread(make)
    assert (staged.manifest.artifacts, staged.manifest.blobs, staged.manifest.files, staged.linked) == (1, 1, 1, 0)
    blob = (await harness.find(CALLER, ids.parse(kept.id))).artifact.blob
    assert [p.name for p in (tmp_path / "b" / "blobs").rglob("*") if p.is_file()] == [blob.id]


async def test_what_is_posted_after_the_moment_is_not_in_the_backup_and_the_backup_has_no_name_before_it_is_whole(
    harness: Harness, tmp_path: Path
) -> None:
    before = await harness.put(noise(50_000))
    loop = asyncio.get_running_loop()

    def make() -> None:
        with backup_to(harness.root, tmp_path / "b", links=True, release="1", now=harness.clock.now) as staged:
            asyncio.run_coroutine_threadsafe(harness.put(noise(50_000, seed=2)), loop).result(30)
            assert (staged.manifest.artifacts, staged.attempts, staged.manifest.created_at) == (1, 1, START)
            assert not (tmp_path / "b").exists()

    await asyncio.to_thread(make)
    with restore_backup(tmp_path / "b", tmp_path / "new"):
        pass
    with harness_in(tmp_path / "new", tmp_path / "none") as again:
        assert [a.id for a in (await again.browse(CALLER, ArtifactFilter(), None, 10)).items] == [before.id]
        assert await again.content(before.id) == noise(50_000)


async def test_an_upload_that_was_under_way_is_reaped_in_the_restored_store(harness: Harness, tmp_path: Path) -> None:
    kept = await harness.put(noise(50_000))
    blob_id = new_blob_id(START, noise(10))
    until = START + LEASE
    await harness.catalog.commit(BeginUpload(namespace="default", blob_id=blob_id, placement="file", lease_until=until))
    writer = await harness.blobs.create("default", blob_id)
    await writer.write(b"half")
    await writer.finish()

    def make() -> None:
        with backup_to(harness.root, tmp_path / "b", links=True, release="1", now=harness.clock.now):
            pass

    await asyncio.to_thread(make)
    with restore_backup(tmp_path / "b", tmp_path / "new"):
        pass
    with harness_in(tmp_path / "new", tmp_path / "none") as again:
        assert (len(again.stored_files()), again.count("uploads")) == (1, 1)
        again.clock.forward(LEASE + INSTANT)
        assert await again.tidy()() == MaintenanceRound(reaped=1)
        again.clock.forward(GRACE + INSTANT)
        assert await again.tidy()() == MaintenanceRound(removed=1)
        assert (again.count("uploads"), again.count("blobs")) == (0, 1)
        assert await again.content(kept.id) == noise(50_000)
