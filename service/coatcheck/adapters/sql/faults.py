"""Translates SQLite's errors to the errors that callers get. Any error other than a failure of storage is a bug."""

import sqlite3

from sqlalchemy.exc import DBAPIError

from coatcheck.core.errors import CoatcheckError, Code

_PRIMARY = 0xFF
"""Mask of the primary result code, which is the low byte of an extended result code."""
_NO_ROOM = "SQLITE_IOERR_SHMSIZE"
"""Name of the error that the file of the shared memory could not grow. This operation is the first one that fails on a
full disk."""
# Temporary failures, and failures of the machine: the same call may succeed later. A full disk is reported differently,
# because deletions help against it.
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
"""Result codes which say that the file is damaged or is not a database, so that no retry can succeed."""


def fault_of(error: BaseException) -> CoatcheckError | None:
    """Returns the error that callers get for a failure of the database; None for any other error, which is a bug."""
    original = error.orig if isinstance(error, DBAPIError) else error
    # Only errors that SQLite itself reports have a code. Errors of the driver are bugs in the use of the driver.
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
    """Returns the error for a call to a catalogue that is closed."""
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE, "The service is stopping and accepts no more calls. Retry the same call."
    )


class TransactionConflict(Exception):  # noqa: N818 - not an error: the writer tries the transaction again
    """Another process has changed rows that this transaction has read. Roll the transaction back and start it again.

    This cannot happen if only one process writes.
    """

    sqlstate = "40001"
    """PostgreSQL's code for a serialization failure, so that this exception is handled like such a failure."""
