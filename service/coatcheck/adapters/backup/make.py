"""A copy of a store, complete in itself, made while the store serves. It changes nothing in the store.

The story of its races. First pass: the files of the blobs that live now are taken, which may last. Then a moment of the
catalogue is held, and the files that came since are taken too, which lasts as long as they are few; only then is that
moment's database copied, with nothing left to race. What can go wrong is a blob that came after the first pass, lives
in the held moment, and was deleted *and swept* before its file was taken. With the usual grace of ten minutes that
cannot be; with a grace of seconds it shows as a missing file, and a later moment is held instead. Dead is final and is
written before a file goes, so that a file that was missed once, of a blob that lives in a later moment, is not swept
but lost: then there is no backup, and the error names the blob. The last attempt keeps writers waiting, so that there
is an end whatever the load.
"""

import contextlib
import secrets
import shutil
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Self

from msgspec import Struct

from coatcheck.adapters.backup.disk import Disk, explained, file_sha256
from coatcheck.adapters.backup.manifest import DATABASE, FORMAT, DatabaseFile, Manifest, write_manifest
from coatcheck.adapters.sql.sqlite.snapshot import FileBlob, Snapshot, live_file_blobs, writers_waiting
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.progress import Progress, untold

_ATTEMPTS = 5
_BATCH = 512
_THREADS = 8
"""Copies at once: most of their time goes into waiting for the disk's sync."""
_NAMED = 5
"""Lost blobs that an error names."""


class StagedBackup(Struct, frozen=True):
    """A backup that is whole and synced, under a name that says that it is not finished."""

    path: Path
    manifest: Manifest
    linked: int
    """Files that share their bytes on the disk with the store's."""
    attempts: int
    """Moments that had to be held."""


@contextlib.contextmanager
def backup_to(
    root: Path,
    target: Path,
    *,
    links: bool,
    release: str,
    now: Callable[[], datetime],
    disk: Disk | None = None,
    progress: Progress = untold,
) -> Generator[StagedBackup]:
    """Copy a store; what the block looks at gets its name when the block ends well, and is removed when it does not.

    Args:
        root: the data directory.
        target: a directory that is empty or does not exist, in one that does.
        links: link files where the file system allows, instead of copying them.
        release: what made it.
        now: tells the moment.
        disk: makes the links and copies.
        progress: is told of the files that were taken, and their bytes.

    Raises:
        CoatcheckError: `invalid_request` for a target that cannot be one, `integrity` when the store has lost bytes or
            its database is damaged, `storage_unavailable` and `storage_full` as always.
    """
    _refuse(root, target)
    stage = target.parent / f".{target.name}.partial-{secrets.token_hex(4)}"
    disk = disk or Disk()
    with explained(target):
        try:  # what asks to stop may come as soon as the directory is there, even before this is told
            disk.make_directory(stage)
            yield _copied(
                root,
                stage,
                _Files(root / "blobs", stage / "blobs", disk, links=links, progress=progress),
                disk,
                release=release,
                now=now,
            )
            stage.rename(target)
            disk.sync(target.parent)
        except BaseException:
            shutil.rmtree(stage, ignore_errors=True)
            raise


def _refuse(root: Path, target: Path) -> None:
    if not target.name or not target.parent.is_dir():
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"{target.parent} is not a directory. Create it first, or mount the disk that belongs there.",
        )
    if target.resolve().is_relative_to((root / "blobs").resolve()):
        raise CoatcheckError(
            Code.INVALID_REQUEST, f"{target} is inside the store's own directory. Choose another location."
        )
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise CoatcheckError(
            Code.INVALID_REQUEST, f"{target} already exists. A backup never overwrites anything: name a new directory."
        )


def _copied(
    root: Path, stage: Path, taking: "_Files", disk: Disk, *, release: str, now: Callable[[], datetime]
) -> StagedBackup:
    with taking as files:
        files.take(live_file_blobs(root / DATABASE))
        with _moment(root / DATABASE, files, now) as (snapshot, moment, attempts):
            database = stage / DATABASE
            snapshot.copy(database)
            database.chmod(0o600)
            counts, revision = snapshot.counts(), snapshot.revision()
        files.drop_others()
    disk.sync(database)
    manifest = Manifest(
        format=FORMAT,
        release=release,
        schema=revision or "",
        created_at=moment,
        database=DatabaseFile(size=database.stat().st_size, sha256=file_sha256(database)),
        artifacts=counts.artifacts,
        blobs=counts.blobs,
        files=len(files.wanted) - len(files.lost),
        file_bytes=files.wanted_bytes,
        lost=tuple(sorted(files.lost)),
    )
    disk.sync(write_manifest(stage, manifest))
    disk.sync_tree(stage)
    return StagedBackup(stage, manifest, files.linked, attempts)


