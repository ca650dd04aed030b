"""Makes a complete copy of a store while it serves. The store is not changed.

How races are handled: a first pass, which may take long, copies the files of the blobs that are live now. Then a
snapshot of the catalogue is held, and files that have arrived since are copied too, which is quick; only then is that
snapshot's database copied, with nothing left to race. What can go wrong is a blob that arrived after the first pass, is
live in the snapshot, and was deleted *and swept* before its file was copied. With the usual grace of ten minutes that
cannot happen; with a grace of seconds, it appears as a missing file, and a later snapshot is taken instead. Dead is
final and is written before a file is removed, so a file that was missed once, of a blob that is live in a later
snapshot, was not swept but lost: then there is no backup, and the error names the blob. The last attempt blocks
writers, so the work ends whatever the load.
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
"""Snapshots that are taken before a backup gives up, if a deletion removes a file of each meanwhile. Chosen, not
measured."""
_MAX_NAMED_BLOBS = 5
"""Lost blobs that an error names."""


class StagedBackup(Struct, frozen=True):
    """A complete, synced backup under a name that marks it as unfinished."""

    path: Path
    manifest: Manifest
    linked: int
    """Files that share their bytes on disk with the store."""
    attempts: int
    """Snapshots that had to be taken."""


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
    """Copies a store; the copy gets its final name if the block succeeds, and is removed otherwise.

    Args:
        root: the data directory.
        target: a directory that is empty or does not exist; its parent must exist.
        links: whether to link files where the file system allows, instead of copying them.
        release: the release that makes the backup.
        now: returns the time.
        disk: makes the links and copies.
        progress: is called with the number of files that were copied, and their bytes.

    Raises:
        CoatcheckError: `invalid_request` for an unsuitable target, `integrity` if the store has lost bytes or its
            database is damaged, `storage_unavailable` and `storage_full`.
    """
    _refuse(root, target)
    stage = target.parent / f".{target.name}.partial-{secrets.token_hex(4)}"
    disk = disk or Disk()
    with explain_os_errors(target):
        try:  # an interruption may come once the directory exists, even before this call returns
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
    # Most files are copied before the snapshot, which keeps the write-ahead log from shrinking while it is open.
    files.take(live_file_blobs(root / DATABASE))
    with _moment(root / DATABASE, files, now) as (snapshot, moment, attempts):
        database = stage / DATABASE
        snapshot.copy(database)
        database.chmod(0o600)
        counts, revision = snapshot.counts(), snapshot.revision()
    # Files of blobs that died before the snapshot are in no row of the copy.
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
def _moment(database: Path, files: "_Files", now: Callable[[], datetime]) -> Generator[tuple[Snapshot, datetime, int]]:
    """Holds a snapshot for which every file has been copied."""
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        last = attempt == _MAX_ATTEMPTS
        moment = now()  # taken before the snapshot: it contains all that was acknowledged by then
        with contextlib.ExitStack() as stack:
            # The last attempt keeps deletions out, so that it cannot fail for the same reason as those before.
            with writers_waiting(database) if last else contextlib.nullcontext():
                snapshot = stack.enter_context(Snapshot(database))
                whole = files.complete(snapshot.file_blobs(), last=last)
            if whole:
                yield snapshot, moment, attempt
                return


class _Files:
    """The files that have been copied."""

    def __init__(self, source: Path, target: Path, disk: Disk, *, links: bool, progress: Progress) -> None:
        self._source = source
        self._target = target
        self._disk = disk
        self._links = links
        self._progress = progress
        self._taken: set[bytes] = set()
        self._missed: set[str] = set()
        self.wanted: set[bytes] = set()
        """The names of the last completed snapshot, at 16 bytes each: a million take 80 MB."""
        self.wanted_bytes = 0
        self.lost: set[str] = set()
        self.linked = 0
        disk.make_directory(target)

    def take(self, blobs: Iterable[FileBlob]) -> set[str]:
        """Copies the files of blobs; returns the names of those that are missing, without those known to be corrupt.

        Raises:
            CoatcheckError: `integrity` if the size of one differs from its row.
        """
        missing: set[str] = set()
        truncated_ids: list[str] = []
        for blob, size in copy_blobs(blobs, self._target, self._one, self._progress):
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
        """Copies what is still missing of a snapshot's blobs; returns whether the snapshot is complete.

        Raises:
            CoatcheckError: `integrity` if bytes of the snapshot are lost.
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
            raise _lost_blobs_error(sorted(surely), "are missing")
        for blob in fresh:
            if blob.condemned and bytes.fromhex(blob.id) not in self._taken:
                self.lost.add(blob.id)
                self.wanted_bytes -= blob.stored_size
        return not missing

    def drop_others(self) -> None:
        """Removes copies of blobs that died before the snapshot."""
        for name in self._taken - self.wanted:
            self._path(self._target, name.hex()).unlink()

    def _one(self, blob: FileBlob) -> int | None:
        """Copies one file; returns its size, or None if it does not exist."""
        source, target = self._path(self._source, blob.id), self._path(self._target, blob.id)
        try:
            if self._links and self._disk.link(source, target):
                self.linked += 1  # threads may lose a count: it is only informative
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
    few = ", ".join(names[:_MAX_NAMED_BLOBS]) + (
        f" and {len(names) - _MAX_NAMED_BLOBS:,} more" if len(names) > _MAX_NAMED_BLOBS else ""
    )
    return CoatcheckError(
        Code.INTEGRITY,
        f"No backup was made: the stored bytes of {len(names):,} live blobs {how} ({few}). Stop the service, run "
        "`coatcheck check --apply` to mark them as lost, and back up what there is; keep the last good backup.",
    )
