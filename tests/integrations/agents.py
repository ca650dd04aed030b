"""Agents of the installed framework for tests: a scripted model, and tools that answer much."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, InjectedToolCallId, ToolException, tool
from langgraph.types import Command
from pydantic import Field

Json = Any
LOG: Final = "".join(f"line {n} of the log\n" for n in range(8_000))
PICTURE: Final = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
NOBODY: Final = "http://127.0.0.1:1"


class Script(BaseChatModel):
    """Calls the tools it is told to, one after the other, and remembers what it was sent."""

    calls: list[tuple[str, dict[str, Any]]]
    first: AIMessage | None = None
    """What it says first."""
    count: bool = False
    """Count its own answers; the messages that it is sent may be fewer, or not its own."""
    seen: list[list[BaseMessage]] = Field(default_factory=list[list[BaseMessage]])
    offered: list[Any] = Field(default_factory=list[Any])

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Sequence[Any], **_: Json) -> Json:
        self.offered.extend(tools)
        return self

    def _generate(self, messages: list[BaseMessage], *_: Json, **__: Json) -> ChatResult:
        self.seen.append(messages)
        done = len(self.seen) - 1 if self.count else sum(isinstance(message, AIMessage) for message in messages)
        if done == 0 and self.first is not None:
            message = self.first
        elif done < len(self.calls):
            name, args = self.calls[done]
            call = {"name": name, "args": args, "id": f"call_{done}", "type": "tool_call"}
            message = AIMessage("", tool_calls=[call], id=f"ai_{done}")  # type: ignore[list-item]
        else:
            message = AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def build() -> str:
    """Answer a log."""
    return LOG


@tool
def small() -> str:
    """Answer little."""
    return "fine"


@tool(response_format="content_and_artifact")
def with_artifact() -> tuple[str, dict[str, int]]:
    """Answer a log, and a value for the program."""
    return LOG, {"lines": 8_000}


@tool
def blocks() -> list[Any]:
    """Answer texts around a picture."""
    return [{"type": "text", "text": LOG}, PICTURE, {"type": "text", "text": "the end"}]


def _broken() -> str:
    raise ToolException(LOG)


@tool
def command(tool_call_id: Annotated[str, InjectedToolCallId]) -> Json:
    """Answer with an update of the state."""
    messages = [ToolMessage(LOG, tool_call_id=tool_call_id), HumanMessage("mind the log", id="hint")]
    return Command(update={"messages": messages})


@tool
def write_file(path: str, content: str) -> str:
    """Write a file."""
    return f"wrote {len(content)} characters to {path}"


@tool
def failing_write_file(content: str) -> str:
    """Fail to write a file."""
    raise ToolException(f"no space for {len(content)} characters")


failing_write_file.handle_tool_error = True
broken = tool("broken", description="Fail with a log.")(_broken)
broken.handle_tool_error = True
TOOLS: Final[list[BaseTool]] = [build, small, with_artifact, blocks, command, write_file, failing_write_file, broken]
