"""One connection to PostgreSQL: how it is opened, under which limits, and which namespace it has entered.

Everything that waits here has an end: connecting, a statement, a lock, and, whatever the server does, the whole of a
piece of work, after which the connection is cut. A line that is cut or in doubt is never used again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Protocol, Self, TypeVar, cast

import asyncpg
from msgspec import Struct
from sqlalchemy import Connection, NullPool
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from coatcheck.adapters.sql.postgres_url import plain_url

T = TypeVar("T")


class Driver(Protocol):
    """What is used of the driver's own connection, which ships no types."""

    async def fetch(self, query: str) -> list[Any]:
        """Execute a statement."""
        ...

    def close(self, *, timeout: float) -> Awaitable[None]:
        """Ends the session with the server and closes the connection, within `timeout` seconds."""
        ...

    def terminate(self) -> None:
        """Cut the connection."""
        ...

    def is_closed(self) -> bool:
        """Whether it is cut."""
        ...


_connect = cast("Callable[..., Awaitable[Driver]]", asyncpg.connect)  # pyright: ignore[reportUnknownMemberType]

_ENTER = "SELECT set_config('coatcheck.namespace', $1, false), set_config('coatcheck.upkeep', $2, false)"
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
_CLOSE_SECONDS = 2.0


class PostgresLimits(Struct, frozen=True, kw_only=True):
    """How much of the server one process asks for, and for how long it waits."""

    connections: int = 8
    """Most connections that read, half of them for lists alone; one more writes."""
    connect: float = 3.0
    """Seconds until a new connection has been made or refused."""
    statement: float = 4.0
    """Seconds that one statement may take on the server."""
    listing: float = 1.5
    """Seconds that a list's statement may take on the server: lists must not hold up those who store and read."""
    lock: float = 2.0
    """Seconds that a statement may wait for another transaction."""
    answer: float = 8.0
    """Seconds after which a call has its answer, whatever the server does."""


class Session(Struct, frozen=True, kw_only=True):
    """Settings that a connection begins with."""

    statement: float = 0.0
    lock: float = 0.0
    idle: float = 60.0
    connect: float = 10.0
    read_only: bool = False

    def settings(self) -> dict[str, str]:
        """As the server spells them; 0 is without limit."""
        return {
            "application_name": "coatcheck",
            "timezone": "UTC",
            "statement_timeout": _milliseconds(self.statement),
            "lock_timeout": _milliseconds(self.lock),
            # Ends the transaction of a process that was frozen in it, so that its locks go.
            "idle_in_transaction_session_timeout": _milliseconds(self.idle),
            "default_transaction_read_only": "on" if self.read_only else "off",
        }


def open_engine(url: str, session: Session) -> AsyncEngine:
    """An engine that keeps no connections; it connects when it is asked to."""

    async def connect() -> Driver:
        return await _connect(plain_url(url), timeout=session.connect, server_settings=session.settings())

    return create_async_engine("postgresql+asyncpg://", poolclass=NullPool, async_creator=connect)


class PostgresConnection:
    """A connection and what is known of it. Used by one task at a time. Make it with `connect`."""

    def __init__(self, conn: AsyncConnection, raw: Driver, *, autocommit: bool) -> None:
        self._conn = conn
        self._autocommit = autocommit
        self._raw = raw
        self._entered: tuple[str, str] | None = None
        self.used = False
        """Whether it has worked before: then what it is connected to may have gone since."""

    @classmethod
    async def connect(cls, engine: AsyncEngine, *, autocommit: bool) -> Self:
        """Open a connection; raises what the driver raises.

        Args:
            engine: of `open_engine`.
            autocommit: each statement is a transaction; otherwise `commit` ends one.
        """
        conn = await engine.connect()
        try:
            if autocommit:
                await conn.execution_options(isolation_level="AUTOCOMMIT")
            fairy = await conn.get_raw_connection()
            raw = cast("Driver", fairy.driver_connection)
            if not autocommit:
                # An acknowledged change must survive the server's crash, whatever the server's default says.
                await raw.fetch(_DURABLE)
            return cls(conn, raw, autocommit=autocommit)
        except BaseException:
            await conn.close()
            raise

    @property
    def lost(self) -> bool:
        """Whether the connection is cut."""
        return self._raw.is_closed()

    def has_entered(self, namespace: str | None) -> bool:
        """Whether `enter` would have nothing to do."""
        return self._entered == _place(namespace)

    def enter(self, conn: Connection, namespace: str | None) -> None:
        """Have row-level security show this namespace and no other; None shows all, for upkeep. Inside `work` only."""
        place = _place(namespace)
        if self._entered == place:
            return
        self._entered = None
        cursor: Any = conn.connection.cursor()
        cursor.execute(_ENTER, place)
        cursor.close()
        self._entered = place

    async def work(self, call: Callable[[Connection], T], seconds: float) -> T:
        """Call this with the connection. After so many seconds the connection is cut, and the call fails."""
        with self._bounded(seconds):
            if not self._autocommit and not self._conn.in_transaction():
                # Statements that go past SQLAlchemy would begin a transaction that it knows nothing of.
                await self._conn.begin()
            answer = await self._conn.run_sync(call)
        self.used = True
        return answer

    async def commit(self, seconds: float) -> None:
        """End the transaction. When this raises and the line is lost, nobody knows yet whether it is durable."""
        with self._bounded(seconds):
            await self._conn.commit()

    async def undo(self, seconds: float) -> None:
        """Take the transaction back, or cut the connection, which does it too. Never raises."""
        # A setting that was made in a transaction goes with it.
        self._entered = None
        try:
            with self._bounded(seconds):
                await self._conn.rollback()
        except Exception:  # noqa: BLE001 - a line that cannot even do this is cut
            self.cut()

    def cut(self) -> None:
        """End the connection at once, without a word to the server. Whoever waits on it fails."""
        self._raw.terminate()

    async def close(self, *, politely: bool = False) -> None:
        """Let go of the connection; politely: telling the server, which takes time when it does not listen."""
        with contextlib.suppress(Exception):
            if politely and not self.lost:
                await self._raw.close(timeout=_CLOSE_SECONDS)
        self.cut()
        with contextlib.suppress(Exception):
            await self._conn.invalidate()
        with contextlib.suppress(Exception):
            await self._conn.close()

    @contextlib.contextmanager
    def _bounded(self, seconds: float) -> Generator[None]:
        alarm = asyncio.get_running_loop().call_later(max(0.0, seconds), self.cut)
        try:
            yield
        finally:
            alarm.cancel()


def _place(namespace: str | None) -> tuple[str, str]:
    return ("", "on") if namespace is None else (namespace, "off")


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))
