"""The system's clocks, the only place that reads the time, and its disk's reserve.

The reserve is a file that is given up while a change needs room on a full disk, and made again after it.

Deletions need space before they free any: for the database's log, and for tombstones. So the disk counts as full as
long as this file is not whole, and what callers send is refused, while changes that free space may use the reserve.
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
"""A clock that nobody sets, and that goes on while the machine sleeps. Linux's CLOCK_MONOTONIC stops then; elsewhere it
is the best there is."""


class SystemClock:
    """Wall-clock time in UTC."""

    def now(self) -> datetime:
        """Returns the time, aware, in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this is the Clock


def steady_seconds() -> float:
    """Returns the seconds of the steady clock, since some moment before the process began."""
    return time.clock_gettime(STEADY_CLOCK)


log = logging.getLogger(__name__)

NAME: Final = "coatcheck.reserve"
"""The file in the data directory."""
_RESERVE_SHARE: Final = 4
"""A disk is full no more when this part of the reserve is free beside it: the log of a few payloads needs that much."""
_NOT_SUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""How a file system says that it cannot allocate ahead, where the C library does not write instead."""
_CHECK_SECONDS: Final = 0.5
"""Least pause between two looks at a full disk, which every refused payload would otherwise take."""


class DiskReserve:
    """The reserve of one directory. One thread at a time uses it."""

    def __init__(self, folder: Path, size: int) -> None:
        """Touches nothing. With a `size` of 0 bytes there is no reserve, and the disk never counts as full."""
        self._path = folder / NAME
        self._size = size
        self._full = False
        self._checked_at = float("-inf")

    @contextlib.contextmanager
    def lent(self) -> Generator[None]:
        """Gives the reserve's space to the disk, if that has less, until the block is left."""
        if self._size and self._free() < self._size:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.truncate(self._path, 0)
        try:
            yield
        finally:
            if not self._fill():
                self.note_full()

    def note_full(self) -> bool:
        """Notes that the disk refused a write; returns whether the reserve may help."""
        if self._size and not self._full:
            self._full = True
            log.warning("the disk that holds %s is full: only changes that free space are made", self._path.parent)
        return bool(self._size)

    def is_full(self) -> bool:
        """Returns whether what callers send must be refused; looks again now and then, and makes the reserve again."""
        now = time.monotonic()
        if self._full and now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            self._full = not (self._fill() and self._free() >= self._size // _RESERVE_SHARE)
            if not self._full:
                log.warning("the disk that holds %s has room again", self._path.parent)
        return self._full

    def refusal(self) -> CoatcheckError:
        """Returns the error for what a full disk does not take."""
        return CoatcheckError(
            Code.STORAGE_FULL,
            "The disk is full; nothing was stored. Deleting and expiring go on in a reserve of "
            f"{self._size / 1024**2:.0f} MiB, and payloads are taken again once that and a quarter more are free.",
        )

    def _fill(self) -> bool:
        """Makes the reserve as large as the disk permits; returns whether it is whole, or there is no directory yet."""
        if not self._size or not self._path.parent.is_dir():
            return True
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                size = min(os.fstat(fd).st_size, self._size)
                os.ftruncate(fd, size)  # the setting may have been lowered
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
            os.ftruncate(fd, start)  # whoever was faster may need what was made of it
            raise

    def _free(self) -> int:
        """Returns how many bytes this user may still write; none while the directory is missing."""
        try:
            disk = os.statvfs(self._path.parent)
        except OSError:
            return 0
        return disk.f_bavail * disk.f_frsize


def _allocate(fd: int, start: int, size: int) -> None:
    """Extends a file by bytes that the disk really has, not by a hole."""
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
