"""`coatcheck check` counts every row: sums that differ are told, and put right where rows may be changed."""

import contextlib
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.schema import migrate
from coatcheck.adapters.sql.sqlite.damage import SqliteExamination
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.core.findings import HARMLESS, Finding
from contract.sample_changes import store


async def test_sums_that_are_not_those_of_the_rows_are_told_and_corrected(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    migrate(sqlite_url(path))
    catalog = SqliteCatalog.open(path)
    changes = [store(b"one\n"), store(b"two\n"), store(b"three\n", namespace="other")]
    for change in changes:
        await catalog.commit(change)
    true = await catalog.usage_of("acme")
    catalog.close()
    examine = SqliteExamination(path)
    assert (await examine(deep=False, repair=None)).findings == ()
    with contextlib.closing(sqlite3.connect(path)) as conn:
        conn.execute("UPDATE usage SET bytes = bytes + 7, artifacts = 1 WHERE namespace = 'acme'")
        conn.execute("DELETE FROM usage WHERE namespace = 'other'")
        conn.commit()
    size, single = true.bytes, changes[2].blob.stored_size
    drifted = [
        f"Usage says 1 artifacts, {size + 7} stored bytes and 0 reserved; the rows come to 2, {size} and 0.",
        f"Usage says 0 artifacts, 0 stored bytes and 0 reserved; the rows come to 1, {single} and 0.",
    ]
    told = (await examine(deep=False, repair=None)).findings
    assert told == (Finding("usage", "acme", "", drifted[0]), Finding("usage", "other", "", drifted[1]))
    assert {finding.what for finding in told} <= HARMLESS
    repaired = (await examine(deep=False, repair=datetime(2026, 1, 1, tzinfo=UTC))).findings
    assert repaired == tuple(
        Finding("usage", namespace, "", f"{detail} It is corrected.", repaired=True)
        for namespace, detail in zip(("acme", "other"), drifted, strict=True)
    )
    assert (await examine(deep=False, repair=None)).findings == ()
    catalog = SqliteCatalog.open(path)
    assert await catalog.usage_of("acme") == true
    catalog.close()
