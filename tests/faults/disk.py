"""What a disk would hold after a power failure, kept by watching a process's calls: bytes that were synced, under names
whose directory was synced.

A failed sync loses what it should have kept: the kernel reports it once and forgets (the lesson of PostgreSQL's
"fsyncgate"), so that a later sync of the same file does not bring those bytes back. SQLite's shared memory and the lock
are no part of it: both are made anew.
"""

import errno
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from faults.syscalls import Call

SYNCS = frozenset({"fsync", "fdatasync"})


@dataclass
class Content:
    """One file: what is surely on the disk, and what is only on its way."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list[tuple[int, bytes | None]])
    """Offset and bytes; None cuts the file there."""
    end: int = 0
    """Where the next appended byte goes."""

    def settle(self) -> None:
        """A sync."""
        for offset, data in self.pending:
            put(self.durable, offset, data)
        self.pending.clear()

    def after(self, rng: random.Random | None) -> bytes:
        """What a power failure leaves: all, some or none of what was on its way."""
        left = bytearray(self.durable)
        for offset, data in self.pending:
            if rng is not None and rng.random() < 0.5:
                put(left, offset, data)
        return bytes(left)


def put(file: bytearray, offset: int, data: bytes | None) -> None:
    """Write into a file, or cut it."""
    if len(file) < offset:
        file.extend(bytes(offset - len(file)))
    if data is None:
        del file[offset:]
    else:
        file[offset : offset + len(data)] = data


class Disk:
    """The disk under a folder that nobody has open yet. Everything there now is taken to be durable."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files = {str(p): Content(bytearray(p.read_bytes()), [], 0) for p in root.rglob("*") if p.is_file()}
        self._named = {str(p) for p in root.rglob("*")} | {str(root)}
        self._removed: set[str] = set()
        self.lock = threading.Lock()
        """Calls are seen in another thread than the one that pulls the plug."""

    def see(self, call: Call) -> None:
        """A call that will be made."""
        path = call.path
        if call.name in {"openat", "mkdir", "mkdirat"}:
            if call.name == "openat" and (path not in self._files or path in self._removed):
                self._files[path] = Content()
                self._named.discard(path)
                self._removed.discard(path)
        elif call.name in {"unlink", "unlinkat"}:
            self._removed |= {path} & self._files.keys()
        elif call.name in SYNCS:
            self._sync(path)
        elif path in self._files:
            self._write(self._files[path], call)

    def failed(self, call: Call) -> None:
        """A call that failed instead."""
        if call.name in SYNCS and call.path in self._files:
            self._files[call.path].pending.clear()

    def image(self, into: Path, rng: random.Random | None = None) -> None:
        """Write down what a power failure leaves now; with randomness, some of what was not synced is there too."""
        with self.lock:
            self._image(into, rng)

    def _image(self, into: Path, rng: random.Random | None) -> None:
        for path, content in self._files.items():
            within = Path(path).relative_to(self._root)
            ways = [str(self._root / p) for p in [within, *within.parents][:-1]]
            if within.name.endswith(("-shm", ".lock")) or not self._named.issuperset(ways):
                continue
            target = into / within
            for way in reversed(target.relative_to(into).parents):
                (into / way).mkdir(mode=0o700, parents=True, exist_ok=True)
            target.write_bytes(content.after(rng))

    def _sync(self, path: str) -> None:
        content = self._files.get(path)
        if content is not None:
            content.settle()
            return
        for removed in [p for p in self._removed if str(Path(p).parent) == path]:
            self._removed.discard(removed)
            self._named.discard(removed)
            self._files.pop(removed, None)
        if Path(path).is_dir():
            self._named.update(str(p) for p in Path(path).iterdir())

    @staticmethod
    def _write(content: Content, call: Call) -> None:
        if call.name == "ftruncate":
            content.pending.append((call.offset, None))
            return
        offset = content.end if call.offset < 0 else call.offset
        content.pending.append((offset, call.data))
        content.end = offset + len(call.data)


def failing(disk: Disk, due: Callable[[Call], int]) -> Callable[[Call], int]:
    """What decides for a watch: asks which error is due, and tells the disk what happens."""

    def decide(call: Call) -> int:
        number = due(call)
        with disk.lock:
            if number:
                assert number in errno.errorcode
                disk.failed(call)
            else:
                disk.see(call)
        return number

    return decide
