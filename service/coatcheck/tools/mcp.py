"""The tools as an MCP server for any transport: streamable HTTP in the service, stdio in the command line.

Answers are text only, without a structured copy: some hosts give the model the text, some the copy, and some both.
A failed call is a result that is marked as an error, because the model can act on it. Protocol errors are for mistakes
that no model makes. Importing the SDK takes a second of CPU time, so this module is imported when the first client
connects.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from coatcheck import __version__
from coatcheck.tools.answers import ToolAnswer
from coatcheck.tools.calls import tool_name
from coatcheck_client.contract.declare import declarations
from coatcheck_client.contract.tools import READ

Context = ServerRequestContext[Any, Any]
Execute = Callable[[Context, str, dict[str, Any]], Awaitable[ToolAnswer]]
"""A function that executes a tool call, given the MCP request, the tool's name and the arguments."""

INSTRUCTIONS: Final = (
    "Coatcheck keeps large tool outputs outside the conversation. Cards in tool results carry an artifact_id; read "
    "further with read_artifact, preferring pattern, query or path to paging."
)
"""Text about the server as a whole that hosts may show their model."""
_DAY_MS: Final = 24 * 60 * 60 * 1000
"""Milliseconds for which hosts may cache the declarations, which change only with a release."""
_SCHEME: Final = "artifact"
"""Scheme of resource URIs, as in TEMPLATE."""
TEMPLATE: Final = types.ResourceTemplate(
    name="artifact",
    title="Artifact",
    uri_template="artifact://{id}{?section,offset,limit}",
    description="A part of a stored tool output as text: lines from offset on, or a section.",
    mime_type="text/plain",
)


def server(execute: Execute) -> Server[Any]:
    """Returns an MCP server that answers tool calls and reads of resources with `execute`."""

    # The SDK calls the following five functions. A resource is another form of a `read_artifact` call.
    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in declarations("mcp")])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        name = tool_name(params.name)
        if name is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:60]}")
        got = await execute(context, name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=got.text)], is_error=got.is_error)

    async def list_resources(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        # Hosts fetch this list even if nobody needs it. Artifacts are listed by a tool instead.
        return types.ListResourcesResult(resources=[])

    async def list_templates(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[TEMPLATE])

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        arguments = _arguments(uri)
        if arguments is None:
            raise MCPError(
                types.INVALID_PARAMS,
                f"A resource URI is artifact://art_… with its 18 digits, not {uri[:80]}",
                {"uri": uri},
            )
        got = await execute(context, READ.name, arguments)
        if got.is_error:
            raise MCPError(types.INVALID_PARAMS, got.text, {"uri": uri})
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="text/plain", text=got.text)]
        )

    return Server(
        "coatcheck",
        title="Coatcheck",
        version=__version__,
        instructions=INSTRUCTIONS,
        cache_hints={
            "tools/list": CacheHint(_DAY_MS, "public"),
            "resources/list": CacheHint(_DAY_MS, "public"),
            "resources/templates/list": CacheHint(_DAY_MS, "public"),
        },
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _arguments(uri: str) -> dict[str, Any] | None:
    """Returns the arguments of `read_artifact` that a resource's URI stands for; None for any other URI."""
    try:
        parts = urlsplit(uri)
        query = dict(parse_qsl(parts.query, max_num_fields=20))
    except ValueError:
        return None
    if parts.scheme != _SCHEME:
        return None
    arguments = {"artifact_id": parts.netloc + parts.path} | ({"section": parts.fragment} if parts.fragment else {})
    return arguments | {name: query[name] for name in ("section", "offset", "limit") if name in query}
