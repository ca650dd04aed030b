"""Microsoft Agent Framework: `pip install "coatcheck-client[agent-framework]"`.

from coatcheck_client.integrations.agent_framework import CoatcheckProvider

agent = Agent(OpenAIChatClient(), tools=[get_log], context_providers=[CoatcheckProvider()])
"""

# ruff: noqa: ANN401 - tools take and return values of any type
# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from coatcheck_client import Client, declarations
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.tool_outputs import ToolOutputOptions, ToolOutputs

if TYPE_CHECKING:
    from typing_extensions import Unpack

with NeededExtra("agent-framework"):
    from agent_framework import Content, ContextProvider, FunctionInvocationContext, FunctionMiddleware, FunctionTool


class CoatcheckProvider(ContextProvider):
    """Puts cards in place of the bulky results of an agent's tools, and offers the agent `read_artifact`."""

    def __init__(self, client: Client | None = None, **options: "Unpack[ToolOutputOptions]") -> None:
        """Sends nothing yet.

        Args:
            client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
            options: see ToolOutputOptions.
        """
        super().__init__("coatcheck")
        outputs = ToolOutputs(client, **options)
        (declared,) = declarations("json-schema")

        async def read(**arguments: Any) -> str:
            return await asyncio.to_thread(outputs.read, arguments)

        self._read = FunctionTool(
            name=declared["name"],
            description=declared["description"],
            input_model=declared["parameters"],
            func=read,
        )
        self._cards = _Cards(outputs)

    async def before_run(self, *, context: Any, **_: Any) -> None:
        """Adds `read_artifact`, and the middleware that makes cards, to a run."""
        context.extend_tools(self.source_id, [self._read])
        context.extend_middleware(self.source_id, self._cards)


class _Cards(FunctionMiddleware):
    def __init__(self, outputs: ToolOutputs) -> None:
        self._outputs = outputs

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        await call_next()
        if isinstance(context.result, Content):  # a request for a person's approval, which the framework handles
            return
        context.result = await self._outputs.acard(
            context.result, context.function.name, context.metadata.get("call_id"), arguments=context.arguments
        )
