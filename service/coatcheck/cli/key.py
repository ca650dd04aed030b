"""`coatcheck key`: create, list and revoke keys, directly in the database or through a running service.

A service is used if --url or COATCHECK_URL names one and --data names no store. Otherwise the command opens the
database: whoever can do that is its administrator, so this is how the first key is made. A service may run at the same
time, and sees the change with its next request. The command never creates a store.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coatcheck.adapters.system import SystemClock
from coatcheck.cli.command_setup import byte_size, end, require_store, settings_for
from coatcheck.cli.exits import Exit, echo, echo_answer, echo_items, fail
from coatcheck.cli.http_client import ServiceClient, unless_unsendable
from coatcheck.core.artifact import EVERY_SCOPE, Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import ADMIN, EVERYWHERE
from coatcheck.core.rates import Rates
from coatcheck.settings import is_set

if TYPE_CHECKING:
    from coatcheck.core.keys import KeyInfo
    from coatcheck.usecases.tenants.administer_keys import AdministerKeys

T = TypeVar("T")
_HERE = Caller(name="command line")
_USUAL = ("delete", "ingest", "read")
"""Scopes of a key for which no scope is given."""
_KEYS_PER_PAGE = 200
"""Maximum keys that the use case returns at once."""
_KEYS = "/v1/admin/keys"
_KEY: dict[str, type] = {"id": str, "name": str, "namespace": str, "scopes": list}
"""Fields that an answer with a key must have, with their types."""


def _where(command: Callable[..., None]) -> Callable[..., None]:
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(unless_unsendable()(command))
    command = click.option("--key", help="With --url: an administrator's key (COATCHECK_KEY).")(command)
    command = click.option(
        "--url", "service", help="Ask a running service (COATCHECK_URL) instead of opening the database."
    )(command)
    return click.option("--data", metavar="DIR", help="Directory of the embedded store.")(command)


@click.group()
def key() -> None:
    """Create, list and revoke keys."""


@key.command()
@click.argument("name")
@click.option("--namespace", help="Namespace of the key (default); '*' administers all namespaces.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(sorted(EVERY_SCOPE)),
    help="What the key allows; may be given several times (ingest, read, delete; for '*': admin; the first key: all).",
)
@click.option("--session-prefix", help="Limit the key to sessions whose names begin with this.")
@click.option("--ttl", help="How long the key is valid: 90d, 12h. By default it never expires.")
@click.option("--requests-per-minute", "requests", type=click.IntRange(0), help="0: no limit (as configured).")
@click.option("--bytes-per-minute", "size", callback=byte_size, help="Such as 64mib; 0: no limit (as configured).")
@_where
def create(
    name: str,
    namespace: str | None,
    scopes: tuple[str, ...],
    session_prefix: str | None,
    ttl: str | None,
    requests: int | None,
    size: int | None,
    data: str | None,
    service: str | None,
    key: str | None,
    as_json: bool,
) -> None:
    """Create a key called NAME and print it. It is shown only this once and stored nowhere."""
    rates = Rates(requests=requests, bytes=size)
    # The first key of a store also gets `admin`: without it, nobody could make another key through the service.
    usual = scopes or ((ADMIN,) if namespace == EVERYWHERE else _USUAL)
    may_be_first = not scopes and namespace is None and session_prefix is None
    if _through_service(data, service):
        body: dict[str, Any] = {"name": name, "namespace": namespace, "session_prefix": session_prefix, "ttl": ttl}
        body |= {"requests_per_minute": requests, "bytes_per_minute": size}
        with _remote(service, key) as remote:
            first = may_be_first and not remote.list_items(_KEYS, {})
            body["scopes"] = (ADMIN, *usual) if first else usual
            new_key = remote.ask("POST", _KEYS, {"key": str, **_KEY}, json=body)
            where = f"of {str(remote.http.base_url).rstrip('/')}"
    else:

        async def create_first(keys: "AdministerKeys") -> dict[str, Any]:
            first = may_be_first and not await _all(keys, None)
            return await _create(keys, name, namespace, (ADMIN, *usual) if first else usual, session_prefix, ttl, rates)

        new_key, where = _directly(data, create_first)
    if not as_json:
        echo(f"Key {new_key['id']} {where}, shown only this once: {_terms(new_key)}.", err=True)
        if may_be_first and ADMIN in new_key["scopes"]:
            echo("This is the first key: from now on every caller needs one.", err=True)
    echo_answer(new_key, new_key["key"], as_json=as_json)


@key.command("list")
@click.option("--namespace", help="Only keys of this namespace.")
@_where
def list_(namespace: str | None, data: str | None, service: str | None, key: str | None, as_json: bool) -> None:
    """List keys, newest first, including expired and revoked ones."""
    if _through_service(data, service):
        with _remote(service, key) as remote:
            rows = remote.list_items(_KEYS, {"namespace": namespace})
    else:
        rows, _ = _directly(data, lambda keys: _all(keys, namespace))
    none = "No key has been made." if namespace is None else f"Namespace {namespace} has no key."
    echo_items(rows, lambda each: f"{each['id']}  {each['name']}: {_terms(each)}", none, as_json=as_json)


@key.command()
@click.argument("key_id")
@_where
def revoke(key_id: str, data: str | None, service: str | None, key: str | None, as_json: bool) -> None:
    """Revoke the key with the ID KEY_ID: it is refused from now on."""
    if _through_service(data, service):
        with _remote(service, key) as remote:
            revoked_key = remote.ask("DELETE", f"{_KEYS}/{_plain(key_id)}", _KEY)
    else:
        revoked_key, _ = _directly(data, lambda keys: _revoke(keys, key_id))
    echo_answer(revoked_key, f"Key {revoked_key['id']} ({revoked_key['name']}) is revoked.", as_json=as_json)


def _remote(service: str | None, key: str | None) -> contextlib.closing[ServiceClient]:
    """Returns a context with a client of the running service, which is closed at the end of the context."""
    return contextlib.closing(ServiceClient(service, key, as_json=False))


def _plain(key_id: str) -> str:
    """Returns the ID of a key, for use in a path; ends the command if the text cannot be the ID of a key."""
    if not key_id.isalnum() or not key_id.isascii():
        fail(Exit.WRONG, "a key's ID is letters and digits: the part between `ck_live_` and the next `_`.")
    return key_id


def _terms(key: dict[str, Any]) -> str:
    parts = [f"namespace {key['namespace']}", "may " + ", ".join(key["scopes"])]
    if key["session_prefix"] is not None:
        parts.append(f"sessions {key['session_prefix']!r}…")
    if key["revoked_at"] is not None:
        parts.append(f"revoked {key['revoked_at']}")
    elif key["expires_at"] is not None:
        over = datetime.fromisoformat(key["expires_at"]) <= SystemClock().now()
        parts.append(f"{'expired' if over else 'until'} {key['expires_at']}")
    return "; ".join(parts)


async def _create(
    keys: "AdministerKeys",
    name: str,
    namespace: str | None,
    scopes: tuple[str, ...],
    session_prefix: str | None,
    ttl: str | None,
    rates: Rates,
) -> dict[str, Any]:
    from coatcheck.api.parameters import seconds  # noqa: PLC0415 - the client commands must start quickly

    life = None if ttl is None else seconds(ttl, "ttl")
    info, secret = await keys.create(
        _HERE,
        namespace=namespace,
        name=name,
        scopes=scopes,
        session_prefix=session_prefix,
        life=None if life is None else timedelta(seconds=life),
        rates=rates,
    )
    return _render_key(info) | {"key": secret.reveal()}


async def _all(keys: "AdministerKeys", namespace: str | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    before: str | None = None
    while True:
        page = await keys.list(_HERE, namespace=namespace, before=before, limit=_KEYS_PER_PAGE)
        rows += map(_render_key, page.items)
        before = page.next
        if before is None:
            return rows


async def _revoke(keys: "AdministerKeys", key_id: str) -> dict[str, Any]:
    return _render_key(await keys.revoke(_HERE, key_id))


def _render_key(info: "KeyInfo") -> dict[str, Any]:
    import msgspec  # noqa: PLC0415 - as above

    return msgspec.to_builtins(info)


def _through_service(data: str | None, service: str | None) -> bool:
    """Returns whether to use a running service: --url or COATCHECK_URL names one, and --data names no store."""
    if data is not None and service is not None:
        fail(Exit.WRONG, "--data opens a store, --url asks a service: give one of the two.")
    return service is not None or (data is None and is_set("url"))


def _directly(data: str | None, work: "Callable[[AdministerKeys], Awaitable[T]]") -> tuple[T, str]:
    """Returns the result of work on the database itself, and where the database is; ends the command on an error."""
    from coatcheck.bootstrap import open_keys, place_of  # noqa: PLC0415 - as above

    settings = settings_for(data)
    require_store(settings)

    async def open_and_work() -> T:
        async with open_keys(settings) as keys:
            return await work(keys)

    try:
        return asyncio.run(open_and_work()), place_of(settings)
    except CoatcheckError as error:
        if error.code is Code.KEY_NOT_FOUND:
            fail(Exit.ABSENT, error.detail)
        end(error)
