"""What PostgreSQL and the way to it say when they fail, in words that decide: whose fault, and is it worth a retry.

What is not a failure of storage (a statement that the server does not understand, a value that it does not take) is a
bug and stays what it is.
"""

import asyncpg
from asyncpg.exceptions import InvalidCachedStatementError, OutdatedSchemaCacheError
from sqlalchemy.exc import DBAPIError, InvalidRequestError

from coatcheck.core.errors import CoatcheckError, Code

_GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
"""The server ends or does not take this connection: shutdown, crash, starting up, idle for too long."""
_BUSY = frozenset({"57014", "55P03", "55006"})
"""One statement was cancelled: it took, or waited, for too long."""
_ROOM = frozenset({"53100", "54000"})
_STANDBY = frozenset({"25006", "55000"})
"""The server takes no writes: it is a standby, perhaps since a moment ago."""
DEADLOCK = "40P01"
_AGAIN = frozenset({"40001", DEADLOCK, "23505"})
"""Serialization, deadlock, and the same row made by another replica meanwhile: the next try sees it."""
_DAMAGED = frozenset({"XX001", "XX002"})


def sqlstate(error: BaseException) -> str | None:
    """The five characters by which the server names an error; None when it did not come from a server."""
    found = getattr(_original(error), "sqlstate", None)
    return found if isinstance(found, str) else None


def is_worth_a_retry(error: BaseException) -> bool:
    """Whether the same transaction may well succeed now, on the same connection or another."""
    original = _original(error)
    if isinstance(original, InvalidCachedStatementError | OutdatedSchemaCacheError):
        return True  # the tables were migrated under a statement that was prepared before
    return sqlstate(error) in _AGAIN


def is_of_the_connection(error: BaseException) -> bool:
    """Whether the connection, or the way to a new one, is what failed."""
    original, state = _original(error), sqlstate(error)
    if state is not None:
        return state in _GONE | _STANDBY or state[:2] in {"08", "28"} or state in {"53300", "3D000"}
    if isinstance(original, OSError):  # refused, reset, timed out, no such host
        return True
    return isinstance(original, asyncpg.InterfaceError) and "connection is closed" in str(original)


def known_postgres_fault(error: BaseException) -> CoatcheckError | None:
    """The caller's error for a failing database, or None when this is something else."""
    state = sqlstate(error)
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
    if state is not None and (state in _BUSY | _AGAIN - {"23505"} or state[:2] in {"53", "58"}):
        return unavailable(f"SQLSTATE {state}")
    if is_of_the_connection(error):
        return unavailable(type(_original(error)).__name__ if state is None else f"SQLSTATE {state}")
    return None


def unavailable(why: str) -> CoatcheckError:
    """The database did not do it, or did not say so in time."""
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE, f"The catalogue's database did not answer ({why}). Retry the same call."
    )


def overloaded() -> CoatcheckError:
    """The database answers, but others have kept every connection busy for too long."""
    return CoatcheckError(
        Code.OVERLOADED, "Too many queries are waiting for the catalogue's database. Retry the same call in a moment."
    )


def _original(error: BaseException) -> BaseException:
    """What the driver raised, under SQLAlchemy's wrappings."""
    found = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if isinstance(found, InvalidRequestError) or type(found).__module__.startswith("sqlalchemy."):
        return found.__cause__ or found
    return found
