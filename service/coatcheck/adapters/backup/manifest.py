"""A backup's manifest, and the copying of files so that they survive a power loss.

The manifest is written last: a directory without one is not a backup. A blob's file is written once and never changed,
so a hard link to it is a copy that costs nothing, though not a second copy on the disk. The database's file changes and
is never linked.
"""

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from coatcheck.adapters.blobs.filesystem import FileSystem
from coatcheck.adapters.sql.sqlite.snapshot import FileBlob
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.progress import Progress

T = TypeVar("T")
MANIFEST = "manifest.json"
DATABASE = "coatcheck.db"
"""The catalogue's file, in a backup as in a data directory."""
FORMAT = 1
"""Version of the manifest and the layout beside it: `coatcheck.db` and `blobs/<2 hex>/<id>`."""


class DatabaseFile(Struct, frozen=True, kw_only=True):
    """The copied catalogue."""

    size: int
    sha256: str
    """Digest of the file, in hexadecimal."""


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was copied, when, and by which release. The blobs' files are verified by the rows in the database."""

    format: int
    release: str
    schema: str
    created_at: datetime
    """The moment that the backup shows, within the seconds of its last pass."""
    database: DatabaseFile
    artifacts: int
    blobs: int
    files: int
    file_bytes: int
    lost: tuple[str, ...]
    """Blobs that were known to be corrupt, and whose bytes are missing here."""


def write_manifest(folder: Path, manifest: Manifest) -> Path:
    """Writes the manifest; the caller syncs it."""
    path = folder / MANIFEST
    path.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    return path


def read_manifest(folder: Path) -> Manifest:
    """Returns a directory's manifest.

    Raises:
        CoatcheckError: `invalid_request` if it is not a backup, `integrity` if its manifest is damaged.
    """
    try:
        raw = (folder / MANIFEST).read_bytes()
    except OSError as error:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"{folder} is not a complete backup: it has no {MANIFEST} ({error.strerror}). Name a directory that a "
            "finished `coatcheck backup` wrote.",
        ) from error
    try:
        form = msgspec.json.decode(raw, type=dict[str, object]).get("format")
        if isinstance(form, int) and form > FORMAT:
            raise CoatcheckError(
                Code.SCHEMA_OUTDATED,
                f"{folder} was made by a newer release (format {form}). Restore it with that release.",
            )
        return msgspec.json.decode(raw, type=Manifest)
    except msgspec.MsgspecError as error:
        raise CoatcheckError(
            Code.INTEGRITY, f"The {MANIFEST} of {folder} is damaged: {error}. Use another backup."
        ) from error


_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_COPIES_AT_ONCE = 512
"""Files that wait for a thread at once, so that a store of millions needs little memory. Chosen, not measured."""
_THREADS = 8
"""Concurrent copies: they mostly wait for the disk's sync."""
_BLOCK_BYTES = 1024 * 1024
"""Bytes of a file that are hashed at once. Chosen, not measured."""


class Disk:
    """Durable copying. Blocks; raises OSError."""

    def __init__(self) -> None:
        self._files = FileSystem()

    def make_directory(self, path: Path) -> None:
        """Creates a private directory; its parent must exist."""
        path.mkdir(mode=0o700)

    def sync(self, path: Path) -> None:
        """Makes a file's bytes, or a directory's names, survive a power loss."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._files.sync(fd)
        finally:
            os.close(fd)

    def sync_tree(self, folder: Path) -> None:
        """Syncs the names in a directory and in all directories below it."""
        for below in folder.iterdir():
            if below.is_dir() and not below.is_symlink():
                self.sync_tree(below)
        self.sync(folder)

    def link(self, source: Path, target: Path) -> bool:
        """Gives a file a second name. Returns False if the file system or its rules do not allow that."""
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno in _NO_LINKS:
                return False
            raise
        return True

    def copy(self, source: Path, target: Path) -> str:
        """Copies and syncs a file; returns the SHA-256 of what was written, in hexadecimal."""
        h = hashlib.sha256()
        with source.open("rb", buffering=0) as file:
            fd = self._files.create(str(target))
            try:
                while block := file.read(_BLOCK_BYTES):
                    h.update(block)
                    self._files.write_all(fd, block)
                self._files.sync(fd)
            finally:
                self._files.close(fd)
        return h.hexdigest()


def copy_blobs(
    blobs: Iterable[FileBlob], folder: Path, copy: Callable[[FileBlob], T], progress: Progress
) -> Iterator[tuple[FileBlob, T]]:
    """Copies blobs' files into a directory by `copy`, which threads call; yields each blob and what it returned."""
    walk = iter(blobs)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="backup") as pool:
        while batch := list(islice(walk, _COPIES_AT_ONCE)):
            # Directories are made by this thread, files by the others: a directory must not be made twice.
            for shard in {blob.id[-2:] for blob in batch}:
                (folder / shard).mkdir(mode=0o700, exist_ok=True)
            yield from zip(batch, pool.map(copy, batch), strict=True)
            progress(len(batch), sum([blob.stored_size for blob in batch]))


def file_sha256(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def explain_os_errors(where: Path) -> Generator[None]:
    """Turns a system error into a CoatcheckError that names the location."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise CoatcheckError(
                Code.STORAGE_FULL, f"The disk that holds {where} is full. Free space there, or choose another location."
            ) from error
        at = f" ({error.filename})" if error.filename is not None else ""
        raise CoatcheckError(
            Code.STORAGE_UNAVAILABLE, f"{where} cannot be used: {error.strerror or error}{at}."
        ) from error
