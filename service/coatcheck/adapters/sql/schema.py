"""Compares the schema's revision of a database with the revision that this release needs, and migrates databases.

On SQLite a migration needs exclusive use of the file. On PostgreSQL any number of replicas may call `migrate` at once:
one replica migrates, and the others wait until nothing is left to do.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import Connection, delete, insert, inspect, make_url, text
from sqlalchemy.exc import OperationalError, ProgrammingError

import coatcheck
from coatcheck.adapters.sql.dialect import is_postgres
from coatcheck.adapters.sql.engine import make_private, writing_engine
from coatcheck.adapters.sql.tables import leases, metadata
from coatcheck.core.errors import CoatcheckError, Code

if TYPE_CHECKING:
    from alembic.config import Config

REVISION = "0008"
"""The revision that this release works with. A test compares it with the newest migration."""

_LATER: Final = frozenset(
    {"activity", "audit_log", "events", "removed_surveys", "surveys"}
    | {f"{table}.{column}" for table in ("artifacts", "removed") for column in ("declared_at", "receipt")}
    | {f"session_usage.{column}" for column in ("window_tokens", "search_tokens", "search_cap")}
)
"""Tables and columns of the present schema that the first revision did not have."""

T = TypeVar("T")
_LOCK = 0x636F6174636B
"""The number of the advisory lock that a migration takes on PostgreSQL."""
_DDL_SECONDS = 30
"""Maximum seconds that a migration waits for a lock. A change of a table waits for every transaction that uses the
table, and meanwhile delays all later transactions."""

# Alembic's table, which has one row.
_VERSION = text("SELECT version_num FROM alembic_version")
_NO_TABLE: Final = ("no such table: alembic_version", 'relation "alembic_version" does not exist')
"""Texts in the errors of SQLite and PostgreSQL for a database that was never migrated."""
_REWRITE = text("UPDATE alembic_version SET version_num = version_num")
"""Writes to a row that every migrated database has, without changing its value."""


def migrate(url: str, revision: str = "head") -> None:
    """Migrates a database to a revision, creating it if necessary. Blocks.

    Args:
        url: `sqlite:///…` or `postgresql://…`.
        revision: `head` for the newest revision, or an older revision at which to stop; `base` removes every table.

    Raises:
        CoatcheckError: `storage_unavailable` if a PostgreSQL server does not respond or refuses the connection,
            `schema_outdated` for a database of a build before the first release.
    """
    from alembic import command  # noqa: PLC0415 - a start without a migration must not take the time of this import

    # SQLite itself would create the file with the usual permissions, which let others read it.
    if not is_postgres(url):
        database = make_url(url).database
        if database is not None:
            make_private(Path(database))

    # This comes before the first statement of a migration, so that a refused database stays as it was.
    if revision != "base" and current_revision(url) == "0001":
        _with_connection(url, _refuse_edited)

    def upgrade(conn: Connection) -> None:
        if conn.dialect.name == "postgresql":
            _wait_for_other_migrations(conn)
        config = _config()
        # Alembic must use this connection, because it holds the lock and has the settings that migrations need.
        config.attributes["connection"] = conn
        command.downgrade(config, revision) if revision == "base" else command.upgrade(config, revision)

    _with_connection(url, upgrade)


def _refuse_edited(conn: Connection) -> None:
    """Raises `schema_outdated` for a database that claims the first revision but lacks parts of it.

    Builds before the first release changed the first revision in place, so the number 0001 does not tell which tables
    a database has.
    """
    there = inspect(conn)
    names = set(there.get_table_names())
    lacking = sorted(metadata.tables.keys() - names - _LATER)
    for table in metadata.tables.keys() & names - _LATER:
        columns = {column["name"] for column in there.get_columns(table)}
        expected = {column.name for column in metadata.tables[table].columns}
        lacking += sorted(f"{table}.{name}" for name in expected - columns if f"{table}.{name}" not in _LATER)
    if lacking:
        raise CoatcheckError(
            Code.SCHEMA_OUTDATED,
            f"The database claims schema 0001, but lacks {', '.join(lacking[:3])}: a build from before the "
            "first release made it, and no release can migrate it. Nothing was changed. Keep it with the build that "
            "made it, and give this release a new directory or database.",
            found="0001",
            needed=REVISION,
        )


def current_revision(url: str) -> str | None:
    """Returns the schema's revision of a database; None if the database was never migrated."""
    return _with_connection(url, revision_of)


