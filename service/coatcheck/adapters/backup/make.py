"""Makes a complete copy of a store while the service uses it. The store is not changed.

The copy is made in three steps. The first pass, which may take long, copies the files of all blobs that are live now.
Then a snapshot of the catalogue is taken and held, and the files of blobs that have arrived since are copied, which is
quick. Finally the database is copied as of the snapshot.

One race remains: a blob may arrive after the first pass, be live in the snapshot, and be deleted and swept before its
file is copied. With the usual grace period of ten minutes, this cannot happen. With a grace period of seconds, the file
is missing, and a later snapshot is taken. A blob is marked dead before its file is removed, and never becomes live
again. Therefore, if a file was missing once and its blob is live in a later snapshot, the file was not swept but lost.
Then no backup is made, and the error names the blob. The last attempt blocks writers, so that the backup ends whatever
the load is.
"""

import contextlib
import secrets
import shutil
from collections.abc import Callable, Generator, Iterable
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from coatcheck.adapters.backup.manifest import (
    DATABASE,
    FORMAT,
    DatabaseFile,
    Disk,
    Manifest,
    copy_blobs,
    explain_os_errors,
    file_sha256,
    write_manifest,
)
from coatcheck.adapters.sql.sqlite.snapshot import FileBlob, Snapshot, live_file_blobs, writers_waiting
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.progress import Progress, untold

_MAX_ATTEMPTS = 5
"""Maximum snapshots of one backup. Another snapshot is needed if a deletion has removed a file of the previous one.
Chosen, not measured."""
_MAX_NAMED_BLOBS = 5
"""Maximum lost blobs that an error names."""


