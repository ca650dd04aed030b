"""Strands Agents: `pip install "coatcheck-client[strands]"`.

from coatcheck_client.integrations.strands import CoatcheckAgentPlugin

agent = Agent(tools=[get_log], plugins=[CoatcheckAgentPlugin()])
"""

# ruff: noqa: ANN401 - the framework's signatures
# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

import asyncio
import json
from typing import TYPE_CHECKING, Any

from coatcheck_client import Client, declarations
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.tool_outputs import ToolOutputOptions, ToolOutputs, read_payload

if TYPE_CHECKING:
    from typing_extensions import Unpack

with NeededExtra("strands"):
    from strands import Agent
    from strands.hooks import AfterToolCallEvent
    from strands.plugins import Plugin
    from strands.tools.tools import PythonAgentTool


class CoatcheckAgentPlugin(Plugin):
    """Puts cards in place of the bulky results of an agent's tools, and offers `read_artifact`."""

    name = "coatcheck"

    def __init__(self, client: Client | None = None, **options: "Unpack[ToolOutputOptions]") -> None:
        """Sends nothing yet.

        Args:
            client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
            options: see ToolOutputOptions.
        """
        super().__init__()
        self._outputs = ToolOutputs(client, **options)

    def init_agent(self, agent: Agent) -> None:
        """Adds `read_artifact`, and the hook that makes cards, to an agent."""
        agent.tool_registry.process_tools([_read_tool(self._outputs)])
        agent.add_hook(self._card, AfterToolCallEvent)

    async def _card(self, event: AfterToolCallEvent) -> None:
        """Replaces the texts and JSON of a result by one card. Images and documents stay; a failure stays a failure."""
        name = event.tool_use["name"]
        given = read_payload(lambda: [_as_text(part) for part in event.result["content"]], name)
        if event.retry or given is None or not any("text" in part for part in given):
            return
        content = await self._outputs.acard(
            given, name, event.tool_use["toolUseId"], arguments=event.tool_use.get("input")
        )
        if content is not given:
            event.result = {**event.result, "content": content}


def _as_text(part: Any) -> Any:
    """Returns the part as the SDK's model providers send it: JSON becomes text."""
    return {"text": json.dumps(part["json"], ensure_ascii=False, default=str)} if "json" in part else part


def _read_tool(outputs: ToolOutputs) -> PythonAgentTool:
    (declared,) = declarations("json-schema")

    async def read(tool_use: Any, **_: Any) -> Any:
        text = await asyncio.to_thread(outputs.read, tool_use["input"])
        return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": text}]}

    spec = {"description": declared["description"], "inputSchema": {"json": declared["parameters"]}}
    return PythonAgentTool(declared["name"], {"name": declared["name"], **spec}, read)
