"""Write down a small catalogue as this release leaves it, for later releases to open: one file per database.

Run once for each revision of the schema, before the next one is made: `python tests/storage/releases/make.py`.
"""

import asyncio
import sqlite3
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import msgspec

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from coatcheck.adapters.sql import schema  # noqa: E402 - after the path to the tests
from coatcheck.adapters.sql.engine import sqlite_url  # noqa: E402
from coatcheck.adapters.sql.postgres import PostgresCatalog  # noqa: E402
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog  # noqa: E402
from coatcheck.core import ids  # noqa: E402
from coatcheck.core.artifact import DeclaredMetadata, Gone, Kind, ReceiptRecord  # noqa: E402
from coatcheck.ports.artifacts import DeleteArtifact, IdempotencyKey, StoreArtifact  # noqa: E402
from coatcheck.ports.blobs import BeginUpload  # noqa: E402
from coatcheck.ports.catalog import FoundArtifact  # noqa: E402
from contract.sample_changes import DAY, START, Everything, store, view  # noqa: E402
from support.postgres import BIN, Server, running_postgres  # noqa: E402

HOUR = timedelta(hours=1)
RECEIPT = ReceiptRecord(
    engine=8, sha256=b"d" * 32, tokens=5, budget=600, query="why?", tools=False, text="[art_1]\nrun"
)


def changes() -> list[StoreArtifact]:
    """What is stored, each a different shape of row."""
    key = IdempotencyKey(key="k", fingerprint=b"f", expires_at=START + 3650 * DAY)
    return [
        store(
            b"one\ntwo\n",
            said=DeclaredMetadata(tool_call_id="1", session="s", labels=("a", "b"), title="Über"),
            ttl=3600,
        ),
        store(
            b"one\ntwo\n",
            said=DeclaredMetadata(tool_call_id="2", url="https://example.org/?a=1"),
            idle_ttl=600,
            key=key,
        ),
        store(b"file", said=DeclaredMetadata(tool_call_id="3"), placement="file", pinned=True),
        store(b"gone", said=DeclaredMetadata(tool_call_id="4", tool_name="bash")),
        store(b"other", namespace="other", said=DeclaredMetadata(tool_call_id="5")),
        store(b"<p>page", said=DeclaredMetadata(tool_call_id="6"), text_view=view(b"page\n")),
        store(b"# part\n", said=DeclaredMetadata(tool_call_id="7"), text_view=view(None)),
        store(b"run", said=DeclaredMetadata(tool_call_id="8", command="make"), survey=b"\x00survey", receipt=RECEIPT),
        store(
            b"run", said=DeclaredMetadata(tool_call_id="8", kind=Kind.LOG, command="make\nall"), survey=b"\x01survey"
        ),
    ]


async def fill(catalog: Everything, made: list[StoreArtifact]) -> list[str]:
    """Store them; answer what the catalogue then says of each, as JSON."""
    for change in made:
        if change.blob.placement == "file":
            lease = START + HOUR
            begin = BeginUpload(namespace="acme", blob_id=change.blob.id, placement="file", lease_until=lease)
            await catalog.commit(begin)
        await catalog.commit(change)
    gone = ids.number(made[3].identity)
    until = START + 3650 * DAY
    await catalog.commit(DeleteArtifact(namespace="acme", number=gone, now=START, tombstone_until=until))
    return await told(catalog, [(change.namespace, ids.number(change.identity)) for change in made])


async def told(catalog: Everything, numbers: list[tuple[str, int]]) -> list[str]:
    """What a catalogue says of these, as JSON."""
    all_of_it = {"with_bytes": True, "with_view": True, "with_survey": True, "with_receipt": True}
    found = [await catalog.find(*each, START, **all_of_it) for each in numbers]
    return [msgspec.json.encode((each, _said_of(answer))).decode() for each, answer in zip(numbers, found, strict=True)]


def _said_of(answer: FoundArtifact | Gone | None) -> object:
    """An answer without what releases before did not know."""
    said = msgspec.to_builtins(answer)
    if isinstance(answer, FoundArtifact) and answer.survey is None:
        del said["survey"]
    if isinstance(answer, FoundArtifact) and answer.receipt is None:
        del said["receipt"]
    if isinstance(answer, FoundArtifact) and answer.text_view is not None and not answer.text_view.view.version:
        del said["text_view"]["view"]["version"]
    return said


def on_sqlite(folder: Path) -> None:
    """The embedded catalogue."""
    path = folder / "catalog.db"
    schema.migrate(sqlite_url(path))
    catalog = SqliteCatalog.open(path)
    lines = asyncio.run(fill(catalog, changes()))
    catalog.close()
    with sqlite3.connect(path) as conn:
        _write("sqlite", "\n".join(conn.iterdump()), lines)


def on_postgresql(server: Server) -> None:
    """The catalogue of many replicas."""
    url = server.database(name="release")
    schema.migrate(url)

    async def filled() -> list[str]:
        catalog = await PostgresCatalog.open(url)
        try:
            return await fill(catalog, changes())
        finally:
            await catalog.close()

    lines = asyncio.run(filled())
    dump = [BIN / "pg_dump", "--inserts", "--no-owner", "--no-comments", server.url("release")]
    told = subprocess.run(dump, capture_output=True, check=True, text=True)
    # Without what only psql and this very version of the server understand, and without what empties the search path.
    words = ("\\", "--", "SET ", "SELECT pg_catalog.set_config")
    kept = [line for line in told.stdout.splitlines() if line and not line.startswith(words)]
    _write("postgresql", "\n".join(kept), lines)


def _write(kind: str, dump: str, lines: list[str]) -> None:
    stem = f"{schema.REVISION}.{kind}"
    (HERE / f"{stem}.sql").write_text(dump + "\n")
    (HERE / f"{stem}.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        on_sqlite(Path(name))
    with running_postgres() as running:
        on_postgresql(running)
