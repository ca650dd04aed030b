"""SQLite connections: how they are opened, and the settings that durability depends on."""

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.pool import ConnectionPoolEntry

from coatcheck.core.caches import CacheName, CacheSize, count_cache

BUSY_MS = 5000
"""Only a backup or a command beside the server can hold the write lock, and not for long."""
_JOURNAL_BYTES = 64 * 1024 * 1024
"""Size to which a write-ahead log that grew during a long read is truncated."""

_PAGE_BYTES = 4096
"""SQLite's usual size of a page."""
_WRITER_KIB, _READER_KIB = 32 * 1024, 8 * 1024
"""Size of a connection's page cache."""

_ALWAYS = (f"busy_timeout={BUSY_MS}", "foreign_keys=ON", "trusted_schema=OFF", "temp_store=MEMORY")
_CREATOR = ("auto_vacuum=INCREMENTAL",)
"""This precedes the first table and anything that writes the file's header; it writes even if nothing changes."""
_WRITER = (
    # This, too, precedes whatever writes the header.
    "journal_mode=WAL",
    # NORMAL does not sync a commit: a power loss would lose acknowledged data.
    "synchronous=FULL",
    "fullfsync=ON",
    "checkpoint_fullfsync=ON",
    # Deleted content must not remain in free pages.
    "secure_delete=ON",
    f"journal_size_limit={_JOURNAL_BYTES}",
    f"cache_size=-{_WRITER_KIB}",
)
# SQLite before 3.51.3 can corrupt a database when several connections checkpoint at once (WAL reset).
_NO_CHECKPOINTS = ("wal_autocheckpoint=0",)
_READER = (*_NO_CHECKPOINTS, "query_only=ON", f"cache_size=-{_READER_KIB}")


class PageCache:
    """The page cache of a connection: SQLite does not say what it holds, so it counts as full as it can be."""

    name: CacheName = "database_pages"

    def __init__(self, path: Path, limit: int) -> None:
        """`limit` is in bytes; no more than the file has pages is cached."""
        self._path = path
        self._limit = limit
        count_cache(self)

    @property
    def size(self) -> CacheSize:
        """Returns the most pages that it can hold, and their bytes."""
        try:
            size = min(self._limit, self._path.stat().st_size)
        except OSError:  # the file was moved away: nothing can be said of it
            size = 0
        return CacheSize(size // _PAGE_BYTES, size)


def sqlite_url(path: Path) -> str:
    """Returns the URL of a database file."""
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def writing_engine(url: str, *, checkpoints: bool = True, alone: bool = False) -> Engine:
    """Returns an engine whose transactions begin with `BEGIN IMMEDIATE`. Its user opens one connection.

    Args:
        url: the database.
        checkpoints: whether the connection checkpoints.
        alone: whether to lock out other processes, which saves the file of shared memory, for a disk without room.
    """
    settings = (*_ALWAYS, *(() if alone else _CREATOR), *_WRITER, *(() if checkpoints else _NO_CHECKPOINTS))
    engine = _engine(url, settings, _WRITER_KIB, alone=alone)

    def begin(conn: Connection) -> None:
        # A transaction that begins with a read could find its snapshot outdated when it first writes.
        conn.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "begin", begin)
    return engine


def reading_engine(url: str, *, alone: bool = False) -> Engine:
    """Returns an engine that can only read; every statement is its own transaction. `alone` as the writer's."""
    return _engine(url, (*_ALWAYS, *_READER), _READER_KIB, alone=alone)


def looking_engine(path: Path) -> Engine:
    """Returns an engine that opens the file itself read-only, beside a server or on a read-only file system."""
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    if not path.with_name(f"{path.name}-wal").exists() and not os.access(path.parent, os.W_OK):
        # SQLite creates its shared memory even to read, unless told that nobody writes. Here nobody can.
        uri += "&immutable=1"
    url = sqlite_url(path)
    engine = create_engine(
        url, poolclass=NullPool, creator=lambda: sqlite3.connect(uri, uri=True, check_same_thread=False)
    )
    return _set_up(engine, (*_ALWAYS, *_READER), _READER_KIB)


def _engine(url: str, settings: tuple[str, ...], cache_kib: int, *, alone: bool) -> Engine:
    path = make_url(url).database or ""
    uri = f"file:{quote(path)}?vfs=unix-excl" if alone else path

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=alone, check_same_thread=False)

    engine = create_engine(url, poolclass=NullPool, creator=connect)
    return _set_up(engine, settings, cache_kib)


def _set_up(engine: Engine, settings: tuple[str, ...], cache_kib: int) -> Engine:
    def configure_connection(raw: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
        record.info["pages"] = PageCache(Path(engine.url.database or ""), cache_kib * 1024)  # as long as the connection
        raw.isolation_level = None  # the driver must not begin transactions of its own
        try:
            for setting in settings:
                raw.execute(f"PRAGMA {setting}").close()
        except sqlite3.Error:
            raw.close()  # else it would keep the way in which this process has the file open
            raise

    event.listen(engine, "connect", configure_connection)
    return engine
