"""`coatcheck mcp`: the tools on standard input and output, for hosts that start their MCP servers as processes.

It has no store: every call goes to a running service over HTTP. An unreachable service is reported as an answer too, so
that a host that starts this process first, or keeps it over a restart of the service, needs no second attempt.
"""

import asyncio
from typing import TYPE_CHECKING, Any

import click
import httpx

from coatcheck.api.tools.mcp_sdk import MISSING, is_installed
from coatcheck.cli.exits import Exit, fail, standard_input
from coatcheck.cli.http_client import service_settings
from coatcheck.settings import Settings

if TYPE_CHECKING:
    from coatcheck.tools.answers import ToolAnswer

_SERVER_TIMEOUT = httpx.Timeout(30, read=120)


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
    """Returns the service's answer to a call; a sentence if it does not answer."""
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
    except Exception:  # noqa: BLE001 - an answer of another program may be anything; a model can act on a sentence
        text = f"{client.base_url} does not answer as Coatcheck does. Tell the user to check the URL."
    return ToolAnswer(text=text, tokens=0, is_error=True)
