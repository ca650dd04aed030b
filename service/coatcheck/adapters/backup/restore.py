"""Restores a backup to a directory that contains no store.

All files are copied into `restoring/` inside the data directory, synced and verified. The database file is moved to its
final place last. Until then the data directory contains no store, and the service refuses to create an empty store
there. Files are never linked, so a restored store shares no bytes on disk with its backup.
"""

import contextlib
import shutil
from collections.abc import Generator
from pathlib import Path

from msgspec import Struct

from coatcheck.adapters.backup.manifest import DATABASE, Disk, Manifest, copy_blobs, explain_os_errors, read_manifest
from coatcheck.adapters.sql.engine import DirectoryLock, refuse_network_file_system
from coatcheck.adapters.sql.schema import REVISION
from coatcheck.adapters.sql.sqlite.snapshot import FileBlob, Snapshot
from coatcheck.adapters.system import NAME as RESERVE
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.progress import Progress, untold

STAGE = "restoring"
"""Name of the directory, inside a data directory, into which a restore copies."""
_ANYWAY = frozenset({"coatcheck.lock", RESERVE, "lost+found"})
"""Names that a data directory may contain and still counts as empty: the service's lock file and disk reserve, and
`lost+found`, which every new ext4 file system has."""


class StagedRestore(Struct, frozen=True):
    """The restored data, complete and synced, before they are moved to their final place."""

    path: Path
    manifest: Manifest
    outdated: bool
    """Whether the schema is older than this release's, so that the next start of the service migrates it."""


@contextlib.contextmanager
def restore_backup(source: Path, root: Path, progress: Progress = untold) -> Generator[StagedRestore]:
    """Copies a backup into a data directory. The copy becomes the directory's store if the `with` block succeeds.

    `progress` is called with the number of files copied so far, and their bytes.

    Raises:
        CoatcheckError: `invalid_request` if the source is not a backup or the directory is not empty, `integrity` if
            the backup is damaged, `schema_outdated` if its schema is newer than this release's, and storage errors.
    """
    manifest = read_manifest(source)
    # The revision is checked before anything is copied, since copying may take hours.
    if manifest.schema > REVISION:
        raise CoatcheckError(
            Code.SCHEMA_OUTDATED,
            f"The backup has schema {manifest.schema}, which is newer than this release's {REVISION}. Restore it with "
            f"release {manifest.release} or later.",
        )
    with explain_os_errors(root):
        is_new = not root.exists()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse(root)  # the first check comes before the lock, which would leave a file in a refused directory
        lock = DirectoryLock(root)
        try:
            # Another restore may have begun since the first check.
            _refuse(root)
        except BaseException:
            lock.release()
            raise
        try:
            yield from _fill(source, root, manifest, progress)
        except BaseException:
            _empty(root, wholly=is_new)
            raise
        finally:
            lock.release()


def refuse_unfinished(root: Path) -> None:
    """Raises CoatcheckError `storage_unavailable` for a data directory with an unfinished restore.

    If the service created an empty store there, it would answer that all artifacts of the backup are unknown.
    """
    if (root / STAGE).exists() and not (root / DATABASE).exists():
        raise CoatcheckError(
            Code.STORAGE_UNAVAILABLE,
            f"An earlier restore into {root} did not finish. Run `coatcheck restore` again; it starts over.",
        )


def _refuse(root: Path) -> None:
    refuse_network_file_system(root)
    names = {path.name for path in root.iterdir()} - _ANYWAY
    if DATABASE in names:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"{root} already holds a store, which a restore never overwrites. Name a directory that is empty or does "
            "not exist, then serve from it.",
        )
    if names and STAGE not in names:  # files of an interrupted restore are no reason to refuse: they are removed later
        raise CoatcheckError(
            Code.INVALID_REQUEST, f"{root} is not empty. Name a directory that is empty or does not exist."
        )


def _fill(source: Path, root: Path, manifest: Manifest, progress: Progress) -> Generator[StagedRestore]:
    disk = Disk()
    _empty(root, wholly=False)
    stage = root / STAGE
    disk.make_directory(stage)
    disk.sync(root)
    _copy_database(source, stage, manifest, disk)
    _copy_files(source, stage, manifest, disk, progress)
    disk.sync_tree(stage)
    yield StagedRestore(stage, manifest, outdated=manifest.schema < REVISION)
    (stage / "blobs").rename(root / "blobs")
    disk.sync(root)
    (stage / DATABASE).rename(root / DATABASE)
    disk.sync(root)
    shutil.rmtree(stage, ignore_errors=True)
    disk.sync(root)
    disk.sync(root.absolute().parent)


def _empty(root: Path, *, wholly: bool) -> None:
    """Removes the files of a restore, beginning with the database file, without which the directory is no store.

    With `wholly`, the directory itself is removed too.
    """
    (root / DATABASE).unlink(missing_ok=True)
    for name in (STAGE, "blobs"):
        shutil.rmtree(root / name, ignore_errors=True)
    if wholly:
        shutil.rmtree(root, ignore_errors=True)


def _copy_database(source: Path, stage: Path, manifest: Manifest, disk: Disk) -> None:
    copy = stage / DATABASE
    try:
        digest = disk.copy(source / DATABASE, copy)
    except FileNotFoundError as error:
        raise _damage_error(source, f"{DATABASE} is missing") from error
    if digest != manifest.database.sha256:
        raise _damage_error(source, f"{DATABASE} is not the file that the manifest describes")
    with Snapshot(copy) as snapshot:
        if (revision := snapshot.revision()) != manifest.schema:
            raise _damage_error(source, f"{DATABASE} has schema {revision} where the manifest says {manifest.schema}")


def _copy_files(source: Path, stage: Path, manifest: Manifest, disk: Disk, progress: Progress) -> None:
    target = stage / "blobs"
    disk.make_directory(target)
    lost_ids = frozenset(manifest.lost)

    def copy(blob: FileBlob) -> str | None:
        place = f"{blob.id[-2:]}/{blob.id}"
        try:
            disk.copy(source / "blobs" / place, target / place)
        except FileNotFoundError:
            return None if blob.id in lost_ids else f"the file of blob {blob.id} is missing"
        size = (target / place).stat().st_size
        return None if size == blob.stored_size else f"the file of blob {blob.id} has {size:,} bytes"

    with Snapshot(stage / DATABASE) as snapshot:
        for _, fault in copy_blobs(snapshot.file_blobs(), target, copy, progress):
            if fault is not None:
                raise _damage_error(source, fault)


def _damage_error(source: Path, how: str) -> CoatcheckError:
    return CoatcheckError(
        Code.INTEGRITY, f"The backup {source} is damaged: {how}. Nothing was restored; use another backup."
    )
