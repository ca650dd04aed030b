"""FastMCP servers: `pip install "coatcheck-client[fastmcp]"`.

from coatcheck_client.integrations.fastmcp import CoatcheckServerMiddleware
server = FastMCP("files", middleware=[CoatcheckServerMiddleware()])
"""

# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coatcheck_client import Client, declarations
from coatcheck_client.fallback import sentence
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.mcp_wrap.results import is_copy, payload_of, replace_texts, replaceable_texts
from coatcheck_client.integrations.tool_outputs import ToolOutputs, read_payload

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from coatcheck_client.integrations.tool_outputs import ToolOutputOptions

with NeededExtra("fastmcp"):
    from fastmcp.exceptions import ToolError
    from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
    from fastmcp.tools import FunctionTool, Tool, ToolResult
    from mcp_types import CallToolRequestParams, ListToolsRequest, TextContent


class CoatcheckServerMiddleware(Middleware):
    """Puts cards in place of the bulky results of a server's tools, and adds the tool `read_artifact`.

    Tools lose their output schemas, unless they are exempt. A result with a card loses its structured content, because
    some hosts show the structured content instead of the text.
    """

    def __init__(self, client: Client | None = None, **options: "Unpack[ToolOutputOptions]") -> None:
        """Sends nothing yet.

        Args:
            client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
            options: see ToolOutputOptions.
        """
        self._outputs = ToolOutputs(client, **options)
        self._exempt = frozenset(options.get("exempt_tools", ()))
        (declared,) = declarations("json-schema")
        self._read = FunctionTool(**declared, fn=lambda: None)

    async def on_list_tools(
        self, context: MiddlewareContext[ListToolsRequest], call_next: CallNext[ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Returns the server's tools, and `read_artifact`."""
        tools = [one for one in await call_next(context) if one.name != self._read.name]
        bare = [one if one.name in self._exempt else one.model_copy(update={"output_schema": None}) for one in tools]
        return [*bare, self._read]

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """Returns the tool's result, or raises its ToolError, with a card in place of a bulky text or message."""
        name, arguments = context.message.name, context.message.arguments or {}
        if name == self._read.name:
            return await self._answer({"name": name, "arguments": arguments})
        try:
            result: ToolResult = await call_next(context)
        except ToolError as e:
            raise ToolError(await self._outputs.acard(str(e), name)) from e
        blocks = read_payload(lambda: [block.model_dump(by_alias=True, mode="json") for block in result.content], name)
        if blocks is None:
            return result
        cards = await asyncio.to_thread(self._outputs.card_resources, blocks, name)
        payload = read_payload(lambda: payload_of(blocks, result.structured_content, 0, cards), name)
        text = None if payload is None else await self._outputs.acard(payload, name, arguments=arguments)
        if text is payload and not cards:
            return result
        content = [
            TextContent(type="text", text=cards[at]) if at in cards else block
            for at, block in enumerate(result.content)
        ]
        if text is not None and text is not payload:
            texts = list(replaceable_texts(blocks, cards))
            content = replace_texts(content, texts, TextContent(type="text", text=text))
        keeps = text is payload and not is_copy(result.structured_content, blocks)
        return ToolResult(content, result.structured_content if keeps else None, result.meta, result.is_error)

    async def _answer(self, call: dict[str, Any]) -> ToolResult:
        try:
            answer = await asyncio.to_thread(self._outputs.client.call, call, form="text")
            return ToolResult(answer["text"], is_error=answer["is_error"])
        except Exception as e:  # noqa: BLE001 - the model gets a sentence about the failure
            return ToolResult(sentence(e), is_error=True)
