"""Claude Code's PostToolUse hook: which texts of its event may become cards, and how they go back. Pure.

The host replaces a tool's output only by a value of that tool's own shape; any other value is ignored and the original
stays (code.claude.com/docs/en/hooks, PostToolUse decision control). So the answer is the response that came, with texts
exchanged and everything else unchanged. Embedded resources of MCP become texts. Left alone is what the host needs as it
is: files that it read or wrote, images, and output that it has cut itself and keeps in a file of its own, of which this
service sees only the beginning.
"""

from typing import Final

import msgspec
from msgspec import Struct

from coatcheck.core.artifact import PageFetch
from coatcheck.core.context.body.encoding import Object, Value, as_list, as_object, as_text
from coatcheck.core.context.command import command_of
from coatcheck.core.context.signs import is_ours, is_own_tool, search_text
from coatcheck.core.kinds.page import fetch_of_members
from coatcheck_client.contract.searches import search_fields

EVENT: Final = "PostToolUse"
_MCP: Final = "mcp__"
_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "Bash": ("stdout", "stderr"),
    "PowerShell": ("stdout", "stderr"),
    "Grep": ("content",),
    "WebFetch": ("result",),
}
"""Tools of the host whose output is an object with texts, and the members with them (its SDK's `sdk-tools.d.ts`).
`Read` is not included: an agent edits only what it has read, and reads in ranges."""
_BLOCKS: Final = frozenset({"Agent", "Task"})
"""Tools of the host whose output is an object with `content` blocks."""
_SEARCH: Final = "WebSearch"
"""The host's tool whose output is an object with a `query` and `results`: texts, and lists of titles and addresses."""
_SPILLED: Final = ("persistedOutputPath", "persistedOutputSize", "rawOutputPath")
"""Where the host keeps an output that it has cut; what it shows then is only the beginning."""


class HookEvent(Struct, frozen=True, kw_only=True):
    """A tool call that a host reports to its hook."""

    tool_name: str
    response: Value
    """The tool's output, of any shape."""
    session: str | None = None
    call_id: str | None = None
    url: str | None = None
    """The page that the call fetches, if it does."""
    command: str | None = None
    """The call's arguments, shortened."""
    query: str | None = None
    """What the call searches the web for, if it does."""
    fetch: PageFetch | None = None
    """How a page was fetched, by the members beside its text in the response."""


class Slot(Struct, frozen=True, kw_only=True):
    """One text, or several, of a response that one card may replace."""

    member: str | None
    """The member of the response that contains it; None if it is the response itself."""
    content: str | list[Value]
    """What to store: a text, blocks of text, or an embedded resource."""
    size: int
    """Bytes of its texts, or of what encodes the resource."""
    at: int | None = None
    """The number of the resource's block; None for texts."""
    is_search: bool = False
    """Whether it is a list of a search's results, in place of which one text stands alone."""


def event_of(hook_input: object) -> HookEvent | None:
    """Returns the event in a hook's input; None for an event that no card is returned for."""
    event = as_object(hook_input)
    name = event.get("tool_name")
    if event.get("hook_event_name") != EVENT or not isinstance(name, str) or "tool_response" not in event:
        return None
    return HookEvent(
        tool_name=name,
        response=event["tool_response"],
        session=as_text(event.get("session_id")),
        call_id=as_text(event.get("tool_use_id")),
        url=as_text(as_object(event.get("tool_input")).get("url")),
        command=command_of(event.get("tool_input")),
        query=search_fields(name, event.get("tool_input")).get("query"),
        fetch=fetch_of_members(event["tool_response"]),
    )


def find_texts(event: HookEvent) -> list[Slot]:
    """Returns what in a response may become cards, without anything that must stay as it is."""
    name, response = event.tool_name, event.response
    members = as_object(response)
    if is_own_tool(name):
        return []
    if name.startswith(_MCP):
        member = "content" if isinstance(response, dict) else None
        blocks = members.get("content", response)
        candidates = [*_resources(member, blocks), _slot(member, blocks or response)]
    elif name == _SEARCH:
        candidates = [_search_slot(members)]
    elif name in _BLOCKS:
        candidates = [_slot("content", members.get("content"))]
    elif members.get("isImage") is not True and all(members.get(mark) is None for mark in _SPILLED):
        candidates = [_slot(member, members.get(member)) for member in _TEXTS.get(name, ())]
    else:
        candidates = []
    return [slot for slot in candidates if slot is not None]


def insert_cards(response: Value, cards: list[tuple[Slot, str]]) -> Value:
    """Returns the response with cards in their slots; the same object if there are none.

    Cards of resources come first, and stay beside that of the texts.
    """
    others = {slot.at for slot, _ in cards if slot.at is not None}
    for slot, card in cards:
        if slot.is_search:
            response = {**response, "results": [card]}
        elif slot.member is None:
            response = _with_card(response, card, slot.at, others)
        else:
            response = {**response, slot.member: _with_card(response[slot.member], card, slot.at, others)}
            response.pop("structuredContent", None)  # a copy, which the model would be shown instead
    return response


def answer(event: HookEvent, response: Value) -> Object:
    """Returns the hook's output for a response that was changed."""
    output: Object = {"hookEventName": EVENT, "updatedToolOutput": response}
    if event.tool_name.startswith(_MCP):
        output["updatedMCPToolOutput"] = response  # for hosts before 2.1.121
    return {"hookSpecificOutput": output}


def _slot(member: str | None, value: Value) -> Slot | None:
    content: str | list[Value] = value if isinstance(value, str) else list(filter(_is_text, as_list(value)))
    texts: list[str] = [content] if isinstance(content, str) else [block["text"] for block in content]
    if not texts or any(is_ours(text) or search_text(text) is not None for text in texts):
        return None
    return Slot(member=member, content=content, size=sum(len(text.encode("utf-8", "replace")) for text in texts))


def _search_slot(members: Object) -> Slot | None:
    results = as_list(members.get("results"))
    if not results or any(isinstance(one, str) and is_ours(one) for one in results):
        return None
    try:
        whole = msgspec.json.encode({name: members[name] for name in ("query", "results") if name in members}).decode()
    except RecursionError:  # too deep for what is left of this stack: nothing that the host's tool returns
        return None
    return Slot(member="results", content=whole, size=len(whole.encode()), is_search=True)


def _resources(member: str | None, value: Value) -> list[Slot]:
    """Returns the embedded resources among blocks."""
    out: list[Slot] = []
    for at, block in enumerate(as_list(value)):
        resource = as_object(as_object(block).get("resource"))
        content = as_text(resource.get("text")) or as_text(resource.get("blob"))
        if content is not None and block.get("type") == "resource" and not is_ours(content):
            out.append(Slot(member=member, content=[block], size=len(content.encode("utf-8", "replace")), at=at))
    return out


def _with_card(value: Value, card: str, at: int | None, others: set[int]) -> Value:
    """Returns a value with the block `at`, or its text, replaced by the card.

    Of blocks, the first text is, other texts are dropped, and the rest stays.
    """
    if isinstance(value, str):
        return card
    if at is not None:
        return [*value[:at], {"type": "text", "text": card}, *value[at + 1 :]]
    blocks: list[Value] = []
    has_card = False
    for number, block in enumerate(value):
        if number in others or not _is_text(block):
            blocks.append(block)
        elif not has_card:
            blocks.append({**block, "text": card})
            has_card = True
    return blocks


def _is_text(block: Value) -> bool:
    members = as_object(block)
    return members.get("type") == "text" and isinstance(members.get("text"), str)
