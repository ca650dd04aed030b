"""Bytes belong to one database: no other may serve or check them, and a database has one place of a kind."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from coatcheck.adapters.blobs.files import MARK, FileBlobStore
from coatcheck.core.errors import Code
from coatcheck.ports.blobs import BlobLocation
from coatcheck.upkeep.store_binding import StoreBinding
from support.harness import Harness, harness_in
from support.refusals import refusal
from support.samples import noise


@pytest.fixture
def other(tmp_path: Path, template: Path) -> Iterator[Harness]:
    """Another database, with files of its own."""
    (tmp_path / "other").mkdir()
    with harness_in(tmp_path / "other", template) as opened:
        yield opened


def belong(harness: Harness, *, looking: bool = False) -> StoreBinding:
    names = itertools.count()
    return StoreBinding(harness.catalog, harness.clock, lambda: f"{harness.root.name}-{next(names)}", looking=looking)


def place(harness: Harness, root: Path) -> FileBlobStore:
    root.mkdir(exist_ok=True)
    return FileBlobStore(root, harness.pool)


async def refused(verb: StoreBinding, where: BlobLocation) -> str:
    error = await refusal(verb(where))
    assert error.code is Code.INVALID_REQUEST
    return error.detail


async def test_the_first_start_marks_an_empty_place_and_later_ones_find_it_theirs(harness: Harness) -> None:
    assert await harness.blobs.mark() is None
    await belong(harness)(harness.blobs)
    mark = await harness.blobs.mark()
    assert mark is not None
    for looking in (False, True):
        await belong(harness, looking=looking)(harness.blobs)
    assert await harness.blobs.mark() == mark
    assert await belong(harness).holds(harness.blobs) is True
    assert [n async for n in harness.blobs.names()] == []


async def test_replicas_that_start_at_once_agree_on_one_mark(harness: Harness) -> None:
    await asyncio.gather(*(belong(harness)(FileBlobStore(harness.root, harness.pool)) for _ in range(8)))
    assert [p.name for p in harness.root.iterdir() if MARK in p.name] == [MARK]


@pytest.mark.parametrize("looking", [False, True])
async def test_another_databases_place_is_refused_and_left_as_it_is(
    harness: Harness, other: Harness, looking: bool
) -> None:
    await belong(harness)(harness.blobs)
    mark = await harness.blobs.mark()
    detail = await refused(belong(other, looking=looking), harness.blobs)
    assert str(harness.root) in detail
    assert await harness.blobs.mark() == mark
    await belong(other)(other.blobs)
    await refused(belong(other, looking=looking), harness.blobs)
    assert await belong(other).holds(harness.blobs) is False


@pytest.mark.parametrize("looking", [False, True])
async def test_a_second_directory_of_the_same_database_is_refused_though_it_is_empty(
    harness: Harness, tmp_path: Path, looking: bool
) -> None:
    await belong(harness)(harness.blobs)
    apart = place(harness, tmp_path / "apart")
    detail = await refused(belong(harness, looking=looking), apart)
    assert await apart.mark() is None
    line = detail.rpartition(": ")[2]
    (tmp_path / "apart" / MARK).write_text(f"{line}\n")
    await belong(harness, looking=looking)(apart)


async def test_a_place_of_the_same_database_with_the_mark_of_another_place_is_refused(
    harness: Harness, tmp_path: Path
) -> None:
    await belong(harness)(harness.blobs)
    apart = place(harness, tmp_path / "apart")
    await apart.put_mark(f"{(await harness.blobs.mark() or '').strip()}-other\n")
    for looking in (False, True):
        await refused(belong(harness, looking=looking), apart)


async def test_a_copy_without_its_mark_is_taken_when_the_database_knows_a_blob_of_it(harness: Harness) -> None:
    await harness.put(noise(100_000))
    await belong(harness)(harness.blobs)
    mark = await harness.blobs.mark()
    (harness.root / MARK).unlink()
    await belong(harness, looking=True)(harness.blobs)
    assert await harness.blobs.mark() is None, "looking writes nothing"
    await belong(harness)(harness.blobs)
    assert await harness.blobs.mark() == mark


@pytest.mark.parametrize("looking", [False, True])
async def test_blobs_that_the_database_does_not_know_are_not_taken_for_its_own(
    harness: Harness, other: Harness, looking: bool
) -> None:
    await harness.put(noise(100_000))
    await refused(belong(other, looking=looking), harness.blobs)
    assert await harness.blobs.mark() is None


async def test_a_place_beside_its_database_is_taken_without_a_mark_but_not_with_anothers(
    harness: Harness, other: Harness
) -> None:
    await harness.put(noise(100_000))
    await belong(other)(harness.blobs, beside_database=True)
    error = await refusal(belong(harness)(harness.blobs, beside_database=True))
    assert error.code is Code.INVALID_REQUEST


@pytest.mark.parametrize("text", ["", "coatcheck-store", "something else entirely"])
async def test_a_damaged_mark_is_nobodys(harness: Harness, text: str) -> None:
    await belong(harness)(harness.blobs)
    (harness.root / MARK).write_text(text)
    await refused(belong(harness), harness.blobs)


async def test_a_start_that_died_between_mark_and_binding_is_finished_by_the_next(
    harness: Harness, tmp_path: Path
) -> None:
    await belong(harness)(harness.blobs)
    await harness.catalog._writer.run(  # type: ignore[attr-defined] # pyright: ignore[reportPrivateUsage]
        lambda conn: conn.exec_driver_sql("DELETE FROM leases WHERE name = 'place:file'")
    )
    await belong(harness)(harness.blobs)
    assert await belong(harness).bound("file") is True
    await refused(belong(harness), place(harness, tmp_path / "apart"))
