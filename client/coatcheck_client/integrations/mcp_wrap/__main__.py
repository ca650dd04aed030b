"""`python -m coatcheck_client.integrations.mcp_wrap -- COMMAND` does the same as `coatcheck mcp-wrap -- COMMAND`."""

import argparse
import asyncio
import sys
from typing import get_args

from coatcheck_client import AsyncClient
from coatcheck_client.integrations.mcp_wrap import ChildServer, WrapOptions, wrap
from coatcheck_client.integrations.mcp_wrap.results import MAX_TOKENS
from coatcheck_client.options import Searches


def main() -> int:
    """Runs the command line, and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m coatcheck_client.integrations.mcp_wrap",
        description="Put an MCP server behind Coatcheck: the same tools, cards for large results, read_artifact.",
    )
    parser.add_argument("--url", help="URL of the service (COATCHECK_URL); its key is COATCHECK_KEY")
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS, help="most tokens of a result that stays")
    parser.add_argument("--exempt", action="append", default=[], metavar="TOOL", help="leave a tool as it is")
    parser.add_argument("--searches", choices=get_args(Searches), default="summary", help="what a search becomes")
    parser.add_argument(
        "--search-tool", action="append", default=[], metavar="TOOL", help="a tool that searches the web"
    )
    parser.add_argument("--session", help="what stored results belong to")
    parser.add_argument("--no-read-tool", action="store_true", help="the host has read_artifact from another server")
    parser.add_argument("--keep-output-schemas", action="store_true", help="leave structured content as it is")
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
        return asyncio.run(_run(given.command, given.url, options))
    except (OSError, ValueError) as e:
        parser.error(str(e))


async def _run(command: list[str], url: str | None, options: WrapOptions) -> int:
    async with AsyncClient(url) as client:
        return await wrap(await ChildServer.start(command), client, options)


if __name__ == "__main__":
    sys.exit(main())
