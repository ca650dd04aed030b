"""`coatcheck mcp` serves the tools to a host; `mcp-wrap` serves another server's tools, with cards for large results.

Both exchange messages with the host on standard input and output.

`mcp` has no store: every call goes to a running service over HTTP. If the service cannot be reached, the answer to the
call says so, and this process goes on. So a host may start this process before the service, and keep it while the
service restarts.

A host starts `mcp-wrap` instead of the other server. The client library contains all of it, except the transport to a
server with a URL, which comes from the official MCP SDK.
"""

import asyncio
import os.path
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, get_args

import click
import httpx

from coatcheck.api.mcp_sdk import MISSING, is_installed
from coatcheck.cli.exits import Exit, fail, standard_input
from coatcheck.cli.http_client import in_header, require_url, service_settings
from coatcheck.settings import Settings
from coatcheck_client import AsyncClient
from coatcheck_client.integrations.mcp_wrap import ChildServer, Server, WrapOptions, wrap
from coatcheck_client.integrations.mcp_wrap.results import MAX_LIMIT, MAX_TOKENS, MIN_LIMIT
from coatcheck_client.options import Searches

if TYPE_CHECKING:
    from coatcheck.tools.answers import ToolAnswer

_SERVER_TIMEOUT = httpx.Timeout(30, read=120)
"""Seconds to wait for the service: 30 to connect or send, 120 for an answer."""


@click.command()
@click.option("--url", "service", help="URL of the service (COATCHECK_URL).")
@click.option("--key", help="Key to use (COATCHECK_KEY).")
def mcp(service: str | None, key: str | None) -> None:
    """Serve the tools to an MCP host on standard input and output."""
    settings = service_settings(service, key)
    if not is_installed():
        fail(Exit.WRONG, MISSING)
    if standard_input() is None:
        fail(Exit.WRONG, "standard input is closed; an MCP host talks to this command there.")
    asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - the client commands must start quickly

    from coatcheck.tools.mcp import server  # noqa: PLC0415 - as above

    headers = {"authorization": f"Bearer {settings.key}"} if settings.key else {}
    async with httpx.AsyncClient(
        base_url=settings.url, headers=headers, timeout=_SERVER_TIMEOUT, trust_env=False
    ) as client:

        async def execute(_: object, name: str, arguments: dict[str, Any]) -> "ToolAnswer":
            return await _call(client, name, arguments)

        running = server(execute)
        async with stdio_server() as (reading, writing):
            await running.run(reading, writing, running.create_initialization_options())


async def _call(client: httpx.AsyncClient, name: str, arguments: dict[str, Any]) -> "ToolAnswer":
    """Returns the service's answer to a call; if it does not answer, a sentence that tells the model what to do."""
    from coatcheck.tools.answers import ToolAnswer  # noqa: PLC0415 - the client commands must start quickly

    try:
        response = await client.post("/v1/tools/call", json={"name": name, "arguments": arguments})
        body: dict[str, Any] = response.json()
        if response.is_success:
            return ToolAnswer(text=str(body["text"]), tokens=int(body["tokens"]), is_error=bool(body["is_error"]))
        text = f"The artifact service refused the call: {body.get('detail', response.status_code)}"
    except httpx.HTTPError:
        text = (
            "The artifact service cannot be reached. Retry the same call in a few seconds; if it fails again, tell the "
            f"user that coatcheck does not answer at {client.base_url}."
        )
    except Exception:  # noqa: BLE001 - another program at the URL may answer anything
        text = f"{client.base_url} does not answer as Coatcheck does. Tell the user to check the URL."
    return ToolAnswer(text=text, tokens=0, is_error=True)


@click.command()
@click.option("--url", "service", help="URL of the service (COATCHECK_URL).")
@click.option("--key", help="Key to use (COATCHECK_KEY).")
@click.option(
    "--max-tokens",
    type=click.IntRange(MIN_LIMIT, MAX_LIMIT),
    default=MAX_TOKENS,
    show_default=True,
    help="Leave results of up to this many tokens as they are.",
)
@click.option("--exempt", metavar="TOOL", multiple=True, help="Leave a tool as it is; may be given several times.")
@click.option(
    "--searches",
    type=click.Choice(get_args(Searches)),
    default="summary",
    show_default=True,
    help="What the result of a web search becomes; off: a card like any other.",
)
@click.option(
    "--search-tool", metavar="TOOL", multiple=True, help="A tool that searches the web, if its name does not say so."
)
@click.option("--session", help="Conversation or run that stored results belong to.")
@click.option("--no-read-tool", is_flag=True, help="Do not add read_artifact: the host has it from another server.")
@click.option("--keep-output-schemas", is_flag=True, help="Leave output schemas and structured content as they are.")
@click.option(
    "--header",
    metavar="'NAME: VALUE'",
    multiple=True,
    help="Send a header to the URL; $NAME is taken from the environment.",
)
@click.argument("server", nargs=-1, required=True, metavar="URL | -- COMMAND [ARGUMENT]...")
def mcp_wrap(
    service: str | None,
    key: str | None,
    max_tokens: int,
    exempt: tuple[str, ...],
    searches: Searches,
    search_tool: tuple[str, ...],
    session: str | None,
    no_read_tool: bool,
    keep_output_schemas: bool,
    header: tuple[str, ...],
    server: tuple[str, ...],
) -> None:
    """Serve another MCP server to a host, with cards for its large results."""
    settings = service_settings(service, key)
    if standard_input() is None:
        fail(Exit.WRONG, "standard input is closed; an MCP host talks to this command there.")
    options = WrapOptions(
        max_tokens=max_tokens,
        exempt=frozenset(exempt),
        searches=searches,
        search_tools=frozenset(search_tool),
        session=session,
        read_tool=not no_read_tool,
        output_schemas=keep_output_schemas,
    )
    if len(server) == 1 and server[0].startswith(("http://", "https://")):
        running = _over_http(server[0], _headers(header), settings, options)
    else:
        running = _as_child(server, settings, options)
    sys.exit(asyncio.run(running))


def _as_child(command: tuple[str, ...], settings: Settings, options: WrapOptions) -> Coroutine[Any, Any, int]:
    async def run() -> int:
        try:
            child = await ChildServer.start(command)
        except OSError as error:
            fail(Exit.WRONG, f"{command[0]} cannot be started: {error.strerror}.")
        return await _wrap(child, settings, options)

    return run()


def _over_http(url: str, headers: dict[str, str], settings: Settings, options: WrapOptions) -> Coroutine[Any, Any, int]:
    require_url(url, "https://example.org/mcp")
    if not is_installed():
        fail(Exit.WRONG, MISSING)
    from coatcheck.cli.mcp_http import connect_server  # noqa: PLC0415 - a server without a URL needs no SDK

    async def run() -> int:
        async with connect_server(url, headers) as server:
            return await _wrap(server, settings, options)

    return run()


async def _wrap(server: Server, settings: Settings, options: WrapOptions) -> int:
    async with AsyncClient(settings.url, key=settings.key or None) as client:
        return await wrap(server, client, options)


def _headers(options: tuple[str, ...]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for one in options:
        name, colon, value = one.partition(":")
        value = os.path.expandvars(value.strip())
        if not colon or not name.strip() or not in_header(name.strip()) or not in_header(value):
            fail(Exit.WRONG, f"--header {name!r} is not one. It looks like 'Authorization: Bearer $TOKEN'")
        headers[name.strip()] = value
    return headers
