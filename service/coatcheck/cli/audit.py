"""`coatcheck audit`: list what was done, verify that nobody has changed it, print its head to keep elsewhere."""

import json
from typing import Any, Final

import click

from coatcheck.cli.exits import Exit, echo, echo_items
from coatcheck.cli.http_client import PAGE, ask, connect, service_options
from coatcheck.cli.retention_text import line_text, verified_text

_AUDIT: Final = "/v1/admin/audit"


@click.group()
def audit() -> None:
    """Who removed or changed what, when and why; and whether that record is whole."""


@audit.command("list")
@click.option("--namespace", help="Only lines about this one.")
@click.option("--run", help="Only lines of this run.")
@click.option("--action", help="Only artifact.removed, or with artifact all that begin with it.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many, the latest first.")
@service_options
def list_(limit: int, service: str | None, key: str | None, as_json: bool, **where: str | None) -> None:
    """List lines, the latest first."""
    params: dict[str, Any] = {name: value for name, value in where.items() if value}
    found: list[dict[str, Any]] = []
    with connect(service, key) as client:
        while len(found) < limit:
            asked = params | {"limit": min(PAGE, limit - len(found))}
            page = ask(lambda: client.get(_AUDIT, params=asked), client, items=list, next=object)  # noqa: B023 - asked at once
            found += page["items"]
            if page["next"] is None:
                break
            params["before"] = page["next"]
    echo_items(found, line_text, "No such lines.", as_json=as_json)


@audit.command()
@click.option("--head", help="A head that was kept elsewhere; the audit must have gone on from it.")
@service_options
def verify(head: str | None, service: str | None, key: str | None, as_json: bool) -> None:
    """Verify every line. Exit code 1: the record is not whole."""
    params = {} if head is None else {"head": head}
    with connect(service, key) as client:
        found = ask(lambda: client.get(f"{_AUDIT}/verify", params=params), client, whole=bool, lines=int, breach=object)
    echo(json.dumps(found, indent=2) if as_json else verified_text(found))
    if not found["whole"]:
        raise SystemExit(Exit.NOTHING)


@audit.command()
@service_options
def head(service: str | None, key: str | None, as_json: bool) -> None:
    """Print where the audit ends, to be kept where who administers the database cannot write."""
    with connect(service, key) as client:
        found = ask(lambda: client.get(f"{_AUDIT}/head"), client, head=str)
    echo(json.dumps(found, indent=2) if as_json else found["head"])
