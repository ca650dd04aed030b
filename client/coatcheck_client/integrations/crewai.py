"""CrewAI: `pip install "coatcheck-client[crewai]"`.

from coatcheck_client.integrations.crewai import CoatcheckTool

agent = Agent(role="Operator", goal=..., backstory=..., tools=[get_log, CoatcheckTool()])
"""

# ruff: noqa: ANN401 - the framework's signatures
# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

from typing import TYPE_CHECKING, Any

from coatcheck_client import Client, declarations
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.tool_outputs import ToolOutputOptions, ToolOutputs

if TYPE_CHECKING:
    from typing_extensions import Unpack

with NeededExtra("crewai"):
    from crewai.hooks import ToolCallHookContext, get_after_tool_call_hooks, register_after_tool_call_hook
    from crewai.tools import BaseTool
    from pydantic import BaseModel, PrivateAttr

_DECLARED = declarations("json-schema")[0]


class _Arguments(BaseModel, extra="allow"):
    """Accepts any arguments that a model gives; the service checks them."""

    artifact_id: str

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        return dict(_DECLARED["parameters"])


class CoatcheckTool(BaseTool):
    """The tool `read_artifact`. In an agent or a task that has it, bulky results of the other tools become cards."""

    name: str = _DECLARED["name"]
    description: str = _DECLARED["description"]
    args_schema: type[BaseModel] = _Arguments
    cache_function: Any = lambda *_: False
    _outputs: ToolOutputs = PrivateAttr()

    def __init__(self, client: Client | None = None, **options: "Unpack[ToolOutputOptions]") -> None:
        """Sends nothing yet.

        Args:
            client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
            options: see ToolOutputOptions.
        """
        super().__init__()
        self._outputs = ToolOutputs(client, **options)
        if _card not in get_after_tool_call_hooks():
            register_after_tool_call_hook(_card)

    def _run(self, **arguments: Any) -> str:
        return self._outputs.read(arguments)

    def card(self, context: ToolCallHookContext) -> str | None:
        """Returns the card for a call's result; None if the result stays as it is."""
        result = context.tool_result
        card = self._outputs.card(result, context.tool_name, arguments=context.tool_input)
        return None if card is result else card


def _card(context: ToolCallHookContext) -> str | None:
    """Handles the framework's hook, which runs for all agents: only those with the CoatcheckTool get cards.

    A result that becomes the agent's answer stays as it is.
    """
    beside = [*(getattr(context.task, "tools", None) or ()), *(getattr(context.agent, "tools", None) or ())]
    found = next((tool for tool in beside if isinstance(tool, CoatcheckTool)), None)
    if found is None or getattr(context.tool, "result_as_answer", False):
        return None
    return found.card(context)