@contextlib.contextmanager
def _moment(database: Path, files: "_Files", now: Callable[[], datetime]) -> Generator[tuple[Snapshot, datetime, int]]:
    """Hold a moment of which every file has been taken."""
    for attempt in range(1, _ATTEMPTS + 1):
        last = attempt == _ATTEMPTS
        moment = now()  # before the moment itself: what was acknowledged before this is in it
        with contextlib.ExitStack() as held:
            with writers_waiting(database) if last else contextlib.nullcontext():
                snapshot = held.enter_context(Snapshot(database))
                whole = files.complete(snapshot.file_blobs(), last=last)
            if whole:
                yield snapshot, moment, attempt
                return


class _Files:
    """The files that have been taken. A context manager: leaving it ends its threads."""

    def __init__(self, source: Path, target: Path, disk: Disk, *, links: bool, progress: Progress) -> None:
        self._source = source
        self._target = target
        self._disk = disk
        self._links = links
        self._progress = progress
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="backup")
        self._taken: set[bytes] = set()
        self._shards: set[str] = set()
        self._missed: set[str] = set()
        self.wanted: set[bytes] = set()
        """The names of the moment that was last completed, as 16 bytes each: a million take 80 MB."""
        self.wanted_bytes = 0
        self.lost: set[str] = set()
        self.linked = 0
        disk.make_directory(target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def take(self, blobs: Iterable[FileBlob]) -> set[str]:
        """Take the files of these blobs; answers the names of those that are not there, condemned ones left out.

        Raises:
            CoatcheckError: `integrity` when one has another size than its row says.
        """
        walk = iter(blobs)
        missing: set[str] = set()
        cut: list[str] = []
        while batch := list(islice(walk, _BATCH)):
            for blob in batch:
                self._make_shard(blob.id[-2:])
            for blob, size in zip(batch, self._pool.map(self._one, batch), strict=True):
                if size == blob.stored_size:
                    self._taken.add(bytes.fromhex(blob.id))
                elif not blob.condemned and size is None:
                    missing.add(blob.id)
                elif not blob.condemned:
                    cut.append(blob.id)
            self._progress(len(batch), sum([blob.stored_size for blob in batch]))
        if cut:
            raise _lost(cut, "do not have the recorded size")
        self._missed |= missing
        return missing

    def complete(self, blobs: Iterable[FileBlob], *, last: bool) -> bool:
        """Take what is not taken yet of one moment's blobs; answers whether that moment is whole.

        Raises:
            CoatcheckError: `integrity` when bytes are lost that the moment promises.
        """
        self.wanted.clear()
        self.lost.clear()
        self.wanted_bytes = 0
        before = set(self._missed)
        fresh: list[FileBlob] = []
        for blob in blobs:
            name = bytes.fromhex(blob.id)
            self.wanted.add(name)
            self.wanted_bytes += blob.stored_size
            if name not in self._taken:
                fresh.append(blob)
        missing = self.take(fresh)
        if surely := missing if last else missing & before:
            raise _lost(sorted(surely), "are missing")
        for blob in fresh:
            if blob.condemned and bytes.fromhex(blob.id) not in self._taken:
                self.lost.add(blob.id)
                self.wanted_bytes -= blob.stored_size
        return not missing

    def drop_others(self) -> None:
        """Remove what was taken and died before the moment."""
        for name in self._taken - self.wanted:
            self._path(self._target, name.hex()).unlink()

    def _one(self, blob: FileBlob) -> int | None:
        """Take one file; answers its size, or None when it is not there."""
        source, target = self._path(self._source, blob.id), self._path(self._target, blob.id)
        try:
            if self._links and self._disk.link(source, target):
                self.linked += 1  # threads may lose a count of it: it is only told
            else:
                self._disk.copy(source, target)
        except FileNotFoundError:
            return None
        size = target.stat().st_size
        if size != blob.stored_size:
            target.unlink()
        return size

    def _make_shard(self, shard: str) -> None:
        if shard not in self._shards:
            self._disk.make_directory(self._target / shard)
            self._shards.add(shard)

    @staticmethod
    def _path(top: Path, name: str) -> Path:
        return top / name[-2:] / name


def _lost(names: list[str], how: str) -> CoatcheckError:
    few = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
    return CoatcheckError(
        Code.INTEGRITY,
        f"No backup was made: the stored bytes of {len(names):,} live blobs {how} ({few}). Stop the service, run "
        "`coatcheck check --apply` to mark them as lost, and back up what there is; keep the last good backup.",
    )
