"""Deep Agents' offloading of large tool results, read by the fixed reader: a real agent, whose model follows the rule.

Runs in an environment of its own: python deep_agents.py TOKENS; reads a JSON list of {"path", "word", "answer"} and
prints what every request declares and, for each payload, a list of all that the model was shown. A result is offloaded
from TOKENS tokens on.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from deepagents.backends import StateBackend
from deepagents.middleware.filesystem import FilesystemMiddleware
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

from reader import LINES, Search, next_step

HIT = re.compile(r"^\s*(\d+):", re.MULTILINE)
PLACE = re.compile(r"saved in the filesystem at this path: (\S+)")

DECLARED: list[str] = []
PROMPT: list[str] = []
"""What the middleware adds to every request: tools, and a part of the system prompt."""


class ScriptedModel(BaseChatModel):
    """Calls the tool, and then does what the reader's rule says."""

    word: str
    answer: str

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        PROMPT[:] = [message.text for message in messages if isinstance(message, SystemMessage)]
        seen = [message.text for message in messages if isinstance(message, ToolMessage)]
        call = {"name": "get_output", "args": {}} if not seen else self._call(seen)
        calls = [{**call, "id": f"call_{len(seen)}"}] if call else []
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls))])

    def _call(self, seen: list[str]) -> dict[str, Any] | None:
        step = next_step(seen, self.word, self.answer, HIT)
        if step is None:
            return None
        place = PLACE.search(seen[0])[1]
        if isinstance(step, Search):
            args = {"pattern": step.word, "path": place, "output_mode": "content"}
            return {"name": "grep", "args": args}
        return {"name": "read_file", "args": {"file_path": place, "offset": step.first - 1, "limit": LINES}}

    def bind_tools(self, tools: list[Any], **_: Any) -> "ScriptedModel":
        """This model, which knows what it calls; what it was offered is kept."""
        DECLARED[:] = [json.dumps(convert_to_openai_tool(tool)) for tool in tools if tool.name != "get_output"]
        return self

    @property
    def _llm_type(self) -> str:
        return "scripted"


def shown(payload: str, word: str, answer: str, tokens: int) -> list[str]:
    """Everything that tools show the model in a run over one payload."""

    def get_output() -> str:
        """Get the output of the program."""
        return payload

    files = FilesystemMiddleware(backend=StateBackend(), tool_token_limit_before_evict=tokens)
    agent = create_agent(ScriptedModel(word=word, answer=answer), [get_output], middleware=[files])
    done = agent.invoke({"messages": [{"role": "user", "content": "?"}]}, {"recursion_limit": 500})
    return [message.text for message in done["messages"] if isinstance(message, ToolMessage)]


def main(tokens: int) -> None:
    """Read every payload."""
    asked = json.load(sys.stdin)
    seen = [shown(Path(one["path"]).read_text(encoding="utf-8"), one["word"], one["answer"], tokens) for one in asked]
    json.dump({"declared": [*PROMPT, *DECLARED], "seen": seen}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))
