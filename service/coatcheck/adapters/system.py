"""The wall clock, which no other module reads, the steady clock, and the reserve of a disk.

The reserve is a file. While a change needs room on a full disk, the file is truncated, and made again afterwards.
Deletions need space before they free any: for the database's log and for tombstones. Therefore the disk counts as full
as long as the reserve does not have its full size. Payloads are refused then, and only changes that free space may use
the reserve.
"""

import contextlib
import errno
import logging
import os
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code

STEADY_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that nobody can set, and that continues while the machine sleeps. On Linux, CLOCK_MONOTONIC would stop then.
On other systems CLOCK_MONOTONIC is used, since there is no better clock."""


class SystemClock:
    """Wall-clock time in UTC."""

    def now(self) -> datetime:
        """Returns the present time in UTC, as an aware datetime."""
        return datetime.now(UTC)  # noqa: TID251 - this is the Clock


def steady_seconds() -> float:
    """Returns the time of the steady clock: seconds since an unspecified moment before the process began."""
    return time.clock_gettime(STEADY_CLOCK)


log = logging.getLogger(__name__)

NAME: Final = "coatcheck.reserve"
"""Name of the reserve's file in the data directory."""
_RESERVE_SHARE: Final = 4
"""Divisor: a disk no longer counts as full if, besides the whole reserve, a quarter of the reserve's size is free. The
log of a few payloads needs that much."""
_NOT_SUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""Errors of a file system that cannot allocate space in advance, if the C library does not write zeros instead."""
_CHECK_SECONDS: Final = 0.5
"""Minimum seconds between two checks of a full disk; otherwise each refused payload would cause one."""


class DiskReserve:
    """The reserve of the disk that contains a directory. Only one thread at a time may use it."""

    def __init__(self, folder: Path, size: int) -> None:
        """Changes nothing on the disk yet.

        `size` is in bytes. With 0 there is no reserve, and the disk never counts as full.
        """
        self._path = folder / NAME
        self._size = size
        self._full = False
        self._checked_at = float("-inf")

    @contextlib.contextmanager
    def lent(self) -> Generator[None]:
        """Frees the reserve's space within a `with` block if the disk has less space; then makes the reserve again."""
        if self._size and self._free() < self._size:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.truncate(self._path, 0)
        try:
            yield
        finally:
            if not self._fill():
                self.note_full()

    def note_full(self) -> bool:
        """Records that the disk has refused a write; returns whether there is a reserve, which may help."""
        if self._size and not self._full:
            self._full = True
            log.warning("the disk that holds %s is full: only changes that free space are made", self._path.parent)
        return bool(self._size)

    def is_full(self) -> bool:
        """Returns whether the disk counts as full, so that payloads must be refused.

        While it does, each call tries to restore the reserve, but at most once in half a second.
        """
        now = time.monotonic()
        if self._full and now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            self._full = not (self._fill() and self._free() >= self._size // _RESERVE_SHARE)
            if not self._full:
                log.warning("the disk that holds %s has room again", self._path.parent)
        return self._full

    def refusal(self) -> CoatcheckError:
        """Returns the error for a payload that is refused because the disk is full."""
        return CoatcheckError(
            Code.STORAGE_FULL,
            "The disk is full; nothing was stored. Deleting and expiring go on in a reserve of "
            f"{self._size / 1024**2:.0f} MiB, and payloads are taken again once that and a quarter more are free.",
        )

    def _fill(self) -> bool:
        """Makes the reserve as large as the disk permits; returns whether it has its full size.

        Also returns true if there is no reserve, or the directory does not exist yet.
        """
        if not self._size or not self._path.parent.is_dir():
            return True
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                size = min(os.fstat(fd).st_size, self._size)
                os.ftruncate(fd, size)  # the file is too large if the setting was lowered
                missing = min(self._size - size, self._free())
                if missing > 0:
                    self._extend(fd, size, missing)
                return size + missing == self._size
            finally:
                os.close(fd)
        except OSError as error:
            log.info("the reserve %s cannot be made now: %s", self._path, error.strerror)
            return False

    @staticmethod
    def _extend(fd: int, start: int, size: int) -> None:
        try:
            _allocate(fd, start, size)
        except OSError:
            os.ftruncate(fd, start)  # another program has used up the space, and may need the allocated part too
            raise

    def _free(self) -> int:
        """Returns how many bytes this user may still write to the disk; 0 while the directory does not exist."""
        try:
            disk = os.statvfs(self._path.parent)
        except OSError:
            return 0
        return disk.f_bavail * disk.f_frsize


def _allocate(fd: int, start: int, size: int) -> None:
    """Extends a file by bytes for which the disk allocates space, so that the file has no hole."""
    if hasattr(os, "posix_fallocate"):  # macOS has no such call
        try:
            os.posix_fallocate(fd, start, size)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
        else:
            return
    end = start + size
    while start < end:
        start += os.pwrite(fd, bytes(min(1024**2, end - start)), start)
