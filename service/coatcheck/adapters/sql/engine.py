"""Opens SQLite connections with the settings that durability depends on, and checks the location of a database.

SQLite's locks and shared memory do not work over a network, so a network file system is refused. A service assumes that
no other process writes to its data directory or sweeps it, so the directory is locked.
"""

import contextlib
import fcntl
import os
import sqlite3
import time
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.pool import ConnectionPoolEntry

from coatcheck.core.caches import CacheName, CacheSize, count_cache
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck_client.contract.run_folder import DIRECTORY_LOCK

BUSY_MS = 5000
"""Milliseconds that a statement waits for the write lock. Only a backup or a command beside the service can hold the
lock, and not for long."""
_WAL_LIMIT_BYTES = 64 * 1024 * 1024
"""Bytes to which the write-ahead log is truncated after it has grown during a long read."""

_PAGE_BYTES = 4096
"""SQLite's usual page size, in bytes."""
_WRITER_KIB, _READER_KIB = 32 * 1024, 8 * 1024
"""Maximum size of the page cache of a connection that writes, and of one that reads, in KiB."""

# With `temp_store=MEMORY`, sorts use no temporary files, in which `secure_delete` would not overwrite deleted content.
_ALWAYS = (f"busy_timeout={BUSY_MS}", "foreign_keys=ON", "trusted_schema=OFF", "temp_store=MEMORY")
_CREATOR = ("auto_vacuum=INCREMENTAL",)
"""The setting that only works before the file's header is written and the first table created. It writes to the file
even if nothing changes."""
_WRITER = (
    # This setting must also come before anything writes the header.
    "journal_mode=WAL",
    # NORMAL does not sync a commit: a power loss would lose acknowledged data.
    "synchronous=FULL",
    "fullfsync=ON",
    "checkpoint_fullfsync=ON",
    # Overwrites deleted content, which must not remain in free pages.
    "secure_delete=ON",
    f"journal_size_limit={_WAL_LIMIT_BYTES}",
    f"cache_size=-{_WRITER_KIB}",
)
# SQLite before 3.51.3 can corrupt a database when several connections checkpoint at once (WAL reset).
_NO_CHECKPOINTS = ("wal_autocheckpoint=0",)
_READER = (*_NO_CHECKPOINTS, "query_only=ON", f"cache_size=-{_READER_KIB}")


class PageCache:
    """The page cache of a connection, for the metrics. SQLite does not report its size, so its maximum is reported."""

    name: CacheName = "database_pages"

    def __init__(self, path: Path, limit: int) -> None:
        """Counts a cache of at most `limit` bytes, and of at most the size of the file at `path`."""
        self._path = path
        self._limit = limit
        count_cache(self)

    @property
    def size(self) -> CacheSize:
        """The maximum number of pages in the cache, and their bytes."""
        try:
            size = min(self._limit, self._path.stat().st_size)
        except OSError:  # the file was moved away, so its size is unknown
            size = 0
        return CacheSize(size // _PAGE_BYTES, size)


def sqlite_url(path: Path) -> str:
    """Returns the URL of a database file."""
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def writing_engine(url: str, *, checkpoints: bool = True, alone: bool = False) -> Engine:
    """Returns an engine whose transactions begin with `BEGIN IMMEDIATE`. The caller must open only one connection.

    Args:
        url: the URL of the database.
        checkpoints: whether the connection checkpoints.
        alone: whether to lock out other processes. This needs no file for shared memory, and so works on a full disk.
    """
    # On a full disk, `auto_vacuum` is not set, because it writes even if nothing changes.
    settings = (*_ALWAYS, *(() if alone else _CREATOR), *_WRITER, *(() if checkpoints else _NO_CHECKPOINTS))
    engine = _engine(url, settings, _WRITER_KIB, alone=alone)

    def begin(conn: Connection) -> None:
        # If a transaction began with a read, its snapshot could be outdated at its first write, which would then fail.
        conn.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "begin", begin)
    return engine


def reading_engine(url: str, *, alone: bool = False) -> Engine:
    """Returns an engine that can only read; every statement is a transaction of its own.

    `alone` must be the same as in `writing_engine`.
    """
    return _engine(url, (*_ALWAYS, *_READER), _READER_KIB, alone=alone)


def looking_engine(path: Path) -> Engine:
    """Returns an engine that opens the file read-only, for use beside a service or on a read-only file system."""
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    if not path.with_name(f"{path.name}-wal").exists() and not os.access(path.parent, os.W_OK):
        # SQLite creates its file of shared memory even to read, unless the URI says that nobody writes. This process
        # cannot create files here, and without a write-ahead log no service has the database open.
        uri += "&immutable=1"
    return _open_engine(sqlite_url(path), uri, (*_ALWAYS, *_READER), _READER_KIB)


