"""What can be wrong with a service: real code paths gone wrong, put in place before it is composed.

Each is a control: with it, the harness that watches over the protection must report a broken promise. Some are no
controls but worlds: `volatile`, `fsize=BYTES`, `clock=FILE`, `crew=NAME`. More, of replicas and servers, are in
wrongs_scale.py.

volatile           the blob store's files keep only what was synced: at a kill, everything else is lost
no-sync            the blob store's sync does nothing
no-directory-sync  names of new blobs are not synced
deaf               the blob store does not hear that a sync failed
sync-normal        SQLite does not sync each commit
no-fence           a commit does not look for its upload's intent
no-share-check     a deletion kills the blob although others point at it
dead-revives       new artifacts may point at dead blobs
unverified         frames are decoded without their checksums
fsize=BYTES        no file may grow beyond this (RLIMIT_FSIZE, the soft limit)
crew=NAME          how the replica is called among those that tidy
clock=FILE         the clock is off by the seconds that a file says, each time it is asked
no-undo            an upload that was broken off is not cleaned up after
shut-eye           a row's bytes are believed to be there, whatever the store says
"""

import contextlib
import os
import resource
import tempfile
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import BigInteger, bindparam, select, update

from coatcheck.adapters.blobs import files
from coatcheck.adapters.blobs.filesystem import FileSystem
from coatcheck.adapters.sql import engine, rows
from coatcheck.adapters.sql.change_group import HANDLERS
from coatcheck.adapters.sql.changes import dedupe, store, tombstone
from coatcheck.adapters.sql.dialect import NOW, Many, RowNumber, among
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import blobs
from coatcheck.adapters.system import SystemClock
from coatcheck.core.encoding import seekable
from coatcheck.core.encoding.frames import zstd
from coatcheck.ports.blobs import RenewUpload
from coatcheck.storing.blob_health import BlobHealth
from coatcheck.storing.upload_session import UploadSession
from faults.injected_faults_scale import SCALE, named


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

    def size(self, path: str) -> int:
        memory = self._memory.get(path)
        return super().size(path) if memory is None else len(memory)


class VolatileWithoutSync(VolatileFileSystem):
    """The same, where the protection is removed."""

    def sync(self, fd: int) -> None:
        """Pretend."""


class WithoutSync(FileSystem):
    """Files that are never synced."""

    def sync(self, fd: int) -> None:
        """Pretend."""

    def sync_directory(self, path: str) -> None:
        FileSystem().sync_directory(path)


class WithoutDirectorySync(FileSystem):
    """Names that are never synced."""

    def sync_directory(self, path: str) -> None:
        """Pretend."""


class DeafFileSystem(FileSystem):
    """Failed syncs that nobody hears of."""

    def sync(self, fd: int) -> None:
        with contextlib.suppress(OSError):
            super().sync(fd)

    def flush(self, fd: int) -> None:
        with contextlib.suppress(OSError):
            super().flush(fd)


def _wrong_clock(by: Path) -> None:
    """Have the system's clock be off by as many seconds as a file says at each moment."""
    true = SystemClock.now

    def now(self: SystemClock) -> datetime:
        return true(self) + timedelta(seconds=float(by.read_text()))

    setattr(SystemClock, "now", now)  # noqa: B010


def _files(kind: Callable[[], FileSystem]) -> Callable[[], None]:
    def apply() -> None:
        assert hasattr(files, "FileSystem")
        setattr(files, "FileSystem", kind)  # noqa: B010

    return apply


def _always(*_: object) -> bool:
    return True


async def _trusting(*_: object) -> bool:
    return True


def _no_fence() -> None:
    real: Callable[..., set[str]] = getattr(store, "take_intents")  # noqa: B009

    def take(conn: object, uploaded: Sequence[dedupe.NewBytes]) -> set[str]:
        real(conn, uploaded)
        return {ours.blob.id for ours in uploaded}

    setattr(store, "take_intents", take)  # noqa: B010
    HANDLERS[RenewUpload] = _always


def _sync_normal() -> None:
    settings: Sequence[str] = getattr(engine, "_WRITER")  # noqa: B009
    wrong = tuple(s.replace("synchronous=FULL", "synchronous=NORMAL") for s in settings)
    assert wrong != settings
    setattr(engine, "_WRITER", wrong)  # noqa: B010


def _no_share_check() -> None:
    seqs = bindparam("seqs", type_=RowNumber, expanding=True)
    wrong = (
        update(blobs)
        .where(blobs.c.seq.in_(seqs), blobs.c.dead_at.is_(None))
        .values(dead_at=NOW)
        .returning(blobs.c.namespace, blobs.c.stored_size)
    )
    assert hasattr(tombstone, "_RELEASE")
    setattr(tombstone, "_RELEASE", wrong)  # noqa: B010


def _dead_revives() -> None:
    digests = bindparam("digests", type_=Many(BigInteger()))
    wrong = select(blobs.c.seq, *rows.BLOB_COLUMNS).where(
        among(blobs.c.digest, digests), blobs.c.namespace == bindparam("namespace")
    )
    assert hasattr(dedupe, "_SAME_BYTES")
    setattr(dedupe, "_SAME_BYTES", Prepared(wrong))  # noqa: B010


def _unverified() -> None:
    def decode(piece: memoryview, length: int, frame: int) -> bytes:  # noqa: ARG001 - as the real one
        bare = bytearray(piece[:-4])
        bare[4] &= ~4  # RFC 8878, section 3.1.1.1.1: the flag of the content checksum
        try:
            content = zstd.ZstdDecompressor().decompress(bare, length)
        except zstd.ZstdError:
            return bytes(length)
        return content[:length].ljust(length, b"\0")

    assert hasattr(seekable, "_decode")
    setattr(seekable, "_decode", decode)  # noqa: B010


async def _nothing(*_: object) -> None:
    pass


def _no_undo() -> None:
    assert hasattr(UploadSession, "_undo")
    setattr(UploadSession, "_undo", _nothing)  # noqa: B010


def _shut_eye() -> None:
    assert hasattr(BlobHealth, "holds")
    setattr(BlobHealth, "holds", _trusting)  # noqa: B010


WRONGS: dict[str, Callable[[], None]] = {
    "volatile": _files(VolatileFileSystem),
    "volatile-no-sync": _files(VolatileWithoutSync),
    "no-sync": _files(WithoutSync),
    "no-directory-sync": _files(WithoutDirectorySync),
    "deaf": _files(DeafFileSystem),
    "sync-normal": _sync_normal,
    "no-fence": _no_fence,
    "no-share-check": _no_share_check,
    "dead-revives": _dead_revives,
    "unverified": _unverified,
    "no-undo": _no_undo,
    "shut-eye": _shut_eye,
    **SCALE,
}


def inject(names: Sequence[str]) -> None:
    """Put what is wrong in place. Raises for an unknown name: a control that does nothing would prove nothing."""
    for name in names:
        if name.startswith("clock="):
            _wrong_clock(Path(name.partition("=")[2]))
        elif name.startswith("crew="):
            named(name.partition("=")[2])
        elif name.startswith("fsize="):
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(name.partition("=")[2]), resource.RLIM_INFINITY))
        else:
            WRONGS[name]()
