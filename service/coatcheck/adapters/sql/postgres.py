"""The catalogue on PostgreSQL: Catalog and Upkeep for any number of replicas on one database.

Changes go to one writer that commits them in groups; queries go to a few connections. Every connection has entered one
namespace, and row-level security shows it no other; upkeep sees all. Damage in the server's files is found by the
server's own tools (`pg_amcheck`, data checksums).
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
"""PostgreSQL 13, as `server_version_num` has it."""
# One round trip for all four: a role that row-level security does not hold, and a server that does not sync or does not
# hold every text, are reported as warnings.
_SERVER = text(
    "SELECT current_setting('server_version_num')::int, rolsuper OR rolbypassrls, current_setting('fsync'),"
    " current_setting('server_encoding') FROM pg_roles WHERE rolname = current_user"
)


class Pools(NamedTuple):
    """Connections that read."""

    questions: PostgresReadPool
    """For all other queries."""
    lists: PostgresReadPool
    """Only for lists, so that they take no connections from storing and reading."""

    async def close(self) -> None:
        """Lets running queries finish, then closes the connections."""
        await self.questions.close()
        await self.lists.close()


class PostgresCatalog(SqlCatalog):
    """Catalog and Upkeep on a migrated PostgreSQL database. Create it with `open`; close it."""

    def __init__(self, engine: AsyncEngine, pools: Pools, writer: PostgresWriter | None, clock: DatabaseClock) -> None:
        super().__init__(writer)
        self._engine = engine
        self._pools = pools
        self._group_writer = writer
        self.clock = clock
        """The database's time, for everything that depends on time."""

    @classmethod
    async def open(cls, url: str, *, limits: PostgresLimits | None = None, number: Numberer = ids.number) -> Self:
        """Opens a database that `migrate` has created.

        Args:
            url: `postgresql://user:password@host/database`, with the options of libpq such as `sslmode`. Not through a
                pooler that shares connections between transactions: a connection remembers its namespace.
            limits: connections and times.
            number: how identities become candidate numbers.

        Raises:
            CoatcheckError: `storage_unavailable` if the server does not respond, refuses, or is older than 13;
                `invalid_request` for an invalid URL.
        """
        return await cls._open(url, limits or PostgresLimits(), number, read_only=False)

    @classmethod
    async def look(cls, url: str, *, limits: PostgresLimits | None = None) -> Self:
        """Opens it read-only, beside servers. Every change is refused with `storage_unavailable`."""
        return await cls._open(url, limits or PostgresLimits(), ids.number, read_only=True)

    @classmethod
    async def _open(cls, url: str, limits: PostgresLimits, number: Numberer, *, read_only: bool) -> Self:
        # A transaction that waits for this process longer than `answer` has lost its caller, so the server may end it.
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
            # The first query connects: an invalid URL or a silent server is noticed here, before anybody is served.
            version, _, _, _ = await pool.run(None, _server)
            _refuse_old(version)
            clock = DatabaseClock(pool)
            await clock.learn()
        # What the driver refuses before it connects is a mistake in the URL; what the server refuses is reported in its
        # words.
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
        # From here on the clock is kept accurate in the background; until then it was read once.
        clock.start()
        return cls(engine, pools, None if read_only else PostgresWriter(engine, limits, number), clock)

    async def close(self) -> None:
        """Commits what is waiting, then closes everything."""
        # The clock queries through the pool, so it stops before that is closed.
        await self.clock.stop()
        if self._group_writer is not None:
            await self._group_writer.close()
        await self._pools.close()
        await self._engine.dispose()

    async def examine(self, *, deep: bool, repair: datetime | None) -> EngineReport:
        """Returns what contradicts itself in the rows; `deep` and `repair` make no difference.

        Raises:
            CoatcheckError: `storage_unavailable` if the database cannot be queried.
        """
        del deep, repair
        findings = await self.ask(None, contradictions)
        return EngineReport(findings=tuple(findings), notes=tuple(await self.warnings()))

    async def warnings(self) -> list[str]:
        """Returns sentences about this database for an administrator; empty if all is well."""
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
    # With a single connection there is nothing to divide.
    if not half:
        pool = PostgresReadPool(engine, limits)
        return Pools(pool, pool)
    # Engines that keep no connections: they differ in how connections begin.
    listing = open_engine(url, replace(session, statement=min(limits.listing, limits.statement)))
    return Pools(
        PostgresReadPool(engine, replace(limits, connections=limits.connections - half)),
        PostgresReadPool(listing, replace(limits, connections=half)),
    )


def _wrong_url(error: ValueError | InterfaceError) -> CoatcheckError:
    """Returns the refusal of a URL that the driver cannot parse.

    Its messages about options are repeated; others may contain part of a password, and are not.
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
