"""`coatcheck namespace`: create, list, disable, enable and empty namespaces. Uses a running service."""

import json
from typing import Any

import click

from coatcheck.cli.exits import Exit, echo, echo_items, fail
from coatcheck.cli.http_client import all_items, ask, connect, service_options
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.keys import check_namespace
from coatcheck.core.text.plural import plural

_NAMESPACES = "/v1/admin/namespaces"


@click.group()
def namespace() -> None:
    """Create, list, disable, enable and empty namespaces.

    Needs a key of the namespace '*', or no key while none has been made.
    """


@namespace.command("list")
@service_options
def list_namespaces(service: str | None, key: str | None, as_json: bool) -> None:
    """List namespaces that were created or received a key."""
    with connect(service, key) as client:
        namespaces = all_items(client, _NAMESPACES, None)
    echo_items(namespaces, _render_namespace, "No namespace has been created.", as_json=as_json)


@namespace.command()
@click.argument("name")
@service_options
def create(name: str, service: str | None, key: str | None, as_json: bool) -> None:
    """Create the namespace NAME. Creating its first key creates it as well."""
    with connect(service, key) as client:
        answer = ask(lambda: client.post(_NAMESPACES, json={"name": name}), client, name=str)
    echo(json.dumps(answer, indent=2) if as_json else _render_namespace(answer))


@namespace.command()
@click.argument("name")
@service_options
def disable(name: str, service: str | None, key: str | None, as_json: bool) -> None:
    """Refuse all keys of NAME from now on. Its artifacts stay."""
    _switch(name, service, key, disabled=True, as_json=as_json)


@namespace.command()
@click.argument("name")
@service_options
def enable(name: str, service: str | None, key: str | None, as_json: bool) -> None:
    """Accept the keys of NAME again."""
    _switch(name, service, key, disabled=False, as_json=as_json)


@namespace.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Confirm the deletion, which cannot be undone.")
@service_options
def delete(name: str, yes: bool, service: str | None, key: str | None, as_json: bool) -> None:
    """Delete everything in NAME, in the background. `coatcheck usage` shows the progress."""
    path = _path(name)
    if not yes:
        fail(Exit.WRONG, f"this deletes every artifact of the namespace {name}: confirm it with --yes.")
    with connect(service, key) as client:
        answer = ask(lambda: client.delete(path), client, namespace=str, artifacts=int)
    echo(
        json.dumps(answer, indent=2)
        if as_json
        else f"{name} is being emptied: {plural(answer['artifacts'], 'artifact')} to go."
    )


def _switch(name: str, service: str | None, key: str | None, *, disabled: bool, as_json: bool) -> None:
    path = _path(name)
    with connect(service, key) as client:
        answer = ask(lambda: client.patch(path, json={"disabled": disabled}), client, name=str)
    echo(json.dumps(answer, indent=2) if as_json else _render_namespace(answer))


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
