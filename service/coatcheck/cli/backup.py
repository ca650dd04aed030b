"""`coatcheck backup` and `coatcheck restore`: copy the embedded store while it serves, and restore it."""

import contextlib
import signal
import sys
import time
from collections.abc import Generator
from pathlib import Path

import click
import msgspec

from coatcheck.cli.command_setup import end, render_size, require_store, settings_for
from coatcheck.cli.exits import Exit, echo, fail
from coatcheck.cli.waiting import waiting
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.text.plural import plural
from coatcheck.settings import Settings


@click.command()
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--data", metavar="DIR", help="Directory of the embedded store.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--verify", is_flag=True, help="Read the whole backup back and compare every digest.")
@click.option("--copy", is_flag=True, help="Copy files even on the store's own disk, where links would do.")
def backup(target: Path, data: str | None, as_json: bool, verify: bool, copy: bool) -> None:
    """Copy the embedded store into the new directory DIR, even while the service runs.

    On the store's own disk, files are linked: that takes no space and protects from mistakes, but not from losing the
    disk.
    """
    from coatcheck import bootstrap  # noqa: PLC0415 - the client commands must start quickly

    settings = settings_for(data)
    _require_embedded(settings)
    require_store(settings)
    began = time.monotonic()
    try:
        with _stoppable(), waiting(f"Copying to {target}", "file") as work:
            result = bootstrap.backup(settings, target, digests=verify, links=not copy, progress=work.add)
    except CoatcheckError as error:
        end(error)
    if as_json:
        echo(msgspec.json.encode(result).decode())
        return
    m = result.manifest
    size = render_size(m.database.size + m.file_bytes)
    echo(f"{target} holds {plural(m.artifacts, 'artifact')} as of {m.created_at:%Y-%m-%d %H:%M:%S} UTC: {size}.")
    if result.linked:
        echo("Its files are links to the store's: copy it to another disk, or back up to there. Never change them.")
    if m.lost:
        echo(f"{plural(len(m.lost), 'blob')} lost before: not in it; `coatcheck check` lists what is lost.")
    checked = "Every digest was compared" if result.verified else "Sizes and the database were checked, digests not"
    echo(f"{checked}. It took {time.monotonic() - began:,.1f} s.")


@click.command()
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path))
@click.option("--data", metavar="DIR", help="Directory to restore into; empty or not yet existing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--verify/--no-verify", default=True, help="Compare the digest of every blob (default).")
def restore(source: Path, data: str | None, as_json: bool, verify: bool) -> None:
    """Restore BACKUP into a data directory that holds no store yet.

    Artifacts deleted since the backup are there again, until they expire.
    """
    from coatcheck import bootstrap  # noqa: PLC0415 - the client commands must start quickly

    settings = settings_for(data)
    _require_embedded(settings)
    try:
        with _stoppable(), waiting(f"Restoring {source}", "file") as work:
            result = bootstrap.restore(settings, source, digests=verify, progress=work.add)
    except CoatcheckError as error:
        end(error)
    if as_json:
        echo(msgspec.json.encode(result).decode())
        return
    m = result.manifest
    echo(
        f"{result.data} holds {plural(m.artifacts, 'artifact')} as of {m.created_at:%Y-%m-%d %H:%M:%S} UTC. "
        "What was deleted since then is there again."
    )
    if result.outdated:
        echo(
            f"Its schema {m.schema} is older than this release's: the next start migrates it. "
            "Run `coatcheck check` then."
        )
    elif not result.verified:
        echo("Digests were not compared; `coatcheck check` does that.")
    if m.lost:
        echo(f"{plural(len(m.lost), 'blob')} lost before the backup: {', '.join(m.lost[:5])}.")


@contextlib.contextmanager
def _stoppable() -> Generator[None]:
    """Leaves nothing half done when a service manager asks to stop, as with Ctrl-C."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _require_embedded(settings: Settings) -> None:
    if settings.database_url:
        fail(
            Exit.WRONG,
            "this copies the embedded store only. A store on PostgreSQL is backed up with PostgreSQL's own tools and "
            "those of the bytes' store: see docs/how-to/backup.md.",
        )
