"""`migrate`, `check`, `settings`, `openapi`: commands for whoever runs the service."""

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path

import click
import msgspec

from coatcheck.cli.exits import Exit, fail
from coatcheck.core.errors import CoatcheckError
from coatcheck.settings import Settings, describe, load


def _settings(data: str | None) -> Settings:
    try:
        return load(data=data)
    except ValueError as error:
        fail(Exit.WRONG, str(error))


@click.command()
@click.option("--data", metavar="DIR", help="Directory of the embedded store.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def migrate(data: str | None, as_json: bool) -> None:
    """Bring the catalogue's schema to this release's. Serving does it by itself on the embedded store."""
    from coatcheck import bootstrap  # noqa: PLC0415 - the client commands must start quickly

    try:
        before, after = bootstrap.migrate(_settings(data))
    except CoatcheckError as error:
        fail(Exit.UNREACHABLE, error.detail)
    if as_json:
        click.echo(json.dumps({"before": before, "after": after}))
    else:
        click.echo(f"The schema is at {after}." if before == after else f"The schema went from {before} to {after}.")


@click.command()
@click.option("--data", metavar="DIR", help="Directory of the embedded store.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--digests/--no-digests", default=True, help="Read every blob whole (default).")
@click.option("--apply", is_flag=True, help="Remove bytes that no row knows.")
@click.option("--orphan-age", type=int, default=86400, help="Seconds that unknown bytes must be old (86400).")
def check(data: str | None, as_json: bool, digests: bool, apply: bool, orphan_age: int) -> None:
    """Compare the stored bytes with the rows and their digests, also while the service runs."""
    from coatcheck.bootstrap import DATABASE, audit_of, open_store  # noqa: PLC0415 - the client commands must start quickly

    settings = _settings(data)

    if not (Path(settings.data) / DATABASE).exists():
        fail(Exit.WRONG, f"there is no store in {settings.data}. Name its directory with --data.")

    async def run() -> None:
        async with open_store(settings, beside=True) as store:
            audited = await audit_of(store)(digests=digests, apply=apply, orphan_age=timedelta(seconds=orphan_age))
        if as_json:
            click.echo(msgspec.json.encode(audited).decode())
        else:
            for f in audited.findings:
                click.echo(f"{f.what}: {f.blob_id}: {f.detail}")
            click.echo(f"{audited.blobs} blobs checked, {len(audited.findings)} findings, {audited.removed} removed.")
        if not audited.clean:
            sys.exit(Exit.NOTHING)

    try:
        asyncio.run(run())
    except CoatcheckError as error:
        fail(Exit.UNREACHABLE, error.detail)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def settings(as_json: bool) -> None:
    """List every setting with its default, its value here and its meaning."""
    current = _settings(None)
    rows = [
        {**row, "value": getattr(current, str(row["name"]).removeprefix("COATCHECK_").lower())} for row in describe()
    ]
    for row in rows:
        if row["name"] == "COATCHECK_KEY" and row["value"]:
            row["value"] = "(set)"
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        value = "" if row["value"] == row["default"] else f"  (here: {row['value']})"
        click.echo(f"{row['name']}={row['default']}{value}\n    {row['meaning']}")


@click.command()
@click.option("--check", "against", type=click.Path(dir_okay=False), help="Only compare with this file.")
def openapi(against: str | None) -> None:
    """Print the OpenAPI document, or say whether a file still is it."""
    from coatcheck.api.app import document  # noqa: PLC0415 - the client commands must start quickly

    text = document()
    if against is None:
        sys.stdout.buffer.write(text)
        return
    if not Path(against).exists() or Path(against).read_bytes() != text:
        fail(Exit.NOTHING, f"{against} is not what the code says. Write it anew with: make openapi")
