"""Translates a database's errors to those that callers see. Anything but a failure of storage is a bug."""

import sqlite3

from sqlalchemy.exc import DBAPIError

from coatcheck.core.errors import CoatcheckError, Code

_PRIMARY = 0xFF
"""SQLite's extended result codes have the primary one in their low byte."""
_NO_ROOM = "SQLITE_IOERR_SHMSIZE"
"""The file of the shared memory could not grow: the first operation that a full disk refuses."""
# Failures of the moment or the machine: the same call may succeed later. A full disk is not among them, because
# deletions help against it.
_UNAVAILABLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_PERM,
    }
)
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""The file itself is wrong: no retry helps."""


def fault_of(error: BaseException) -> CoatcheckError | None:
    """Returns the caller's error for a failing database, or None for anything else."""
    original = error.orig if isinstance(error, DBAPIError) else error
    # Only errors that SQLite itself reported have a code. The driver's own complaints are bugs of ours.
    code = getattr(original, "sqlite_errorcode", None)
    if not isinstance(code, int):
        return None
    name = getattr(original, "sqlite_errorname", "")
    primary = code & _PRIMARY
    if primary == sqlite3.SQLITE_FULL or name == _NO_ROOM:
        return CoatcheckError(
            Code.STORAGE_FULL,
            "The disk is full; nothing was stored. Free space, then send it again.",
        )
    if primary in _DAMAGED:
        return CoatcheckError(
            Code.INTEGRITY,
            f"The catalogue's database is damaged ({name}). Stop the service and restore it from a backup.",
        )
    if primary in _UNAVAILABLE:
        return CoatcheckError(
            Code.STORAGE_UNAVAILABLE,
            f"The catalogue's database failed with {name}; the call had no effect. Retry the same call.",
        )
    return None


def closed_error() -> CoatcheckError:
    """Returns the error of a closed catalogue."""
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE, "The service is stopping and accepts no more calls. Retry the same call."
    )


class TransactionConflict(Exception):  # noqa: N818 - not an error: whoever commits tries again
    """What this transaction saw first is no longer true. Undo it and start again.

    It cannot happen if only one process writes.
    """

    sqlstate = "40001"
    """PostgreSQL's code for this (a serialization failure), so that it is retried as often as that."""
