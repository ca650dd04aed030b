"""Talking to a running service over HTTP: the options of commands that do, the client, and how an answer ends one."""

import contextlib
from collections.abc import Callable, Generator
from typing import Any, Final, NoReturn, cast

import click
import httpx

from coatcheck.cli.exits import Exit, fail
from coatcheck.cli.option_names import in_options
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.ids import parse
from coatcheck.settings import Settings, load

PAGE: Final = 200
"""Items that one request for a list asks for."""


def service_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that every client command has."""
    command = click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")(command)
    command = click.option("--key", help="Key to use (COATCHECK_KEY).")(command)
    return click.option("--url", "service", help="URL of the service (COATCHECK_URL).")(command)


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
        fail(Exit.WRONG, f"{settings.url!r} is not the URL of a service. An example: {Settings().url}")
    if not in_header(settings.key) or " " in settings.key:
        fail(Exit.WRONG, "the key (--key, COATCHECK_KEY) has characters that no key has. An example: ck_live_…")
    return settings


def in_header(text: str) -> bool:
    """Whether a text can be sent in the header of a request."""
    return text.isascii() and text.isprintable() and text == text.strip()


def connect(service: str | None, key: str | None) -> httpx.Client:
    """A client of the service, which presents the key; to be closed."""
    settings = service_settings(service, key)
    headers = {"authorization": f"Bearer {settings.key}"} if settings.key else {}
    timeout = httpx.Timeout(30, read=600)
    return httpx.Client(base_url=settings.url, headers=headers, timeout=timeout, trust_env=False)


def ask(send: Callable[[], httpx.Response], client: httpx.Client, /, **fields: type) -> dict[str, Any]:
    """The JSON answer of a request, or the end of the command with the service's own words.

    Args:
        send: makes the request.
        client: through which it is made.
        fields: what the answer must have, and of which types; one that has not is another program's.
    """
    with unless_reached(client):
        response = send()
    body = _object(response)
    if not has(body, **(fields if response.is_success else {"detail": str, "code": str})):
        fail(Exit.UNREACHABLE, f"{client.base_url} answered {response.status_code}, but not as Coatcheck does.")
    if not response.is_success:
        refused(response.status_code, body)
    return body


@contextlib.contextmanager
def unless_reached(client: httpx.Client) -> Generator[None]:
    """End the command, saying why, where a request cannot be sent or the service does not answer."""
    try:
        yield
    except (UnicodeEncodeError, httpx.InvalidURL, httpx.LocalProtocolError) as error:
        fail(Exit.WRONG, f"this cannot be sent: {_why(error)}.")
    except httpx.HTTPError as error:
        fail(
            Exit.UNREACHABLE,
            f"cannot talk to the service at {client.base_url}: {error}. Is it running? Start it with: coatcheck serve",
        )


def artifact_path(artifact_id: str) -> str:
    """The address of an artifact; the end of the command for what is no artifact ID."""
    try:
        parse(artifact_id)
    except CoatcheckError as error:
        fail(Exit.WRONG, error.detail, code=error.code)
    return f"/v1/artifacts/{artifact_id}"


def given(parameters: dict[str, Any]) -> dict[str, str]:
    """Options that were given, as they stand in a query string."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in parameters.items()
        if value is not None and value is not False
    }


def all_items(client: httpx.Client, path: str, namespace: str | None) -> list[dict[str, Any]]:
    """The items of an administrative list, through all its pages; those of one namespace where it is given."""
    asked: dict[str, Any] = {"limit": PAGE} | ({} if namespace is None else {"namespace": namespace})
    items: list[dict[str, Any]] = []
    while True:
        page = ask(lambda: client.get(path, params=asked), client, items=list, next=object)
        items += page["items"]
        if page["next"] is None:
            return items
        asked["cursor"] = page["next"]


def _object(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of an answer; empty when it is none."""
    try:
        body: object = response.json()
    except ValueError:
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


def has(body: dict[str, Any], /, **fields: type) -> bool:
    """Whether an answer has these fields, of these types."""
    return all(name in body and isinstance(body[name], kind) for name, kind in fields.items())


def _why(error: Exception) -> str:
    """What is wrong with an argument."""
    return (
        "an argument has bytes that are not UTF-8" if isinstance(error, UnicodeEncodeError) else str(error).rstrip(".")
    )


def refused(status: int, body: dict[str, Any]) -> NoReturn:
    """End the command with the service's own words."""
    code = Exit.ABSENT if status in {404, 410} else Exit.WRONG if status < 500 else Exit.UNREACHABLE  # noqa: PLR2004
    fail(code, in_options(body["detail"]), code=body["code"])
