"""Stores blobs as local files `<root>/blobs/<2 hex>/<id>`, written once, and synced before they are reported as stored.

The name of a directory is the last two digits of the blob ID. The first digits would not spread the files, because they
are a time: all blobs of a day would be in one directory. Blocking calls run in the given thread pool. Only the
catalogue knows which files are in use and which are garbage.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from coatcheck.adapters.blobs.filesystem import FileEntry, FileSystem, missing, storage_errors, too_short
from coatcheck.adapters.blobs.writer import FileWriter
from coatcheck.core.artifact import Placement
from coatcheck.core.encoding.frames import is_blob_id
from coatcheck.ports.blobs import BlobStore, StoredName

T = TypeVar("T")

MARK = "coatcheck.store"
"""Name of the file in the data directory that says to which database the blobs belong."""
_PROBE = "ready-probe"
"""Beginning of the names of files that are written only to prove that the disk accepts writes."""
_ROOM_BYTES = 128 * 1024
"""Bytes of the file that proves that a full disk has room again: as many as a small payload takes."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FileBlobStore:
    """Stores blobs on a local file system; implements BlobStore. The names of files do not contain the namespaces."""

    def __init__(
        self,
        root: Path,
        pool: ThreadPoolExecutor,
        files: FileSystem | None = None,
        *,
        make: bool = True,
        readers: ThreadPoolExecutor | None = None,
    ) -> None:
        """Creates `<root>/blobs` and makes its name durable. Blocks briefly; raises CoatcheckError if that fails.

        Without `make`, the directory is used as it is, to examine a store that must not be changed. `readers` is a
        separate thread pool for reads, so that they never wait behind writes; None: reads use `pool` too.
        """
        self.where = str(root)
        self._top = str(root / "blobs")
        self._mark = str(root / MARK)
        self._pool = pool
        self._readers = readers or pool
        self._files = files or FileSystem()
        # The directories whose own names are known to be durable. If a directory merely exists, another writer may have
        # created it without having synced its parent yet.
        self._shards: set[str] = set()
        if not make:
            return
        with storage_errors():
            self._files.make_directory(self._top)
            self._files.sync_directory(str(root))
            self._files.sync_directory(str(root.absolute().parent))

    @property
    def placement(self) -> Placement:
        """The placement of blobs in this store: `file`."""
        return "file"

    @property
    def others(self) -> tuple[BlobStore, ...]:
        """Other stores that still have blobs: none."""
        return ()

    async def check_reads(self) -> None:
        """Returns if the directory of the blobs exists. Raises CoatcheckError otherwise."""
        with storage_errors():
            await self._in_thread(lambda: self._files.size(self._top), self._readers)

    async def check_writes(self, *, room: bool = False) -> None:
        """Returns if a file of one byte could be written, synced and removed again; with `room`, a file of 128 KiB.

        Raises CoatcheckError otherwise.
        """
        with storage_errors():
            await self._in_thread(lambda: self._try_write(_ROOM_BYTES if room else 1))

    async def create(self, namespace: str, blob_id: str) -> FileWriter:  # noqa: ARG002 - names carry no namespace
        """Begins a blob. Raises FileExistsError if the name is taken, which is a bug of the caller."""
        path = self._path(blob_id)
        opening = asyncio.get_running_loop().run_in_executor(self._pool, self._open, path)
        try:
            fd = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(lambda future: self._discard(path, future))
            raise
        return FileWriter(self._files, self._pool, path, fd)

    async def read(
        self,
        namespace: str,  # noqa: ARG002 - as above
        blob_id: str,
        start: int,
        length: int,
        *,
        fresh: bool = False,
    ) -> bytes:
        """Returns exactly `length` stored bytes from `start`.

        With `fresh`, the operating system first drops its cached copy of the file.

        Raises:
            CoatcheckError: `integrity` if the blob does not exist or does not have all of these bytes.
        """
        path = self._path(blob_id)
        read_file = self._files.read_again if fresh else self._files.read
        with storage_errors():
            try:
                data = await self._in_thread(lambda: read_file(path, start, length), self._readers)
            except FileNotFoundError as error:
                raise missing(blob_id) from error
        if len(data) != length:
            raise too_short(blob_id, start + length, start + len(data))
        return data

    async def size(self, namespace: str, blob_id: str) -> int | None:  # noqa: ARG002 - as above
        """Returns the number of stored bytes of a blob; None if there is none."""
        path = self._path(blob_id)
        with storage_errors(), contextlib.suppress(FileNotFoundError):
            return await self._in_thread(lambda: self._files.size(path), self._readers)
        return None

    async def remove(self, namespace: str, blob_id: str) -> bool:  # noqa: ARG002 - as above
        """Removes a blob durably. Returns False if it did not exist."""
        path = self._path(blob_id)
        with storage_errors():
            return await self._in_thread(lambda: self._unlink(path))

    async def names(self) -> AsyncIterator[StoredName]:
        """Yields every file that has a blob's name, directory by directory, including unfinished ones."""
        # A directory may be missing: `blobs` before the first blob is stored, others if somebody has removed them.
        with storage_errors():
            shards: list[str] = []
            with contextlib.suppress(FileNotFoundError):
                shards = await self._in_thread(lambda: self._files.directories(self._top))
            for shard in shards:
                with contextlib.suppress(FileNotFoundError):
                    for entry in await self._in_thread(lambda path=f"{self._top}/{shard}": self._files.files(path)):
                        if is_blob_id(entry.name) and entry.name[-2:] == shard:
                            yield _name_of(entry)

    async def mark(self) -> str | None:
        """Returns the text of the data directory's mark; None if it has no mark."""
        with storage_errors(), contextlib.suppress(FileNotFoundError):
            return await self._in_thread(lambda: self._files.read(self._mark, 0, 256).decode(errors="replace"))
        return None

    async def put_mark(self, text: str) -> str:
        """Writes the mark durably, unless the data directory has one; returns the text of its mark."""
        with storage_errors():
            await self._in_thread(lambda: self._write_mark(text.encode()))
        return await self.mark() or ""

    def _write_mark(self, text: bytes) -> None:
        # The file is complete before it gets the name of the mark, since other processes may be starting on the same
        # directory.
        with self._draft(self._mark, text) as draft, contextlib.suppress(FileExistsError):
            self._files.name_new(draft, self._mark)
        self._files.sync_directory(self._mark.rpartition("/")[0])

    def _try_write(self, size: int) -> None:
        with self._draft(f"{self._top}/{_PROBE}", bytes(size)):
            pass

    @contextlib.contextmanager
    def _draft(self, name: str, data: bytes) -> Generator[str]:
        """Writes and syncs a file, yields its path, and removes it unless it was renamed."""
        draft = f"{name}.{secrets.token_hex(8)}"
        fd = self._files.create(draft)
        try:
            try:
                self._files.write_all(fd, data)
                self._files.sync(fd)
            finally:
                self._files.close(fd)
            yield draft
        finally:
            with contextlib.suppress(FileNotFoundError):
                self._files.unlink(draft)

    def _path(self, blob_id: str) -> str:
        if not is_blob_id(blob_id):
            raise ValueError("not a blob's name")
        return f"{self._top}/{blob_id[-2:]}/{blob_id}"

    async def _in_thread(self, call: Callable[[], T], pool: ThreadPoolExecutor | None = None) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool or self._pool, call)

    def _open(self, path: str) -> int:
        shard = path.rpartition("/")[0]
        with storage_errors(FileExistsError):
            if shard in self._shards:
                with contextlib.suppress(FileNotFoundError):
                    return self._files.create(path)
                # Somebody has removed the directory. It is made again only if `blobs` still exists: a volume that is
                # not mounted any more must not be replaced by a directory.
                self._files.size(self._top)
                self._shards.discard(shard)
            self._files.make_directory(shard)
            self._files.sync_directory(self._top)
            self._shards.add(shard)
            return self._files.create(path)

    def _discard(self, path: str, opening: "asyncio.Future[int]") -> None:
        if opening.cancelled() or opening.exception() is not None:
            return

        def close_and_remove() -> None:
            self._files.close(opening.result())
            self._files.unlink(path)

        self._pool.submit(close_and_remove)

    def _unlink(self, path: str) -> bool:
        try:
            self._files.unlink(path)
        except FileNotFoundError:
            return False
        self._files.sync_directory(path.rpartition("/")[0])
        return True


def _name_of(entry: FileEntry) -> StoredName:
    modified_at = _EPOCH + timedelta(microseconds=entry.modified_ns // 1000)
    return StoredName(namespace="", id=entry.name, size=entry.size, modified_at=modified_at)
