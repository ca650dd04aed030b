"""The schema's revisions: which one a database has, which one this release needs, and how to get there.

Migrations run on a database that nobody writes to meanwhile. This module changes no data of its own.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, make_url, text
from sqlalchemy.exc import OperationalError, ProgrammingError

import coatcheck
from coatcheck.adapters.sql.datadir import make_private
from coatcheck.adapters.sql.engine import writing_engine
from coatcheck.core.errors import CoatcheckError, Code

REVISION = "0001"
"""The revision that this release works with. A test holds it to the newest migration."""

_VERSION = text("SELECT version_num FROM alembic_version")
_REWRITE = text("UPDATE alembic_version SET version_num = version_num")


def migrate(url: str, revision: str = "head") -> None:
    """Bring a database to a revision, making it where there is none. Blocks.

    Args:
        url: `sqlite:///…`; other databases come with their own adapter.
        revision: `head`, or an older one to stop at.
    """
    database = make_url(url).database
    if database is not None:
        make_private(Path(database))
    with _connection(url) as conn:
        config = _config()
        config.attributes["connection"] = conn
        command.upgrade(config, revision)


def current_revision(url: str) -> str | None:
    """The revision a database has; None for an empty one."""
    with _connection(url) as conn:
        return MigrationContext.configure(conn).get_current_revision()


def head_revision() -> str:
    """The newest migration that is installed beside this release."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    if head is None:
        raise RuntimeError("the migrations are not installed")
    return head


def check_revision(conn: Connection) -> None:
    """Return if the database has this release's schema; otherwise raise `schema_outdated`, saying what to run."""
    try:
        found = conn.execute(_VERSION).scalar_one_or_none()
    except (OperationalError, ProgrammingError) as error:
        if "alembic_version" not in str(error.orig):
            raise
        found = None
    if found == REVISION:
        return
    if found is None or found < REVISION:
        raise CoatcheckError(
            Code.SCHEMA_OUTDATED,
            f"The database has schema {found or 'none'} and this release needs {REVISION}. Run `coatcheck migrate`.",
            found=found,
            needed=REVISION,
        )
    raise CoatcheckError(
        Code.SCHEMA_OUTDATED,
        f"The database has schema {found}, which is newer than this release's {REVISION}. Install the release "
        "that made it, or restore the backup from before the upgrade.",
        found=found,
        needed=REVISION,
    )


def try_write(conn: Connection) -> None:
    """Write something that changes nothing, to learn whether storage takes writes."""
    conn.execute(_REWRITE)


def _config() -> Config:
    package = Path(coatcheck.__file__).parent
    # In a wheel the migrations lie inside the package; in a checkout at its top, two levels up.
    places = (package / "migrations", package.parents[1] / "migrations")
    for place in places:
        if (place / "env.py").is_file():
            config = Config()
            config.set_main_option("script_location", str(place).replace("%", "%%"))
            config.set_main_option("path_separator", "os")
            return config
    raise RuntimeError(f"the migrations are in neither of {places}")


@contextmanager
def _connection(url: str) -> Generator[Connection]:
    engine = writing_engine(url, checkpoints=False)
    try:
        with engine.connect() as conn:
            yield conn
    finally:
        engine.dispose()
