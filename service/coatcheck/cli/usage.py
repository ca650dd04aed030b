"""`coatcheck usage`: what namespaces hold, and what they may hold. Through a running service."""

from typing import Any

import click

from coatcheck.cli.command_setup import size_of
from coatcheck.cli.exits import echo_items
from coatcheck.cli.http_client import all_items, connect, service_options
from coatcheck.core.text.plural import plural


@click.command()
@click.option("--namespace", help="Only this namespace.")
@service_options
def usage(namespace: str | None, service: str | None, key: str | None, as_json: bool) -> None:
    """Show how much each namespace holds: artifacts, stored bytes, and its limits."""
    with connect(service, key) as client:
        usages = all_items(client, "/v1/admin/usage", namespace)
    echo_items(usages, _shown, "Nothing has been stored yet.", as_json=as_json)


def _count(artifacts: int, most: int | None) -> str:
    return plural(artifacts, "artifact") if most is None else f"{artifacts:,} of {plural(most, 'artifact')}"


def _shown(usage: dict[str, Any]) -> str:
    most, count = usage["max_bytes"], usage["max_artifacts"]
    parts = [
        _count(usage["artifacts"], count),
        size_of(usage["bytes"]) + ("" if most is None else f" of {size_of(most)}"),
    ]
    if usage["reserved"]:
        parts.append(f"{size_of(usage['reserved'])} reserved by uploads")
    if most is not None or count is not None:
        parts.append("evicts what was read longest ago" if usage["evict"] != "off" else "refuses when full")
    if usage["deleting_at"] is not None:
        parts.append(f"being deleted since {usage['deleting_at']}")
    return f"{usage['namespace']}: {', '.join(parts)}"
