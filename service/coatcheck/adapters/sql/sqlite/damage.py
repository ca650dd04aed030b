"""Damage of the catalogue's database: looked for at the start, noted when a statement meets it, told from then on.

A damaged catalogue is only read: what it says of other rows may be wrong, so nothing is stored or deleted by it.

Examines the health of a SQLite catalogue: damage in the file, contradicting rows, versions.

It reads beside a server. It repairs only if told that nobody serves, and then as the only writer: SQLite before 3.51.3
can corrupt a database when one connection commits while another one checkpoints, so a second process never writes
beside the service, not even without checkpoints of its own.
"""

import asyncio
import contextlib
import logging
import sqlite3
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote

from sqlalchemy import Connection

from coatcheck.adapters.sql import contradictions
from coatcheck.adapters.sql.engine import looking_engine, sqlite_url, writing_engine
from coatcheck.adapters.sql.faults import fault_of
from coatcheck.adapters.sql.schema import REVISION
from coatcheck.adapters.sql.sqlite.snapshot import explain_database_errors
from coatcheck.adapters.sql.tables import artifacts, inline_bytes, metadata, surveys, views
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.findings import EngineReport, Finding

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 3.0
"""Seconds for which a start waits for the check: enough for several gigabytes that are in memory."""


class CatalogDamage:
    """What is known of the damage of one catalogue. Any thread may use it; once noted, it stays until the process ends.

    Lasting, because a page that could be read the second time proves nothing about the others.
    """

    def __init__(self) -> None:
        self.error: CoatcheckError | None = None
        """What is wrong, with the code `integrity`; None while nothing is known to be."""
        self.unreadable = False
        """Whether nothing is to be read: not even the tables can be that say who may read what."""

    def note(self, what: str) -> None:
        """Notes damage, and logs it the first time."""
        if self.error is None:
            self.error = CoatcheckError(
                Code.INTEGRITY,
                f"The catalogue's database is damaged ({what}). The service reads what it can, and stores and deletes "
                "nothing. Stop it, keep the data directory, and restore the newest backup into another one: "
                "`coatcheck restore BACKUP --data NEW`. `coatcheck check` says what is damaged.",
            )
            log.error("%s", self.error.detail)

    @property
    def detail(self) -> str | None:
        """Returns what is wrong; None while nothing is known to be."""
        return None if self.error is None else self.error.detail

    def refusal(self) -> CoatcheckError:
        """Returns the error for a call that the damage prevents. Callers go on as while storage is away."""
        return CoatcheckError(Code.STORAGE_UNAVAILABLE, self.detail or "")

    def detect_damage(self, error: Exception) -> bool:
        """Returns whether the failure of a statement shows damage, and notes it."""
        fault = fault_of(error)
        if fault is not None and fault.code is Code.INTEGRITY:
            self.note(str(getattr(getattr(error, "orig", error), "sqlite_errorname", "")))
        # To SQLite a missing table is a caller's mistake; in a migrated database it is damage.
        elif isinstance(getattr(error, "orig", error), sqlite3.OperationalError) and "no such table" in str(error):
            self.note("a table is missing")
        else:
            return False
        return True

    def explain(self, error: Exception) -> CoatcheckError | None:
        """Returns the caller's error for a failed statement, as `fault_of`; notes damage that it shows."""
        if self.detect_damage(error) or (self.error is not None and not isinstance(error, CoatcheckError)):
            return self.refusal()  # in a damaged database, whatever else fails comes of that
        return fault_of(error)


def look_for_damage(path: Path, damage: CatalogDamage, *, used: bool) -> None:
    """Checks a database file before it is served; waits CHECK_SECONDS at most. Changes nothing.

    Args:
        path: the file. One that does not exist is not damaged.
        damage: where findings are noted, also those of a check that could not be ended by then.
        used: whether the database is known to have been in use, so that an empty one is damaged.
    """
    if not path.exists():
        return
    if path.stat().st_size == 0:
        if used:
            damage.note("its file is empty")
        return
    # A thread of its own: SQLite before 3.41 does not let anybody interrupt its walk through a tree.
    check = threading.Thread(target=_check, args=(path, damage, used), name="coatcheck-damage", daemon=True)
    check.start()
    # A longer check goes on in its thread, and its result still counts.
    check.join(CHECK_SECONDS)


def missing_table(raw: sqlite3.Connection, *, used: bool) -> str | None:
    """Returns what a database lacks of this release's schema; None if nothing, or if it has another release's."""
    tables = {str(row[0]) for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return "it has no tables" if used else None
    if "alembic_version" not in tables:
        return "it is not a catalogue, or has lost the table of its version"
    # Another release's schema is for `check_revision` to report, and no damage.
    if raw.execute("SELECT version_num FROM alembic_version").fetchall() != [(REVISION,)]:
        return None
    missing = sorted(metadata.tables.keys() - tables)
    return f"the table {missing[0]} is missing" if missing else None


def _check(path: Path, damage: CatalogDamage, used: bool) -> None:
    until = time.monotonic() + CHECK_SECONDS
    # Read-only: a check must not create or change a file.
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as raw:
            missing = missing_table(raw, used=used)
            if missing is not None:
                damage.note(missing)
                return
            # Every 10,000 instructions of SQLite's virtual machine; a true result ends the statement.
            raw.set_progress_handler(lambda: time.monotonic() > until, 10_000)
            # One finding is enough: whatever it is, the catalogue is only read from then on.
            answer = str(raw.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        if not damage.detect_damage(error):
            log.info("the catalogue's database was not checked to its end: %s", error)
        return
    if answer != "ok":
        damage.note(answer.replace("\n", " "))


_MAX_NAMED = 20
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
            # A repair relies on indexes and rows, which a damaged file does not have.
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
    answers = [str(row[0]) for row in conn.exec_driver_sql(f"PRAGMA {check}({_MAX_NAMED})")]
    return [] if answers == ["ok"] else [_database(answer) for answer in answers]


def _contradictions(conn: Connection) -> list[Finding]:
    findings = contradictions.contradictions(conn)
    # Tables without statements of their own above are left to SQLite's check of foreign keys.
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
    # The corrected release of each earlier branch that has one.
    fixed = {(3, 44): 6, (3, 50): 7}.get((version[0], version[1]))
    if fixed is not None:
        return version[2] < fixed
    return (3, 7, 0) <= version < (3, 51, 3)
