"""Lets commands use a running service over HTTP: their options, the client, and how an answer ends a command."""

import contextlib
import functools
import math
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, cast

import click
import httpx

from coatcheck.cli.command_setup import in_options
from coatcheck.cli.exits import Exit, echo_answer, echo_items, fail
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.ids import parse
from coatcheck.settings import Settings, load
from coatcheck_client.options import DEFAULT_URL, check_url

PAGE: Final = 200
"""Maximum items per request of a list."""
_SILENCE: Final = 600.0
"""Seconds without progress after which a request has failed. The search of a large artifact may take long."""


def service_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that every client command has. The command gets a ServiceClient for them as its first argument.

    If the command also has `timeout_option`, the ServiceClient uses the value of that option.
    """

    @functools.wraps(command)
    def run(
        *, service: str | None, key: str | None, as_json: bool, timeout: float = _SILENCE, **parameters: object
    ) -> None:
        with contextlib.closing(ServiceClient(service, key, timeout, as_json=as_json)) as client, unless_unsendable():
            command(client, **parameters)

    run = click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")(run)
    run = click.option("--key", help="Key to use (COATCHECK_KEY).")(run)
    return click.option("--url", "service", help="URL of the service (COATCHECK_URL).")(run)


timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60,
    help="Seconds without any progress after which the service counts as away (60).",
)


def service_settings(service: str | None, key: str | None) -> Settings:
    """Returns settings with the URL of the service and the key; ends the command if one of them is invalid."""
    try:
        settings = load(url=service, key=key)
    except ValueError as error:
        fail(Exit.WRONG, str(error))
    require_url(settings.url)
    if not in_header(settings.key) or " " in settings.key:
        fail(Exit.WRONG, "the key (--key, COATCHECK_KEY) has characters that a key cannot have. An example: ck_live_…")
    return settings


def require_url(url: str, example: str = DEFAULT_URL) -> None:
    """Ends the command if a text is not the URL of something that speaks HTTP; the error names the example."""
    try:
        check_url(url, example)
    except ValueError as error:
        fail(Exit.WRONG, str(error))


def in_header(text: str) -> bool:
    """Returns whether a text can be sent in a request's header."""
    return text.isascii() and text.isprintable() and text == text.strip()


