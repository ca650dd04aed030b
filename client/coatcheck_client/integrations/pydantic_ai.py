"""Pydantic AI: `pip install "coatcheck-client[pydantic-ai]"`.

from coatcheck_client.integrations.pydantic_ai import Coatcheck

agent = Agent("openai:gpt-5", tools=[get_log], capabilities=[Coatcheck()])
"""

# ruff: noqa: ARG002 - the framework's signatures
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportIndexIssue=false

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from coatcheck_client import Client, declarations
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.tool_outputs import ToolOutputOptions, ToolOutputs, read_payload

if TYPE_CHECKING:
    from typing_extensions import Unpack

with NeededExtra("pydantic-ai"):
    from pydantic_ai import FunctionToolset, RunContext, Tool, ToolReturn
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ToolCallPart, ToolReturnPart
    from pydantic_ai.tools import ToolDefinition


class Coatcheck(AbstractCapability[Any]):
    """Puts cards in place of the bulky results of all tools of an agent, and offers the agent `read_artifact`."""

    def __init__(self, client: Client | None = None, **options: "Unpack[ToolOutputOptions]") -> None:
        """Sends nothing yet.

        Args:
            client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
            options: see ToolOutputOptions.
        """
        self._outputs = ToolOutputs(client, **options)

    def get_toolset(self) -> FunctionToolset[Any]:
        """Returns a toolset with only `read_artifact`."""
        (declared,) = declarations("json-schema")

        async def read(**arguments: Any) -> str:  # noqa: ANN401 - the schema names them; the service checks them
            return await asyncio.to_thread(self._outputs.read, arguments)

        tool = Tool.from_schema(read, declared["name"], declared["description"], declared["parameters"])
        return FunctionToolset([tool])

    async def after_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        result: Any,  # noqa: ANN401 - tools return values of any type
    ) -> Any:  # noqa: ANN401
        """Returns the result with a card in place of its text; a result of the framework's own tools stays as it is."""
        if tool_def.tool_kind is not None:
            return result
        if isinstance(result, ToolReturn):
            return dataclasses.replace(result, return_value=await self._card_value(result.return_value, call))
        return await self._card_value(result, call)

    async def _card_value(self, value: Any, call: ToolCallPart) -> Any:  # noqa: ANN401
        part = ToolReturnPart(call.tool_name, value, call.tool_call_id)
        text = read_payload(part.model_response_str, call.tool_name)
        card = await self._outputs.acard(text, call.tool_name, call.tool_call_id, arguments=call.args)
        if card is text:
            return value
        return [card, *part.files] if part.files else card
