"""Reads and writes the manifest of a backup, and copies files so that they survive a power loss.

The manifest is written last, so a directory without a manifest is not a complete backup. The file of a blob is written
once and never changed. Therefore a hard link can replace a copy of it: the link costs nothing, but the bytes are still
on the disk only once. The file of the database changes, and is never linked.
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
"""Name of the catalogue's file, in a backup and in a data directory."""
FORMAT = 1
"""Version of the backup's format: of the manifest, and of the files `coatcheck.db` and `blobs/<2 hex>/<id>`."""


class DatabaseFile(Struct, frozen=True, kw_only=True):
    """The copied database file of the catalogue."""

    size: int
    sha256: str
    """Digest of the file, in hexadecimal."""


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Describes a backup. It has no digests of the blobs' files, because the rows in the database have them."""

    format: int
    release: str
    schema: str
    created_at: datetime
    """The time of the state that the backup contains, accurate to the few seconds that the last snapshot took."""
    database: DatabaseFile
    artifacts: int
    blobs: int
    files: int
    file_bytes: int
    lost: tuple[str, ...]
    """IDs of the blobs that were known to be corrupt, and whose files the backup lacks."""


def write_manifest(folder: Path, manifest: Manifest) -> Path:
    """Writes the manifest into a directory, and returns its path. The caller must sync the file and the directory."""
    path = folder / MANIFEST
    path.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    return path


def read_manifest(folder: Path) -> Manifest:
    """Returns a directory's manifest.

    Raises:
        CoatcheckError: `invalid_request` if the manifest cannot be read, `integrity` if it is damaged,
            `schema_outdated` if it has the format of a newer release.
    """
    try:
        raw = (folder / MANIFEST).read_bytes()
    except OSError as error:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"{folder} is not a complete backup: its {MANIFEST} cannot be read ({error.strerror}). Name a directory "
            "that a finished `coatcheck backup` wrote.",
        ) from error
    try:
        form = msgspec.json.decode(raw, type=dict[str, object]).get("format")
        if isinstance(form, int) and form > FORMAT:
            raise CoatcheckError(
                Code.SCHEMA_OUTDATED,
                f"{folder} was made by a newer release (format {form}). Restore it with that release.",
            )
        return msgspec.json.decode(raw, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CoatcheckError(
            Code.INTEGRITY, f"The {MANIFEST} of {folder} is damaged: {error}. Use another backup."
        ) from error


_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_COPIES_AT_ONCE = 512
"""Files that are passed to the threads at once, so that a store with millions of files needs little memory. Chosen, not
measured."""
_THREADS = 8
"""Files that are copied concurrently. Copies mostly wait until the disk has synced."""
_BLOCK_BYTES = 1024 * 1024
"""Bytes of a file that are hashed at once. Chosen, not measured."""


class Disk:
    """Copies files durably. All methods block, and may raise OSError."""

    def __init__(self) -> None:
        self._files = FileSystem()

    def make_directory(self, path: Path) -> None:
        """Creates a private directory; its parent must exist."""
        path.mkdir(mode=0o700)

    def sync(self, path: Path) -> None:
        """Makes the bytes of a file, or the names in a directory, survive a power loss."""
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
        """Gives a file a second name, a hard link.

        Returns False if this link is not possible: another file system, no permission, or too many links.
        """
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno in _NO_LINKS:
                return False
            raise
        return True

    def copy(self, source: Path, target: Path) -> str:
        """Copies and syncs a file; returns the SHA-256 of the copied bytes, in hexadecimal."""
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
    """Copies the files of blobs into a directory; yields each blob with the result of its copy.

    Several threads call `copy` with one blob each, after the blob's subdirectory was created.
    """
    walk = iter(blobs)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="backup") as pool:
        while batch := list(islice(walk, _COPIES_AT_ONCE)):
            # This thread creates the subdirectories, so that no two threads create the same one.
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
    """Turns an error of the operating system into a CoatcheckError that names the location `where`."""
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
