"""SQLite connections: how they are opened, the settings that durability depends on, and where a database may be.

SQLite's locks and shared memory do not work over a network, and two servers on one directory would each assume that
they alone write and sweep: so a directory is locked, and a network file system refused.
"""

import fcntl
import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.pool import ConnectionPoolEntry

from coatcheck.core.caches import CacheName, CacheSize, count_cache
from coatcheck.core.errors import CoatcheckError, Code

BUSY_MS = 5000
"""Only a backup or a command beside the server can hold the write lock, and not for long."""
_WAL_LIMIT_BYTES = 64 * 1024 * 1024
"""Size to which a write-ahead log that grew during a long read is truncated."""

_PAGE_BYTES = 4096
"""SQLite's usual size of a page."""
_WRITER_KIB, _READER_KIB = 32 * 1024, 8 * 1024
"""Size of a connection's page cache."""

# `temp_store=MEMORY` keeps sorts out of temporary files, which `secure_delete` does not reach.
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
    f"journal_size_limit={_WAL_LIMIT_BYTES}",
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
    # A disk without room gets no `auto_vacuum`, which writes even if nothing changes.
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
    return _open_engine(sqlite_url(path), uri, (*_ALWAYS, *_READER), _READER_KIB)


def _engine(url: str, settings: tuple[str, ...], cache_kib: int, *, alone: bool) -> Engine:
    path = quote(make_url(url).database or "")
    # This VFS locks the file against other processes, and keeps the shared memory of the log on the heap.
    return _open_engine(url, f"file:{path}?vfs=unix-excl" if alone else f"file:{path}", settings, cache_kib)


def _open_engine(url: str, uri: str, settings: tuple[str, ...], cache_kib: int) -> Engine:
    def connect() -> sqlite3.Connection:
        # The writer's connection is opened in one thread and used in another; readers' are closed from a third.
        return sqlite3.connect(uri, uri=True, check_same_thread=False)

    def configure_connection(raw: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
        record.info["pages"] = PageCache(Path(engine.url.database or ""), cache_kib * 1024)  # as long as the connection
        raw.isolation_level = None  # the driver must not begin transactions of its own
        try:
            for setting in settings:
                raw.execute(f"PRAGMA {setting}").close()
        except sqlite3.Error:
            raw.close()  # else it would keep the way in which this process has the file open
            raise

    # No pool: the writer and each reading thread keep their connection themselves.
    engine = create_engine(url, poolclass=NullPool, creator=connect)
    event.listen(engine, "connect", configure_connection)
    return engine


_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre", "ncp", "davfs", "fuse.sshfs")
"""Beginnings of types: `nfs` includes `nfs4`, and `smb` includes `smb3`."""
_NETWORK_FUSE = ("fuse.s3", "fuse.rclone", "fuse.gcsfuse", "fuse.goofys", "fuse.davfs", "fuse.glusterfs")
"""Of file systems in user space only these: others may well be local."""
_MOUNTS = Path("/proc/self/mountinfo")
"""Only Linux has it; elsewhere nothing is checked."""


class DirectoryLock:
    """A locked data directory. The lock ends with the process, however that ends."""

    def __init__(self, directory: Path) -> None:
        """Takes the lock, or raises CoatcheckError `storage_unavailable` at once."""
        path = directory / "coatcheck.lock"
        # No truncation yet: as long as the lock is another's, the content names its process.
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise CoatcheckError(
                Code.STORAGE_UNAVAILABLE,
                f"Another process{f' ({holder})' if holder else ''} serves {directory} already. Stop it first, "
                "or give this one a data directory of its own.",
            ) from error
        # The number only serves that message. A file that a dead process left behind is not locked, and blocks nobody.
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"process {os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Releases the directory."""
        os.close(self._fd)


def make_private(path: Path) -> None:
    """Creates a database's file and directory if missing, readable only by their owner."""
    # Directories above it get the usual mode: `mode` applies only to the last one.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite gives its log and its shared memory the mode of the database file.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def refuse_network_file_system(directory: Path, mountinfo: str | None = None) -> None:
    """Raises CoatcheckError `storage_unavailable` if the directory is on a known network file system.

    Args:
        directory: an existing directory.
        mountinfo: Linux's table of mounts; None reads it, and checks nothing if there is none.
    """
    if mountinfo is None:
        if not _MOUNTS.exists():
            return
        mountinfo = _MOUNTS.read_text("utf-8", "surrogateescape")
    kind = file_system_of(directory.resolve(), mountinfo)
    if kind is not None and kind.startswith((*_NETWORK, *_NETWORK_FUSE)):
        raise CoatcheckError(
            Code.STORAGE_UNAVAILABLE,
            f"{directory} is on a network file system ({kind}), where SQLite loses data. Use a local disk for "
            "the data directory, or PostgreSQL for the catalogue.",
        )


def file_system_of(path: Path, mountinfo: str) -> str | None:
    """Returns the type of the file system that contains an absolute path (proc(5), /proc/pid/mountinfo)."""
    best: tuple[int, str] | None = None
    for line in mountinfo.splitlines():
        # Any number of optional fields precedes the hyphen; the file system's type is the first word after it.
        fields, _, rest = line.partition(" - ")
        columns = fields.split(" ")
        if len(columns) < 5 or not rest:  # noqa: PLR2004 - the mount point is the fifth column
            continue
        mount = Path(_unescape(columns[4]))
        # A later line hides an earlier one for the same path.
        if path.is_relative_to(mount) and (best is None or len(mount.parts) >= best[0]):
            best = (len(mount.parts), rest.split(" ")[0])
    return None if best is None else best[1]


def _unescape(text: str) -> str:
    # The kernel writes these four characters in octal. The backslash comes last: what it stands for could otherwise
    # begin another escape.
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, character)
    return text
