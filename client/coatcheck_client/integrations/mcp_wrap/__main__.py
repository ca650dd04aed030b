"""`python -m coatcheck_client.integrations.mcp_wrap -- COMMAND` does the same as `coatcheck mcp-wrap -- COMMAND`."""

import argparse
import asyncio
import sys
from typing import get_args

from coatcheck_client import AsyncClient
from coatcheck_client.integrations.mcp_wrap import ChildServer, WrapOptions, wrap
from coatcheck_client.integrations.mcp_wrap.results import MAX_LIMIT, MAX_TOKENS, MIN_LIMIT
from coatcheck_client.options import Searches


def main() -> int:
    """Runs the command line, and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m coatcheck_client.integrations.mcp_wrap",
        description="Put an MCP server behind Coatcheck: the same tools, cards for large results, read_artifact.",
    )
    parser.add_argument("--url", help="URL of the service; default: COATCHECK_URL. The key is COATCHECK_KEY.")
    parser.add_argument(
        "--max-tokens", type=_tokens, default=MAX_TOKENS, help="leave results of up to this many tokens as they are"
    )
    parser.add_argument("--exempt", action="append", default=[], metavar="TOOL", help="leave a tool as it is")
    parser.add_argument(
        "--searches",
        choices=get_args(Searches),
        default="summary",
        help="what the result of a web search becomes; off: a card like any other",
    )
    parser.add_argument(
        "--search-tool", action="append", default=[], metavar="TOOL", help="a tool that searches the web"
    )
    parser.add_argument("--session", help="conversation or run that stored results belong to")
    parser.add_argument("--no-read-tool", action="store_true", help="the host has read_artifact from another server")
    parser.add_argument(
        "--keep-output-schemas", action="store_true", help="leave structured content and its schemas as they are"
    )
    parser.add_argument("command", nargs="+", help="the server, after --")
    given = parser.parse_args()
    options = WrapOptions(
        max_tokens=given.max_tokens,
        exempt=frozenset(given.exempt),
        searches=given.searches,
        search_tools=frozenset(given.search_tool),
        session=given.session,
        read_tool=not given.no_read_tool,
        output_schemas=given.keep_output_schemas,
    )
    try:
        client = AsyncClient(given.url)
    except ValueError as error:
        parser.error(str(error))
    return asyncio.run(_run(given.command, client, options, parser))


def _tokens(text: str) -> int:
    """Returns a limit of tokens, as `coatcheck mcp-wrap` takes it."""
    if not (text.isdecimal() and MIN_LIMIT <= int(text) <= MAX_LIMIT):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {MIN_LIMIT} to {MAX_LIMIT}")
    return int(text)


async def _run(command: list[str], client: AsyncClient, options: WrapOptions, parser: argparse.ArgumentParser) -> int:
    async with client:
        try:
            server = await ChildServer.start(command)
        except OSError as error:
            parser.error(str(error))
        return await wrap(server, client, options)


if __name__ == "__main__":
    sys.exit(main())
