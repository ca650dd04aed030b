"""The catalogue on PostgreSQL: implements Catalog and Upkeep for any number of replicas on one database.

In each process, one writer commits changes in groups, and queries run on a few connections. Row-level security shows a
connection only the namespace that it has entered; maintenance sees all namespaces. Damage in the server's files is
found by the server's own tools (`pg_amcheck`, data checksums), not here.
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, Self, TypeVar

import asyncpg
from msgspec.structs import replace
from sqlalchemy import Connection, text
from sqlalchemy.exc import InterfaceError
from sqlalchemy.ext.asyncio import AsyncEngine
from typing_extensions import override

from coatcheck.adapters.sql.catalog import SqlCatalog
from coatcheck.adapters.sql.changes.dedupe import Numberer
from coatcheck.adapters.sql.contradictions import contradictions
from coatcheck.adapters.sql.dialect import mask_url
from coatcheck.adapters.sql.postgres_connection import PostgresLimits, Session, open_engine
from coatcheck.adapters.sql.postgres_pool import DatabaseClock, PostgresReadPool
from coatcheck.adapters.sql.postgres_writer import PostgresWriter
from coatcheck.core import ids
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.findings import EngineReport

T = TypeVar("T")
_MIN_SERVER_VERSION = 130000
"""The oldest supported version, PostgreSQL 13, in the form of `server_version_num`."""
# One round trip for all four values. A role that is exempt from row-level security, a server that does not sync, and an
# encoding that cannot store every text are reported as warnings.
_SERVER = text(
    "SELECT current_setting('server_version_num')::int, rolsuper OR rolbypassrls, current_setting('fsync'),"
    " current_setting('server_encoding') FROM pg_roles WHERE rolname = current_user"
)


class Pools(NamedTuple):
    """The pools of connections for queries."""

    questions: PostgresReadPool
    """The pool for all queries except lists."""
    lists: PostgresReadPool
    """The pool for lists, so that they take no connections from storing and reading."""

    async def close(self) -> None:
        """Lets running queries finish, then closes the connections."""
        await self.questions.close()
        await self.lists.close()


class PostgresCatalog(SqlCatalog):
    """Implements Catalog and Upkeep on a migrated PostgreSQL database. Create it with `open`; close it afterwards."""

    def __init__(self, engine: AsyncEngine, pools: Pools, writer: PostgresWriter | None, clock: DatabaseClock) -> None:
        super().__init__(writer)
        self._engine = engine
        self._pools = pools
        self._group_writer = writer
        self.clock = clock
        """The clock of the database, for everything that depends on the time."""

    @classmethod
    async def open(cls, url: str, *, limits: PostgresLimits | None = None, number: Numberer = ids.number) -> Self:
        """Opens a database that `migrate` has created.

        Args:
            url: `postgresql://user:password@host/database`, with the options of libpq such as `sslmode`. The URL must
                not lead to a pooler that shares connections between transactions, because a connection remembers its
                namespace.
            limits: maximum connections and times; None: the defaults.
            number: returns the number of an identity's n-th candidate ID.

        Raises:
            CoatcheckError: `storage_unavailable` if the server does not respond, refuses the connection, or is older
                than PostgreSQL 13; `invalid_request` for an invalid URL.
        """
        return await cls._open(url, limits or PostgresLimits(), number, read_only=False)

    @classmethod
    async def look(cls, url: str, *, limits: PostgresLimits | None = None) -> Self:
        """Opens a database read-only, beside services. Every change is refused with `storage_unavailable`."""
        return await cls._open(url, limits or PostgresLimits(), ids.number, read_only=True)

    @classmethod
    async def _open(cls, url: str, limits: PostgresLimits, number: Numberer, *, read_only: bool) -> Self:
        # If a transaction waits for this process longer than `answer`, its caller no longer waits, so the server may
        # end it.
        session = Session(
            statement=limits.statement,
            lock=limits.lock,
            idle=limits.answer,
            connect=limits.connect,
            read_only=read_only,
        )
        engine = open_engine(url, session)
        pools = _pools(url, engine, session, limits)
        pool = pools.questions
        try:
            # The first query opens a connection. An invalid URL, or a server that does not respond, is noticed here,
            # before the service takes requests.
            version, _, _, _ = await pool.run(None, _server)
            _refuse_old(version)
            clock = DatabaseClock(pool)
            await clock.learn()
        # An error that the driver raises before it connects is a mistake in the URL. A refusal by the server is
        # reported with the server's text.
        except (ValueError, InterfaceError) as error:
            await pools.close()
            await engine.dispose()
            raise _wrong_url(error) from error
        except CoatcheckError as error:
            await pools.close()
            await engine.dispose()
            cause = error.__cause__
            why = f" ({cause})" if cause is not None and str(cause) else ""
            raise CoatcheckError(error.code, f"{mask_url(url)}: {error.detail}{why}") from error
        # The clock was read once above. From now on it is kept accurate in the background.
        clock.start()
        return cls(engine, pools, None if read_only else PostgresWriter(engine, limits, number), clock)

    async def close(self) -> None:
        """Commits the changes that wait, then closes everything."""
        # The clock uses the pool, so it is stopped before the pool is closed.
        await self.clock.stop()
        if self._group_writer is not None:
            await self._group_writer.close()
        await self._pools.close()
        await self._engine.dispose()

    async def examine(self, *, deep: bool, repair: datetime | None) -> EngineReport:
        """Returns contradictions between rows, and warnings; `deep` and `repair` have no effect on PostgreSQL.

        Raises:
            CoatcheckError: `storage_unavailable` if the database cannot be queried.
        """
        del deep, repair
        findings = await self.ask(None, contradictions)
        return EngineReport(findings=tuple(findings), notes=tuple(await self.warnings()))

    async def warnings(self) -> list[str]:
        """Returns warnings about the database's settings, as sentences for an administrator; empty if all is well."""
        _, exempt, fsync, encoding = await self._pools.questions.run(None, _server)
        messages: list[str] = []
        if exempt:
            messages.append(
                "The database role is a superuser or has BYPASSRLS, so that row-level security does not hold it. "
                "Serve as a plain role that owns the tables."
            )
        if fsync != "on":
            messages.append(
                "The server runs with fsync off: a power loss loses what was acknowledged, and may lose all."
            )
        if encoding != "UTF8":
            messages.append(f"The database's encoding is {encoding}. Make it anew with UTF8, which holds every text.")
        return messages

    @override
    async def ask(self, namespace: str | None, question: Callable[[Connection], T]) -> T:
        return await self._pools.questions.run(namespace, question)

    @override
    async def query_list(self, namespace: str, question: Callable[[Connection], T]) -> T:
        return await self._pools.lists.run(namespace, question)


