import asyncio
import random
from datetime import UTC, datetime
from typing import cast

import pytest

from coatcheck.core.encoding.frames import new_blob_id
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.blobs import BlobLocation, BlobStore
from support.refusals import code_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RNG = random.Random(7)


def fresh() -> str:
    return new_blob_id(NOW, RNG.randbytes(10))


async def put_as(store: BlobStore, blob_id: str, data: bytes, *, piece: int = 100_000) -> None:
    writer = await store.create("acme", blob_id)
    try:
        for start in range(0, len(data), piece):
            await writer.write(data[start : start + piece])
        await writer.finish()
    except BaseException:
        await writer.abort()
        raise


async def put(store: BlobStore, data: bytes, *, piece: int = 100_000) -> str:
    blob_id = fresh()
    await put_as(store, blob_id, data, piece=piece)
    return blob_id


@pytest.mark.parametrize("size", [0, 1, 99_999, 1_000_000, 9_000_000])
async def test_a_finished_blob_reads_back_exactly_at_any_range(store: BlobStore, size: int) -> None:
    data = random.Random(size).randbytes(size)
    blob_id = await put(store, data)
    assert await store.read("acme", blob_id, 0, size) == data
    for start, length in [(0, 0), (size // 3, size // 2), (max(0, size - 1), min(1, size)), (size, 0)]:
        assert await store.read("acme", blob_id, start, length) == data[start : start + length]


async def test_a_range_past_the_end_is_an_integrity_error(store: BlobStore) -> None:
    blob_id = await put(store, b"0123456789")
    for start, length in [(0, 11), (9, 2), (10, 1), (500, 1)]:
        assert await code_of(store.read("acme", blob_id, start, length)) is Code.INTEGRITY


async def test_a_missing_blob_is_an_integrity_error(store: BlobStore) -> None:
    assert await code_of(store.read("acme", fresh(), 0, 1)) is Code.INTEGRITY


@pytest.mark.parametrize("size", [6, 9_000_000])
async def test_a_name_is_written_once(store: BlobStore, size: int) -> None:
    blob_id = await put(store, b"first")
    with pytest.raises(FileExistsError):
        await put_as(store, blob_id, bytes(size))
    assert await store.read("acme", blob_id, 0, 5) == b"first"
    assert await store.size("acme", blob_id) == 5


@pytest.mark.parametrize("size", [60_000, 9_000_000])
async def test_of_concurrent_writers_of_one_name_one_wins_and_the_others_leave_its_bytes_alone(
    store: BlobStore, size: int
) -> None:
    blob_id = fresh()
    payloads = [random.Random(seed).randbytes(size) for seed in range(4)]
    answers = await asyncio.gather(*(put_as(store, blob_id, data) for data in payloads), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["FileExistsError"] * 3 + ["NoneType"]
    assert await store.read("acme", blob_id, 0, size) == payloads[answers.index(None)]


async def test_the_same_id_in_two_namespaces_is_not_the_same_bytes_unless_names_carry_none(store: BlobStore) -> None:
    blob_id = await put(store, b"data")
    there = [name.namespace async for name in store.names()]
    assert there in (["acme"], [""])
    assert await store.size("other", blob_id) == (None if there == ["acme"] else 4)


async def test_removing_answers_whether_the_blob_was_there(store: BlobStore) -> None:
    blob_id = await put(store, b"data")
    assert await store.remove("acme", blob_id) is True
    assert await store.remove("acme", blob_id) is False
    assert await code_of(store.read("acme", blob_id, 0, 4)) is Code.INTEGRITY


async def test_the_size_is_that_of_the_stored_bytes_or_none(store: BlobStore) -> None:
    for size in (0, 1, 600_000):
        assert await store.size("acme", await put(store, bytes(size))) == size
    blob_id = await put(store, b"data")
    await store.remove("acme", blob_id)
    assert await store.size("acme", blob_id) is None


async def test_an_aborted_blob_leaves_nothing_and_may_be_aborted_after_its_removal(store: BlobStore) -> None:
    blob_id = fresh()
    writer = await store.create("acme", blob_id)
    await writer.write(b"x" * 300_000)
    await store.remove("acme", blob_id)
    await writer.abort()
    other = await store.create("acme", fresh())
    await other.write(b"y" * 5_000_000)
    await other.abort()
    assert [name async for name in store.names()] == []


async def test_names_lists_every_blob_with_its_size(store: BlobStore) -> None:
    sizes = [0, 1, 70_000, 600_000]
    blobs = {await put(store, bytes(size)): size for size in sizes}
    names = [name async for name in store.names()]
    assert {name.id: name.size for name in names} == blobs
    assert all(name.modified_at.tzinfo is not None for name in names)


async def test_writers_at_once_do_not_mix_their_bytes(store: BlobStore) -> None:
    payloads = [random.Random(seed).randbytes(700_000) for seed in range(12)]
    ids = await asyncio.gather(*(put(store, data, piece=50_000) for data in payloads))
    for blob_id, data in zip(ids, payloads, strict=True):
        assert await store.read("acme", blob_id, 0, len(data)) == data


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "A" * 32, "a" * 31, "a" * 33, "a" * 31 + "\n"])
async def test_what_is_not_a_blob_name_reaches_no_path(store: BlobStore, name: str) -> None:
    with pytest.raises((ValueError, CoatcheckError)):
        await store.create("acme", name)


@pytest.mark.parametrize("store", ["files", "s3", "s3-moto"], indirect=True)
async def test_the_first_mark_of_a_place_stays_and_is_no_blob(store: BlobStore) -> None:
    place = cast("BlobLocation", store)
    assert await place.mark() is None
    texts = [f"mark {n}\n" for n in range(6)]
    (first,) = set(await asyncio.gather(*(place.put_mark(text) for text in texts)))
    assert first in texts
    assert await place.put_mark("too late\n") == first == await place.mark()
    assert [name async for name in place.names()] == []
    blob_id = await put(store, b"data")
    assert [name.id async for name in place.names()] == [blob_id]
    assert await place.mark() == first
