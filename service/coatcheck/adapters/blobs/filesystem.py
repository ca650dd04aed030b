"""The system calls of the file store, in one class, and the errors that callers get if a system call fails.

Tests replace the class by one that fails at a chosen call, or that records the order of calls. For this reason the
class makes no decisions and handles no errors.
"""

import contextlib
import errno
import fcntl
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

from coatcheck.core.errors import CoatcheckError, Code

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""The command that makes bytes durable on macOS, where fsync leaves them in the drive's cache; None: fsync suffices."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK})


class FileEntry(NamedTuple):
    """A file in a directory."""

    name: str
    size: int
    modified_ns: int


class FileSystem:
    """The real system calls. Every method blocks and may raise OSError."""

    def make_directory(self, path: str) -> None:
        """Creates a directory and its parents, if missing."""
        Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)

    def create(self, path: str) -> int:
        """Opens a new file for writing; raises FileExistsError if the name is taken."""
        return os.open(path, _NEW, 0o600)

    def write(self, fd: int, data: memoryview) -> int:
        """Appends the first bytes of `data`, perhaps not all; returns how many were written."""
        return os.write(fd, data)

    def write_all(self, fd: int, data: bytes | bytearray) -> None:
        """Appends all bytes."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.write(fd, rest) :]

    def flush(self, fd: int) -> None:
        """Writes the data so far to the disk, so that the last sync has little to do. Does nothing on macOS."""
        if _FULL_SYNC is None:
            os.fdatasync(fd)

    def sync(self, fd: int) -> None:
        """Makes a file's bytes and size survive a power loss."""
        if _FULL_SYNC is None:
            os.fsync(fd)
        else:
            fcntl.fcntl(fd, _FULL_SYNC)

    def sync_directory(self, path: str) -> None:
        """Makes the names in a directory survive a power loss."""
        fd = os.open(path, _READ | os.O_DIRECTORY)
        try:
            self.sync(fd)
        finally:
            os.close(fd)

    def close(self, fd: int) -> None:
        """Closes a file."""
        os.close(fd)

    def unlink(self, path: str) -> None:
        """Removes a name; raises FileNotFoundError if it does not exist."""
        Path(path).unlink()

    def read(self, path: str, start: int, length: int) -> bytes:
        """Returns up to `length` bytes from `start`; fewer only at the end of the file."""
        fd = os.open(path, _READ)
        try:
            data = os.pread(fd, length, start)
            while len(data) < length and (more := os.pread(fd, length - len(data), start + len(data))):
                data += more
            return data
        finally:
            os.close(fd)

    def read_again(self, path: str, start: int, length: int) -> bytes:
        """Reads like `read`, but from the disk itself if the system can drop its cached copy of the file."""
        if sys.platform == "linux":
            fd = os.open(path, _READ)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)
        return self.read(path, start, length)

    def name_new(self, path: str, name: str) -> None:
        """Renames a file; raises FileExistsError if the new name is taken."""
        try:
            os.link(path, name)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # The file system has no hard links. Without them, two concurrent calls may both succeed.
            if Path(name).exists():
                raise FileExistsError(name) from error
            Path(path).rename(name)

    def size(self, path: str) -> int:
        """Returns the size of a file; raises FileNotFoundError if it does not exist."""
        return Path(path).stat().st_size

    def directories(self, path: str) -> list[str]:
        """Returns the names of the directories in a directory."""
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def files(self, path: str) -> list[FileEntry]:
        """Returns the files in a directory, except files that are removed meanwhile."""
        file_entries: list[FileEntry] = []
        with os.scandir(path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        file_entries.append(FileEntry(entry.name, status.st_size, status.st_mtime_ns))
        return file_entries


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def storage_error(error: OSError) -> CoatcheckError:
    """Returns the error `storage_full` if the disk or a quota is full, otherwise `storage_unavailable`."""
    if error.errno in _FULL:
        return CoatcheckError(
            Code.STORAGE_FULL,
            "The disk or its quota is full; nothing was stored. Free space, then send the payload again.",
        )
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE,
        f"The blob store failed with {name}; the call had no effect. Retry the same call.",
    )


@contextlib.contextmanager
def storage_errors(*unchanged: type[OSError]) -> Generator[None]:
    """Turns errors of the operating system into CoatcheckErrors, except the types in `unchanged`."""
    try:
        yield
    except unchanged:
        raise
    except OSError as error:
        raise storage_error(error) from error


def missing(blob_id: str) -> CoatcheckError:
    """Returns the error for a blob that has a row but no bytes."""
    return CoatcheckError(
        Code.INTEGRITY,
        f"Stored bytes are missing (blob {blob_id}). Run the tool again, or restore them from a backup.",
    )


def too_short(blob_id: str, expected_size: int, actual_size: int) -> CoatcheckError:
    """Returns the error for a blob that has fewer bytes than its row says."""
    return CoatcheckError(
        Code.INTEGRITY,
        f"Stored bytes are cut off (blob {blob_id}: {actual_size} bytes where {expected_size} were expected). "
        "Run the tool again, or restore them from a backup.",
    )
