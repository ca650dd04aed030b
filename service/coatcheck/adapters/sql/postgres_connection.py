"""Opens connections to PostgreSQL, limits their waits, and restricts them to a namespace.

Every wait has a time limit: for connecting, for a statement and for a lock. A whole piece of work has a limit too, in
case the server ignores the other limits: when it is reached, the connection is cut. A connection that was cut, or whose
state is unknown, is never used again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Generator
from typing import Any, Self, TypeVar

import asyncpg
from msgspec import Struct
from sqlalchemy import Connection, NullPool
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from coatcheck.adapters.sql.dialect import plain_url

T = TypeVar("T")


_connect: Any = asyncpg.connect  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - it ships no types

_ENTER = "SELECT set_config('coatcheck.namespace', $1, false), set_config('coatcheck.upkeep', $2, false)"
"""Sets the two settings that row-level security compares. With `false`, they last beyond the transaction."""
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
"""Makes commits wait for the disk. Only `off` is changed: all other values wait at least for the server's disk."""
_CLOSE_SECONDS = 2.0
"""Seconds that a connection may take to notify the server before it is closed. Chosen, not measured."""


class PostgresLimits(Struct, frozen=True, kw_only=True):
    """The connections that one process may open, and the times that it waits."""

    connections: int = 8
    """Maximum connections for queries, half of them only for lists. One more connection writes."""
    connect: float = 3.0
    """Seconds for opening a connection."""
    statement: float = 4.0
    """Seconds that one statement may take on the server."""
    listing: float = 1.5
    """Seconds that a statement of a list may take on the server: lists must not delay storing and reading."""
    lock: float = 2.0
    """Seconds that a statement may wait for another transaction."""
    answer: float = 8.0
    """Seconds after which a call is answered, whatever the server does."""


class Session(Struct, frozen=True, kw_only=True):
    """Settings with which a connection is opened."""

    statement: float = 0.0
    """Seconds that a statement may take; 0: unlimited."""
    lock: float = 0.0
    """Seconds that a statement may wait for a lock; 0: unlimited."""
    idle: float = 60.0
    """Seconds that an open transaction may wait for its next statement; 0: unlimited."""
    connect: float = 10.0
    """Seconds for opening the connection."""
    read_only: bool = False
    """Whether the server refuses this connection's writes."""

    def settings(self) -> dict[str, str]:
        """Returns the settings with the names and values that the server expects; a time of 0 means unlimited."""
        return {
            "application_name": "coatcheck",
            "timezone": "UTC",
            "statement_timeout": _milliseconds(self.statement),
            "lock_timeout": _milliseconds(self.lock),
            # If a process freezes, the server ends its transaction, so that the locks are released.
            "idle_in_transaction_session_timeout": _milliseconds(self.idle),
            "default_transaction_read_only": "on" if self.read_only else "off",
        }


def open_engine(url: str, session: Session) -> AsyncEngine:
    """Returns an engine that opens a new connection on each demand, and keeps none."""

    async def connect() -> Any:  # noqa: ANN401 - the driver's own connection
        return await _connect(plain_url(url), timeout=session.connect, server_settings=session.settings())

    # This URL only names the dialect and the driver; `connect` uses the real URL.
    return create_async_engine("postgresql+asyncpg://", poolclass=NullPool, async_creator=connect)


class PostgresConnection:
    """A connection and its state. Only one task at a time may use it. Create it with `connect`."""

    def __init__(self, conn: AsyncConnection, raw: Any, *, autocommit: bool) -> None:  # noqa: ANN401 - as above
        self._conn = conn
        self._autocommit = autocommit
        self._raw = raw
        self._entered: tuple[str, str] | None = None
        """The values that `_ENTER` has set last; None: unknown."""
        self.used = False
        """Whether the connection was used before, so that the server may have closed it since."""

    @classmethod
    async def connect(cls, engine: AsyncEngine, *, autocommit: bool) -> Self:
        """Opens a connection; raises the driver's errors.

        Args:
            engine: an engine from `open_engine`.
            autocommit: whether each statement is a transaction; otherwise a transaction lasts until `commit` or `undo`.
        """
        conn = await engine.connect()
        try:
            if autocommit:
                await conn.execution_options(isolation_level="AUTOCOMMIT")
            # The driver's own connection is needed to cut the connection at once, and to know whether it is cut.
            fairy = await conn.get_raw_connection()
            raw: Any = fairy.driver_connection
            if not autocommit:
                # An acknowledged change must survive a crash of the server, whatever the server's default.
                await raw.fetch(_DURABLE)
            return cls(conn, raw, autocommit=autocommit)
        # This includes cancellation, since nobody else could close the connection yet.
        except BaseException:
            await conn.close()
            raise

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed or cut."""
        return bool(self._raw.is_closed())

    def has_entered(self, namespace: str | None) -> bool:
        """Returns whether the connection already sees only this namespace; None: all namespaces."""
        return self._entered == _values_for(namespace)

    def enter(self, conn: Connection, namespace: str | None) -> None:
        """Makes row-level security show only this namespace; None: all namespaces. Only call this inside `work`."""
        values = _values_for(namespace)
        if self._entered == values:
            return
        # If the statement fails, it is unknown whether the former namespace or the new one is in force.
        self._entered = None
        cursor: Any = conn.connection.cursor()
        cursor.execute(_ENTER, values)
        cursor.close()
        self._entered = values

    async def work(self, call: Callable[[Connection], T], seconds: float) -> T:
        """Calls a function with the connection. After `seconds` the connection is cut, which makes the call fail."""
        with self._limit_time(seconds):
            if not self._autocommit and not self._conn.in_transaction():
                # Otherwise a statement that bypasses SQLAlchemy would begin a transaction unknown to SQLAlchemy.
                await self._conn.begin()
            answer = await self._conn.run_sync(call)
        self.used = True
        return answer

    async def commit(self, seconds: float) -> None:
        """Commits the transaction. If this fails and the connection is lost, it is unknown whether it was committed."""
        with self._limit_time(seconds):
            await self._conn.commit()

    async def undo(self, seconds: float) -> None:
        """Rolls back the transaction, or cuts the connection, which has the same effect. Never raises."""
        # The rollback also undoes a setting that was made in the transaction.
        self._entered = None
        try:
            with self._limit_time(seconds):
                await self._conn.rollback()
        except Exception:  # noqa: BLE001 - if even the rollback fails, the connection is cut
            self.cut()

    def cut(self) -> None:
        """Closes the connection at once, without notifying the server. Pending calls fail."""
        self._raw.terminate()

    async def close(self, *, politely: bool = False) -> None:
        """Closes the connection; `politely` notifies the server, which takes time if it does not respond."""
        # Each step may fail if the connection is broken, and the next step is needed nevertheless.
        with contextlib.suppress(Exception):
            if politely and not self.is_lost:
                await self._raw.close(timeout=_CLOSE_SECONDS)
        self.cut()
        with contextlib.suppress(Exception):
            await self._conn.invalidate()
        with contextlib.suppress(Exception):
            await self._conn.close()

    @contextlib.contextmanager
    def _limit_time(self, seconds: float) -> Generator[None]:
        # The server may not respond at all, so its own timeouts are not enough.
        alarm = asyncio.get_running_loop().call_later(max(0.0, seconds), self.cut)
        try:
            yield
        finally:
            alarm.cancel()


def _values_for(namespace: str | None) -> tuple[str, str]:
    return ("", "on") if namespace is None else (namespace, "off")


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))
