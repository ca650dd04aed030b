"""The storage combinations that a harness runs on, and the servers that they need.

`sqlite+files` is the embedded store. A combination is opened for one run: it brings its own servers and names the
settings that point the service at them; nothing needs to be started by hand.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

from support.service import COMMAND

EMBEDDED = "sqlite+files"
ROOM = 4 << 30
"""Free bytes that make memory the place for a run."""


@dataclass(frozen=True)
class Storage:
    """An opened combination."""

    name: str
    folder: Path
    """A place of this run's own. It goes with the run."""
    settings: dict[str, int | str] = field(default_factory=dict[str, int | str])
    """What points the service at the servers; empty for the embedded store."""

    @property
    def data(self) -> Path:
        """The data directory of the one service, or of the first replica."""
        return self.folder / "data"

    @property
    def embedded(self) -> bool:
        """Whether catalogue and bytes are files in the data directory."""
        return not self.settings


Opener = Callable[[Path], contextlib.AbstractContextManager[dict[str, int | str]]]
"""Starts a combination's servers under a folder and gives the settings that name them."""


@contextlib.contextmanager
def _embedded(_: Path) -> Generator[dict[str, int | str]]:
    yield {}


@contextlib.contextmanager
def _postgresql(folder: Path) -> Generator[dict[str, int | str]]:
    from support.postgres import running_postgres  # noqa: PLC0415 - the embedded store needs no client of it

    with running_postgres(folder / "postgresql", durable=True) as server:
        url = server.database()
        environment = {"PATH": os.defpath, "COATCHECK_DATABASE_URL": url}
        subprocess.run([*COMMAND, "migrate"], env=environment, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        yield {"database_url": url}


OPENERS: dict[str, Opener] = {EMBEDDED: _embedded, "postgresql+files": _postgresql}
"""Every combination. `postgresql+s3` joins them with `running_s3`: its `url()` is the setting `blob_url`, and its
`environment` has to reach the service."""


@contextlib.contextmanager
def opened(name: str) -> Generator[Storage]:
    """A combination for the length of a `with` block."""
    if name not in OPENERS:
        raise SystemExit(f"unknown storage {name!r}; known: {', '.join(OPENERS)}")
    with scratch() as folder, OPENERS[name](folder) as settings:
        yield Storage(name, folder, settings)


@contextlib.contextmanager
def scratch() -> Generator[Path]:
    """A private folder: in memory where there is room, else where temporary files go.

    A kill loses nothing that the system has taken, on whichever file system; power failures are simulated.
    """
    memory = Path("/dev/shm")  # noqa: S108 - made private by mkdtemp
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ROOM
    with tempfile.TemporaryDirectory(prefix="faults-", dir=memory if roomy else None) as folder:
        yield Path(folder)
