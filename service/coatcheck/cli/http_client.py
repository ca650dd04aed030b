"""Uses a running service over HTTP: the options of such commands, the client, and how an answer ends a command."""

import contextlib
from collections.abc import Callable, Generator
from typing import Any, Final, NoReturn, cast

import click
import httpx

from coatcheck.cli.command_setup import in_options
from coatcheck.cli.exits import Exit, fail
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.ids import parse
from coatcheck.settings import Settings, load

PAGE: Final = 200
"""Items per request of a list."""
_SILENCE: Final = 600.0
"""Seconds without any progress after which a request has failed: an answer may take a search of a large artifact."""


def service_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that every client command has."""
    command = click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")(command)
    command = click.option("--key", help="Key to use (COATCHECK_KEY).")(command)
    return click.option("--url", "service", help="URL of the service (COATCHECK_URL).")(command)


timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60,
    help="Seconds without any progress after which the service counts as away (60).",
)


def service_settings(service: str | None, key: str | None) -> Settings:
    """Returns where the service is and which key to use, or ends the command."""
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
        fail(Exit.WRONG, "the key (--key, COATCHECK_KEY) has characters that a key cannot have. An example: ck_live_…")
    return settings


def in_header(text: str) -> bool:
    """Returns whether a text can be sent in a request's header."""
    return text.isascii() and text.isprintable() and text == text.strip()


def connect(service: str | None, key: str | None, silence: float = _SILENCE) -> httpx.Client:
    """Returns a client of the service that presents the key; close it after use.

    Args:
        service: URL of the service; None for the configured one.
        key: the key; None for the configured one.
        silence: seconds without any progress after which a request has failed; at most 30 until it is sent.
    """
    settings = service_settings(service, key)
    headers = {"authorization": f"Bearer {settings.key}"} if settings.key else {}
    timeout = httpx.Timeout(min(30, silence), read=silence)
    # Without proxies of the environment: keys and payloads go to the named service and nowhere else.
    return httpx.Client(base_url=settings.url, headers=headers, timeout=timeout, trust_env=False)


def ask(send: Callable[[], httpx.Response], client: httpx.Client, /, **fields: type) -> dict[str, Any]:
    """Returns the JSON answer to a request, or ends the command with the service's own words.

    Args:
        send: makes the request.
        client: the client that it uses.
        fields: what the answer must have, with types; an answer without them is another program's.
    """
    with unless_reached(client):
        response = send()
    body = _object(response)
    # Another program may listen on the port, and its answer must not be printed as ours.
    if not has(body, **(fields if response.is_success else {"detail": str, "code": str})):
        fail(Exit.UNREACHABLE, f"{client.base_url} answered {response.status_code}, but not as Coatcheck does.")
    if not response.is_success:
        fail_with_problem(response.status_code, body)
    return body


@contextlib.contextmanager
def unless_reached(client: httpx.Client) -> Generator[None]:
    """Ends the command, saying why, if a request cannot be sent or the service does not answer."""
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
    """Returns an artifact's path; ends the command if it is not an artifact ID."""
    try:
        parse(artifact_id)
    except CoatcheckError as error:
        fail(Exit.WRONG, error.detail, code=error.code)
    return f"/v1/artifacts/{artifact_id}"


def encode_options(parameters: dict[str, Any]) -> dict[str, str]:
    """Returns the given options, as in a query string."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in parameters.items()
        if value is not None and value is not False
    }


def all_items(client: httpx.Client, path: str, namespace: str | None) -> list[dict[str, Any]]:
    """Returns all items of an administrative list, page by page; only those of one namespace if it is given."""
    params: dict[str, Any] = {"limit": PAGE} | ({} if namespace is None else {"namespace": namespace})
    items: list[dict[str, Any]] = []
    while True:
        page = ask(lambda: client.get(path, params=params), client, items=list, next=object)
        items += page["items"]
        if page["next"] is None:
            return items
        params["cursor"] = page["next"]


def _object(response: httpx.Response) -> dict[str, Any]:
    """Returns the JSON object in an answer; empty if it is none."""
    try:
        body: object = response.json()
    except ValueError:
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


def has(body: dict[str, Any], /, **fields: type) -> bool:
    """Returns whether an answer has these fields, of these types."""
    return all(name in body and isinstance(body[name], kind) for name, kind in fields.items())


def _why(error: Exception) -> str:
    """Returns what is wrong with an argument."""
    return (
        "an argument has bytes that are not UTF-8" if isinstance(error, UnicodeEncodeError) else str(error).rstrip(".")
    )


def fail_with_problem(status: int, body: dict[str, Any]) -> NoReturn:
    """Ends the command with the service's own words."""
    code = Exit.ABSENT if status in {404, 410} else Exit.WRONG if status < 500 else Exit.UNREACHABLE  # noqa: PLR2004
    fail(code, in_options(body["detail"]), code=body["code"])
