"""`coatcheck check`: whether everything that was acknowledged is there, and what to do if it is not."""

import asyncio
import json
import platform
import sqlite3
import sys
from datetime import timedelta

import click
import msgspec

from coatcheck import __version__
from coatcheck.cli.command_setup import end, render_size, require_store, settings_for
from coatcheck.cli.exits import Exit, echo
from coatcheck.cli.waiting import waiting
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.progress import Progress
from coatcheck.core.text.plural import plural
from coatcheck.usecases.operations.verify_store import StoreVerification

_SHOWN = 20
"""Findings of one kind that are printed; `--json` prints all."""

_MARK = "`coatcheck check --apply` while the service is stopped"
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
        if kinds[finding.what] <= _SHOWN:
            echo(": ".join(word for word in (finding.what, finding.blob_id, finding.detail) if word))
    for what, count in kinds.items():
        if count > _SHOWN:
            echo(f"{what}: and {count - _SHOWN:,} more; --json lists all.")
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