def _pools(url: str, engine: AsyncEngine, session: Session, limits: PostgresLimits) -> Pools:
    half = limits.connections // 2
    # A single connection cannot be divided, so queries and lists share one pool.
    if not half:
        pool = PostgresReadPool(engine, limits)
        return Pools(pool, pool)
    # Lists have an engine of their own, because their connections have a shorter time limit for statements.
    listing = open_engine(url, replace(session, statement=min(limits.listing, limits.statement)))
    return Pools(
        PostgresReadPool(engine, replace(limits, connections=limits.connections - half)),
        PostgresReadPool(listing, replace(limits, connections=half)),
    )


def _wrong_url(error: ValueError | InterfaceError) -> CoatcheckError:
    """Returns the error for a URL that the driver cannot parse.

    The driver's messages about options are included. Its other messages are not, because they may contain a part of the
    password.
    """
    cause = error.orig.__cause__ if isinstance(error, InterfaceError) and error.orig is not None else error
    why = f": {cause}" if isinstance(cause, asyncpg.InterfaceError) else " as it is written"
    return CoatcheckError(Code.INVALID_REQUEST, f"The database's URL cannot be used{why}.")


def _refuse_old(version: int) -> None:
    if version < _MIN_SERVER_VERSION:
        raise CoatcheckError(Code.STORAGE_UNAVAILABLE, f"The server is PostgreSQL {version // 10000}. Use 13 or newer.")


def _server(conn: Connection) -> tuple[int, bool, str, str]:
    version, exempt, fsync, encoding = conn.execute(_SERVER).one()
    return version, exempt, fsync, encoding
