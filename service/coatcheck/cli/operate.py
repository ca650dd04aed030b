"""Commands for whoever runs the service: `migrate`, `settings`, `openapi`, `backup`, `restore` and `check`.

`backup` can copy the embedded store while the service runs. `check` reports whether all payloads that were acknowledged
are still there, and what to do if not.
"""

import asyncio
import contextlib
import json
import platform
import signal
import sqlite3
import sys
import time
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import click
import msgspec

from coatcheck import __version__
from coatcheck.cli.command_setup import end, render_size, require_store, settings_for, waiting
from coatcheck.cli.exits import Exit, echo, fail
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.progress import Progress
from coatcheck.core.text.count import plural
from coatcheck.settings import PREFIX, SECRET, Settings, describe
from coatcheck.usecases.operations.verify_store import StoreVerification


@click.command()
@click.option("--data", metavar="DIR", help="Directory of the embedded store.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def migrate(data: str | None, as_json: bool) -> None:
    """Migrate the catalogue's schema to this release. `serve` does it by itself on the embedded store."""
    from coatcheck import bootstrap  # noqa: PLC0415 - the client commands must start quickly

    try:
        with waiting("Migrating"):
            before, after = bootstrap.migrate(settings_for(data))
    except CoatcheckError as error:
        fail(Exit.UNREACHABLE, error.detail)
    if as_json:
        echo(json.dumps({"before": before, "after": after}))
    else:
        echo(_describe_migration(before, after))


def _describe_migration(before: str | None, after: str) -> str:
    if before is None:
        return f"The schema is at {after}; there was none before."
    return f"The schema is at {after}." if before == after else f"The schema went from {before} to {after}."


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def settings(as_json: bool) -> None:
    """List every setting with its default, its value here and its meaning."""
    current = settings_for(None)
    rows = [
        {**row, "value": getattr(current, str(row["name"]).removeprefix("COATCHECK_").lower())} for row in describe()
    ]
    for row in rows:
        if str(row["name"]).removeprefix(PREFIX).lower() in SECRET and row["value"]:
            row["value"] = "(set)"
    if as_json:
        echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        value = "" if row["value"] == row["default"] else f"  (here: {_render_value(row['value'])})"
        echo(f"{row['name']}={_render_value(row['default'])}{value}\n    {row['meaning']}")


def _render_value(value: object) -> str:
    """Returns the value of a setting as one would type it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@click.command()
@click.option("--check", "against", type=click.Path(dir_okay=False), help="Compare with this file instead of printing.")
def openapi(against: str | None) -> None:
    """Print the OpenAPI document, or check that a file matches it."""
    from coatcheck.api.app import document  # noqa: PLC0415 - the client commands must start quickly

    text = document()
    if against is None:
        echo(text, nl=False)
        return
    if not Path(against).exists() or Path(against).read_bytes() != text:
        fail(Exit.NOTHING, f"{against} does not match the code. Regenerate it with: make openapi")


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
    # A link and the store's file are the same file: whoever writes to one changes the other.
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
    # Digests are compared by this release's code, which needs this release's schema.
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
    """Makes SIGTERM, which service managers send, end the `with` block as Ctrl-C does: unfinished work is removed."""
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


_MAX_PRINTED_FINDINGS = 20
"""Maximum findings of one kind that are printed; `--json` prints all."""

_MARK = "`coatcheck check --apply` while the service is stopped"
"""The command that repairs rows, as it stands in sentences."""
_ADVICE = {
    "missing": f"bytes are gone. Restore them from a backup, or mark them as lost ({_MARK}; reading them marks them "
    "too) and run the tools again: posting the same payload then repairs it.",
    "corrupt": "bytes have changed on the disk. Look at the disk's health first. Then restore them from a backup, or "
    f"mark them as lost ({_MARK}; reading them marks them too) and run the tools again.",
    "unreadable": "the disk or its permissions prevented reading. Look at the system's log and the files' owner, "
    "then check again. This marks nothing as lost.",
    "elsewhere": "bytes could not be checked. Tell this command where they are, as in the service's settings: "
    "COATCHECK_DATA for files, COATCHECK_BLOB_URL for objects. This marks nothing as lost.",
    "lost": "known to be lost. Readers get an integrity error; posting the same payload repairs them.",
    "dangling": "rows contradict each other, which should not happen. Keep a copy of the store and report it.",
    "database": "stop the service, keep a copy of the whole directory, and restore the last good backup with "
    "`coatcheck restore`. Nothing else was compared.",
    "orphan": "they only take space. `coatcheck check --apply` removes them, even while the service runs.",
    "unreferenced": f"they only take space. To release them: {_MARK}.",
    "unlisted": f"nothing is lost; queries (`q`) do not find them. To have them indexed again: {_MARK}.",
    "stray": f"they only take space. To remove them: {_MARK}.",
    "usage": f"nothing is lost; quotas use a wrong sum, which should not happen. To correct it: {_MARK}.",
    "exposed": f"other users of this machine can read what is stored. To prevent that: {_MARK}.",
}
"""What to do about findings, by their kind."""


@click.command()
@click.option("--data", metavar="DIR", help="Directory of the embedded store.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--digests/--no-digests", default=True, help="Read every blob completely (default).")
@click.option("--apply", is_flag=True, help="Repair what can be repaired; rows only while the service is stopped.")
@click.option(
    "--orphan-age",
    type=int,
    default=86400,
    help="Remove unknown bytes only if they are at least this many seconds old (86400).",
)
def check(data: str | None, as_json: bool, digests: bool, apply: bool, orphan_age: int) -> None:
    """Compare the stored bytes with the catalogue and their digests, even while the service runs.

    Ends with 0 if no data is damaged, with 1 if some is, and with 4 if the store cannot be reached.
    """
    from coatcheck.bootstrap import open_audit  # noqa: PLC0415 - the client commands must start quickly

    settings = settings_for(data)
    require_store(settings)

    async def run(progress: Progress) -> tuple[StoreVerification, str | None]:
        async with open_audit(settings, repair=apply) as (audit, why):
            age = timedelta(seconds=orphan_age)
            return await audit(digests=digests, apply=apply, orphan_age=age, progress=progress), why

    try:
        with waiting("Comparing what is stored with the catalogue") as work:
            audited, why = asyncio.run(run(work.add))
    except CoatcheckError as error:
        end(error)
    if as_json:
        answer = msgspec.to_builtins(audited) | {"clean": audited.clean, "rows_kept": why, "versions": _versions()}
        echo(json.dumps(answer))
    else:
        _tell(audited, why, digests=digests)
    sys.exit(Exit.DONE if audited.clean else Exit.NOTHING)


def _versions() -> dict[str, str]:
    return {"coatcheck": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}


def _tell(audited: StoreVerification, why: str | None, *, digests: bool) -> None:
    kinds: dict[str, int] = {}
    for finding in audited.findings:
        kinds[finding.what] = kinds.get(finding.what, 0) + 1
        if kinds[finding.what] <= _MAX_PRINTED_FINDINGS:
            echo(": ".join(word for word in (finding.what, finding.blob_id, finding.detail) if word))
    for what, count in kinds.items():
        if count > _MAX_PRINTED_FINDINGS:
            echo(f"{what}: and {count - _MAX_PRINTED_FINDINGS:,} more; --json lists all.")
    # Advice is printed only for kinds that are not repaired completely.
    for what in kinds:
        if not all(f.repaired for f in audited.findings if f.what == what):
            echo(f"What to do about {what}: {_ADVICE[what]}")
    if why is not None and any(what not in {"orphan", "lost", "unreadable", "elsewhere", "database"} for what in kinds):
        echo(f"Rows were not changed: {why}")
    for note in audited.notes:
        echo(f"Note: {note}")
    echo(", ".join(f"{name} {version}" for name, version in _versions().items()))
    how = (
        f"{render_size(audited.content)} read and compared with their digests"
        if digests
        else "names and sizes compared"
    )
    did = f", {audited.removed:,} removed" if audited.removed else ""
    did += f", {audited.condemned:,} marked as lost" if audited.condemned else ""
    summary = ", ".join(f"{count:,} {what}" for what, count in kinds.items()) or "nothing"
    verdict = "OK" if audited.clean else "DAMAGED"
    echo(f"{verdict}: {plural(audited.blobs, 'blob')}, {how}; found {summary}{did}.")
