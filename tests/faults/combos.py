"""The storage combinations that a harness runs on, and the servers that they need.

`sqlite+files` is the embedded store. A combination is opened for one run: it brings its own servers, durable ones, and
names the settings that point the service at them; nothing needs to be started by hand. In a test run the servers are
those that all tests share.
"""

import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from faults.fork_server import Nursery, Running
from support.combos import COMBOS, EMBEDDED, POSTGRES, S3, fresh_combo
from support.postgres import Cluster, running_postgres
from support.postgres_shared import databases
from support.s3 import S3Server, running_s3, shared_s3

__all__ = ["COMBOS", "EMBEDDED", "POSTGRES", "S3", "Storage", "opened", "scratch"]

ROOM = 4 << 30
"""Free bytes that make memory the place for a run."""

Settings = Mapping[str, int | str]
"""By their names without the prefix, in lower case."""


@dataclass(frozen=True)
class Storage:
    """An opened combination."""

    name: str
    folder: Path
    """A place of this run's own. It goes with the run."""
    settings: Settings = field(default_factory=dict[str, int | str])
    """What points the service at the servers; empty for the embedded store."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Credentials, as the variables that hold them."""
    cluster: Cluster | None = None
    """Where the database is."""
    s3: S3Server | None = None
    """Where the bytes are."""

    @property
    def data(self) -> Path:
        """The data directory, of one service or of all replicas."""
        return self.folder / "data"

    @property
    def embedded(self) -> bool:
        """Whether catalogue and bytes are files in the data directory."""
        return not self.settings

    def through(self, endpoint: str) -> "Storage":
        """The same storage, with its S3 behind a proxy."""
        assert self.s3 is not None
        url = str(self.settings["blob_url"]).replace(self.s3.endpoint, endpoint)
        return replace(self, settings={**self.settings, "blob_url": url})

    def start(
        self, forks: Nursery, settings: Settings, faults: Sequence[str] = (), *, replica: str | None = None
    ) -> Running:
        """Start a service on it. A replica has its own name for the same data directory, and so a log of its own."""
        data = self.data
        if replica is not None:
            self.data.mkdir(mode=0o700, exist_ok=True)
            data = self.folder / replica
            if not data.is_symlink():
                data.symlink_to(self.data, target_is_directory=True)
        return forks.start(data, faults=faults, settings={**self.settings, **settings}, environment=self.environment)

    def audit(self, forks: Nursery) -> list[str]:
        """What `coatcheck check` finds, with no grace for orphans: each finding as a sentence."""
        return forks.audit(self.data, self.settings, self.environment)

    def ask(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last of these statements, as the database's administrator sees them."""
        if self.cluster is None:
            with contextlib.closing(sqlite3.connect(self.data / "coatcheck.db", timeout=30)) as conn:
                rows: list[tuple[Any, ...]] = []
                for statement in statements:
                    rows = conn.execute(statement).fetchall()
                return rows
        database = urlsplit(str(self.settings["database_url"])).path[1:]
        return [tuple(row) for row in self.cluster.run(*statements, url=self.cluster.url(database))]

    def count(self, table: str, where: str = "true") -> int:
        """How many rows there are."""
        return int(self.ask(f"SELECT count(*) FROM {table} WHERE {where}")[0][0])  # noqa: S608 - from the harnesses

    @property
    def due(self) -> dict[str, int]:
        """What upkeep has to do at this moment, by sort; empty when it is done. Without grace for dead blobs."""
        now = "clock_timestamp()" if self.cluster is not None else f"{time.time_ns() // 1000}"
        statement = f"""SELECT 'dead blobs', count(*) FROM blobs WHERE dead_at IS NOT NULL
            UNION ALL SELECT 'uploads', count(*) FROM uploads
            UNION ALL SELECT 'expired artifacts', count(*) FROM artifacts WHERE expires_at <= {now}"""  # noqa: S608
        return {str(what): int(count) for what, count in self.ask(statement) if count}


@contextlib.contextmanager
def opened(name: str, *, shared: bool = False) -> Generator[Storage]:
    """A combination for the length of a `with` block; `shared` takes the servers of a test run."""
    if name not in COMBOS:
        raise SystemExit(f"unknown storage {name!r}; known: {', '.join(COMBOS)}")
    with scratch() as folder, _lent(name, folder) if shared else _own(name, folder) as storage:
        yield storage


@contextlib.contextmanager
def _lent(name: str, folder: Path) -> Generator[Storage]:
    with fresh_combo(name) as combo:
        cluster = None if name == EMBEDDED else databases().cluster
        s3 = shared_s3() if name == S3 else None
        yield Storage(name, folder, dict(combo.settings), combo.environment, cluster, s3)


@contextlib.contextmanager
def _own(name: str, folder: Path) -> Generator[Storage]:
    if name == EMBEDDED:
        yield Storage(name, folder)
        return
    from coatcheck.adapters.sql.schema import migrate  # noqa: PLC0415 - the embedded store needs none of it

    # A service must insist on what it needs, whatever the server's default is.
    with running_postgres(folder / "postgresql", durable=True, settings={"synchronous_commit": "off"}) as server:
        url = server.database()
        migrate(url)
        if name == POSTGRES:
            yield Storage(name, folder, {"database_url": url}, cluster=server)
            return
        with running_s3(folder / "s3") as s3:
            settings = {"database_url": url, "blob_url": s3.url()}
            yield Storage(name, folder, settings, s3.environment, server, s3)


@contextlib.contextmanager
def scratch() -> Generator[Path]:
    """A private folder: in memory where there is room, else where temporary files go.

    A kill loses nothing that the system has taken, on whichever file system; power failures are simulated.
    """
    memory = Path("/dev/shm")  # noqa: S108 - made private by mkdtemp
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ROOM
    with tempfile.TemporaryDirectory(prefix="faults-", dir=memory if roomy else None) as folder:
        yield Path(folder)
