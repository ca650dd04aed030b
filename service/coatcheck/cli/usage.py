"""`coatcheck usage` and `coatcheck status`: what namespaces hold, a session's tokens, how full its context is.

They use a running service.
"""

import json
from typing import Any, Final
from urllib.parse import quote

import click
import httpx

from coatcheck.cli.command_setup import render_size
from coatcheck.cli.exits import Exit, echo, echo_items, fail
from coatcheck.cli.http_client import PAGE, all_items, ask, connect, service_options
from coatcheck.core.text.plural import plural

_NAMED: Final = 8
"""Sessions that are named for a choice, those with the latest activity."""


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
            account = _usage_of(client, session)
            echo(json.dumps(account, indent=2) if as_json else _session(account))
            return
        usages = all_items(client, "/v1/admin/usage", namespace)
    echo_items(usages, _render_usage, "Nothing has been stored yet.", as_json=as_json)


def _count(artifacts: int, most: int | None) -> str:
    return plural(artifacts, "artifact") if most is None else f"{artifacts:,} of {plural(most, 'artifact')}"


def _render_usage(usage: dict[str, Any]) -> str:
    most, count = usage["max_bytes"], usage["max_artifacts"]
    parts = [
        _count(usage["artifacts"], count),
        render_size(usage["bytes"]) + ("" if most is None else f" of {render_size(most)}"),
    ]
    if usage["reserved"]:
        parts.append(f"{render_size(usage['reserved'])} reserved by uploads")
    if most is not None or count is not None:
        parts.append("evicts what was read longest ago" if usage["evict"] != "off" else "refuses when full")
    if usage["deleting_at"] is not None:
        parts.append(f"being deleted since {usage['deleting_at']}")
    return f"{usage['namespace']}: {', '.join(parts)}"


def _session(usage: dict[str, Any]) -> str:
    """Returns a session's account in up to two lines, and the three lines of its context if it was measured."""
    if usage["since"] is None:
        return f"{usage['session']}: nothing has been counted yet."
    artifacts = f"{plural(usage['artifacts'], 'artifact')} of {usage['raw_tokens']:,} tokens"
    reads = f"{usage['read_tokens']:,} read back in {plural(usage['reads'], 'read')}"
    sums = f"{artifacts}, {usage['given_tokens']:,} given, {reads}; {usage['saved_tokens']:,} saved"
    lines = [f"{usage['session']}: {sums}"]
    if usage["compactions"]:
        lines.append(f"{plural(usage['compactions'], 'compaction')} left {usage['unsent_tokens']:,} tokens unsent")
    return "\n".join([*lines, *usage["lines"]])


@click.command()
@click.option("--session", help="The session (default: the one that was measured, if there is only one).")
@service_options
def status(session: str | None, service: str | None, key: str | None, as_json: bool) -> None:
    """Show how full a session's context was when it was measured or compacted last.

    Three lines: what is left in the next turn, what is left in this turn, and the payload of this turn's web searches.
    """
    with connect(service, key) as client:
        usage = _usage_of(client, session) if session is not None else _only_measured(client)
    if not usage["lines"]:
        fail(Exit.NOTHING, f"{usage['session']}: its context has not been measured yet. {_MEASURE}")
    echo(json.dumps(usage, indent=2) if as_json else "\n".join(usage["lines"]))


_MEASURE: Final = "POST /v1/context/measure and POST /v1/context/compact measure it, if they name the session."


def _usage_of(client: httpx.Client, session: str) -> dict[str, Any]:
    path = f"/v1/sessions/{quote(session, safe='')}/usage"
    return ask(lambda: client.get(path), client, session=str, raw_tokens=int, lines=list)


def _only_measured(client: httpx.Client) -> dict[str, Any]:
    """Returns the only session whose context was measured; ends the command if there is none or a choice."""
    sessions = ask(lambda: client.get("/v1/sessions", params={"limit": PAGE}), client, items=list)["items"]
    measured: list[dict[str, Any]] = [each for each in sessions if each["lines"]]
    if not measured:
        fail(Exit.NOTHING, f"no session's context has been measured yet. {_MEASURE}")
    if len(measured) > 1:
        names = ", ".join(each["session"] for each in measured[:_NAMED])
        more = f" and {len(measured) - _NAMED} more" if len(measured) > _NAMED else ""
        fail(Exit.WRONG, f"several sessions were measured: {names}{more}. Name one with --session.")
    return measured[0]