class ServiceClient:
    """Sends the requests of one command to a running service, and prints the answers."""

    def __init__(self, service: str | None, key: str | None, silence: float = _SILENCE, *, as_json: bool) -> None:
        """Connects to nothing yet.

        Args:
            service: URL of the service; None for the configured one.
            key: the key; None for the configured one.
            silence: seconds without any progress after which a request has failed; connecting and sending fail after 30
                seconds at the latest.
            as_json: whether answers are printed as JSON.
        """
        self._service = service
        self._key = key
        self._silence = silence
        self.as_json = as_json

    @functools.cached_property
    def settings(self) -> Settings:
        """Settings with the URL of the service and the key; the command ends if one of them is invalid."""
        return service_settings(self._service, self._key)

    @functools.cached_property
    def http(self) -> httpx.Client:
        """The client that presents the key; the command ends if URL or key are invalid."""
        settings = self.settings
        headers = {"authorization": f"Bearer {settings.key}"} if settings.key else {}
        timeout = httpx.Timeout(min(30, self._silence), read=self._silence)
        # Without proxies of the environment: keys and payloads go to the named service and nowhere else.
        return httpx.Client(base_url=settings.url, headers=headers, timeout=timeout, trust_env=False)

    def close(self) -> None:
        """Closes the connection, if there is one."""
        if "http" in vars(self):
            self.http.close()

    def ask(self, method: str, path: str, fields: Mapping[str, type], **options: Any) -> dict[str, Any]:  # noqa: ANN401 - httpx's
        """Returns the JSON answer to a request; ends the command with the service's message if it refuses the request.

        Args:
            method: the method of the request.
            path: its path.
            fields: fields that the answer must have, with their types; an answer without them is from another program.
            options: further arguments for httpx, such as `params` and `json`.
        """
        return self.read_answer(self.send(method, path, **options), fields)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:  # noqa: ANN401 - as above
        """Returns the response to a request; the command ends if there is none."""
        with unless_reached(self.http):
            return self.http.request(method, path, **options)

    def read_answer(self, response: httpx.Response, fields: Mapping[str, type]) -> dict[str, Any]:
        """Returns the JSON object in a response, which must have these fields; an error response ends the command."""
        body = read_object(response)
        required = fields if response.is_success else {"detail": str, "code": str}
        # Another program may listen on the port, and its answer must not be printed as ours.
        if not all(name in body and isinstance(body[name], kind) for name, kind in required.items()):
            fail(Exit.UNREACHABLE, f"{self.http.base_url} answered {response.status_code}, but not as Coatcheck does.")
        if not response.is_success:
            status = response.status_code
            code = Exit.ABSENT if status in {404, 410} else Exit.WRONG if status < 500 else Exit.UNREACHABLE  # noqa: PLR2004
            fail(code, in_options(body["detail"]), code=body["code"])
        return body

    def list_items(
        self, path: str, params: Mapping[str, object], limit: float = math.inf, *, cursor: str = "cursor"
    ) -> list[dict[str, Any]]:
        """Returns the items of a list, page by page.

        Args:
            path: the list's path.
            params: the list's parameters; parameters that are None are left out.
            limit: maximum items to return.
            cursor: name of the parameter that continues the list.
        """
        items: list[dict[str, Any]] = []
        query = drop_missing(**params)
        while len(items) < limit:  # a page may be short although more pages follow
            query["limit"] = min(PAGE, limit - len(items))
            page = self.ask("GET", path, {"items": list, "next": object}, params=query)
            items += page["items"]
            if page["next"] is None:
                break
            query[cursor] = page["next"]
        return items

    def echo(self, answer: dict[str, Any], text: str, *, none: str = "") -> None:
        """Prints an answer, as text or as JSON; for an empty text, prints `none` on standard error."""
        echo_answer(answer, text, as_json=self.as_json, none=none)

    def echo_items(self, items: list[Any], line: Callable[[Any], str], none: str) -> None:
        """Prints a list, each item as `line` returns it; for an empty list, prints `none` on standard error."""
        echo_items(items, line, none, as_json=self.as_json)


@contextlib.contextmanager
def unless_unsendable() -> Generator[None]:
    """Ends the command, saying why, if an argument cannot be part of a request."""
    try:
        yield
    except UnicodeEncodeError:
        fail(Exit.WRONG, "this cannot be sent: an argument has bytes that are not UTF-8.")
    except (httpx.InvalidURL, httpx.LocalProtocolError) as error:
        fail(Exit.WRONG, f"this cannot be sent: {str(error).rstrip('.')}.")


@contextlib.contextmanager
def unless_reached(client: httpx.Client) -> Generator[None]:
    """Ends the command, saying why, if a request cannot be sent or the service does not answer."""
    try:
        with unless_unsendable():
            yield
    except httpx.HTTPError as error:
        fail(
            Exit.UNREACHABLE,
            f"cannot talk to the service at {client.base_url}: {error}. Is it running? Start it with: coatcheck serve",
        )


def artifact_path(artifact_id: str) -> str:
    """Returns the path of an artifact; ends the command if `artifact_id` is not an artifact ID."""
    try:
        parse(artifact_id)
    except CoatcheckError as error:
        fail(Exit.WRONG, error.detail, code=error.code)
    return f"/v1/artifacts/{artifact_id}"


def encode_options(parameters: dict[str, Any]) -> dict[str, str]:
    """Returns the options that were given, as strings for a query string; a flag that is off counts as not given."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in parameters.items()
        if value is not None and value is not False
    }


def drop_missing(**options: Any) -> dict[str, Any]:  # noqa: ANN401 - options
    """Returns the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def read_object(response: httpx.Response) -> dict[str, Any]:
    """Returns the JSON object in an answer; an empty one if the answer is no JSON object."""
    try:
        body: object = response.json()
    except ValueError:
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}
