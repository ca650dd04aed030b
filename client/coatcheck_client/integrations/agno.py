"""agno: `pip install "coatcheck-client[agno]"`.

from coatcheck_client.integrations.agno import with_coatcheck

agent = with_coatcheck(Agent(model=OpenAIChat("gpt-5"), tools=[get_log]))
"""

# ruff: noqa: ANN401 - tools return values of any type
# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from coatcheck_client import Client, declarations
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.tool_outputs import ToolOutputOptions, ToolOutputs

if TYPE_CHECKING:
    from typing_extensions import Unpack

with NeededExtra("agno"):
    from agno.agent import Agent
    from agno.team import Team
    from agno.tools import Function, Toolkit
    from agno.tools.function import ToolResult

A = TypeVar("A", Agent, Team)


def with_coatcheck(agent: A, client: Client | None = None, **options: "Unpack[ToolOutputOptions]") -> A:
    """Returns the same agent or team, now with cards in place of bulky results, and with `read_artifact`.

    Call it for each member of a team as well. Results of tools with `show_result` or `stop_after_tool_call` stay as
    they are, because the user sees them. Results that a tool yields in pieces stay too, such as the answers of members.

    Args:
        agent: an agent or a team that has not run yet.
        client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
        options: see ToolOutputOptions.

    Raises:
        ValueError: the agent already has `read_artifact`; or it has no `tool_hooks` but one of its tools has: agno
            ignores the hooks of tools once the agent has hooks, and Coatcheck would add one.
        RuntimeError: the agent's `tools` is a function that makes the tools.
    """
    if not agent.tool_hooks and (lost := [one.name for one in _functions(agent) if one.tool_hooks]):
        raise ValueError(
            "Coatcheck adds a tool hook to the agent, and agno then ignores the tool_hooks of single tools. Move the "
            f"hooks of these tools to the agent's tool_hooks: {lost}"
        )
    outputs = ToolOutputs.of_agent((one.name for one in _functions(agent)), client, options)

    def read(**arguments: Any) -> str:
        return outputs.read(arguments)

    def hook(function_name: str, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        result = function(**arguments)
        shown = (one.name for one in _functions(agent) if one.show_result or one.stop_after_tool_call)
        return result if function_name in shown else _card_result(result, outputs, function_name, arguments)

    if isinstance(agent.tools, list):
        agent.set_tools(list(agent.tools))  # the caller's list must not change
    agent.add_tool(Function(**declarations("json-schema")[0], entrypoint=read, skip_entrypoint_processing=True))
    agent.tool_hooks = [hook, *(agent.tool_hooks or ())]
    return agent


def _card_result(result: Any, outputs: ToolOutputs, name: str, arguments: dict[str, Any]) -> Any:
    async def awaited() -> Any:
        return await asyncio.to_thread(_card_result, await result, outputs, name, arguments)

    if inspect.isawaitable(result):
        return awaited()
    if isinstance(result, ToolResult):
        return result.model_copy(update={"content": outputs.card(result.content, name, arguments=arguments)})
    return outputs.card(result, name, arguments=arguments)


def _functions(agent: Agent | Team) -> Iterator[Function]:
    for tool in agent.tools if isinstance(agent.tools, list) else ():
        if isinstance(tool, Toolkit):
            yield from (*tool.functions.values(), *tool.async_functions.values())
        elif isinstance(tool, Function):
            yield tool
