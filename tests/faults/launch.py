"""Start the service with a fault: `python launch.py FAULT[,FAULT] serve ...`. Faults are real code paths gone wrong.

volatile      the file system keeps only what was synced: at a kill, everything else is lost, as at a power failure
no-sync       the blob store's sync does nothing (a control: with `volatile`, acknowledged bytes must get lost)
no-fence      a commit does not look for its upload's intent (a control: reaped uploads must become artifacts)
"""

import functools
import os
import sys
import tempfile
import threading
from pathlib import Path

from coatcheck import bootstrap
from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.blobs.filesystem import FileSystem
from coatcheck.adapters.sql.changes import store, uploads
from coatcheck.cli import main


class VolatileFileSystem(FileSystem):
    """Bytes reach the disk when they are synced, names when their directory is; until then they are in memory."""

    def __init__(self) -> None:
        self._limbo = Path(tempfile.mkdtemp(prefix="volatile-"))
        self._lock = threading.Lock()
        self._files: dict[int, str] = {}
        self._memory: dict[str, bytearray] = {}
        self._unnamed: dict[str, Path] = {}

    def create(self, path: str) -> int:
        with self._lock:
            if os.path.lexists(path) or path in self._unnamed:
                raise FileExistsError(path)
            limbo = self._limbo / Path(path).name
            fd = os.open(limbo, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            self._files[fd], self._memory[path], self._unnamed[path] = path, bytearray(), limbo
            return fd

    def write(self, fd: int, data: memoryview) -> int:
        self._memory[self._files[fd]] += data
        return len(data)

    def flush(self, fd: int) -> None:
        self.sync(fd)

    def sync(self, fd: int) -> None:
        path = self._files.get(fd)
        if path is not None:
            os.pwrite(fd, self._memory[path], 0)

    def sync_directory(self, path: str) -> None:
        with self._lock:
            for name in [n for n in self._unnamed if n.rpartition("/")[0] == path]:
                limbo = self._unnamed.pop(name)
                limbo.rename(name)

    def close(self, fd: int) -> None:
        self._files.pop(fd, None)
        super().close(fd)

    def unlink(self, path: str) -> None:
        with self._lock:
            self._memory.pop(path, None)
            limbo = self._unnamed.pop(path, None)
        if limbo is not None:
            limbo.unlink()
        else:
            super().unlink(path)

    def read(self, path: str, start: int, length: int) -> bytes:
        memory = self._memory.get(path)
        return super().read(path, start, length) if memory is None else bytes(memory[start : start + length])


class WithoutSync(VolatileFileSystem):
    """The same, where the protection is removed."""

    def sync(self, fd: int) -> None:
        """Pretend."""


def _always(*_: object) -> bool:
    return True


def inject(faults: set[str]) -> None:
    """Put the faults in place before the service is composed."""
    unknown = faults - {"volatile", "no-sync", "no-fence"}
    if unknown:
        sys.exit(f"unknown faults: {unknown}")
    if "volatile" in faults:
        files = WithoutSync() if "no-sync" in faults else VolatileFileSystem()
        setattr(bootstrap, "FileBlobStore", functools.partial(FileBlobStore, files=files))  # noqa: B010
    if "no-fence" in faults:
        setattr(store, "_take_intent", _always)  # noqa: B010
        setattr(uploads, "apply_renew", _always)  # noqa: B010


if __name__ == "__main__":
    inject(set(sys.argv.pop(1).split(",")))
    main()
