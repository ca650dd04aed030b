"""Saves payloads that wait for storage to files `coatcheck.waiting.<random>` in the data directory, and reads them.

Only the owner can read the files. A file is written under another name, synced and renamed, so that after a crash it
exists completely or not at all. It begins with a line that identifies the format. Each record has a state (one byte), a
length, a SHA-256 and the bytes. To finish a record, its state is overwritten, which needs no room. While a process has
a file open, a lock keeps other processes away from it; the lock ends with the process.
"""

import contextlib
import fcntl
import hashlib
import logging
import os
import secrets
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

NAME: Final = "coatcheck.waiting."
_DRAFT: Final = "coatcheck.waiting-draft."
_ASIDE: Final = "coatcheck.unreadable."
_MAGIC: Final = b"coatcheck waiting payloads 1\n"
_HEAD: Final = struct.Struct(">cI32s")
_WAITS: Final = b"w"
_STORED: Final = b"s"


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # another process has finished all records and removed it
        return 0


class WaitingFileFolder:
    """Implements WaitingFiles with the files of one directory."""

    def __init__(self, folder: Path) -> None:
        """Opens no file yet. A directory that does not exist is not created: it has no files, and none are saved."""
        self._folder = folder
        self._path: Path | None = None
        self._fd = -1
        self._damaged = False

    def save(self, records: Sequence[bytes], limit: int) -> int:
        """See WaitingFiles."""
        room = limit - sum(map(_size_of, self._folder.glob(f"{NAME}*"))) - len(_MAGIC)
        count = 0
        # If there is no room for all records, the newest are saved, as the fallback buffer does in memory.
        for record in reversed(records):
            room -= _HEAD.size + len(record)
            if room < 0:
                break
            count += 1
        if not (count and self._folder.is_dir()):
            return 0
        draft = self._folder / f"{_DRAFT}{secrets.token_hex(8)}"
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # shows other processes that the draft has a writer
                file.write(_MAGIC)
                for record in records[-count:]:
                    file.write(_HEAD.pack(_WAITS, len(record), hashlib.sha256(record).digest()) + record)
                file.flush()
                os.fsync(file.fileno())
                # Only a complete, synced file gets the name for which a starting process searches.
                draft.rename(draft.with_name(draft.name.replace(_DRAFT, NAME)))
            self._sync_folder()
        except OSError as error:
            log.warning("the payloads that wait for storage cannot be written to %s: %s", self._folder, error.strerror)
            with contextlib.suppress(OSError):
                draft.unlink()
            return 0
        return count

    def open_next(self) -> list[int]:
        """See WaitingFiles."""
        # If the writer of a draft has ended, the draft is incomplete. No caller was told that its records are saved.
        for draft in self._folder.glob(f"{_DRAFT}*"):
            with contextlib.suppress(OSError), draft.open("rb") as file:
                if _try_lock(file.fileno()):
                    draft.unlink()
        for path in self._files():
            try:
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                if not _try_lock(fd):
                    os.close(fd)
                    continue
                self._path, self._fd, self._damaged = path, fd, False
                positions = self._scan()
            except OSError as error:
                if not isinstance(error, FileNotFoundError):  # another process has finished all records and removed it
                    log.warning("%s, where payloads wait for storage, cannot be read: %s", path, error.strerror)
                self.close(is_complete=False)
                continue
            if positions:
                return positions
            self.close(is_complete=True)
        return []

    def read(self, position: int) -> bytes:
        """See WaitingFiles."""
        _, size, _ = _HEAD.unpack(os.pread(self._fd, _HEAD.size, position))
        return os.pread(self._fd, size, position + _HEAD.size)

    def finish(self, position: int, *, durably: bool) -> None:
        """See WaitingFiles."""
        os.pwrite(self._fd, _STORED, position)
        if durably:
            os.fdatasync(self._fd)

    def set_aside(self) -> None:
        """See WaitingFiles."""
        self._damaged = True

    def close(self, *, is_complete: bool) -> None:
        """See WaitingFiles."""
        path, self._path = self._path, None
        if path is None:
            return
        try:
            if is_complete and self._damaged:
                aside = path.with_name(path.name.replace(NAME, _ASIDE))
                path.rename(aside)
                log.error("payloads that waited for storage cannot be read; their file is set aside: %s", aside)
            elif is_complete:
                path.unlink()
            self._sync_folder()
        except OSError as error:  # the next process finds the file, in which every record is finished
            log.warning("%s cannot be removed: %s", path, error.strerror)
        finally:
            os.close(self._fd)

    def _files(self) -> list[Path]:
        """Returns the files in the order in which they were written."""
        entries: list[tuple[int, Path]] = []
        for path in self._folder.glob(f"{NAME}*"):
            with contextlib.suppress(FileNotFoundError):
                entries.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(entries)]

    def _scan(self) -> list[int]:
        """Returns the positions of the records in the open file that wait for storage, up to the first damaged record.

        Sets `_damaged` if a record, or the file's first line, is damaged.
        """
        end = os.fstat(self._fd).st_size
        position = len(_MAGIC)
        positions: list[int] = []
        self._damaged = os.pread(self._fd, position, 0) != _MAGIC
        while position < end and not self._damaged:
            head = os.pread(self._fd, _HEAD.size, position)
            if len(head) < _HEAD.size:
                self._damaged = True
                break
            state, size, digest = _HEAD.unpack(head)
            record = os.pread(self._fd, size, position + _HEAD.size)
            if hashlib.sha256(record).digest() != digest:
                self._damaged = True
            elif state == _WAITS:
                positions.append(position)
            position += _HEAD.size + size
        return positions

    def _sync_folder(self) -> None:
        fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _try_lock(fd: int) -> bool:
    """Tries to lock a file; returns whether this process has the lock now, and the file was not removed meanwhile."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return os.fstat(fd).st_nlink > 0
