"""`migrate`, `settings`, `openapi`: commands for whoever runs the service."""

import json
from pathlib import Path

import click

from coatcheck.cli.command_setup import settings_for
from coatcheck.cli.exits import Exit, echo, fail
from coatcheck.cli.waiting import waiting
from coatcheck.core.errors import CoatcheckError
from coatcheck.settings import PREFIX, SECRET, describe


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
    """Returns a value as one types it."""
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
