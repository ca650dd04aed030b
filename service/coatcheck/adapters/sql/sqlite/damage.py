"""Finds and records damage of a SQLite catalogue.

The service looks for damage when it starts, records damage that a statement meets, and reports it from then on. A
damaged catalogue is only read. The service then stores and deletes nothing, because what the catalogue says about other
rows may be wrong too.

`SqliteExamination` examines a catalogue for `coatcheck check`: damage in the file, contradictions between rows, and the
version of SQLite. It may read while the service runs. It repairs only if the caller says that no service runs: SQLite
before 3.51.3 can corrupt a database if one connection commits while another one checkpoints. A second process must
therefore never write beside the service, even if it does not checkpoint itself.
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
"""Seconds for which the start of the service waits for the check. They suffice for several gigabytes that are in the
page cache."""


class CatalogDamage:
    """Records whether one catalogue is damaged. Any thread may use it.

    Damage that was recorded stays recorded until the process ends. Even if a page can be read at a second attempt, that
    proves nothing about the other pages.
    """

    def __init__(self) -> None:
        self.error: CoatcheckError | None = None
        """The damage, as an error with the code `integrity`; None while no damage is known."""
        self.unreadable = False
        """Whether nothing may be read, because the keys and policies, which say who may read what, cannot be read."""

    def note(self, what: str) -> None:
        """Records damage, and logs it, unless damage was recorded before."""
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
        """The text of the recorded damage; None while no damage is known."""
        return None if self.error is None else self.error.detail

    def refusal(self) -> CoatcheckError:
        """Returns the error for a call that the damage prevents.

        Its code is `storage_unavailable`, so that callers react as they do if storage does not answer.
        """
        return CoatcheckError(Code.STORAGE_UNAVAILABLE, self.detail or "")

    def detect_damage(self, error: Exception) -> bool:
        """Returns whether the failure of a statement shows damage; if so, records it."""
        fault = fault_of(error)
        if fault is not None and fault.code is Code.INTEGRITY:
            self.note(str(getattr(getattr(error, "orig", error), "sqlite_errorname", "")))
        # SQLite reports a missing table as a mistake in the statement. In a migrated database it is damage.
        elif isinstance(getattr(error, "orig", error), sqlite3.OperationalError) and "no such table" in str(error):
            self.note("a table is missing")
        else:
            return False
        return True

    def explain(self, error: Exception) -> CoatcheckError | None:
        """Returns the error to raise for a failed statement, as `fault_of` does, and records damage that it shows.

        In a damaged database, the error for any failure is `refusal`.
        """
        if self.detect_damage(error) or (self.error is not None and not isinstance(error, CoatcheckError)):
            return self.refusal()  # in a damaged database, damage is taken as the cause of every other failure
        return fault_of(error)


def look_for_damage(path: Path, damage: CatalogDamage, *, used: bool) -> None:
    """Checks a database file before the service uses it; returns after CHECK_SECONDS at most. Changes nothing.

    Args:
        path: the file; a file that does not exist is not damaged.
        damage: records the findings. If the check takes longer, its findings are recorded after this call has returned.
        used: whether the database is known to have been in use, so that an empty file means damage.
    """
    if not path.exists():
        return
    if path.stat().st_size == 0:
        if used:
            damage.note("its file is empty")
        return
    # The check has a thread of its own, because SQLite before 3.41 cannot be interrupted while it walks through a tree.
    check = threading.Thread(target=_check, args=(path, damage, used), name="coatcheck-damage", daemon=True)
    check.start()
    # A longer check goes on in its thread, and still records its result.
    check.join(CHECK_SECONDS)


def missing_table(raw: sqlite3.Connection, *, used: bool) -> str | None:
    """Returns a text that names the first missing table of this release's schema.

    None: no table is missing, or the database has the schema of another release. A database without any table counts
    as damaged only if it is `used`.
    """
    tables = {str(row[0]) for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return "it has no tables" if used else None
    if "alembic_version" not in tables:
        return "it is not a catalogue, or has lost the table of its version"
    # The schema of another release is no damage: `check_revision` reports it.
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
            # SQLite calls this function every 10,000 instructions of its virtual machine; a true result ends the
            # statement.
            raw.set_progress_handler(lambda: time.monotonic() > until, 10_000)
            # One finding is enough, since after any finding the catalogue is only read.
            answer = str(raw.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        if not damage.detect_damage(error):
            log.info("the catalogue's database was not checked to its end: %s", error)
        return
    if answer != "ok":
        damage.note(answer.replace("\n", " "))


_MAX_NAMED = 20
"""Maximum lines of SQLite's own report that become findings."""


class SqliteExamination:
    """Examines the database file of a catalogue."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __call__(self, *, deep: bool, repair: datetime | None) -> EngineReport:
        """Examines the database.

        Args:
            deep: whether to compare indexes with their tables too, which reads every page twice.
            repair: the time to record for repairs; None: nothing is changed. Repairs are only allowed while no service
                uses the database.

        Raises:
            CoatcheckError: `storage_unavailable` if the database cannot be queried.
        """
        return await asyncio.to_thread(self._examine, deep, repair)

    def _examine(self, deep: bool, repair: datetime | None) -> EngineReport:
        with explain_database_errors():
            findings = self._list_findings(deep)
            # A repair relies on rows and indexes, which are not reliable in a damaged file.
            if repair is not None and not any(f.what == "database" for f in findings):
                findings = self._repair(findings, repair)
        return EngineReport(findings=tuple(findings), notes=_notes(sqlite3.sqlite_version_info))

    def _list_findings(self, deep: bool) -> list[Finding]:
        engine = looking_engine(self._path)
        try:
            with engine.connect() as conn:
                # In a damaged file, the results of the later checks would be unreliable, so they are left out.
                return _find_missing_table(conn) or _damage(conn, deep) or _find_contradictions(conn)
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


def _find_missing_table(conn: Connection) -> list[Finding]:
    missing = missing_table(cast("sqlite3.Connection", conn.connection.driver_connection), used=True)
    return [] if missing is None else [_database(f"{missing[0].upper()}{missing[1:]}.")]


def _damage(conn: Connection, deep: bool) -> list[Finding]:
    check = "integrity_check" if deep else "quick_check"
    answers = [str(row[0]) for row in conn.exec_driver_sql(f"PRAGMA {check}({_MAX_NAMED})")]
    return [] if answers == ["ok"] else [_database(answer) for answer in answers]


def _find_contradictions(conn: Connection) -> list[Finding]:
    findings = contradictions.contradictions(conn)
    # SQLite's check of foreign keys covers the tables that `contradictions` does not examine.
    broken: dict[str, int] = {}
    for row in conn.exec_driver_sql("PRAGMA foreign_key_check"):
        table = str(row[0])
        if table not in {inline_bytes.name, surveys.name, views.name}:  # `contradictions` has reported these
            broken[table] = broken.get(table, 0) + 1
    findings += [
        Finding("dangling", "", "", f"{count:,} rows of the table {table} point at rows that are not there.")
        for table, count in broken.items()
        if table != artifacts.name  # `contradictions` has reported these one by one
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
    """Returns whether this version of SQLite has the WAL-reset defect (sqlite.org/wal.html).

    The versions 3.7.0 to 3.51.2 are affected, except the corrected releases of two earlier branches.
    """
    # The first corrected release of the earlier branches that have one: 3.44.6 and 3.50.7.
    fixed = {(3, 44): 6, (3, 50): 7}.get((version[0], version[1]))
    if fixed is not None:
        return version[2] < fixed
    return (3, 7, 0) <= version < (3, 51, 3)
