"""`coatcheck hold`: protect an artifact, a session or a namespace from deletion; list, release.

Uses a running service.
"""

import json
from typing import Any

import click

from coatcheck.cli.exits import Exit, echo, echo_items, fail
from coatcheck.cli.http_client import all_items, ask, connect, service_options
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.retention.holds import check_hold_id

_HOLDS = "/v1/admin/holds"
_HOLD: dict[str, type] = {"id": str, "artifact": object, "session": object, "until": object, "reason": str}


@click.group()
def hold() -> None:
    """Protect artifacts from deletion, by anybody and by any route."""


@hold.command()
@click.argument("artifact_id", required=False)
@click.option("--reason", required=True, help="Reason; shown to whoever may read what is held.")
@click.option("--artifact", help="Hold this artifact; the same as ARTIFACT_ID.")
@click.option("--session", help="Hold this session, including payloads that are added later.")
@click.option("--namespace", help="Namespace to hold in (default: the key's own).")
@click.option("--all", "everything", is_flag=True, help="Hold the whole namespace.")
@click.option("--until", help="When the hold ends: 2027-01-31T00:00:00Z.")
@click.option("--ttl", help="When the hold ends, counted from now: 90d.")
@service_options
def add(
    artifact_id: str | None,
    everything: bool,
    service: str | None,
    key: str | None,
    as_json: bool,
    **options: str | None,
) -> None:
    """Place a hold on the artifact ARTIFACT_ID, on a session or, with --all, on a namespace."""
    targets = [each for each in (artifact_id, options["artifact"], options["session"]) if each is not None]
    if len(targets) + everything != 1:
        fail(Exit.WRONG, "name what to hold: one of an artifact's ID, --session and --all.")
    options["artifact"] = artifact_id or options["artifact"]
    body = {name: value for name, value in options.items() if value is not None}
    with connect(service, key) as client:
        answer = ask(lambda: client.post(_HOLDS, json=body), client, **_HOLD)
    echo(json.dumps(answer, indent=2) if as_json else _render_hold(answer))


@hold.command("list")
@click.option("--namespace", help="Only holds in this namespace.")
@service_options
def list_holds(namespace: str | None, service: str | None, key: str | None, as_json: bool) -> None:
    """List the holds, including those that have ended."""
    with connect(service, key) as client:
        holds = all_items(client, _HOLDS, namespace)
    echo_items(holds, _render_hold, "There are no holds.", as_json=as_json)


@hold.command()
@click.argument("hold_id")
@service_options
def release(hold_id: str, service: str | None, key: str | None, as_json: bool) -> None:
    """Release the hold with the ID HOLD_ID."""
    try:
        check_hold_id(hold_id)
    except CoatcheckError as error:
        fail(Exit.WRONG, error.detail)
    with connect(service, key) as client:
        answer = ask(lambda: client.delete(f"{_HOLDS}/{hold_id}"), client, **_HOLD)
    echo(json.dumps(answer, indent=2) if as_json else f"Released: {_render_hold(answer)}")


def _render_hold(hold: dict[str, Any]) -> str:
    if hold["artifact"] is not None:
        what = hold["artifact"]
    elif hold["session"] is not None:
        what = f"session {hold['session']!r}"
    else:
        what = "everything"
    until = "" if hold["until"] is None else f", until {hold['until']}"
    return f"{hold['id']}  {what} in {hold['namespace']}{until}: {hold['reason']} (by {hold['by']}, {hold['at']})"