def _engine(url: str, settings: tuple[str, ...], cache_kib: int, *, alone: bool) -> Engine:
    path = quote(make_url(url).database or "")
    # The VFS `unix-excl` locks the file against other processes, and has the log's shared memory on the heap.
    return _open_engine(url, f"file:{path}?vfs=unix-excl" if alone else f"file:{path}", settings, cache_kib)


def _open_engine(url: str, uri: str, settings: tuple[str, ...], cache_kib: int) -> Engine:
    def connect() -> sqlite3.Connection:
        # Connections are shared by threads: the writer's connection is opened in one thread and used in another, and
        # the connections of readers are closed in another thread than their own.
        return sqlite3.connect(uri, uri=True, check_same_thread=False)

    def configure_connection(raw: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
        # The cache is counted as long as this record, and so the connection, exists.
        record.info["pages"] = PageCache(Path(engine.url.database or ""), cache_kib * 1024)
        raw.isolation_level = None  # the driver must not begin transactions itself
        try:
            for setting in settings:
                raw.execute(f"PRAGMA {setting}").close()
        except sqlite3.Error:
            raw.close()  # an open connection would keep the lock mode in which this process has opened the file
            raise

    # No pool is needed, since the writer and each reader thread keep their own connections.
    engine = create_engine(url, poolclass=NullPool, creator=connect)
    event.listen(engine, "connect", configure_connection)
    return engine


_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre", "ncp", "davfs", "fuse.sshfs")
"""Beginnings of the types of network file systems: `nfs` includes `nfs4`, and `smb` includes `smb3`."""
_NETWORK_FUSE = ("fuse.s3", "fuse.rclone", "fuse.gcsfuse", "fuse.goofys", "fuse.davfs", "fuse.glusterfs")
"""Beginnings of the types of network file systems in user space. Other file systems in user space may be local."""
_MOUNTS = Path("/proc/self/mountinfo")
"""The table of mounts. Only Linux has it; on other systems the type of the file system is not checked."""


class DirectoryLock:
    """The lock of a data directory. It ends with the process, however the process ends."""

    def __init__(self, directory: Path) -> None:
        """Takes the lock, or raises CoatcheckError `storage_unavailable` within a tenth of a second."""
        path = directory / DIRECTORY_LOCK
        # The file is not truncated yet, because its content names the process that has the lock, if there is one.
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._take()
        except OSError as error:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise CoatcheckError(
                Code.STORAGE_UNAVAILABLE,
                f"Another process{f' ({holder})' if holder else ''} serves {directory} already. Stop it first, "
                "or give this one a data directory of its own.",
            ) from error
        # The process ID only serves the message above. A file that a dead process has left is not locked, so it blocks
        # nobody.
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"process {os.getpid()}\n".encode(), 0)

    def _take(self) -> None:
        """Locks the file, or raises OSError after several attempts.

        Embedded clients hold the lock shared for a moment to see whether a service has the directory.
        """
        for pause in (0.005, 0.015, 0.025, 0.05):
            with contextlib.suppress(BlockingIOError):
                return fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            time.sleep(pause)
        return fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Releases the lock of the directory."""
        os.close(self._fd)


def make_private(path: Path) -> None:
    """Creates the file and the directory of a database if they do not exist, readable only by their owner."""
    # `mode` applies only to the last directory; missing directories above it get the usual mode.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite gives the write-ahead log and the shared memory the same mode as the database file.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def refuse_network_file_system(directory: Path, mountinfo: str | None = None) -> None:
    """Raises CoatcheckError `storage_unavailable` if the directory is on a known network file system.

    Args:
        directory: an existing directory.
        mountinfo: the text of Linux's table of mounts; None: the table is read, and without one nothing is checked.
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
    """Returns the type of the file system that contains an absolute path; None: unknown (proc(5), mountinfo)."""
    best: tuple[int, str] | None = None
    for line in mountinfo.splitlines():
        # Before the hyphen there is any number of optional fields. The first word after it is the file system's type.
        fields, _, rest = line.partition(" - ")
        columns = fields.split(" ")
        if len(columns) < 5 or not rest:  # noqa: PLR2004 - the mount point is the fifth column
            continue
        mount = Path(_unescape(columns[4]))
        # If two lines have the same mount point, the later mount hides the earlier one.
        if path.is_relative_to(mount) and (best is None or len(mount.parts) >= best[0]):
            best = (len(mount.parts), rest.split(" ")[0])
    return None if best is None else best[1]


def _unescape(text: str) -> str:
    # The kernel writes these four characters as octal escapes. The backslash is replaced last, because a replaced
    # backslash could otherwise begin another escape.
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, character)
    return text
