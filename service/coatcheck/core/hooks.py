"""What Claude Code's PostToolUse hook hands over, and how a card goes back in its place. Pure.

The host replaces a tool's output only by a value of that tool's own shape; another value is ignored and the original
stays (code.claude.com/docs/en/hooks, PostToolUse decision control). So the answer is the response that came, with texts
exchanged and everything else as it was. Left alone is what the host must have as it is: files that it read or wrote,
images, and output that it has cut itself and keeps in a file of its own, of which this service saw the beginning only.
"""

from typing import Any, Final, cast

from msgspec import Struct

from coatcheck.core.context.command import command_of
from coatcheck.core.context.signs import is_ours, is_own_tool

Object = dict[str, Any]

EVENT: Final = "PostToolUse"
_MCP: Final = "mcp__"
_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "Bash": ("stdout", "stderr"),
    "PowerShell": ("stdout", "stderr"),
    "Grep": ("content",),
    "WebFetch": ("result",),
}
"""Tools of the host whose output is an object with texts, and which members these are (its SDK's `sdk-tools.d.ts`).
`Read` is not among them: an agent edits only what it has read, and reads in ranges."""
_BLOCKS: Final = frozenset({"Agent", "Task"})
"""Tools of the host whose output is an object with `content` blocks."""
_SPILLED: Final = ("persistedOutputPath", "persistedOutputSize", "rawOutputPath")
"""Where the host keeps an output that it has cut; what is shown then is what stands there, not the rest."""


class Event(Struct, frozen=True, kw_only=True):
    """A tool call that a host reports to its hook."""

    tool_name: str
    response: Any
    session: str | None = None
    call_id: str | None = None
    url: str | None = None
    command: str | None = None
    """The call's arguments in short."""


class Slot(Struct, frozen=True, kw_only=True):
    """A text, or texts, of a response that one card may replace."""

    member: str | None
    """The member of the response that holds it; None where the response itself does."""
    content: str | list[Any]
    """What to store: a text, or blocks of text."""
    size: int
    """Bytes of its texts."""


def event_of(said: object) -> Event | None:
    """The event that a hook's input tells; None for an event that no card goes back for."""
    if not isinstance(said, dict):
        return None
    told = cast("Object", said)
    name = told.get("tool_name")
    if told.get("hook_event_name") != EVENT or not isinstance(name, str) or "tool_response" not in told:
        return None
    response = told["tool_response"]
    return Event(
        tool_name=name,
        response=response,
        session=_text(told.get("session_id")),
        call_id=_text(told.get("tool_use_id")),
        url=_text(_member(told.get("tool_input"), "url")),
        command=command_of(told.get("tool_input")),
    )


def slots(event: Event) -> list[Slot]:
    """What of a response may become cards; nothing of what must stay as it is."""
    name, response = event.tool_name, event.response
    if is_own_tool(name):
        return []
    if name.startswith(_MCP):
        found = [_slot("content" if isinstance(response, dict) else None, _member(response, "content") or response)]
    elif name in _BLOCKS:
        found = [_slot("content", _member(response, "content"))]
    elif _whole(response):
        found = [_slot(member, _member(response, member)) for member in _TEXTS.get(name, ())]
    else:
        found = []
    return [slot for slot in found if slot is not None]


def replaced(response: Any, cards: list[tuple[Slot, str]]) -> Any:  # noqa: ANN401 - the host's own shapes
    """The response with cards in their slots; the very response where there are none."""
    for slot, card in cards:
        if slot.member is None:
            response = _carded(response, card)
        else:
            around = cast("Object", response)
            response = {**around, slot.member: _carded(around[slot.member], card)}
            response.pop("structuredContent", None)  # the same once more, which the model would be shown instead
    return response


def answer(event: Event, response: Any) -> Object:  # noqa: ANN401 - the host's own shapes
    """The hook's output for a response that was changed."""
    output: Object = {"hookEventName": EVENT, "updatedToolOutput": response}
    if event.tool_name.startswith(_MCP):
        output["updatedMCPToolOutput"] = response  # what hosts before 2.1.121 know
    return {"hookSpecificOutput": output}


def _slot(member: str | None, value: Any) -> Slot | None:  # noqa: ANN401 - the host's own shapes
    texts = [value] if isinstance(value, str) else [block["text"] for block in _texts(value)]
    if not texts or any(is_ours(text) for text in texts):
        return None
    content = value if isinstance(value, str) else list[Any](_texts(value))
    return Slot(member=member, content=content, size=sum(len(text.encode("utf-8", "replace")) for text in texts))


def _carded(value: Any, card: str) -> Any:  # noqa: ANN401 - the host's own shapes
    """A text becomes the card; of blocks the first text does, the other texts go, and what is no text stays."""
    if isinstance(value, str):
        return card
    blocks: list[Any] = []
    placed = False
    for block in cast("list[Any]", value):
        if not _is_text(block):
            blocks.append(block)
        elif not placed:
            blocks.append({**block, "text": card})
            placed = True
    return blocks


def _texts(value: Any) -> list[Object]:  # noqa: ANN401 - the host's own shapes
    return [block for block in cast("list[Any]", value) if _is_text(block)] if isinstance(value, list) else []


def _is_text(block: Any) -> bool:  # noqa: ANN401 - the host's own shapes
    return _member(block, "type") == "text" and isinstance(_member(block, "text"), str)


def _whole(response: Any) -> bool:  # noqa: ANN401 - the host's own shapes
    """Whether this is all of an output, as text."""
    cut = any(_member(response, name) is not None for name in _SPILLED)
    return isinstance(response, dict) and not cut and _member(response, "isImage") is not True


def _member(value: Any, name: str) -> Any:  # noqa: ANN401 - the host's own shapes
    return cast("Object", value).get(name) if isinstance(value, dict) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