def revision_of(conn: Connection) -> str | None:
    """Returns the schema's revision of a connection's database; None if the database was never migrated."""
    try:
        revision: str | None = conn.execute(_VERSION).scalar_one_or_none()
    except (OperationalError, ProgrammingError) as error:
        if not any(words in str(error.orig) for words in _NO_TABLE):
            raise
        return None
    return revision


def check_revision(conn: Connection) -> None:
    """Returns if the database has this release's schema; otherwise raises `schema_outdated`, with what to do."""
    revision = revision_of(conn)
    if revision == REVISION:
        return
    detail = (
        f"The database has schema {revision or 'none'} and this release needs {REVISION}. Run `coatcheck migrate`."
        # Revisions are numbers of four digits, so comparing them as text compares the numbers.
        if revision is None or revision < REVISION
        else f"The database has schema {revision}, which is newer than this release's {REVISION}. Install the release "
        "that made it, or restore the backup from before the upgrade."
    )
    raise CoatcheckError(Code.SCHEMA_OUTDATED, detail, found=revision, needed=REVISION)


def try_write(conn: Connection) -> None:
    """Writes to a row without changing it, to check that storage accepts writes."""
    conn.execute(_REWRITE)


def take_room(conn: Connection) -> None:
    """Writes a row of 128 KiB, to check that the database has room for a small payload; `give_room` removes the row."""
    # If a process has ended between the two calls, it has left this row.
    conn.execute(delete(leases).where(leases.c.name == _ROOM))
    conn.execute(insert(leases).values(name=_ROOM, holder="0" * _ROOM_BYTES, until=_LONG_AGO))


def give_room(conn: Connection) -> None:
    """Removes the row that `take_room` has written."""
    conn.execute(delete(leases).where(leases.c.name == _ROOM))


_ROOM: Final = "room"
"""Name of a lease that nobody holds, whose row only takes up space."""
_ROOM_BYTES: Final = 128 * 1024
"""Bytes of the row that proves that a full database has room again: as many as a small payload takes."""
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The end of the lease that only takes up space, so that it never counts as a lease in force."""


def _config() -> "Config":
    from alembic.config import Config  # noqa: PLC0415 - see `migrate`

    package = Path(coatcheck.__file__).parent
    # An installed package contains the migrations. A checkout has them at its top, two levels above the package.
    folders = (package / "migrations", package.parents[1] / "migrations")
    for place in folders:
        if (place / "env.py").is_file():
            config = Config()
            config.set_main_option("script_location", str(place).replace("%", "%%"))
            config.set_main_option("path_separator", "os")
            return config
    raise RuntimeError(f"the migrations are in neither of {folders}")


def _wait_for_other_migrations(conn: Connection) -> None:
    # The lock is held for the session, since each migration is a transaction of its own. It ends with the connection.
    conn.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
    # The limit is set only now, because the wait for the lock above may last as long as another migration.
    conn.execute(text("SELECT set_config('lock_timeout', :time, false)"), {"time": f"{_DDL_SECONDS}s"})
    # A migration may change rows of any namespace.
    conn.execute(text("SELECT set_config('coatcheck.upkeep', 'on', false)"))
    conn.commit()


def _with_connection(url: str, work: Callable[[Connection], T]) -> T:
    if is_postgres(url):
        # A new thread is needed, since this thread may have a running event loop.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(_on_postgres(url, work))).result()
    # `current_revision` may run beside a service, whose connection must be the only one that checkpoints.
    engine = writing_engine(url, checkpoints=False)
    try:
        with engine.connect() as conn:
            return work(conn)
    finally:
        engine.dispose()


async def _on_postgres(url: str, work: Callable[[Connection], T]) -> T:
    # These modules need PostgreSQL's driver, which an embedded store does not have.
    from coatcheck.adapters.sql.postgres_connection import Session, open_engine  # noqa: PLC0415
    from coatcheck.adapters.sql.postgres_faults import postgres_fault_of  # noqa: PLC0415

    # Statements have no time limit, because a migration may take long. `_wait_for_other_migrations` limits the waits
    # for locks.
    engine = open_engine(url, Session())
    try:
        async with engine.connect() as conn:
            return await conn.run_sync(work)
    except Exception as error:
        fault = postgres_fault_of(error)
        if fault is None:
            raise
        raise fault from error
    finally:
        await engine.dispose()
