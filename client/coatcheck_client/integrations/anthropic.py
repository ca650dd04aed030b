"""The tool runner of Anthropic's SDK: `pip install "coatcheck-client[anthropic]"`.

from coatcheck_client.integrations.anthropic import with_coatcheck

runner = anthropic.beta.messages.tool_runner(tools=with_coatcheck([get_log]), ...)
"""

# ruff: noqa: ANN401 - tools take and return values of any type
# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

import asyncio
import copy
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from coatcheck_client import Client, declarations
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.tool_outputs import ToolOutputOptions, ToolOutputs

if TYPE_CHECKING:
    from typing_extensions import Unpack

with NeededExtra("anthropic"):
    from anthropic.lib import tools as runnable

_SYNC = runnable.BetaFunctionTool | runnable.BetaBuiltinFunctionTool
_ASYNC = runnable.BetaAsyncFunctionTool | runnable.BetaAsyncBuiltinFunctionTool


def with_coatcheck(
    tools: Iterable[Any], client: Client | None = None, **options: "Unpack[ToolOutputOptions]"
) -> list[Any]:
    """Returns tools for a tool runner: the given ones, now with cards in place of bulky results, and `read_artifact`.

    Args:
        tools: the tools that run in this process, such as functions with `@beta_tool` or `@beta_async_tool`. Runners
            require that all of them are synchronous, or all asynchronous. Declarations without a function, and
            toolsets, stay as they are.
        client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
        options: see ToolOutputOptions.
    """
    outputs = ToolOutputs(client, **options)
    given = list(tools)
    return [*(_carding_tool(tool, outputs) for tool in given), _read_tool(outputs, given)]


def _carding_tool(tool: Any, outputs: ToolOutputs) -> Any:
    def card_result(result: Any, given: object) -> Any:
        whole = list(result) if isinstance(result, Iterator) else result
        return outputs.card(whole, tool.name, arguments=given)

    def call(given: object) -> Any:
        try:
            return card_result(tool.call(given), given)
        except runnable.ToolError as e:
            raise runnable.ToolError(card_result(e.content, given)) from e

    async def acall(given: object) -> Any:
        try:
            return await asyncio.to_thread(card_result, await tool.call(given), given)
        except runnable.ToolError as e:
            raise runnable.ToolError(await asyncio.to_thread(card_result, e.content, given)) from e

    if not isinstance(tool, _SYNC | _ASYNC):
        return tool
    own: Any = copy.copy(tool)
    own.call = acall if isinstance(tool, _ASYNC) else call
    return own


def _read_tool(outputs: ToolOutputs, beside: list[Any]) -> Any:
    (declared,) = declarations("anthropic")

    def read(**arguments: Any) -> str:
        return outputs.read(arguments)

    async def aread(**arguments: Any) -> str:
        return await asyncio.to_thread(read, **arguments)

    if any(isinstance(tool, _ASYNC) for tool in beside):
        return runnable.beta_async_tool(aread, **declared)
    return runnable.beta_tool(read, **declared)
