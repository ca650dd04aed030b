"""Classifies errors of PostgreSQL and of its connection: whether storage has failed, and whether a retry may succeed.

Only failures of storage are translated to errors for callers. Any other error is a bug, for example a statement that
the server does not understand or a value that it does not accept.
"""

from typing import Final

import asyncpg
from asyncpg.exceptions import InvalidCachedStatementError, OutdatedSchemaCacheError
from sqlalchemy.exc import DBAPIError, InvalidRequestError

from coatcheck.core.errors import CoatcheckError, Code

_GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
"""SQLSTATEs with which the server ends or refuses a connection: it shuts down, has crashed, is starting up, or the
connection was idle for too long."""
_BUSY = frozenset({"57014", "55P03", "55006"})
"""SQLSTATEs of a statement that was cancelled because it took or waited too long."""
_ROOM = frozenset({"53100", "54000"})
"""SQLSTATEs which say that the disk is full, or that a limit of the server is exceeded."""
_STANDBY = frozenset({"25006", "55000"})
"""SQLSTATEs of a server that accepts no writes because it is a standby, perhaps only since recently."""
_DENIED = "42501"
"""The SQLSTATE for a role without a right. A row that row-level security refuses has the same code: see _WALL_CHECK."""
_REASONS: Final = {
    "25006": "it is a standby or set to be read-only, and takes no writes",
    "53300": "it takes no more connections",
    "3D000": "there is no database of this name",
    "28P01": "it refuses the role or its password",
    "28000": "it refuses the role or its password",
    _DENIED: "the role lacks rights on the tables; make it their owner again",
    "57P03": "it is starting up or stopping",
}
"""Explanations of the server's errors for an operator, by SQLSTATE (PostgreSQL, "Error Codes")."""
DEADLOCK = "40P01"
"""The SQLSTATE of a transaction that the server has ended because several transactions waited for each other."""
_WALL_CHECK = "ExecWithCheckOptions"
"""The function of the server that refuses a row of another namespace. The SQLSTATE is the same as for a missing right,
but the error is a bug of the service."""
_AGAIN = frozenset({"40001", DEADLOCK, "23505"})
"""SQLSTATEs after which the next attempt may succeed: a serialization failure, a deadlock, or a row that another
replica has inserted."""
_DAMAGED = frozenset({"XX001", "XX002"})
"""SQLSTATEs which say that the server has found its data or an index corrupted."""


def sqlstate(error: BaseException) -> str | None:
    """Returns the five-character SQLSTATE of an error; None if the error does not come from a server."""
    state = getattr(_original(error), "sqlstate", None)
    return state if isinstance(state, str) else None


def is_worth_a_retry(error: BaseException) -> bool:
    """Returns whether the same transaction may succeed if it is tried again, on the same connection or another one."""
    original = _original(error)
    if isinstance(original, InvalidCachedStatementError | OutdatedSchemaCacheError):
        return True  # the tables were migrated after a statement was prepared
    return sqlstate(error) in _AGAIN


def is_of_the_connection(error: BaseException) -> bool:
    """Returns whether the connection, or opening a connection, has failed, instead of a statement."""
    original, state = _original(error), sqlstate(error)
    if state is not None:
        # Class 08 means errors of the connection, and class 28 errors of the login. 53300 means too many connections,
        # and 3D000 that the database does not exist.
        return state in _GONE | _STANDBY or state[:2] in {"08", "28"} or state in {"53300", "3D000"}
    if isinstance(original, OSError):  # refused, reset, timed out, unknown host
        return True
    # The driver has no error class for the use of a closed connection, only this text.
    return isinstance(original, asyncpg.InterfaceError) and "connection is closed" in str(original)


def postgres_fault_of(error: BaseException) -> CoatcheckError | None:
    """Returns the error that callers get for a failure of the database; None for any other error, which is a bug."""
    state = sqlstate(error)
    # This check comes first, because the error is a bug and must be reported as one, although its SQLSTATE is that of a
    # missing right.
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
    # 23505 is left out, because a duplicate that remains after all attempts is a bug. Class 53 means a lack of
    # resources, class 58 an error of the server's operating system.
    if state is not None and (state in _BUSY | _AGAIN - {"23505"} | {_DENIED} or state[:2] in {"53", "58"}):
        return unavailable(_describe_state(state))
    if is_of_the_connection(error):
        return unavailable(type(_original(error)).__name__ if state is None else _describe_state(state))
    return None


def _describe_state(state: str) -> str:
    """Returns the explanation of an SQLSTATE, if there is one, and the SQLSTATE itself."""
    return f"{_REASONS[state]}: SQLSTATE {state}" if state in _REASONS else f"SQLSTATE {state}"


def unavailable(why: str) -> CoatcheckError:
    """Returns the error for a database that has not carried out a call, or has not confirmed it in time."""
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE, f"The catalogue's database did not answer ({why}). Retry the same call."
    )


def overload_error() -> CoatcheckError:
    """Returns the error for a call that got no connection in time, although the database responds."""
    return CoatcheckError(
        Code.OVERLOADED, "Too many queries are waiting for the catalogue's database. Retry the same call in a moment."
    )


def _original(error: BaseException) -> BaseException:
    """Returns the error that the driver has raised, without SQLAlchemy's wrappers."""
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if isinstance(original, InvalidRequestError) or type(original).__module__.startswith("sqlalchemy."):
        return original.__cause__ or original
    return original
