"""Bytes belong to one database: no other may serve or check them, and a database has one place of a kind."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coatcheck.adapters.blobs.files import MARK, FileBlobStore
from coatcheck.core.errors import Code
from coatcheck.ports.blobs import Place
from coatcheck.usecases.belong import Belong
from usecases.house import House, house_in, noise, refusal


@pytest.fixture
async def other(tmp_path: Path, template: Path) -> AsyncIterator[House]:
    """Another database, with files of its own."""
    (tmp_path / "other").mkdir()
    async with house_in(tmp_path / "other", template) as opened:
        yield opened


def belong(house: House, *, looking: bool = False) -> Belong:
    names = itertools.count()
    return Belong(house.catalog, house.clock, lambda: f"{house.root.name}-{next(names)}", looking=looking)


def place(house: House, root: Path) -> FileBlobStore:
    root.mkdir(exist_ok=True)
    return FileBlobStore(root, house.pool)


async def refused(verb: Belong, where: Place) -> str:
    error = await refusal(verb(where))
    assert error.code is Code.INVALID_REQUEST
    return error.detail


async def test_the_first_start_marks_an_empty_place_and_later_ones_find_it_theirs(house: House) -> None:
    assert await house.blobs.mark() is None
    await belong(house)(house.blobs)
    mark = await house.blobs.mark()
    assert mark is not None
    for looking in (False, True):
        await belong(house, looking=looking)(house.blobs)
    assert await house.blobs.mark() == mark
    assert await belong(house).holds(house.blobs) is True
    assert [n async for n in house.blobs.names()] == []


async def test_replicas_that_start_at_once_agree_on_one_mark(house: House) -> None:
    await asyncio.gather(*(belong(house)(FileBlobStore(house.root, house.pool)) for _ in range(8)))
    assert [p.name for p in house.root.iterdir() if MARK in p.name] == [MARK]


@pytest.mark.parametrize("looking", [False, True])
async def test_another_databases_place_is_refused_and_left_as_it_is(house: House, other: House, looking: bool) -> None:
    await belong(house)(house.blobs)
    mark = await house.blobs.mark()
    detail = await refused(belong(other, looking=looking), house.blobs)
    assert str(house.root) in detail
    assert await house.blobs.mark() == mark
    await belong(other)(other.blobs)
    await refused(belong(other, looking=looking), house.blobs)
    assert await belong(other).holds(house.blobs) is False


@pytest.mark.parametrize("looking", [False, True])
async def test_a_second_directory_of_the_same_database_is_refused_though_it_is_empty(
    house: House, tmp_path: Path, looking: bool
) -> None:
    await belong(house)(house.blobs)
    apart = place(house, tmp_path / "apart")
    detail = await refused(belong(house, looking=looking), apart)
    assert await apart.mark() is None
    line = detail.rpartition(": ")[2]
    (tmp_path / "apart" / MARK).write_text(f"{line}\n")
    await belong(house, looking=looking)(apart)


async def test_a_place_of_the_same_database_with_the_mark_of_another_place_is_refused(
    house: House, tmp_path: Path
) -> None:
    await belong(house)(house.blobs)
    apart = place(house, tmp_path / "apart")
    await apart.put_mark(f"{(await house.blobs.mark() or '').strip()}-other\n")
    for looking in (False, True):
        await refused(belong(house, looking=looking), apart)


async def test_a_copy_without_its_mark_is_taken_when_the_database_knows_a_blob_of_it(house: House) -> None:
    await house.put(noise(100_000))
    await belong(house)(house.blobs)
    mark = await house.blobs.mark()
    (house.root / MARK).unlink()
    await belong(house, looking=True)(house.blobs)
    assert await house.blobs.mark() is None, "looking writes nothing"
    await belong(house)(house.blobs)
    assert await house.blobs.mark() == mark


@pytest.mark.parametrize("looking", [False, True])
async def test_blobs_that_the_database_does_not_know_are_not_taken_for_its_own(
    house: House, other: House, looking: bool
) -> None:
    await house.put(noise(100_000))
    await refused(belong(other, looking=looking), house.blobs)
    assert await house.blobs.mark() is None


async def test_a_place_beside_its_database_is_taken_without_a_mark_but_not_with_anothers(
    house: House, other: House
) -> None:
    await house.put(noise(100_000))
    await belong(other)(house.blobs, beside_database=True)
    error = await refusal(belong(house)(house.blobs, beside_database=True))
    assert error.code is Code.INVALID_REQUEST


@pytest.mark.parametrize("text", ["", "coatcheck-store", "something else entirely"])
async def test_a_damaged_mark_is_nobodys(house: House, text: str) -> None:
    await belong(house)(house.blobs)
    (house.root / MARK).write_text(text)
    await refused(belong(house), house.blobs)


async def test_a_start_that_died_between_mark_and_binding_is_finished_by_the_next(house: House, tmp_path: Path) -> None:
    await belong(house)(house.blobs)
    await house.catalog._writer.run(  # type: ignore[attr-defined] # pyright: ignore[reportPrivateUsage]
        lambda conn: conn.exec_driver_sql("DELETE FROM leases WHERE name = 'place:file'")
    )
    await belong(house)(house.blobs)
    assert await belong(house).bound("file") is True
    await refused(belong(house), place(house, tmp_path / "apart"))
