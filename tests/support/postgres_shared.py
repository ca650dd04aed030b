"""One PostgreSQL server for a whole test run, a migrated template in it, and a database of its own for each test.

Where `COATCHECK_TEST_POSTGRES` names a server (a superuser's URL) that one is used; else a container where an engine
answers; else a server of our own. The summary of the run says which, and why an engine that answers did not serve.
Whoever of the run's processes comes first starts it; it ends when the last of them
has ended, however that was: each holds a shared lock that goes with its process, and the server's keeper waits for
the exclusive one.
"""

import contextlib
import fcntl
import importlib
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

from support.postgres import Cluster, running_postgres
from support.used_servers import used

TEMPLATE = "coatcheck_template"
_ADMIN = os.environ.get("COATCHECK_TEST_POSTGRES")  # noqa: TID251 - where the suite itself runs
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))  # noqa: TID251 - which run this process is part of
_keepers: list[subprocess.Popen[str]] = []
"""Ours, which outlives us; dropping it would be warned about."""
_IMAGE = "postgres:18-alpine"


class Databases:
    """Databases for tests, each a copy of the migrated template."""

    def __init__(self, cluster: Cluster, owner: str, template: str) -> None:
        self.cluster = cluster
        self.owner = owner
        self._template = template

    def make(self, *, empty: bool = False) -> str:
        """A database of the plain role; answers its URL."""
        return self.cluster.database(owner=self.owner, template="template0" if empty else self._template)

    @contextlib.contextmanager
    def lent(self, *, empty: bool = False) -> Generator[str]:
        """The same for a while."""
        url = self.make(empty=empty)
        try:
            yield url
        finally:
            self.cluster.drop(url)


@cache
def databases() -> Databases:
    """This process's door to the run's server, which it starts when nobody has."""
    folder = Path(tempfile.gettempdir()) / f"coatcheck-postgres-{os.geteuid()}-{_RUN}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "start.lock").open("w") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        # Held until this process ends.
        users = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(users, fcntl.LOCK_SH)
        state = folder / "state"
        if not state.exists():
            _start(folder, state)
        admin, password, owner, template, kind = state.read_text().split("\n")
    used(f"PostgreSQL: {kind}")
    cluster = Cluster(admin)
    cluster.password = password
    return Databases(cluster, owner, template)


def _start(folder: Path, state: Path) -> None:
    keeper = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "support.postgres_shared", str(folder)],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _keepers.append(keeper)
    assert keeper.stdout is not None
    with keeper.stdout as said:
        admin, kind = said.readline().strip(), said.readline().strip()
    if not admin:
        raise RuntimeError("the test server did not start")
    cluster = Cluster(admin)
    word = secrets.token_hex(4)
    owner, template = f"plain_{word}", f"{TEMPLATE}_{word}"
    cluster.role(owner)
    url = cluster.database(owner=owner, name=template)
    from coatcheck.adapters.sql.schema import migrate  # noqa: PLC0415 - the keeper needs none of it

    migrate(url)
    state.write_text(f"{admin}\n{cluster.password}\n{owner}\n{template}\n{kind}")


@contextlib.contextmanager
def _server() -> Generator[tuple[str, str]]:
    """The admin URL of a server, for a while, and what kind of server it is."""
    if _ADMIN is not None:
        yield _ADMIN, "the one that COATCHECK_TEST_POSTGRES names"
        return
    with contextlib.ExitStack() as stack:
        if not _has_engine():
            yield stack.enter_context(running_postgres()).admin, "our own"
            return
        try:
            container, kind = stack.enter_context(_container()), f"a container of {_IMAGE}"
        except Exception as error:  # noqa: BLE001 - no image, no network, a broken engine: said in the summary
            why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            container = stack.enter_context(running_postgres()).admin
            kind = f"our own, because the container engine answers and made no container ({why})"
        yield container, kind


def _has_engine() -> bool:
    """Whether a container engine answers."""
    docker: Any = importlib.import_module("docker")  # ships no types
    try:
        docker.from_env(timeout=3).ping()
    except (docker.errors.DockerException, OSError):
        return False
    return True


@contextlib.contextmanager
def _container() -> Generator[str]:
    from testcontainers.community.postgres import PostgresContainer  # noqa: PLC0415 - only where an engine answers

    with PostgresContainer(_IMAGE, driver=None) as container:
        yield container.get_connection_url()


def _keep(folder: Path) -> None:
    """Run a server while anybody of the run is there."""
    with _server() as (admin, kind):
        sys.stdout.write(f"{admin}\n{kind}\n")
        sys.stdout.flush()
        os.close(1)
        users = os.open(folder / "users.lock", os.O_RDWR)
        fcntl.flock(users, fcntl.LOCK_EX)
        state = folder / "state"
        if _ADMIN is not None and state.exists():
            _tidy(*state.read_text().split("\n"))
        state.unlink(missing_ok=True)
    for name in ("start.lock", "users.lock"):
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


def _tidy(admin: str, _password: str, owner: str, template: str, _kind: str) -> None:
    """Leave a server that is not ours as it was."""
    cluster = Cluster(admin)
    cluster.drop(cluster.url(template))
    cluster.run(f"DROP ROLE IF EXISTS {owner}")


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
