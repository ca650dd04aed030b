"""`coatcheck namespace`, `usage`, `status` and `hold`: what namespaces contain, through a running service."""

from typing import Any, Final
from urllib.parse import quote

import click

from coatcheck.cli.command_setup import render_size
from coatcheck.cli.exits import Exit, fail
from coatcheck.cli.http_client import PAGE, ServiceClient, drop_missing, service_options
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.keys import check_namespace
from coatcheck.core.retention.audit import check_hold_id
from coatcheck.core.text.count import plural

_NAMESPACES = "/v1/admin/namespaces"


@click.group()
def namespace() -> None:
    """Create, list, disable, enable and empty namespaces.

    Needs a key of the namespace '*', or no key while none has been made.
    """


@namespace.command("list")
@service_options
def list_namespaces(service: ServiceClient) -> None:
    """List namespaces that were created or received a key."""
    service.echo_items(service.list_items(_NAMESPACES, {}), _render_namespace, "No namespace has been created.")


@namespace.command()
@click.argument("name")
@service_options
def create(service: ServiceClient, name: str) -> None:
    """Create the namespace NAME. Creating its first key creates it as well."""
    answer = service.ask("POST", _NAMESPACES, {"name": str}, json={"name": name})
    service.echo(answer, _render_namespace(answer))


@namespace.command()
@click.argument("name")
@service_options
def disable(service: ServiceClient, name: str) -> None:
    """Refuse all keys of NAME from now on. Its artifacts stay."""
    _switch(service, name, disabled=True)


@namespace.command()
@click.argument("name")
@service_options
def enable(service: ServiceClient, name: str) -> None:
    """Accept the keys of NAME again."""
    _switch(service, name, disabled=False)


@namespace.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Confirm the deletion, which cannot be undone.")
@service_options
def delete(service: ServiceClient, name: str, yes: bool) -> None:
    """Delete everything in NAME, in the background. `coatcheck usage` shows the progress."""
    path = _path(name)
    if not yes:
        fail(Exit.WRONG, f"this deletes every artifact of the namespace {name}: confirm it with --yes.")
    answer = service.ask("DELETE", path, {"namespace": str, "artifacts": int})
    service.echo(answer, f"{name} is being emptied: {plural(answer['artifacts'], 'artifact')} to go.")


def _switch(service: ServiceClient, name: str, *, disabled: bool) -> None:
    answer = service.ask("PATCH", _path(name), {"name": str}, json={"disabled": disabled})
    service.echo(answer, _render_namespace(answer))


def _path(name: str) -> str:
    """Returns the path of a namespace; ends the command for an invalid name."""
    try:
        check_namespace(name)
    except CoatcheckError as error:
        fail(Exit.WRONG, error.detail)
    return f"{_NAMESPACES}/{name}"


def _render_namespace(row: dict[str, Any]) -> str:
    state = "enabled" if row["disabled_at"] is None else f"disabled since {row['disabled_at']}"
    return f"{row['name']}: {state}, created {row['created_at']}"


_MAX_NAMED_SESSIONS: Final = 8
"""Maximum sessions that an error names for a choice; those with the latest activity come first."""


@click.command()
@click.option("--namespace", help="Only this namespace.")
@click.option("--session", help="Show this session's tokens instead.")
@service_options
def usage(service: ServiceClient, namespace: str | None, session: str | None) -> None:
    """Show how much each namespace holds: artifacts, stored bytes, and its limits.

    With --session, show one session's tokens: what was taken in, given out, read back and saved, and its context as it
    was last measured. The session is one of the key's own namespace.
    """
    if session is not None and namespace is not None:
        fail(Exit.WRONG, "--session is one of the key's own namespace: leave out --namespace.")
    if session is not None:
        account = _usage_of(service, session)
        service.echo(account, _session(account))
        return
    usages = service.list_items("/v1/admin/usage", {"namespace": namespace})
    service.echo_items(usages, _render_usage, "Nothing has been stored yet.")


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
    """Returns a session's account in one or two lines, then the three lines of its context if it was measured."""
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
def status(service: ServiceClient, session: str | None) -> None:
    """Show how full a session's context was when it was measured or compacted last.

    Three lines: what is left in the next turn, what is left in this turn, and the payload of this turn's web searches.
    """
    usage = _usage_of(service, session) if session is not None else _only_measured(service)
    if not usage["lines"]:
        fail(Exit.NOTHING, f"{usage['session']}: its context has not been measured yet. {_MEASURE}")
    service.echo(usage, "\n".join(usage["lines"]))


_MEASURE: Final = "POST /v1/context/measure and POST /v1/context/compact measure it, if they name the session."


def _usage_of(service: ServiceClient, session: str) -> dict[str, Any]:
    path = f"/v1/sessions/{quote(session, safe='')}/usage"
    return service.ask("GET", path, {"session": str, "raw_tokens": int, "lines": list})


def _only_measured(service: ServiceClient) -> dict[str, Any]:
    """Returns the only session whose context was measured; ends the command if there is none, or more than one."""
    sessions = service.ask("GET", "/v1/sessions", {"items": list}, params={"limit": PAGE})["items"]
    measured: list[dict[str, Any]] = [each for each in sessions if each["lines"]]
    if not measured:
        fail(Exit.NOTHING, f"no session's context has been measured yet. {_MEASURE}")
    if len(measured) > 1:
        names = ", ".join(each["session"] for each in measured[:_MAX_NAMED_SESSIONS])
        more = f" and {len(measured) - _MAX_NAMED_SESSIONS} more" if len(measured) > _MAX_NAMED_SESSIONS else ""
        fail(Exit.WRONG, f"several sessions were measured: {names}{more}. Name one with --session.")
    return measured[0]


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
def add(service: ServiceClient, artifact_id: str | None, everything: bool, **options: str | None) -> None:
    """Place a hold on the artifact ARTIFACT_ID, on a session or, with --all, on a namespace."""
    targets = [each for each in (artifact_id, options["artifact"], options["session"]) if each is not None]
    if len(targets) + everything != 1:
        fail(Exit.WRONG, "name what to hold: one of an artifact's ID, --session and --all.")
    if artifact_id is not None:
        options["artifact"] = artifact_id
    answer = service.ask("POST", _HOLDS, _HOLD, json=drop_missing(**options))
    service.echo(answer, _render_hold(answer))


@hold.command("list")
@click.option("--namespace", help="Only holds in this namespace.")
@service_options
def list_holds(service: ServiceClient, namespace: str | None) -> None:
    """List the holds, including those that have ended."""
    service.echo_items(service.list_items(_HOLDS, {"namespace": namespace}), _render_hold, "There are no holds.")


@hold.command()
@click.argument("hold_id")
@service_options
def release(service: ServiceClient, hold_id: str) -> None:
    """Release the hold with the ID HOLD_ID."""
    try:
        check_hold_id(hold_id)
    except CoatcheckError as error:
        fail(Exit.WRONG, error.detail)
    answer = service.ask("DELETE", f"{_HOLDS}/{hold_id}", _HOLD)
    service.echo(answer, f"Released: {_render_hold(answer)}")


def _render_hold(hold: dict[str, Any]) -> str:
    if hold["artifact"] is not None:
        what = hold["artifact"]
    elif hold["session"] is not None:
        what = f"session {hold['session']!r}"
    else:
        what = "everything"
    until = "" if hold["until"] is None else f", until {hold['until']}"
    return f"{hold['id']}  {what} in {hold['namespace']}{until}: {hold['reason']} (by {hold['by']}, {hold['at']})"
