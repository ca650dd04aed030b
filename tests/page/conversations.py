"""A conversation whose first turn is over, so that what is bulky in it can be compacted."""

from typing import Any


def conversation(ask: str, output: str, then: str) -> dict[str, Any]:
    """A turn with the output of a command, and what is asked next, as Chat Completions."""
    function = {"name": "bash", "arguments": '{"command": "make"}'}
    call = {"id": "c1", "type": "function", "function": function}
    return {
        "model": "gpt-4o",
        "messages": [
            {"role": "user", "content": ask},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": output},
            {"role": "assistant", "content": "It is built."},
            {"role": "user", "content": then},
        ],
    }
