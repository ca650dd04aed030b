"""Google's Agent Development Kit: `pip install "coatcheck-client[google-adk]"`.

from coatcheck_client.integrations.google_adk import CoatcheckPlugin

app = App(name="logs", root_agent=agent, plugins=[CoatcheckPlugin()])
"""

# ruff: noqa: ANN401 - the framework's signatures
# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

import asyncio
from typing import TYPE_CHECKING, Any

from coatcheck_client import Client, declarations
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.mcp_wrap.results import payload_of, with_card
from coatcheck_client.integrations.tool_outputs import ToolOutputOptions, ToolOutputs, read_payload

if TYPE_CHECKING:
    from typing_extensions import Unpack

with NeededExtra("google-adk"):
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types


class CoatcheckPlugin(BasePlugin):
    """Puts cards in place of bulky tool results of all agents of a runner, and offers these agents `read_artifact`."""

    def __init__(self, client: Client | None = None, **options: "Unpack[ToolOutputOptions]") -> None:
        """Sends nothing yet.

        Args:
            client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
            options: see ToolOutputOptions.
        """
        super().__init__("coatcheck")
        self._outputs = ToolOutputs(client, **options)
        self._read = _ReadTool(self._outputs)

    async def before_model_callback(self, *, llm_request: Any, **_: Any) -> None:
        """Adds `read_artifact` to a request that has tools. A request without tools may not be allowed to have any."""
        if llm_request.tools_dict and self._read.name not in llm_request.tools_dict:
            llm_request.append_tools([self._read])

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_context: Any, result: Any, tool_args: Any = None, **_: Any
    ) -> Any:
        """Returns the result with a card in place of its text; None if the result stays or is for the user."""
        if tool_context.actions.skip_summarization or isinstance(result, types.Part | types.FunctionResponse):
            return None
        call = tool.name, tool_context.function_call_id
        if isinstance(result, dict) and "isError" in result and isinstance(result.get("content"), list):
            payload = read_payload(lambda: payload_of(result["content"], result.get("structuredContent"), 0), tool.name)
            card = await self._outputs.acard(payload, *call, arguments=tool_args)
            return None if card is payload else with_card(result, card)
        members = result if isinstance(result, dict) else {}
        kept = {name: value for name, value in members.items() if _has_media(value)}
        rest = {name: value for name, value in members.items() if name not in kept}
        payload = result if not members else rest["result"] if list(rest) == ["result"] else rest
        card = await self._outputs.acard(payload, *call, arguments=tool_args)
        return None if card is payload else {"card" if "result" in kept else "result": card, **kept}


def _has_media(value: object) -> bool:
    """Returns whether a value contains a `types.Part`, which the framework sends as an image or a file."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, types.Part) or any(map(_has_media, members))


class _ReadTool(BaseTool):
    def __init__(self, outputs: ToolOutputs) -> None:
        (self._declared,) = declarations("gemini")[0]["functionDeclarations"]
        super().__init__(name=self._declared["name"], description=self._declared["description"])
        self._outputs = outputs

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration.model_validate(self._declared)

    async def run_async(self, *, args: dict[str, Any], **_: Any) -> str:
        return await asyncio.to_thread(self._outputs.read, args)
