"""Views in a backup: their rows and the files of their bytes, as those of payloads."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coatcheck.adapters.backup.make import backup_to
from coatcheck.adapters.backup.restore import restore_backup
from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.schema import migrate
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.ports.artifacts import NewView, StoredView, StoreView
from coatcheck.ports.blobs import BeginUpload
from coatcheck.ports.catalog import FoundArtifact
from contract.sample_changes import DAY, START, number_of, store, view
from support.refusals import expect


@pytest.fixture
async def catalog(tmp_path: Path) -> AsyncIterator[SqliteCatalog]:
    root = tmp_path / "data"
    await asyncio.to_thread(root.mkdir)
    await asyncio.to_thread(migrate, sqlite_url(root / "coatcheck.db"))
    opened = SqliteCatalog.open(root / "coatcheck.db")
    yield opened
    opened.close()


async def write(store_of: FileBlobStore, catalog: SqliteCatalog, new: NewView, stored: bytes) -> None:
    """The file of a view's bytes, behind its intent."""
    assert new.blob is not None
    intent = BeginUpload(namespace="acme", blob_id=new.blob.id, placement="file", lease_until=START + DAY)
    await catalog.commit(intent)
    writer = await store_of.create("acme", new.blob.id)
    await writer.write(stored)
    await writer.finish()


async def test_a_restored_store_has_the_views_of_its_artifacts_with_their_bytes(
    catalog: SqliteCatalog, tmp_path: Path
) -> None:
    pages = [store(b"<p>%d" % n) for n in range(3)]
    views = [view(b"0\n"), view(b"1\n", placement="file"), view(None)]
    stored = view(b"1\n").inline
    assert stored is not None
    with ThreadPoolExecutor(1) as pool:
        await write(FileBlobStore(tmp_path / "data", pool), catalog, views[1], stored)
    for page, new in zip(pages, views, strict=True):
        await catalog.commit(page)
        change = StoreView(namespace="acme", number=number_of(page), now=START, new=new)
        assert isinstance(await catalog.commit(change), StoredView)
    root, target, new_root = tmp_path / "data", tmp_path / "backup", tmp_path / "new"
    with backup_to(root, target, links=True, release="1", now=lambda: START) as staged:
        assert (staged.manifest.artifacts, staged.manifest.blobs, staged.manifest.files) == (3, 5, 1)
    with restore_backup(target, new_root):
        pass
    restored = SqliteCatalog.open(new_root / "coatcheck.db")
    try:
        for page in pages:
            there = expect(
                FoundArtifact, await catalog.find("acme", number_of(page), START, with_bytes=True, with_view=True)
            )
            assert there.text_view is not None
            assert await restored.find("acme", number_of(page), START, with_bytes=True, with_view=True) == there
        with ThreadPoolExecutor(1) as pool:
            blob = views[1].blob
            assert blob is not None
            read = await FileBlobStore(new_root, pool).read("acme", blob.id, 0, blob.stored_size)
        assert read == stored
    finally:
        restored.close()
