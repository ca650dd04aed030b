"""LlamaIndex: `pip install "coatcheck-client[llama-index]"`.

from coatcheck_client.integrations.llama_index import with_coatcheck

agent = with_coatcheck(FunctionAgent(tools=[get_log], llm=OpenAI("gpt-5")))
"""

# ruff: noqa: ANN401 - whatever tools take and return
# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from llama_index.core.agent.workflow import BaseWorkflowAgent, CodeActAgent
from llama_index.core.base.llms.types import TextBlock
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolOutput, adapt_to_async_tool

from coatcheck_client import Client, declarations
from coatcheck_client.integrations.tool_outputs import ToolOutputOptions, ToolOutputs

if TYPE_CHECKING:
    from typing_extensions import Unpack

A = TypeVar("A", bound=BaseWorkflowAgent)


def with_coatcheck(agent: A, client: Client | None = None, **options: "Unpack[ToolOutputOptions]") -> A:
    """Returns the same agent, which now has cards in place of bulky results, and `read_artifact`.

    Each agent of a workflow needs it for itself. Results of tools with `return_direct` go to the user, and stay.

    Args:
        agent: before its first run; one that has `read_artifact` already is a ValueError.
        client: how to reach the service; None for `COATCHECK_URL` and `COATCHECK_KEY`, or the local default.
        options: of ToolOutputs.

    Raises:
        TypeError: for an agent that calls its tools in code, where `read_artifact` is not.
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
    """Returns the tool as one of its own type, by which the framework knows what needs a context."""
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
