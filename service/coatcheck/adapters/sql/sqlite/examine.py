"""Examines the health of a SQLite catalogue: damage in the file, contradicting rows, versions.

It reads beside a server. It repairs only if told that nobody serves, and then as the only writer: SQLite before 3.51.3
can corrupt a database when one connection commits while another one checkpoints, so a second process never writes
beside the service, not even without checkpoints of its own.
"""

import asyncio
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import cast

from sqlalchemy import Connection

from coatcheck.adapters.sql import contradictions
from coatcheck.adapters.sql.engine import looking_engine, sqlite_url, writing_engine
from coatcheck.adapters.sql.faults import fault_of
from coatcheck.adapters.sql.sqlite.damage import missing_table
from coatcheck.adapters.sql.sqlite.snapshot import explain_database_errors
from coatcheck.adapters.sql.tables import artifacts, inline_bytes, surveys, views
from coatcheck.core.errors import Code
from coatcheck.core.findings import EngineReport, Finding

_MOST = 20
"""Lines of SQLite's own report, and blobs of one kind, that are named."""


class SqliteExamination:
    """Examines one database file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __call__(self, *, deep: bool, repair: datetime | None) -> EngineReport:
        """Examines it.

        Args:
            deep: whether to compare indexes with their tables too, which reads every page twice.
            repair: the time to record for repairs; None changes nothing. Only while nobody serves.

        Raises:
            CoatcheckError: `storage_unavailable` if the database cannot be queried.
        """
        return await asyncio.to_thread(self._examine, deep, repair)

    def _examine(self, deep: bool, repair: datetime | None) -> EngineReport:
        with explain_database_errors():
            findings = self._look(deep)
            if repair is not None and not any(f.what == "database" for f in findings):
                findings = self._repair(findings, repair)
        return EngineReport(findings=tuple(findings), notes=_notes(sqlite3.sqlite_version_info))

    def _look(self, deep: bool) -> list[Finding]:
        engine = looking_engine(self._path)
        try:
            with engine.connect() as conn:
                # In a damaged file, every other result is a guess.
                return _lack(conn) or _damage(conn, deep) or _contradictions(conn)
        except Exception as error:
            fault = fault_of(error)
            if fault is None or fault.code is not Code.INTEGRITY:
                raise
            return [_database(f"SQLite cannot read it. {fault.detail}")]
        finally:
            engine.dispose()

    def _repair(self, findings: list[Finding], now: datetime) -> list[Finding]:
        engine = writing_engine(sqlite_url(self._path))
        try:
            with engine.connect() as conn, conn.begin():
                contradictions.repair(conn, now)
        finally:
            engine.dispose()
        return contradictions.mark_repaired(findings)


def _lack(conn: Connection) -> list[Finding]:
    missing = missing_table(cast("sqlite3.Connection", conn.connection.driver_connection), used=True)
    return [] if missing is None else [_database(f"{missing[0].upper()}{missing[1:]}.")]


def _damage(conn: Connection, deep: bool) -> list[Finding]:
    check = "integrity_check" if deep else "quick_check"
    answers = [str(row[0]) for row in conn.exec_driver_sql(f"PRAGMA {check}({_MOST})")]
    return [] if answers == ["ok"] else [_database(answer) for answer in answers]


def _contradictions(conn: Connection) -> list[Finding]:
    findings = contradictions.contradictions(conn)
    broken: dict[str, int] = {}
    for row in conn.exec_driver_sql("PRAGMA foreign_key_check"):
        table = str(row[0])
        if table not in {inline_bytes.name, surveys.name, views.name}:  # reported above
            broken[table] = broken.get(table, 0) + 1
    findings += [
        Finding("dangling", "", "", f"{count:,} rows of the table {table} point at rows that are not there.")
        for table, count in broken.items()
        if table != artifacts.name  # reported above, one by one
    ]
    return findings


def _database(detail: str) -> Finding:
    return Finding("database", "", "", detail)


def _notes(version: tuple[int, ...]) -> tuple[str, ...]:
    name = ".".join(map(str, version))
    if not can_corrupt(version):
        return ()
    note = (
        f"SQLite {name} can corrupt a database when one connection writes while another one checkpoints (fixed in "
        "3.51.3). The service writes and checkpoints with one connection only, which avoids it: let no other "
        "program write to this database."
    )
    return (note,)


def can_corrupt(version: tuple[int, ...]) -> bool:
    """Returns whether this SQLite has the WAL-reset defect (sqlite.org/wal.html).

    Affected are 3.7.0 to 3.51.2, except two backports.
    """
    fixed = {(3, 44): 6, (3, 50): 7}.get((version[0], version[1]))
    if fixed is not None:
        return version[2] < fixed
    return (3, 7, 0) <= version < (3, 51, 3)
