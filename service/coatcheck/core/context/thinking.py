"""Thinking that a change makes invalid, and what to send so that the provider drops it instead of refusing.

Anthropic binds each thinking block of its newer models by signature to everything before it: system, tools, all earlier
messages. If anything before a block has changed, the request is refused, unless it has a field and a header that allow
dropping the block, in this and every later request (platform.claude.com/docs/build-with-claude/preserved-thinking).
Blocks before the change, and in the changed message before its first changed block, stay valid.
"""

from typing import Final

from coatcheck.core.context.body.model import Format, HistoryIndex
from coatcheck.core.context.body.pointer import Pointer
from coatcheck.core.context.body.shape import Value, as_object
from coatcheck.core.context.report import Send

BETA: Final = "thinking-binding-controls-2026-08-01"

Position = tuple[int, int]
"""A message's number, and a block's number in it."""


def position(item: int, item_at: Pointer, at: Pointer) -> Position:
    """Returns the position of a pointer into an item; what is in no block of its content comes after all of them."""
    steps = at[len(item_at) :]
    for number, step in enumerate(steps[:-1]):
        after = steps[number + 1]
        if step == "content" and isinstance(after, int):
            return item, after
    return item, 1 << 30 if "tool_calls" in steps or "additional_kwargs" in steps else 0


def invalid(index: HistoryIndex, first: Position, dropped: set[int]) -> list[tuple[int, Pointer]]:
    """Returns the thinking blocks after the first change, with their messages' numbers, except left-out ones."""
    return [
        (number, opaque.at)
        for number, item in enumerate(index.items)
        if number >= first[0] and number not in dropped
        for opaque in item.opaque
        if opaque.kind == "thinking" and position(number, item.at, opaque.at) > first
    ]


def send(format_: Format, body: Value) -> Send | None:
    """Returns what must accompany a body whose thinking is partly invalid; None if there is no such thing."""
    if format_ not in {Format.ANTHROPIC, Format.LANGCHAIN}:
        return None
    thinking = as_object(as_object(body).get("thinking")) or {"type": "adaptive"}
    binding = as_object(thinking.get("block_binding"))
    return Send(
        headers={"anthropic-beta": BETA},
        body={"thinking": {**thinking, "block_binding": {**binding, "prefix_mismatch_behavior": "drop_block"}}},
    )
