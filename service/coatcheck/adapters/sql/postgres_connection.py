"""One connection to PostgreSQL: how it is opened, its limits, and which namespace it has entered.

Every wait here ends: connecting, a statement, a lock, and, whatever the server does, a whole piece of work, after which
the connection is cut. A connection that is cut or in doubt is never used again.
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
"""The two settings that row-level security compares. `false` makes them last beyond the transaction."""
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
"""Raises only `off`: all other values wait for the server's own disk at least."""
_CLOSE_SECONDS = 2.0
"""How long a connection may take to say goodbye; after that it is dropped. Chosen, not measured."""


class PostgresLimits(Struct, frozen=True, kw_only=True):
    """How much of the server one process uses, and how long it waits."""

    connections: int = 8
    """Maximum connections that read, half of them only for lists; one more writes."""
    connect: float = 3.0
    """Seconds for opening a connection."""
    statement: float = 4.0
    """Seconds that one statement may take on the server."""
    listing: float = 1.5
    """Seconds that a list's statement may take on the server: lists must not delay storing and reading."""
    lock: float = 2.0
    """Seconds that a statement may wait for another transaction."""
    answer: float = 8.0
    """Seconds after which a call is answered, whatever the server does."""


class Session(Struct, frozen=True, kw_only=True):
    """Settings that a connection begins with."""

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
        """Returns the settings as the server spells them; 0 means unlimited."""
        return {
            "application_name": "coatcheck",
            "timezone": "UTC",
            "statement_timeout": _milliseconds(self.statement),
            "lock_timeout": _milliseconds(self.lock),
            # Ends the transaction of a frozen process, so that its locks are released.
            "idle_in_transaction_session_timeout": _milliseconds(self.idle),
            "default_transaction_read_only": "on" if self.read_only else "off",
        }


def open_engine(url: str, session: Session) -> AsyncEngine:
    """Returns an engine that keeps no connections; it connects on demand."""

    async def connect() -> Any:  # noqa: ANN401 - the driver's own connection
        return await _connect(plain_url(url), timeout=session.connect, server_settings=session.settings())

    # This URL only names the dialect; `connect` has the real one, as libpq spells it.
    return create_async_engine("postgresql+asyncpg://", poolclass=NullPool, async_creator=connect)


class PostgresConnection:
    """A connection and its state. Used by one task at a time. Create it with `connect`."""

    def __init__(self, conn: AsyncConnection, raw: Any, *, autocommit: bool) -> None:  # noqa: ANN401 - as above
        self._conn = conn
        self._autocommit = autocommit
        self._raw = raw
        self._entered: tuple[str, str] | None = None
        """The values of `_ENTER` in force; None: not known."""
        self.used = False
        """Whether it was used before: then the server may have gone since."""

    @classmethod
    async def connect(cls, engine: AsyncEngine, *, autocommit: bool) -> Self:
        """Opens a connection; raises what the driver raises.

        Args:
            engine: of `open_engine`.
            autocommit: whether each statement is a transaction; otherwise `commit` ends one.
        """
        conn = await engine.connect()
        try:
            if autocommit:
                await conn.execution_options(isolation_level="AUTOCOMMIT")
            # Only the driver's own connection can be cut at once, and knows whether it is.
            fairy = await conn.get_raw_connection()
            raw: Any = fairy.driver_connection
            if not autocommit:
                # An acknowledged change must survive a crash of the server, whatever the server's default.
                await raw.fetch(_DURABLE)
            return cls(conn, raw, autocommit=autocommit)
        # Cancellation too: nobody else knows of this connection yet.
        except BaseException:
            await conn.close()
            raise

    @property
    def is_lost(self) -> bool:
        """Whether the connection is cut."""
        return bool(self._raw.is_closed())

    def has_entered(self, namespace: str | None) -> bool:
        """Returns whether `enter` would have nothing to do."""
        return self._entered == _place(namespace)

    def enter(self, conn: Connection, namespace: str | None) -> None:
        """Makes row-level security show only this namespace; None shows all, for upkeep. Only inside `work`."""
        place = _place(namespace)
        if self._entered == place:
            return
        # If the statement fails, neither the former namespace nor the new one may be assumed.
        self._entered = None
        cursor: Any = conn.connection.cursor()
        cursor.execute(_ENTER, place)
        cursor.close()
        self._entered = place

    async def work(self, call: Callable[[Connection], T], seconds: float) -> T:
        """Calls a function with the connection. After `seconds` the connection is cut, and the call fails."""
        with self._limit_time(seconds):
            if not self._autocommit and not self._conn.in_transaction():
                # Statements that bypass SQLAlchemy would begin a transaction that it does not know.
                await self._conn.begin()
            answer = await self._conn.run_sync(call)
        self.used = True
        return answer

    async def commit(self, seconds: float) -> None:
        """Ends the transaction. If this raises and the connection is lost, it is not known whether it is durable."""
        with self._limit_time(seconds):
            await self._conn.commit()

    async def undo(self, seconds: float) -> None:
        """Undoes the transaction, or cuts the connection, which has the same effect. Never raises."""
        # A setting made in a transaction is undone with it.
        self._entered = None
        try:
            with self._limit_time(seconds):
                await self._conn.rollback()
        except Exception:  # noqa: BLE001 - a line that cannot even do this is cut
            self.cut()

    def cut(self) -> None:
        """Cuts the connection at once, without notifying the server. Pending calls fail."""
        self._raw.terminate()

    async def close(self, *, politely: bool = False) -> None:
        """Closes the connection; `politely` notifies the server, which takes time if it does not respond."""
        # Each step may fail on a broken connection, and the next one is needed all the same.
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


def _place(namespace: str | None) -> tuple[str, str]:
    return ("", "on") if namespace is None else (namespace, "off")


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))
