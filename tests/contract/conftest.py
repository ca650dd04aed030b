"""The adapters that the contract suites run against. A new adapter is one more factory here."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.blobs.s3 import S3BlobStore
from coatcheck.ports.blobs import BlobStore
from contract.sample_changes import Everything
from support.catalogs import CATALOGS
from support.clock import HandClock
from support.memory_blobs import MemoryBlobStore
from support.s3 import S3Server, shared_s3


@asynccontextmanager
async def _memory_store(_: Path) -> AsyncGenerator[BlobStore]:
    yield MemoryBlobStore(HandClock())


@asynccontextmanager
async def _file_store(folder: Path) -> AsyncGenerator[BlobStore]:
    with ThreadPoolExecutor(4) as pool:
        yield FileBlobStore(folder, pool)


@asynccontextmanager
async def _s3_store(server: S3Server) -> AsyncGenerator[BlobStore]:
    with pytest.MonkeyPatch.context() as environment:
        for name, value in server.environment.items():
            environment.setenv(name, value)
        store = S3BlobStore.open(server.url())
        await store.reaches()
        yield store


STORES: dict[str, Callable[[Path], AbstractAsyncContextManager[BlobStore]]] = {
    "memory": _memory_store,
    "files": _file_store,
    "s3": lambda _: _s3_store(shared_s3()),
    "s3-moto": lambda _: _s3_store(shared_s3("moto")),
}


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BlobStore]:
    async with STORES[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture(params=CATALOGS)
async def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Everything]:
    async with CATALOGS[request.param](tmp_path) as opened:
        yield opened
