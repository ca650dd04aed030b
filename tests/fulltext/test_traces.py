"""No word of what was deleted is left in the files."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.schema import migrate
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.ports.maintenance import ForgetBlobs
from coatcheck.ports.retention import ForgetRemoved
from contract.sample_changes import DAY
from fulltext.index_harness import IndexHarness


async def test_after_deletion_sweep_and_checkpoint_no_word_is_in_the_data_directory(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    migrate(sqlite_url(path))
    canary = "kanarienvogel" + random.Random(4).randbytes(8).hex()

    def traces() -> int:
        return sum(file.read_bytes().lower().count(canary.encode()) for file in tmp_path.iterdir())

    catalog = SqliteCatalog.open(path)
    with ThreadPoolExecutor(2) as pool:
        shelf = IndexHarness(catalog, pool)
        change = await shelf.put(f"one {canary} two", title=f"about {canary}")
        assert len(await shelf.found(canary)) == 1
        assert traces() > 0
        await shelf.delete(change)
        dead = await catalog.dead_blobs(shelf.clock.now() + DAY, 10)
        await catalog.commit(ForgetBlobs(blobs=tuple((blob.namespace, blob.id) for blob in dead)))
        day_after = shelf.clock.now() + DAY
        await catalog.commit(ForgetRemoved(before=day_after, now=day_after, limit=10))
        catalog.close()
    assert traces() == 0
