"""An earlier release's audit moves to the log and back: its lines, their order, and a chain that holds together."""
# pyright: reportPrivateUsage=false

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

from alembic import command
from sqlalchemy import Connection, text

from coatcheck.adapters.sql import schema
from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.core.retention.audit import unpack_numbers
from support.postgres import connect
from support.postgres_shared import databases

KEPT = Path(__file__).parent / "releases"
_OLD = "SELECT * FROM audit ORDER BY seq"
_HEAD = "SELECT * FROM audit_head"
_LOG = "SELECT * FROM audit_log ORDER BY seq"
_LATER = """INSERT INTO audit_log (at, action, actor, reason, artifacts, size, details, numbers)
    SELECT at, 'hold.placed', 'bob', 'Übung', 0, 0, '{"hold":"h"}', :none FROM audit_log"""


def _ask(url: str, statement: str, **values: object) -> list[dict[str, Any]]:
    def asked(conn: Connection) -> list[dict[str, Any]]:
        if conn.dialect.name == "postgresql":
            conn.execute(text("SELECT set_config('coatcheck.upkeep', 'on', true)"))
        done = conn.execute(text(statement), values)
        found = [dict(row) for row in done.mappings()] if done.returns_rows else []
        conn.commit()
        return found

    return schema._with_connection(url, asked)


def _downgrade(url: str) -> None:
    def downgrade(conn: Connection) -> None:
        config = schema._config()
        config.attributes["connection"] = conn
        command.downgrade(config, "0002")

    schema._with_connection(url, downgrade)


def _check_there_and_back(url: str) -> None:
    """Of a database that the release before has written."""
    lines, head = _ask(url, _OLD), _ask(url, _HEAD)
    assert [(line["action"], line["seq"]) for line in lines] == [("artifact.removed", 1)]
    schema.migrate(url)
    kept = [name for name in lines[0] if name not in {"previous", "digest"}]
    assert [[line[name] for name in kept] for line in _ask(url, _LOG)] == [
        [line[name] for name in kept] for line in lines
    ]
    _downgrade(url)
    assert (_ask(url, _OLD), _ask(url, _HEAD)) == (lines, head)  # also the very hashes
    schema.migrate(url)
    _ask(url, _LATER, none=b"")
    assert [line["seq"] for line in _ask(url, _LOG)] == [1, 2]
    _downgrade(url)
    first, second = _ask(url, _OLD)
    assert (first, second["previous"], second["action"]) == (lines[0], first["digest"], "hold.placed")
    assert _ask(url, _HEAD) == [{"id": 1, "seq": 2, "digest": second["digest"]}]
    schema.migrate(url)
    assert [(line["seq"], line["action"]) for line in _ask(url, _LOG)] == [(1, "artifact.removed"), (2, "hold.placed")]
    _ask(url, "DELETE FROM audit_log WHERE seq = 1")
    _downgrade(url)
    (line,) = _ask(url, _OLD)
    assert (line["seq"], line["action"], line["previous"]) == (1, "hold.placed", bytes(32))
    assert (unpack_numbers(line["numbers"]), json.loads(line["details"])) == ((), {"hold": "h"})
    assert _ask(url, _HEAD) == [{"id": 1, "seq": 1, "digest": line["digest"]}]
    assert line["digest"] != lines[0]["digest"]


def test_the_audit_of_an_embedded_catalogue_moves_to_the_log_and_back(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    conn = sqlite3.connect(path)
    conn.executescript((KEPT / "0002.sqlite.sql").read_text())
    conn.close()
    _check_there_and_back(sqlite_url(path))


async def test_the_audit_of_a_postgresql_catalogue_moves_to_the_log_and_back() -> None:
    with databases().lent(empty=True) as url:
        conn = await connect(url)
        await conn.execute((KEPT / "0002.postgresql.sql").read_text())
        await conn.close()
        await asyncio.to_thread(_check_there_and_back, url)


def test_an_audit_without_lines_moves_to_the_log_and_back(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "catalog.db")
    schema.migrate(url)
    _downgrade(url)
    assert (_ask(url, _OLD), _ask(url, _HEAD)) == ([], [{"id": 1, "seq": 0, "digest": bytes(32)}])
