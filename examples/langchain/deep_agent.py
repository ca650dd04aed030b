"""What a summariser and a sub-agent of an agent are given: cards and markers, no raw output and no written file.

Needs a running service (`make run`) and `pip install deepagents`. The models are scripts, so that it runs without a
key. The agent writes a report, builds, and hands over to a sub-agent that continues its conversation; a second agent
does the same work under LangChain's own SummarizationMiddleware.

    python examples/langchain/deep_agent.py [URL]
"""

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from deepagents import create_deep_agent  # pyright: ignore[reportUnknownVariableType] - the framework's types
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] - the framework's types
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from pydantic import Field

from coatcheck_client import Client
from coatcheck_client.integrations.langchain import CoatcheckMiddleware

LOG = "".join(f"[{n:05}] compiling module_{n % 311}\n" for n in range(12_000))
REPORT = "".join(f"{n}. module_{n % 311} was compiled and linked without a remark.\n" for n in range(3_000))
WORK: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"file_path": "/report.txt", "content": REPORT}),
    ("build", {}),
]


@tool
def build() -> str:
    """Build the project and answer its log."""
    return LOG


@tool
def write_file(file_path: str, content: str) -> str:
    """Write a file."""
    return f"wrote {len(content)} characters to {file_path}"


class Script(BaseChatModel):
    """A model that makes the calls it is told to make, and then says that it is done."""

    calls: list[tuple[str, dict[str, Any]]] = Field(default_factory=list[tuple[str, dict[str, Any]]])
    seen: list[list[BaseMessage]] = Field(default_factory=list[list[BaseMessage]])
    """What it was sent, request by request."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        """A script needs no declarations."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.seen.append(messages)
        number = len(self.seen) - 1
        message = AIMessage("Done.")
        if number < len(self.calls):
            name, args = self.calls[number]
            call = ToolCall(name=name, args=args, id=f"call_{name}_{number}", type="tool_call")
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def delegated(coatcheck: Client) -> int:
    """Characters that a sub-agent is sent that continues the agent's conversation."""
    parent = Script(calls=[*WORK, ("task", {"description": "Find the slow modules.", "subagent_type": "helper"})])
    child = Script()
    agent: Any = create_deep_agent(
        parent,
        [build],
        middleware=[CoatcheckMiddleware(coatcheck, session="example-2")],
        subagents=[{"name": "helper", "description": "Looks into logs.", "model": child, "mode": "fork"}],
    )
    agent.invoke({"messages": [{"role": "user", "content": "Build it and report."}]})
    return _size(child.seen[0][1:])


def summarised(coatcheck: Client) -> int:
    """Characters that a summariser is given of the same work."""
    given: list[BaseMessage] = []

    def summarise(messages: Sequence[BaseMessage]) -> str:
        given.extend(messages)
        return "A report was written and the project built."

    model = Script(calls=WORK)
    agent: Any = create_agent(
        model,
        [build, write_file],
        middleware=[
            SummarizationMiddleware(
                model,
                trigger=("messages", 5),
                keep=("messages", 1),
                trim_tokens_to_summarize=None,
                summarizer=summarise,
            ),
            CoatcheckMiddleware(coatcheck, session="example-2"),
        ],
    )
    agent.invoke({"messages": [{"role": "user", "content": "Build it and report."}]})
    return _size(given)


def _size(messages: Sequence[BaseMessage]) -> int:
    return sum(len(str(message)) for message in messages)


def main(url: str | None) -> None:
    """Run both agents and show how much was handed on."""
    warnings.filterwarnings("ignore", message=".*forked subagents.*is in beta")
    with Client(url) as coatcheck:
        print(f"{len(LOG) + len(REPORT)} characters of log and report.")
        print(f"The sub-agent was sent {delegated(coatcheck)}.")
        print(f"The summariser was given {summarised(coatcheck)}.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
