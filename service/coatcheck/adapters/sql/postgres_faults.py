"""Classifies errors of PostgreSQL and of its connection: whose fault they are, and whether a retry is worthwhile.

Anything but a failure of storage (a statement that the server does not understand, a value that it does not accept) is
a bug and is not translated.
"""

from typing import Final

import asyncpg
from asyncpg.exceptions import InvalidCachedStatementError, OutdatedSchemaCacheError
from sqlalchemy.exc import DBAPIError, InvalidRequestError

from coatcheck.core.errors import CoatcheckError, Code

_GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
"""The server ends or refuses this connection: shutdown, crash, starting up, idle for too long."""
_BUSY = frozenset({"57014", "55P03", "55006"})
"""One statement was cancelled: it took, or waited, for too long."""
_ROOM = frozenset({"53100", "54000"})
"""Disk full, or beyond a limit of the server's own."""
_STANDBY = frozenset({"25006", "55000"})
"""The server accepts no writes: it is a standby, perhaps only recently."""
_DENIED = "42501"
"""A missing right; a row that row-level security refuses has it as well: see _WALL_CHECK."""
_REASONS: Final = {
    "25006": "it is a standby or set to be read-only, and takes no writes",
    "53300": "it takes no more connections",
    "3D000": "there is no database of this name",
    "28P01": "it refuses the role or its password",
    "28000": "it refuses the role or its password",
    _DENIED: "the role lacks rights on the tables; make it their owner again",
    "57P03": "it is starting up or stopping",
}
"""What an operator has to know about a server's answer, by SQLSTATE (PostgreSQL, "Error Codes")."""
DEADLOCK = "40P01"
"""The server ended this one of several transactions that waited for each other."""
_WALL_CHECK = "ExecWithCheckOptions"
"""The server's function that refuses a row of another namespace: the same SQLSTATE as a lack of rights, but our bug."""
_AGAIN = frozenset({"40001", DEADLOCK, "23505"})
"""Serialization failure, deadlock, or the same row inserted by another replica: the next attempt sees it."""
_DAMAGED = frozenset({"XX001", "XX002"})
"""The server found its data, or an index, corrupted."""


def sqlstate(error: BaseException) -> str | None:
    """Returns the server's five-character code for an error; None if it did not come from a server."""
    state = getattr(_original(error), "sqlstate", None)
    return state if isinstance(state, str) else None


def is_worth_a_retry(error: BaseException) -> bool:
    """Returns whether the same transaction may succeed now, on the same connection or another."""
    original = _original(error)
    if isinstance(original, InvalidCachedStatementError | OutdatedSchemaCacheError):
        return True  # the tables were migrated after a statement was prepared
    return sqlstate(error) in _AGAIN


def is_of_the_connection(error: BaseException) -> bool:
    """Returns whether the connection, or opening one, is what failed."""
    original, state = _original(error), sqlstate(error)
    if state is not None:
        # Class 08 is the connection itself, and 28 the login; then too many connections, and no such database.
        return state in _GONE | _STANDBY or state[:2] in {"08", "28"} or state in {"53300", "3D000"}
    if isinstance(original, OSError):  # refused, reset, timed out, unknown host
        return True
    # For the use of a closed connection, the driver has only this sentence.
    return isinstance(original, asyncpg.InterfaceError) and "connection is closed" in str(original)


def postgres_fault_of(error: BaseException) -> CoatcheckError | None:
    """Returns the caller's error for a failing database, or None for anything else."""
    state = sqlstate(error)
    # First, because its SQLSTATE would pass for a missing right: it must surface as the bug that it is.
    if getattr(_original(error), "server_source_function", None) == _WALL_CHECK:
        return None
    if state in _ROOM:
        return CoatcheckError(
            Code.STORAGE_FULL,
            "The database's disk is full; nothing was stored. Free space, then send it again.",
        )
    if state in _DAMAGED:
        return CoatcheckError(
            Code.INTEGRITY,
            f"The catalogue's database is damaged (SQLSTATE {state}). Stop the service and restore it from a backup.",
        )
    # Without 23505: a duplicate that no retry resolves is a bug. Class 53 is a lack of resources, 58 an error of the
    # server's system.
    if state is not None and (state in _BUSY | _AGAIN - {"23505"} | {_DENIED} or state[:2] in {"53", "58"}):
        return unavailable(_describe_state(state))
    if is_of_the_connection(error):
        return unavailable(type(_original(error)).__name__ if state is None else _describe_state(state))
    return None


def _describe_state(state: str) -> str:
    """Returns a server's answer in words, if it has any, and its code."""
    return f"{_REASONS[state]}: SQLSTATE {state}" if state in _REASONS else f"SQLSTATE {state}"


def unavailable(why: str) -> CoatcheckError:
    """Returns the error for a database that did not do it, or did not confirm it in time."""
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE, f"The catalogue's database did not answer ({why}). Retry the same call."
    )


def overload_error() -> CoatcheckError:
    """Returns the error for a database that responds, but whose connections were busy for too long."""
    return CoatcheckError(
        Code.OVERLOADED, "Too many queries are waiting for the catalogue's database. Retry the same call in a moment."
    )


def _original(error: BaseException) -> BaseException:
    """Returns what the driver raised, without SQLAlchemy's wrappers."""
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if isinstance(original, InvalidRequestError) or type(original).__module__.startswith("sqlalchemy."):
        return original.__cause__ or original
    return original
