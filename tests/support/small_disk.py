"""A disk of a few MiB, for a test to fill: a tmpfs in a mount namespace of its own, which needs no privilege."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

from support.service import Service, start

_MOUNT = 'mount -t tmpfs -o size="$1" none "$2" && echo mounted && exec sleep infinity'


@dataclass(frozen=True)
class SmallDisk:
    """A mounted disk. Only processes that are started through it see the disk under its folder."""

    holder: int
    """The process that keeps the disk alive."""
    folder: Path
    services: list[Service] = field(default_factory=list[Service])
    """All that were started; those that still run at the end are killed."""

    @property
    def seen(self) -> Path:
        """The folder as the test sees it."""
        return Path(f"/proc/{self.holder}/root{self.folder}")

    @property
    def entrance(self) -> tuple[str, ...]:
        """The beginning of a command that sees the disk."""
        return ("nsenter", "--user", "--mount", "--preserve-credentials", f"--target={self.holder}")

    @property
    def free(self) -> int:
        """Bytes that can still be written."""
        return shutil.disk_usage(self.seen).free

    def fill(self) -> None:
        """Take every byte that is free."""
        with (self.seen / "filler").open("ab") as filler:
            while self.free:
                with contextlib.suppress(OSError):  # the service was faster
                    os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), self.free)

    def clear(self) -> None:
        """Give back what was taken."""
        (self.seen / "filler").unlink()

    def start(self, **settings: int | str) -> Service:
        """Start a service whose data directory is `data` on this disk."""
        command = (*self.entrance, sys.executable, "-m", "coatcheck")
        service = start(self.folder / "data", command=command, settings=settings)
        self.services.append(service)
        return service


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Generator[SmallDisk | None]:
    """Mount a disk at a new folder for the length of a `with` block; None where user namespaces are forbidden."""
    folder.mkdir()
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _MOUNT, "sh", str(size), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        try:
            assert holder.stdout is not None
            disk = SmallDisk(holder.pid, folder)
            yield disk if holder.stdout.readline() else None
            for service in disk.services:
                if service.process.poll() is None:
                    service.kill()
        finally:
            holder.kill()
