"""The embedded store: a SQLite catalogue and local files in one data directory, for one process.

This module also has what embedded and PostgreSQL stores share: the type of their opened parts, and the check that the
stored bytes belong to the database.
"""

import logging
import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from coatcheck.adapters.backup.restore import refuse_unfinished
from coatcheck.adapters.blobs.files import MARK, FileBlobStore
from coatcheck.adapters.blobs.filesystem import storage_error
from coatcheck.adapters.blobs.writer import ExposureExamination
from coatcheck.adapters.sql import schema
from coatcheck.adapters.sql.engine import DirectoryLock, refuse_network_file_system, sqlite_url
from coatcheck.adapters.sql.faults import fault_of
from coatcheck.adapters.sql.sqlite.damage import CatalogDamage, SqliteExamination, look_for_damage
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.adapters.system import DiskReserve, SystemClock
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.blobs import BlobStore
from coatcheck.ports.catalog import Catalog, Overview
from coatcheck.ports.decisions import Decisions
from coatcheck.ports.keys import Keys, SessionAccounts
from coatcheck.ports.maintenance import Upkeep
from coatcheck.ports.retention import Retention
from coatcheck.ports.telemetry import Accounts, Clock
from coatcheck.ports.text_index import TextIndex
from coatcheck.runtime.work_placement import in_pool
from coatcheck.upkeep.store_binding import StoreBinding
from coatcheck.usecases.operations.verify_store import Examination, RepairCatalog


class Rows(Catalog, Upkeep, Retention, TextIndex, Keys, Accounts, SessionAccounts, Decisions, Overview, Protocol):
    """All ports that one database implements, from the artifacts to the administrator's overview."""

    def gather_commits(self, approaching: Callable[[], int]) -> None:
        """Registers a callback that counts the changes on their way; a commit may wait briefly to include them."""
        ...

    def watch_commits(self, watch: Callable[[int, float, float], None]) -> None:
        """Registers a callback for every committed group of changes.

        Its arguments are the number of changes, the seconds that the first of them waited, and the seconds that the
        commit took.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Engines:
    """The parts of a store that depend on its kind."""

    catalog: Rows
    blobs: BlobStore
    """Keeps the bytes that are too large for the catalogue."""
    clock: Clock
    """The authoritative time: the database's, or the machine's if the database has no clock."""
    examinations: tuple[Examination, ...] = ()
    """Examinations of the database and the blob store themselves, for `coatcheck check`."""
    warnings: list[str] = field(default_factory=list[str])
    """Sentences for the person who starts the service, about facts that are not faults but worth knowing."""
    damage: Callable[[], str | None] = lambda: None
    """Describes known damage of the catalogue; returns None while no damage is known. A damaged catalogue can at best
    be read, not written."""


def belonging(rows: Rows, clock: Clock, *, looking: bool) -> StoreBinding:
    """Returns the check that a catalogue and its blobs belong together; with `looking`, the check writes nothing."""
    return StoreBinding(rows, clock, lambda: str(uuid.uuid4()), looking=looking)


log = logging.getLogger(__name__)

DATABASE = "coatcheck.db"
"""The catalogue's file in the data directory."""


def migrate_embedded(root: Path) -> tuple[str | None, str]:
    """Migrates a data directory's catalogue to this release's schema; returns the revision before and after.

    Raises:
        CoatcheckError: another process serves the directory, the directory is on a network file system, or this user
            cannot write to it; `schema_outdated` if a newer release made the catalogue.
    """
    with explain_opening_errors(root):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_network_file_system(root)
        # An interrupted restore is not a store, and a newer schema must stay as it is: refuse both before taking the
        # lock.
        refuse_unfinished(root)
        url = sqlite_url(root / DATABASE)
        before = schema.current_revision(url) if (root / DATABASE).exists() else None
        refuse_newer(before)
        if before != schema.REVISION:
            # Only a migration needs the directory for itself: if the schema is current, this function also works while
            # a service runs.
            lock = DirectoryLock(root)
            try:
                schema.migrate(url)
            finally:
                lock.release()
        return before, schema.current_revision(url) or ""


def is_free(root: Path) -> bool:
    """Returns whether no process serves a data directory at this moment."""
    if not root.is_dir():
        return True
    try:
        DirectoryLock(root).release()
    except CoatcheckError:
        return False
    return True


def refuse_newer(revision: str | None) -> None:
    """Raises `schema_outdated` if the schema's revision is newer than this release; None: there is no schema yet."""
    if revision is not None and revision > schema.REVISION:
        raise CoatcheckError(
            Code.SCHEMA_OUTDATED,
            f"The database has schema {revision}, which is newer than this release's {schema.REVISION}. Install the "
            "release that made it, or restore the backup from before the upgrade.",
        )


