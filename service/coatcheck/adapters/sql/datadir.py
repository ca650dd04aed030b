"""Checks that a directory may hold a database: one server at a time, and no network file system.

SQLite's locks and shared memory do not work over a network, and two servers on one directory would each assume that
they alone write and sweep.
"""

import fcntl
import os
from pathlib import Path

from coatcheck.core.errors import CoatcheckError, Code

_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre", "ncp", "davfs", "fuse.sshfs")
_NETWORK_FUSE = ("fuse.s3", "fuse.rclone", "fuse.gcsfuse", "fuse.goofys", "fuse.davfs", "fuse.glusterfs")
_MOUNTS = Path("/proc/self/mountinfo")


class DirectoryLock:
    """A locked data directory. The lock ends with the process, however that ends."""

    def __init__(self, directory: Path) -> None:
        """Takes the lock, or raises CoatcheckError `storage_unavailable` at once."""
        path = directory / "coatcheck.lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise CoatcheckError(
                Code.STORAGE_UNAVAILABLE,
                f"Another process{f' ({holder})' if holder else ''} serves {directory} already. Stop it first, "
                "or give this one a data directory of its own.",
            ) from error
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"process {os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Releases the directory."""
        os.close(self._fd)


def make_private(path: Path) -> None:
    """Creates a database's file and directory if missing, readable only by their owner."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def refuse_network_file_system(directory: Path, mountinfo: str | None = None) -> None:
    """Raises CoatcheckError `storage_unavailable` if the directory is on a known network file system.

    Args:
        directory: an existing directory.
        mountinfo: Linux's table of mounts; None reads it, and checks nothing if there is none.
    """
    if mountinfo is None:
        if not _MOUNTS.exists():
            return
        mountinfo = _MOUNTS.read_text("utf-8", "surrogateescape")
    kind = file_system_of(directory.resolve(), mountinfo)
    if kind is not None and kind.startswith((*_NETWORK, *_NETWORK_FUSE)):
        raise CoatcheckError(
            Code.STORAGE_UNAVAILABLE,
            f"{directory} is on a network file system ({kind}), where SQLite loses data. Use a local disk for "
            "the data directory, or PostgreSQL for the catalogue.",
        )


def file_system_of(path: Path, mountinfo: str) -> str | None:
    """Returns the type of the file system that contains an absolute path (proc(5), /proc/pid/mountinfo)."""
    best: tuple[int, str] | None = None
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        columns = fields.split(" ")
        if len(columns) < 5 or not rest:  # noqa: PLR2004 - the mount point is the fifth column
            continue
        mount = Path(_unescape(columns[4]))
        # A later line hides an earlier one for the same path.
        if path.is_relative_to(mount) and (best is None or len(mount.parts) >= best[0]):
            best = (len(mount.parts), rest.split(" ")[0])
    return None if best is None else best[1]


def _unescape(text: str) -> str:
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, character)
    return text
