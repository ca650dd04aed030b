"""Talking to a running service over HTTP: the options of commands that do, the client, and how an answer ends one."""

from collections.abc import Callable
from typing import Any, NoReturn

import click
import httpx

from coatcheck.cli.exits import Exit, fail
from coatcheck.settings import Settings, load


def service_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that every client command has."""
    command = click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")(command)
    command = click.option("--key", help="Key to present (COATCHECK_KEY).")(command)
    return click.option("--url", "service", help="Where the service is (COATCHECK_URL).")(command)


def service_settings(service: str | None, key: str | None) -> Settings:
    """Where the service is and with which key to ask, or the end of the command."""
    try:
        settings = load(url=service, key=key)
    except ValueError as error:
        fail(Exit.WRONG, str(error))
    try:
        url = httpx.URL(settings.url)
    except httpx.InvalidURL as error:
        fail(Exit.WRONG, f"{settings.url!r} is not a URL: {error}.")
    if url.scheme not in {"http", "https"} or not url.host:
        fail(Exit.WRONG, f"{settings.url!r} is not the URL of a service. It looks like {Settings().url}")
    return settings


def connect(service: str | None, key: str | None) -> httpx.Client:
    """A client of the service, which presents the key; to be closed."""
    settings = service_settings(service, key)
    headers = {"authorization": f"Bearer {settings.key}"} if settings.key else {}
    timeout = httpx.Timeout(30, read=600)
    return httpx.Client(base_url=settings.url, headers=headers, timeout=timeout, trust_env=False)


def ask(send: Callable[[], httpx.Response], client: httpx.Client) -> dict[str, Any]:
    """The JSON answer of a request, or the end of the command with the service's own words."""
    try:
        response = send()
    except httpx.HTTPError as error:
        fail(
            Exit.UNREACHABLE,
            f"cannot talk to the service at {client.base_url}: {error}. Is it running? Start it with: coatcheck serve",
        )
    try:
        body: dict[str, Any] = response.json()
    except ValueError:
        fail(Exit.UNREACHABLE, f"{client.base_url} answered {response.status_code}, but not as Coatcheck does.")
    if not response.is_success:
        refused(response.status_code, body)
    return body


def refused(status: int, body: dict[str, Any]) -> NoReturn:
    """End the command with the service's own words."""
    code = Exit.ABSENT if status in {404, 410} else Exit.WRONG if status < 500 else Exit.UNREACHABLE  # noqa: PLR2004
    fail(code, f"{body.get('detail', 'no reason given')} [{body.get('code', status)}]")
