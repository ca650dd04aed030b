"""Claude Code's PostToolUse hook: which texts of its event may become cards, and how the cards are returned. Pure.

The host replaces a tool's output only by a value of the same format; it ignores any other value and keeps the original
(code.claude.com/docs/en/hooks, PostToolUse decision control). So the hook answers with the original response, in which
only texts are replaced. Embedded resources of MCP become texts. Outputs that the host needs unchanged are left alone:
files that it read or wrote, images, and output that the host has cut itself and keeps in a file, because this service
sees only the beginning of that output.
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
"""Tools of the host whose output is an object with texts, and the names of the members with texts (`sdk-tools.d.ts` of
the host's SDK). `Read` is not included: an agent edits only text that it has read, and it reads in ranges."""
_BLOCKS: Final = frozenset({"Agent", "Task"})
"""Tools of the host whose output is an object with `content` blocks."""
_SEARCH: Final = "WebSearch"
"""The host's tool whose output is an object with a `query` and `results`: texts, and lists of titles and URLs."""
_SPILLED: Final = ("persistedOutputPath", "persistedOutputSize", "rawOutputPath")
"""Members that show that the host has cut an output and keeps all of it in a file."""


class HookEvent(Struct, frozen=True, kw_only=True):
    """A tool call that a host reports to its hook."""

    tool_name: str
    response: Value
    """The tool's output, of any format."""
    session: str | None = None
    call_id: str | None = None
    url: str | None = None
    """URL of the page that the call fetches; None if it fetches none."""
    command: str | None = None
    """The call's arguments, shortened."""
    query: str | None = None
    """The query of a web search; None for any other call."""
    fetch: PageFetch | None = None
    """How a page was fetched, by the members beside its text in the response; None if they do not say so."""


class Slot(Struct, frozen=True, kw_only=True):
    """A place in a response: one text, or several, that one card may replace."""

    member: str | None
    """The member of the response that contains the texts; None: they are the response itself."""
    content: str | list[Value]
    """The content to store: a text, blocks of text, or an embedded resource."""
    size: int
    """Size in bytes of the texts, or of the resource as it is encoded."""
    at: int | None = None
    """Number of the resource's block, from 0; None for texts."""
    is_search: bool = False
    """Whether the slot is the list of a web search's results, which a card replaces as a whole."""


def event_of(hook_input: object) -> HookEvent | None:
    """Returns the event in a hook's input; None for an event for which no card is ever returned."""
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
    """Returns the slots of a response that cards may replace, without texts that must stay unchanged."""
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
    """Returns the response with cards in their slots; the same object if there are no cards.

    In `cards`, the cards of resources come before the card of the texts, which does not replace them.
    """
    others = {slot.at for slot, _ in cards if slot.at is not None}
    for slot, card in cards:
        if slot.is_search:
            response = {**response, "results": [card]}
        elif slot.member is None:
            response = _with_card(response, card, slot.at, others)
        else:
            response = {**response, slot.member: _with_card(response[slot.member], card, slot.at, others)}
            response.pop("structuredContent", None)  # a copy of the content, which the host would show to the model
    return response


def answer(event: HookEvent, response: Value) -> Object:
    """Returns the hook's output for a changed response."""
    output: Object = {"hookEventName": EVENT, "updatedToolOutput": response}
    if event.tool_name.startswith(_MCP):
        output["updatedMCPToolOutput"] = response  # the name of the member in hosts before 2.1.121
    return {"hookSpecificOutput": output}


def _slot(member: str | None, value: Value) -> Slot | None:
    content: str | list[Value] = value if isinstance(value, str) else list(filter(_is_replaceable, as_list(value)))
    texts: list[str] = [content] if isinstance(content, str) else [block["text"] for block in content]
    # The passages of a search's answer may be in texts of their own beside its first one: all of them stay.
    if not texts or any(search_text(text) is not None for text in texts) or is_ours(texts[0]):
        return None
    return Slot(member=member, content=content, size=sum(len(text.encode("utf-8", "replace")) for text in texts))


def _search_slot(members: Object) -> Slot | None:
    results = as_list(members.get("results"))
    if not results or any(isinstance(result, str) and is_ours(result) for result in results):
        return None
    try:
        whole = msgspec.json.encode({name: members[name] for name in ("query", "results") if name in members}).decode()
    except RecursionError:  # too deep for the stack: the host's own tool returns no such results
        return None
    return Slot(member="results", content=whole, size=len(whole.encode()), is_search=True)


def _resources(member: str | None, value: Value) -> list[Slot]:
    """Returns a slot for each embedded resource among blocks."""
    out: list[Slot] = []
    for at, block in enumerate(as_list(value)):
        resource = as_object(as_object(block).get("resource"))
        content = as_text(resource.get("text")) or as_text(resource.get("blob"))
        if content is not None and block.get("type") == "resource" and not is_ours(content):
            out.append(Slot(member=member, content=[block], size=len(content.encode("utf-8", "replace")), at=at))
    return out


def _with_card(value: Value, card: str, at: int | None, others: set[int]) -> Value:
    """Returns a value in which the card replaces the block `at`, or the texts if `at` is None.

    In a list of blocks, the card replaces the first replaceable text, other such texts are dropped, and all other
    blocks stay. The blocks `others` stay as well.
    """
    if isinstance(value, str):
        return card
    if at is not None:
        return [*value[:at], {"type": "text", "text": card}, *value[at + 1 :]]
    blocks: list[Value] = []
    has_card = False
    for number, block in enumerate(value):
        if number in others or not _is_replaceable(block):
            blocks.append(block)
        elif not has_card:
            blocks.append({**block, "text": card})
            has_card = True
    return blocks


def _is_replaceable(block: Value) -> bool:
    """Returns whether a block is a text that a card may replace: any text but ours."""
    members = as_object(block)
    text = members.get("text")
    return members.get("type") == "text" and isinstance(text, str) and not is_ours(text)
