"""AutoGen: `pip install "coatcheck-client[autogen]"`.

from coatcheck_client.integrations.autogen import CoatcheckWorkbench

agent = AssistantAgent("operator", model_client=model, workbench=CoatcheckWorkbench([get_log]))
"""

# ruff: noqa: ANN401, D102 - tools take and return values of any type
# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coatcheck_client import Client, declarations
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.tool_outputs import ToolOutputOptions, ToolOutputs

if TYPE_CHECKING:
    from typing_extensions import Unpack

with NeededExtra("autogen"):
    from autogen_core.tools import FunctionTool, StaticWorkbench, TextResultContent, ToolSchema, Workbench


class CoatcheckWorkbench(Workbench):
    """Wraps tools, or another workbench: bulky results become cards, and `read_artifact` is added to the tools."""

    def __init__(
        self,
        around: Workbench | Sequence[Any],
        client: Client | None = None,
        **options: "Unpack[ToolOutputOptions]",
    ) -> None:
        """Sends nothing yet.

        Args:
            around: a workbench, such as that of an MCP server; or the tools and functions that an agent would take.
            client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
            options: see ToolOutputOptions.
        """
        self._around: Any = around if isinstance(around, Workbench) else StaticWorkbench([*map(_tool, around)])
        self._outputs = ToolOutputs(client, **options)
        (self._declared,) = declarations("json-schema")
        self._reading = StaticWorkbench([FunctionTool(self._outputs.client.read_artifact, "", self._declared["name"])])

    async def list_tools(self) -> list[ToolSchema]:
        """Returns the wrapped tools, and `read_artifact`."""
        return [*await self._around.list_tools(), ToolSchema(**self._declared)]

    async def call_tool(
        self, name: str, arguments: Any = None, cancellation_token: Any = None, call_id: Any = None
    ) -> Any:
        """Returns a tool's result with a card in place of a bulky text. Images stay, and an error stays an error."""
        if name == self._declared["name"]:
            return await self._reading.call_tool(name, arguments, cancellation_token, call_id)
        done = await self._around.call_tool(name, arguments, cancellation_token, call_id)
        whole = "\n".join(one.content for one in done.result if isinstance(one, TextResultContent))
        card = await self._outputs.acard(whole, name, call_id, arguments=arguments)
        if card is whole:
            return done
        kept = [one for one in done.result if not isinstance(one, TextResultContent)]
        return done.model_copy(update={"result": [TextResultContent(content=card), *kept]})

    async def start(self) -> None:
        await self._around.start()

    async def stop(self) -> None:
        await self._around.stop()

    async def reset(self) -> None:
        await self._around.reset()

    async def save_state(self) -> Mapping[str, Any]:
        return await self._around.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        await self._around.load_state(state)


def _tool(one: Any) -> Any:
    return FunctionTool(one, description=one.__doc__ or "") if inspect.isfunction(one) else one
