"""OpenAI Agents SDK: `pip install "coatcheck-client[openai-agents]"`.

from coatcheck_client.integrations.openai_agents import compacting, with_coatcheck

agent = with_coatcheck(Agent(name="Operator", tools=[get_log]))
run_config = RunConfig(call_model_input_filter=compacting())  # in a long session
"""

# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from coatcheck_client import Client, declarations
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.tool_outputs import ToolOutputOptions, ToolOutputs

if TYPE_CHECKING:
    from typing_extensions import Unpack

with NeededExtra("openai-agents"):
    from agents import Agent, FunctionTool, Tool
    from agents.run import CallModelData, ModelInputData
    from agents.tool_context import ToolContext

log = logging.getLogger(__name__)


def with_coatcheck(
    agent: Agent[Any], client: Client | None = None, **options: "Unpack[ToolOutputOptions]"
) -> Agent[Any]:
    """Returns the agent with cards in place of its tools' bulky results, and with `read_artifact`.

    Call it for each agent of a handoff. Results of hosted tools and of the tools of `mcp_servers` stay as they are. To
    get cards from an MCP server, run the server behind `coatcheck mcp-wrap`.

    Args:
        agent: the agent to copy; it is not changed.
        client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
        options: see ToolOutputOptions.

    Raises:
        ValueError: the agent already has `read_artifact`.
    """
    outputs = ToolOutputs.of_agent((tool.name for tool in agent.tools), client, options)
    tools = [_carding_tool(tool, outputs) if isinstance(tool, FunctionTool) else tool for tool in agent.tools]
    return agent.clone(tools=[*tools, _read_tool(outputs)])


def compacting(client: Client | None = None, **options: object) -> Callable[[CallModelData[Any]], Awaitable[Any]]:
    """Returns a `call_model_input_filter` that compacts each request; the SDK's session stays as it is.

    With this filter and `searches="passages"` in `with_coatcheck`, the model gets a web search's passages only in the
    turn of the search. `options` are those of the client's `compact`; the default policy protects nothing.
    """
    used = client or Client()
    arguments: Any = {"format": "openai-responses", "policy": {"protect": "none"}, **options}

    async def compacted(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        offered = [{"type": "function", "name": tool.name} for tool in data.agent.tools]  # whether it can read cards
        try:
            done = await asyncio.to_thread(lambda: used.compact({"input": given.input, "tools": offered}, **arguments))
        except Exception as e:  # noqa: BLE001 - a failure must not stop the agent
            log.warning("a request to the model is sent as it is: %s", e)
            return given
        return ModelInputData(input=done.body["input"], instructions=given.instructions)

    return compacted


def _carding_tool(tool: FunctionTool, outputs: ToolOutputs) -> FunctionTool:
    invoke = tool.on_invoke_tool

    async def invoked(context: ToolContext[Any], arguments: str) -> Any:  # noqa: ANN401 - tools return any type
        return await outputs.acard(
            await invoke(context, arguments), tool.name, context.tool_call_id, arguments=arguments
        )

    return dataclasses.replace(tool, on_invoke_tool=invoked)


def _read_tool(outputs: ToolOutputs) -> Tool:
    (declared,) = declarations("openai-responses", strict=True)

    async def read(_: ToolContext[Any], arguments: str) -> str:
        return await asyncio.to_thread(outputs.read, arguments)

    return FunctionTool(declared["name"], declared["description"], declared["parameters"], read)
