"""`coatcheck usage`: what namespaces hold, their limits, and a session's token account. Uses a running service."""

import json
from typing import Any
from urllib.parse import quote

import click

from coatcheck.cli.command_setup import size_of
from coatcheck.cli.exits import Exit, echo, echo_items, fail
from coatcheck.cli.http_client import all_items, ask, connect, service_options
from coatcheck.core.text.plural import plural


@click.command()
@click.option("--namespace", help="Only this namespace.")
@click.option("--session", help="Show this session's tokens instead.")
@service_options
def usage(namespace: str | None, session: str | None, service: str | None, key: str | None, as_json: bool) -> None:
    """Show how much each namespace holds: artifacts, stored bytes, and its limits.

    With --session, show one session's tokens: what was taken in, given out, read back and saved, and its context as it
    was measured last. The session is one of the key's own namespace.
    """
    if session is not None and namespace is not None:
        fail(Exit.WRONG, "--session is one of the key's own namespace: leave out --namespace.")
    with connect(service, key) as client:
        if session is not None:
            path = f"/v1/sessions/{quote(session, safe='')}/usage"
            found = ask(lambda: client.get(path), client, session=str, raw_tokens=int)
            echo(json.dumps(found, indent=2) if as_json else _session(found))
            return
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


def _session(usage: dict[str, Any]) -> str:
    """Returns a session's account in up to three lines."""
    if usage["since"] is None:
        return f"{usage['session']}: nothing has been counted yet."
    taken = f"{plural(usage['artifacts'], 'artifact')} of {usage['raw_tokens']:,} tokens"
    read = f"{usage['read_tokens']:,} read back in {plural(usage['reads'], 'read')}"
    sums = f"{taken}, {usage['given_tokens']:,} given, {read}; {usage['saved_tokens']:,} saved"
    lines = [f"{usage['session']}: {sums}"]
    if usage["compactions"]:
        lines.append(f"{plural(usage['compactions'], 'compaction')} left {usage['unsent_tokens']:,} tokens unsent")
    if usage["persisted_tokens"] is not None:
        staying, passing = usage["persisted_tokens"], usage["transient_tokens"]
        lines.append(f"context: {staying + passing:,} tokens, of which {staying:,} stay for the next turn")
    return "\n".join(lines)
