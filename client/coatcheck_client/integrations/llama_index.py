"""LlamaIndex: `pip install "coatcheck-client[llama-index]"`.

from coatcheck_client.integrations.llama_index import with_coatcheck

agent = with_coatcheck(FunctionAgent(tools=[get_log], llm=OpenAI("gpt-5")))
"""

# ruff: noqa: ANN401 - tools take and return values of any type
# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from coatcheck_client import Client, declarations
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.tool_outputs import ToolOutputOptions, ToolOutputs

if TYPE_CHECKING:
    from typing_extensions import Unpack

with NeededExtra("llama-index"):
    from llama_index.core.agent.workflow import BaseWorkflowAgent, CodeActAgent
    from llama_index.core.base.llms.types import TextBlock
    from llama_index.core.bridge.pydantic import BaseModel
    from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolOutput, adapt_to_async_tool

A = TypeVar("A", bound=BaseWorkflowAgent)


def with_coatcheck(agent: A, client: Client | None = None, **options: "Unpack[ToolOutputOptions]") -> A:
    """Returns the same agent, now with cards in place of bulky results, and with `read_artifact`.

    Call it for each agent of a workflow. Results of tools with `return_direct` go to the user and stay as they are.

    Args:
        agent: an agent that has not run yet.
        client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
        options: see ToolOutputOptions.

    Raises:
        TypeError: the agent calls its tools from code that it writes, where `read_artifact` is not available.
        ValueError: the agent already has `read_artifact`.
    """
    if isinstance(agent, CodeActAgent):
        raise TypeError("a CodeActAgent calls its tools in code of its own, where read_artifact is not")
    outputs = ToolOutputs.of_agent((tool.metadata.get_name() for tool in agent.tools or ()), client, options)
    agent.tools = [*(_carding_tool(tool, outputs) for tool in agent.tools or ()), _read_tool(outputs.client)]
    if agent.tool_retriever is not None:
        retriever: Any = copy.copy(agent.tool_retriever)
        retrieve = retriever.aretrieve

        async def found(query: Any) -> list[AsyncBaseTool]:
            return [_carding_tool(tool, outputs) for tool in await retrieve(query)]

        retriever.aretrieve = found
        agent.tool_retriever = retriever
    return agent


def _carding_tool(tool: BaseTool, outputs: ToolOutputs) -> AsyncBaseTool:
    """Returns a copy that keeps the tool's type, because the type tells the framework which tools need a context."""
    own: Any = copy.copy(adapt_to_async_tool(tool))
    call = own.acall

    async def acall(*given: Any, **named: Any) -> ToolOutput:
        done = await call(*given, **named)
        text = done.content
        card = (
            text if own.metadata.return_direct else await outputs.acard(text, own.metadata.get_name(), arguments=named)
        )
        if card is text:
            return done
        kept = [block for block in done.blocks if not isinstance(block, TextBlock)]
        return done.model_copy(update={"blocks": [TextBlock(text=card), *kept]})

    own.acall = acall
    return own


def _read_tool(client: Client) -> FunctionTool:
    (declared,) = declarations("json-schema")
    schema = type(
        "Arguments", (BaseModel,), {"model_json_schema": classmethod(lambda *_, **__: declared["parameters"])}
    )
    return FunctionTool.from_defaults(client.read_artifact, declared["name"], declared["description"], fn_schema=schema)
