"""Writes one local file, and makes its bytes and its name durable. Also examines who can enter a data directory.

A single failed flush ends the writer, because the flush may have lost bytes. The kernel reports an error of writing to
the disk only once, so a later sync that succeeds does not prove that all bytes are stored.
"""

import asyncio
import contextlib
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from coatcheck.adapters.blobs.filesystem import FileSystem, storage_errors
from coatcheck.core.findings import EngineReport, Finding

_HOP_BYTES = 256 * 1024
"""Bytes that are gathered before a thread writes them. Each hand-over to a thread costs as much as writing 100 KiB."""
_FLUSH_BYTES = 4 * 1024 * 1024
"""Bytes that are written between two flushes to the disk, so that the last sync of a large blob has little to do."""


class FileWriter:
    """Writes one blob to an open file; implements BlobWriter. Only one task may use it, and must end it once.

    Either `finish` or `abort` ends it.
    """

    def __init__(self, files: FileSystem, pool: ThreadPoolExecutor, path: str, fd: int) -> None:
        self._files = files
        self._pool = pool
        self._path = path
        self._fd: int | None = fd
        self._gathered = bytearray()
        self._unflushed = 0
        self._working: set[asyncio.Future[None]] = set()
        self._flushing: asyncio.Future[None] | None = None
        self._failed = False

    async def write(self, data: bytes) -> None:
        """Appends bytes. Raises `storage_full` or `storage_unavailable`; after an error, only `abort` may be called."""
        self._gathered += data
        if len(self._gathered) >= _HOP_BYTES:
            await self._append()

    async def finish(self) -> None:
        """Returns once every byte, and the name of the file, is durable."""
        if self._gathered:
            await self._append()
        if self._flushing is not None:
            await self._wait_for(self._flushing)
        await self._wait_for(self._start(self._seal))

    async def abort(self) -> None:
        """Removes the file."""
        self._failed = True
        # A cancelled write may still be running in its thread. If the file were closed now, the thread could write its
        # bytes to another file that gets the same descriptor.
        while self._working:
            await asyncio.wait(self._working)
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._pool, self._discard))

    async def _append(self) -> None:
        if self._flushing is not None and self._flushing.done():
            await self._wait_for(self._flushing)
        data, self._gathered = self._gathered, bytearray()
        await self._wait_for(self._start(lambda: self._files.write_all(self._descriptor(), data)))
        self._unflushed += len(data)
        if self._unflushed >= _FLUSH_BYTES:
            if self._flushing is not None:
                await self._wait_for(self._flushing)
            self._unflushed = 0
            self._flushing = self._start(self._flush)

    def _start(self, call: Callable[[], None]) -> "asyncio.Future[None]":
        if self._failed or self._fd is None:
            raise ValueError("this writer has ended")
        work = asyncio.get_running_loop().run_in_executor(self._pool, call)
        self._working.add(work)
        work.add_done_callback(self._finish_work)
        return work

    def _finish_work(self, work: "asyncio.Future[None]") -> None:
        self._working.discard(work)
        if work.cancelled() or work.exception() is not None:
            self._failed = True

    async def _wait_for(self, work: "asyncio.Future[None]") -> None:
        with storage_errors():
            await asyncio.shield(work)

    def _descriptor(self) -> int:
        if self._fd is None:
            raise ValueError("this writer has ended")
        return self._fd

    def _flush(self) -> None:
        self._files.flush(self._descriptor())

    def _seal(self) -> None:
        self._files.sync(self._descriptor())
        fd, self._fd = self._descriptor(), None
        self._files.close(fd)
        self._files.sync_directory(self._path.rpartition("/")[0])

    def _discard(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with contextlib.suppress(OSError):
                self._files.close(fd)
        with storage_errors(), contextlib.suppress(FileNotFoundError):
            self._files.unlink(self._path)


class ExposureExamination:
    """Examines whether other users of the machine can enter a data directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def __call__(self, *, deep: bool, repair: datetime | None) -> EngineReport:  # noqa: ARG002 - no deeper check
        """Examines the directory; with `repair`, removes the permissions of other users."""
        return await asyncio.to_thread(self._examine, repair is not None)

    def _examine(self, repair: bool) -> EngineReport:
        mode = stat.S_IMODE(self._root.stat().st_mode)
        if not mode & stat.S_IRWXO:
            return EngineReport()
        detail = f"Everyone on this machine can enter {self._root} (mode {mode:o})."
        if repair:
            self._root.chmod(mode & ~stat.S_IRWXO)
            detail += f" It is {mode & ~stat.S_IRWXO:o} now."
        else:
            detail += f" Close it with: chmod o= {self._root}"
        return EngineReport(findings=(Finding("exposed", "", "", detail, repaired=repair),))
