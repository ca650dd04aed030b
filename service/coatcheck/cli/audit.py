"""`coatcheck audit`: list what was done."""

from typing import Any, Final

import click

from coatcheck.cli.exits import echo_items
from coatcheck.cli.http_client import PAGE, ask, connect, service_options
from coatcheck.cli.retention_text import line_text

_AUDIT: Final = "/v1/admin/audit"


@click.group()
def audit() -> None:
    """Show who removed or changed what, when and why."""


@audit.command("list")
@click.option("--namespace", help="Only lines about this namespace.")
@click.option("--run", help="Only lines of this run.")
@click.option("--action", help="Only this action, such as artifact.removed; artifact selects all that begin with it.")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of lines, newest first."
)
@service_options
def list_(limit: int, service: str | None, key: str | None, as_json: bool, **where: str | None) -> None:
    """List the audit log, newest first."""
    params: dict[str, Any] = {name: value for name, value in where.items() if value}
    lines: list[dict[str, Any]] = []
    with connect(service, key) as client:
        while len(lines) < limit:
            page_params = params | {"limit": min(PAGE, limit - len(lines))}
            page = ask(lambda: client.get(_AUDIT, params=page_params), client, items=list, next=object)  # noqa: B023 - asked at once
            lines += page["items"]
            if page["next"] is None:
                break
            params["before"] = page["next"]
    echo_items(lines, line_text, "No matching audit lines.", as_json=as_json)
