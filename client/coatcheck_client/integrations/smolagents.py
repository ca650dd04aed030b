"""smolagents: `pip install "coatcheck-client[smolagents]"`.

from coatcheck_client.integrations.smolagents import with_coatcheck

agent = with_coatcheck(ToolCallingAgent(tools=[get_log], model=model))
"""

# ruff: noqa: ANN401 - tools take and return values of any type
# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

import copy
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, TypeVar

from coatcheck_client import Client, declarations
from coatcheck_client.integrations.extras import NeededExtra
from coatcheck_client.integrations.tool_outputs import ToolOutputOptions, ToolOutputs, answer_read

if TYPE_CHECKING:
    from typing_extensions import Unpack

with NeededExtra("smolagents"):
    from smolagents import ActionStep, CodeAgent, MultiStepAgent, Tool

A = TypeVar("A", bound=MultiStepAgent)
_LAST: Final = "Last output from code snippet:\n"  # both ends of the last line's value follow


def with_coatcheck(agent: A, client: Client | None = None, **options: "Unpack[ToolOutputOptions]") -> A:
    """Returns the same agent, now with cards in place of bulky results, and with `read_artifact`.

    If the agent calls tools, each bulky result becomes a card. If the agent writes code, its code still gets whole
    results, and only bulky output that the code shows to the model becomes a card. Call it for each managed agent too.

    Args:
        agent: an agent that has not run yet.
        client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
        options: see ToolOutputOptions. If the agent writes code, the whole output of a step is shown when its code
            calls one of `exempt_tools`.

    Raises:
        ValueError: the agent already has `read_artifact`.
    """
    outputs = ToolOutputs.of_agent(agent.tools, client, options)
    read, exempt = _ReadTool(outputs.client), options.get("exempt_tools", ())
    if isinstance(agent, CodeAgent):
        agent.step_callbacks.register(ActionStep, lambda step, **_: _card_observations(step, outputs, exempt))
    else:
        agent.tools = {name: _carding_tool(tool, outputs) for name, tool in agent.tools.items()}
    agent.tools[read.name] = read
    return agent


def _carding_tool(tool: Tool, outputs: ToolOutputs) -> Tool:
    own: Any = copy.copy(tool)
    forward = own.forward
    if tool.name != "final_answer":
        own.forward = lambda *given, **named: outputs.card(
            forward(*given, **named), tool.name, arguments=dict(zip(tool.inputs, given, strict=False)) | named
        )
    return own


def _card_observations(step: ActionStep, outputs: ToolOutputs, exempt: Collection[str]) -> None:
    if any(re.search(rf"\b{re.escape(name)}\(", step.code_action or "") for name in ("read_artifact", *exempt)):
        return
    shown, separator, _ = (step.observations or "").rpartition(_LAST)
    text = f"{shown}{separator}{step.action_output}" if separator else step.observations or ""
    card = outputs.card(text, "python_interpreter", step.tool_calls[0].id if step.tool_calls else None)
    if card is not text:
        step.observations = card


class _ReadTool(Tool):
    output_type, skip_forward_signature_validation = "string", True

    def __init__(self, client: Client) -> None:
        (declared,) = declarations("json-schema")
        self.name, self.description, schema = (declared[one] for one in ("name", "description", "parameters"))
        self.inputs = {
            name: {"type": one.get("type", "any"), "nullable": name != "artifact_id", "description": one["description"]}
            for name, one in schema["properties"].items()
        }
        super().__init__()
        self._client = client

    def forward(self, *given: Any, **named: Any) -> str:
        return answer_read(self._client, dict(zip(self.inputs, given, strict=False)) | named)
