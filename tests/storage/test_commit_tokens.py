"""The mark of a place of bytes: set once, whoever comes first, and no blob."""

import asyncio
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.blobs.s3 import S3BlobStore
from coatcheck.core.encoding.frames import new_blob_id
from support.s3 import shared_s3

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(params=["files", "s3", "s3-moto"])
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FileBlobStore | S3BlobStore]:
    if request.param == "files":
        with ThreadPoolExecutor(4) as pool:
            yield FileBlobStore(tmp_path, pool)
        return
    server = shared_s3("moto") if request.param == "s3-moto" else shared_s3()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield S3BlobStore.open(server.url())


async def test_the_first_mark_stays_and_everyone_is_told_what_it_says(place: FileBlobStore | S3BlobStore) -> None:
    assert await place.mark() is None
    texts = [f"mark {n}\n" for n in range(6)]
    (first,) = set(await asyncio.gather(*(place.put_mark(text) for text in texts)))
    assert first in texts
    assert await place.put_mark("too late\n") == first == await place.mark()


async def test_a_mark_is_no_blob(place: FileBlobStore | S3BlobStore) -> None:
    await place.put_mark("mark\n")
    assert [name async for name in place.names()] == []
    writer = await place.create("acme", blob_id := new_blob_id(NOW, random.Random(1).randbytes(10)))
    await writer.write(b"data")
    await writer.finish()
    assert [name.id async for name in place.names()] == [blob_id]
    assert await place.mark() == "mark\n"
