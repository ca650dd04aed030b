"""A LangChain agent whose bulky tool results and written files stay out of its model's context.

Needs a running service (`make run`) and nothing else: the model is a script, so that it runs without a key. With a real
one, say `model = "anthropic:claude-sonnet-5"` and leave everything else as it is.

    python examples/langchain/agent.py [URL]

Without a URL, COATCHECK_URL says where the service is; without that, it is at http://127.0.0.1:8321.
"""

import re
import sys
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] - the framework's types
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from coatcheck_client import Client
from coatcheck_client.integrations.langchain import CoatcheckMiddleware

LOG = "".join(f"[{n:05}] compiling module_{n % 311}\n" for n in range(12_000)).replace(
    "[07654] compiling module_190", "[07654] ERROR module_190: undefined symbol shim_init"
)
REPORT = "".join(f"{n}. module_{n % 311} was compiled and linked without a remark.\n" for n in range(3_000))


@tool
def build() -> str:
    """Build the project and answer its log."""
    return LOG


@tool
def write_file(path: str, content: str) -> str:
    """Write a file."""
    return f"wrote {len(content)} characters to {path}"


class Script(BaseChatModel):
    """A model that builds, looks for the error where the card says that more is, reports, and answers."""

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
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        results = [message for message in messages if isinstance(message, ToolMessage)]
        match len(results):
            case 0:
                return _calls("build", {})
            case 1:
                card = str(results[0].content)
                found = re.match(r"\[(art_\d+) ", card)
                assert found is not None, card
                return _calls("read_artifact", {"artifact_id": found[1], "pattern": "ERROR", "context": 0})
            case 2:
                return _calls("write_file", {"path": "report.txt", "content": REPORT})
            case _:
                return AIMessage("The build fails: " + str(results[1].content).splitlines()[1])


def _calls(name: str, args: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call_{name}", "type": "tool_call"}])


def main(url: str | None) -> None:
    """Run the agent once and show what its model was sent."""
    model = Script()
    with Client(url) as coatcheck:
        agent: Any = create_agent(
            model,
            [build, write_file],
            middleware=[CoatcheckMiddleware(coatcheck)],
            checkpointer=InMemorySaver(),
        )
        said = {"messages": [{"role": "user", "content": "Why does the build fail? Write a report."}]}
        done = agent.invoke(said, {"configurable": {"thread_id": "example-1"}})
    print(done["messages"][-1].content)
    sent = sum(len(str(message)) for message in model.seen[-1])
    print(f"{len(LOG) + len(REPORT)} characters of log and report; the last request had {sent}.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
