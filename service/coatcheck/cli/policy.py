"""`coatcheck policy` and `redaction`: terms that apply to payloads by their scope, and the rules that find secrets."""

from collections.abc import Callable
from datetime import date
from typing import Any

import click

from coatcheck.cli.command_setup import settings_for
from coatcheck.cli.exits import Exit, echo_answer, fail
from coatcheck.cli.http_client import ServiceClient, drop_missing, service_options
from coatcheck.core.policies.policy import FIELDS, NO_LIMIT, PARTS, SIZES, size_of

_POLICIES = "/v1/admin/policies"
_COUNTS = tuple(name for name in FIELDS if name == "inline_tokens" or name.startswith("search_"))
"""Fields whose value is a count."""
_FLAGS = ("keep_card_text",)
"""Fields whose value is true or false."""


def _scope(command: Callable[..., None]) -> Callable[..., None]:
    for part in reversed(PARTS):
        command = click.option(f"--{part}", help=f"Limit the policy to this {part} in the namespace.")(command)
    return click.option("--namespace", help="Namespace of the policy (the key's own); '*' covers all namespaces.")(
        command
    )


@click.group()
def policy() -> None:
    """Set how long payloads are kept, how much a namespace may hold, and what models see."""


@policy.command("list")
@click.option("--namespace", help="Only policies of this namespace and the service-wide ones.")
@service_options
def list_(service: ServiceClient, namespace: str | None) -> None:
    """List the policies."""
    answer = service.ask("GET", _POLICIES, {"items": list}, params=drop_missing(namespace=namespace))
    lines = [f"{_name(each['scope'])}: {_terms(each['policy'])}" for each in answer["items"]]
    service.echo(answer, "\n".join(lines), none="No policy has been set: the settings apply.")


@policy.command()
@_scope
@service_options
def show(service: ServiceClient, **scope: str | None) -> None:
    """Show a scope's policy and its earlier versions."""
    path = f"{_POLICIES}/history"
    answer = service.ask("GET", path, {"scope": dict, "versions": list}, params=drop_missing(**scope))
    lines = [_name(answer["scope"])]
    for each in answer["versions"]:
        terms = "removed" if each["policy"] is None else _terms(each["policy"])
        lines.append(f"  version {each['version']}, {each['at']} by {each['by']}: {terms}")
    service.echo(answer, "\n".join(lines))


@policy.command("set")
@_scope
@click.option("--replace", is_flag=True, help="Unset every field that is not given here.")
@click.argument("fields", nargs=-1, required=True, metavar="FIELD=VALUE...")
@service_options
def set_(service: ServiceClient, fields: tuple[str, ...], replace: bool, **scope: str | None) -> None:
    """Set FIELDs of a policy, such as ttl=7d max_bytes=10gib evict=least_recently_read; FIELD= unsets one.

    Times are seconds or 30m, 12h, 7d, forever; sizes take kib, mib, gib; none is no limit.
    """
    changes = dict(_field(each) for each in fields)
    before: dict[str, Any] = {} if replace else _current(service, scope)
    decisions = {name: value for name, value in (before | changes).items() if value != ""}
    body = drop_missing(**scope) | {"policy": decisions}
    answer = service.ask("PUT", _POLICIES, {"scope": dict, "policy": dict, "version": int}, json=body)
    service.echo(answer, f"{_name(answer['scope'])}: {_terms(answer['policy'])} (version {answer['version']})")


@policy.command()
@_scope
@service_options
def remove(service: ServiceClient, **scope: str | None) -> None:
    """Remove a scope's policy."""
    answer = service.ask("DELETE", _POLICIES, {"scope": dict, "version": int}, params=drop_missing(**scope))
    service.echo(answer, f"{_name(answer['scope'])}: no policy (version {answer['version']})")


@policy.command()
@click.option("--namespace", help="Payload's namespace (the key's own).")
@click.option("--session", help="Payload's session.")
@click.option("--kind", help="Payload's kind.")
@click.option("--tool", "tool_name", help="Tool that produced the payload.")
@click.option("--label", multiple=True, help="Payload's label; may be given several times.")
@service_options
def explain(service: ServiceClient, **options: str | tuple[str, ...] | None) -> None:
    """Show the terms that apply to a payload, and which scope sets each of them."""
    answer = service.ask("GET", f"{_POLICIES}/effective", {"sources": list}, params=drop_missing(**options))
    lines = [f"{each['field']} = {_value(each['value'])}  (from {_name(each['scope'])})" for each in answer["sources"]]
    service.echo(answer, "\n".join(lines), none="No policy covers it: the settings apply.")


def _current(service: ServiceClient, scope: dict[str, str | None]) -> dict[str, Any]:
    """Returns the scope's present policy; empty if it has none."""
    response = service.send("GET", f"{_POLICIES}/history", params=drop_missing(**scope))
    if response.status_code == 404:  # noqa: PLR2004 - the scope never had a policy
        return {}
    return service.read_answer(response, {"versions": list})["versions"][0]["policy"] or {}


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or name not in FIELDS:
        fail(Exit.WRONG, f"{text!r} is not FIELD=VALUE with a FIELD of {', '.join(FIELDS)}.")
    if value.lower() in NO_LIMIT:
        return name, None
    if name in _FLAGS and value.lower() in {"true", "false"}:
        return name, value.lower() == "true"
    if value and name in (*SIZES, *_COUNTS):
        return name, _size(name, value)
    return name, int(value) if value.isascii() and value.isdecimal() else value


def _size(name: str, value: str) -> int:
    try:
        return size_of(value)
    except ValueError as error:
        fail(Exit.WRONG, f"{name}={value}: {error}")


def _name(scope: dict[str, str]) -> str:
    part = next((f"/{name}={value}" for name, value in scope.items() if name != "namespace"), "")
    return f"{scope['namespace']}{part}"


def _terms(policy: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in policy.items())


def _value(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def redaction(as_json: bool) -> None:
    """List the redaction rules that are on, and those that are off and why. Policies decide if redaction happens."""
    from coatcheck.adapters.redaction_rules import RELEASED, VERSION, Masks  # noqa: PLC0415
    from coatcheck.adapters.system import SystemClock  # noqa: PLC0415 - client commands start quickly

    current = settings_for(None)
    try:
        rules = Masks(current.redaction_rules).rules()
    except ValueError as error:
        fail(Exit.WRONG, str(error))
    left_out = [{"rule": each.rule, "why": each.why} for each in rules.left_out]
    age = (SystemClock().now().date() - date.fromisoformat(RELEASED)).days
    report = {
        "gitleaks": VERSION,
        "released": RELEASED,
        "days_old": age,
        "default": current.redaction,
        "rules": list(rules.names),
        "left_out": left_out,
    }
    source = f"gitleaks' of {RELEASED} ({VERSION}), {age} days old, and Coatcheck's own"
    lines = [
        f"{len(rules.names)} rules: {source}. Without a policy: {current.redaction}.",
        *(f"  {name}" for name in rules.names),
        "Left out:",
        *(f"  {each['rule']}: {each['why']}" for each in left_out),
    ]
    echo_answer(report, "\n".join(lines), as_json=as_json)