@asynccontextmanager
async def open_embedded(
    root: Path, pool: ThreadPoolExecutor, readers: ThreadPoolExecutor, *, beside: bool, reserve_bytes: int
) -> AsyncGenerator[Engines]:
    """Opens a data directory, after creating it if necessary.

    With `beside`, nothing is created or written, because another process may serve the directory; see `open_store`.
    """
    if beside:
        catalog = SqliteCatalog.look(root / DATABASE)
    else:
        catalog = await in_pool(pool, _open, root, DiskReserve(root, reserve_bytes))
    damage = catalog.damage
    try:
        if damage.error is None:
            await catalog.check_reads()
        else:
            # If keys and policies cannot be read, nobody knows who may read which artifact: then nothing is served.
            damage.unreadable = not await _tells_access(catalog)
        blobs, clock = FileBlobStore(root, pool, make=not beside, readers=readers), SystemClock()
        if damage.error is None:
            # A damaged catalogue cannot say to which database the files belong, so only an intact one checks them.
            await belonging(catalog, clock, looking=beside)(blobs, beside_database=True)
        examinations = (SqliteExamination(root / DATABASE), ExposureExamination(root))
        yield Engines(
            catalog=catalog, blobs=blobs, clock=clock, examinations=examinations, damage=lambda: damage.detail
        )
    finally:
        await in_pool(pool, catalog.close)


def _open(root: Path, reserve: DiskReserve) -> SqliteCatalog:
    """Checks, migrates and opens the catalogue. A damaged catalogue is opened without a migration.

    On a full disk, opening uses the reserve of disk space.
    """
    path, damage = root / DATABASE, CatalogDamage()
    refuse_unfinished(root)
    # Opening may write (recovery of the log, migration): on a full disk, the lent reserve gives room to these writes.
    with reserve.lent():
        if path.exists():
            refuse_network_file_system(root)
            look_for_damage(path, damage, used=(root / MARK).exists())
        try:
            if damage.error is None:
                migrate_embedded(root)
            with explain_opening_errors(root):
                return SqliteCatalog.open(path, reserve=reserve, damage=damage)
        except CoatcheckError as error:
            # On a full disk, stored payloads can still be read if the catalogue is opened in the way that writes least.
            if error.code is not Code.STORAGE_FULL or not (path.exists() and path.stat().st_size):
                raise
            reserve.note_full()
            with explain_opening_errors(root):
                return SqliteCatalog.open(path, reserve=reserve, damage=damage, alone=True)


async def _tells_access(catalog: SqliteCatalog) -> bool:
    """Returns whether the schema, the keys and the policies of a damaged catalogue can be read.

    Together they decide who may read which artifact.
    """
    try:
        await catalog.check_reads()
        await catalog.any_key()
        await catalog.policies()
    except CoatcheckError as error:
        log.warning("the damaged catalogue is not read at all: %s", error.detail)
        return False
    return True


@asynccontextmanager
async def open_embedded_repair(
    root: Path, pool: ThreadPoolExecutor
) -> AsyncGenerator[tuple[RepairCatalog | None, str | None]]:
    """Yields the catalogue for repairing rows, and None; or, if it cannot be opened, None and the reason.

    The usual reason is that another process serves the directory.

    Raises:
        CoatcheckError: this user cannot write to the directory, so nothing can be repaired.
    """
    with explain_opening_errors(root):
        try:
            catalog, why = SqliteCatalog.open(root / DATABASE), None
        except CoatcheckError as error:
            catalog, why = None, error.detail
    try:
        yield catalog, why
    finally:
        if catalog is not None:
            await in_pool(pool, catalog.close)


@contextmanager
def explain_opening_errors(root: Path) -> Generator[None]:
    """Turns storage errors that occur while a store is opened into CoatcheckError, with advice.

    The advice is for the person who starts the service. Errors that are no faults of storage are raised as they are.
    """
    try:
        yield
    except OSError as error:
        file = _file_in_place(root)
        if file is not None:
            detail = f"The data directory cannot be {root}: {file} is not a directory. Name another with --data."
            raise CoatcheckError(Code.STORAGE_UNAVAILABLE, detail) from error
        raise _opening_fault(storage_error(error).code, root, error.strerror or str(error)) from error
    except Exception as error:
        fault = fault_of(error)
        # The error of a damaged catalogue already explains the damage. An error that is no fault of storage is a bug,
        # and must keep its traceback.
        if fault is None or fault.code is Code.INTEGRITY:
            raise fault or error from error
        raise _opening_fault(fault.code, root, fault.detail.partition(",")[0]) from error


def _file_in_place(root: Path) -> Path | None:
    """Returns the file that stands where the directory or one of its parents should be; None if there is no file."""
    return next((path for path in (root, *root.parents) if path.exists() and not path.is_dir()), None)


def _opening_fault(code: Code, root: Path, why: str) -> CoatcheckError:
    """Returns the error for a store that cannot be opened because of `why`."""
    if code is Code.STORAGE_FULL:
        return CoatcheckError(code, f"The disk that holds {root} is full. Free space, then start again.")
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE,
        f"The data directory {root} cannot be used: {why}. Let this user write to it, or name another with --data.",
    )