class StagedBackup(Struct, frozen=True):
    """A complete, synced backup under a name that marks it as unfinished."""

    path: Path
    manifest: Manifest
    linked: int
    """Number of files that are hard links to the store's files, and so take no further space."""
    attempts: int
    """Number of snapshots that had to be taken."""


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
    """Copies a store and yields the copy, which gets its final name if the `with` block succeeds, or else is removed.

    Args:
        root: the data directory.
        target: a directory that is empty or does not exist; its parent must exist.
        links: whether to link files instead of copying them, where the file system allows it.
        release: the release of the service that makes the backup.
        now: returns the current time.
        disk: makes the links and copies; None: the real disk.
        progress: is called with the number of files copied so far, and their bytes.

    Raises:
        CoatcheckError: `invalid_request` for an unsuitable target, `integrity` if the store has lost bytes or its
            database is damaged, `storage_unavailable` or `storage_full` if the disk fails or is full.
    """
    _refuse(root, target)
    stage = target.parent / f".{target.name}.partial-{secrets.token_hex(4)}"
    disk = disk or Disk()
    with explain_os_errors(target):
        try:  # includes `make_directory`: an interruption may come before it returns, but after it made the directory
            disk.make_directory(stage)
            yield _copy_store(
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


def _copy_store(
    root: Path, stage: Path, files: "_Files", disk: Disk, *, release: str, now: Callable[[], datetime]
) -> StagedBackup:
    # Most files are copied before the snapshot is taken, because the write-ahead log cannot shrink during a snapshot.
    files.take(live_file_blobs(root / DATABASE))
    with _capture(root / DATABASE, files, now) as (snapshot, moment, attempts):
        database = stage / DATABASE
        snapshot.copy(database)
        database.chmod(0o600)
        counts, revision = snapshot.counts(), snapshot.revision()
    # The copied database has no live rows for blobs that died before the snapshot, so their files are removed.
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
    # The manifest comes last: a backup without one is unfinished.
    disk.sync(write_manifest(stage, manifest))
    disk.sync_tree(stage)
    return StagedBackup(stage, manifest, files.linked, attempts)


@contextlib.contextmanager
def _capture(database: Path, files: "_Files", now: Callable[[], datetime]) -> Generator[tuple[Snapshot, datetime, int]]:
    """Yields a snapshot for which every file has been copied, with its time and the number of attempts."""
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        last = attempt == _MAX_ATTEMPTS
        moment = now()  # before the snapshot, which then contains everything that was acknowledged by this time
        with contextlib.ExitStack() as stack:
            # The last attempt blocks deletions, so that it cannot fail for the same reason as the attempts before.
            with writers_waiting(database) if last else contextlib.nullcontext():
                snapshot = stack.enter_context(Snapshot(database))
                whole = files.complete(snapshot.file_blobs(), last=last)
            if whole:
                yield snapshot, moment, attempt
                return


class _Files:
    """Copies the files of blobs, and records which were copied."""

    def __init__(self, source: Path, target: Path, disk: Disk, *, links: bool, progress: Progress) -> None:
        self._source = source
        self._target = target
        self._disk = disk
        self._links = links
        self._progress = progress
        self._taken: set[bytes] = set()
        self._missed: set[str] = set()
        self.wanted: set[bytes] = set()
        """IDs of the blobs in the last snapshot, 16 bytes each: a million IDs take 80 MB."""
        self.wanted_bytes = 0
        self.lost: set[str] = set()
        self.linked = 0
        disk.make_directory(target)

    def take(self, blobs: Iterable[FileBlob]) -> set[str]:
        """Copies the files of blobs; returns the IDs of blobs whose files are missing.

        If a blob is marked corrupt, neither a missing file nor one of the wrong size is reported.

        Raises:
            CoatcheckError: `integrity` if the size of any other file differs from the size in its blob's row.
        """
        missing: set[str] = set()
        truncated_ids: list[str] = []
        for blob, size in copy_blobs(blobs, self._target, self._copy_file, self._progress):
            if size == blob.stored_size:
                self._taken.add(bytes.fromhex(blob.id))
            elif not blob.condemned and size is None:
                missing.add(blob.id)
            elif not blob.condemned:
                truncated_ids.append(blob.id)
        if truncated_ids:
            raise _lost_blobs_error(truncated_ids, "do not have the recorded size")
        self._missed |= missing
        return missing

    def complete(self, blobs: Iterable[FileBlob], *, last: bool) -> bool:
        """Copies the files of a snapshot that are not copied yet; returns whether all of its files are copied now.

        A missing file counts as lost if it was missing in an earlier pass too, or if this is the last attempt (`last`).
        The files of blobs that are marked corrupt may be missing.

        Raises:
            CoatcheckError: `integrity` if a file of the snapshot is lost, or does not have the size in its blob's row.
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
        if lost_names := missing if last else missing & before:
            raise _lost_blobs_error(sorted(lost_names), "are missing")
        for blob in fresh:
            if blob.condemned and bytes.fromhex(blob.id) not in self._taken:
                self.lost.add(blob.id)
                self.wanted_bytes -= blob.stored_size
        return not missing

    def drop_others(self) -> None:
        """Removes the copied files of blobs that are not in the last snapshot, because they died before it."""
        for name in self._taken - self.wanted:
            self._path(self._target, name.hex()).unlink()

    def _copy_file(self, blob: FileBlob) -> int | None:
        """Copies the file of one blob; returns its size in bytes, or None if it does not exist.

        If its size differs from the size in the blob's row, the copy is removed again.
        """
        source, target = self._path(self._source, blob.id), self._path(self._target, blob.id)
        try:
            if self._links and self._disk.link(source, target):
                self.linked += 1  # threads may lose a count, which only serves as information
            else:
                self._disk.copy(source, target)
        except FileNotFoundError:
            return None
        size = target.stat().st_size
        if size != blob.stored_size:
            target.unlink()
        return size

    @staticmethod
    def _path(top: Path, name: str) -> Path:
        return top / name[-2:] / name


def _lost_blobs_error(names: list[str], how: str) -> CoatcheckError:
    few_ids = ", ".join(names[:_MAX_NAMED_BLOBS]) + (
        f" and {len(names) - _MAX_NAMED_BLOBS:,} more" if len(names) > _MAX_NAMED_BLOBS else ""
    )
    return CoatcheckError(
        Code.INTEGRITY,
        f"No backup was made: the stored bytes of {len(names):,} live blobs {how} ({few_ids}). Stop the service, run "
        "`coatcheck check --apply` to mark them as lost, and back up what there is; keep the last good backup.",
    )
