"""Determines the wire format of a body by its structure or by its name, and indexes the body.

The first message that only one format can have decides; then every message has to fit this format. A body with only
plain text in `messages` could be OpenAI's or Anthropic's; it means the same in both, and is read as OpenAI's. A body of
no known format, or with a message that does not fit, is refused: no message may be left out whose author is unknown.
"""

from collections.abc import Callable
from itertools import chain
from typing import Final, NoReturn

from msgspec import Struct

from coatcheck.core.context.body.encoding import Object, Value, as_list, as_object, kind_of, too_deep
from coatcheck.core.context.body.model import Format, HistoryIndex, Item, Piece, Role
from coatcheck.core.context.body.splice import Pointer, get, render
from coatcheck.core.context.formats.frameworks import (
    is_langchain,
    is_pydantic_ai,
    last_instructions,
    read_langchain,
    read_pydantic_ai,
)
from coatcheck.core.context.formats.messages import (
    is_bedrock,
    is_gemini,
    read_anthropic,
    read_bedrock,
    read_chat,
    read_gemini,
)
from coatcheck.core.context.formats.responses import note_server_history, read_response_item
from coatcheck.core.context.signs import is_own_tool
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.long_text import is_text

MAX_ITEMS: Final = 100_000
"""Maximum messages or items of one body: Anthropic's own limit, and far more than fit into any window."""


class _WireFormat(Struct, frozen=True):
    """The places of the parts of a body in one format."""

    history: str
    """Name of the member with the list of messages."""
    read_item: Callable[[Pointer, Object], Item]
    tools: tuple[Pointer, ...] = (("tools",),)
    system: tuple[Pointer, ...] = ()
    """Places of instructions outside the messages; the first place that has some is used."""


_SYSTEM_KEYS: Final = ("systemInstruction", "system_instruction")
_WIRE_FORMATS: Final = {
    Format.OPENAI_CHAT: _WireFormat("messages", read_chat, (("tools",), ("functions",))),
    Format.ANTHROPIC: _WireFormat("messages", read_anthropic, system=(("system",),)),
    Format.LANGCHAIN: _WireFormat("messages", read_langchain),
    Format.BEDROCK: _WireFormat("messages", read_bedrock, (("toolConfig", "tools"),), (("system",),)),
    Format.PYDANTIC_AI: _WireFormat("messages", read_pydantic_ai),
    Format.GEMINI: _WireFormat(
        "contents",
        read_gemini,
        (("tools",), ("config", "tools")),
        tuple((*around, key) for key in _SYSTEM_KEYS for around in ((), ("config",))),
    ),
    Format.OPENAI_RESPONSES: _WireFormat("input", read_response_item, system=(("instructions",),)),
}
_UNDECLARED: Final = frozenset({Format.LANGCHAIN, Format.PYDANTIC_AI})
"""Formats of histories that do not declare tools; the tools are declared elsewhere."""
_EXAMINED_MESSAGES: Final = 2_000
"""Maximum messages that are examined to find the format."""
_BLOCKS: Final = frozenset({"tool_use", "tool_result", "redacted_thinking", "server_tool_use", "mcp_tool_use"})
_EITHER: Final = frozenset({"thinking", "search_result"})
"""Blocks of Anthropic that occur in OpenAI's messages as well, as with Mistral's servers."""
_CHAT_ROLES: Final = frozenset({"tool", "function", "developer"})


def index_of(body: Value, format_name: str | None = None) -> HistoryIndex:
    """Returns the index of a request body.

    Args:
        body: a decoded JSON body, or only its list of messages.
        format_name: the name of the format, if the caller knows it; None detects the format.

    Raises:
        CoatcheckError: `unknown_format`, with a pointer to the first message that does not fit, if the body has no
            known format or not the named one; `invalid_request` if no format has that name or if there are too many
            messages; `invalid_content` if the body is nested too deeply.
    """
    try:
        return _index(body, detect(body) if format_name is None else _resolve_format(format_name))
    except RecursionError as e:
        raise too_deep() from e


def _index(body: Value, format_: Format) -> HistoryIndex:
    wire_format = _WIRE_FORMATS[format_]
    key = wire_format.history
    list_at: Pointer = () if isinstance(body, list) else (key,)
    history = get(body, list_at)
    # The whole input of a Responses body may be one text.
    if not isinstance(history, list) and not (format_ is Format.OPENAI_RESPONSES and is_text(history)):
        _refuse(f"A body of {format_} has its history in `{key}`; this one has none.", list_at)
    for other in sorted({other.history for other in _WIRE_FORMATS.values()} - {key}):
        rest = as_object(body).get(other)
        if rest and (isinstance(rest, list) or is_text(rest)):
            _refuse(f"The body has a history in `{key}` and another one in `{other}`. Send one of them.", (other,))
    messages = as_list(history)
    if (count := len(messages)) > MAX_ITEMS:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"The body has {count:,} messages; at most {MAX_ITEMS:,} are taken.",
            limit=MAX_ITEMS,
        )
    tools = [declarations for at in wire_format.tools if (declarations := as_list(get(body, at)))]
    index = HistoryIndex(
        format=format_,
        list_at=list_at,
        items=[wire_format.read_item((*list_at, number), as_object(one)) for number, one in enumerate(messages)],
        system=[value for at in wire_format.system if (value := get(body, at))][:1],
        tools=tools[0] if len(tools) == 1 else list(chain.from_iterable(tools)),
    )
    if not isinstance(history, list):
        index.list_at, index.items = None, [Item(at=list_at, role=Role.USER, prompt=True, pinned=True)]
        index.items[0].pieces = [Piece(at=list_at, text=history)]
    if format_ is Format.OPENAI_RESPONSES:
        note_server_history(index, body)
    elif format_ is Format.PYDANTIC_AI:
        index.system = last_instructions(messages)
    for item in index.items:
        if item.role is Role.OTHER and not item.pinned:
            _refuse(
                f"The body was read as {format_}, but {render(item.at)} is no message of that format, or has a role "
                "that it does not know. Send the body as the provider gets it, in one format, or name its format.",
                item.at,
            )
    declares = isinstance(body, dict) and format_ not in _UNDECLARED
    index.can_read = not declares or any(is_own_tool(name) for name in index.tool_names())
    return index


def _refuse(sentence: str, at: Pointer) -> NoReturn:
    raise CoatcheckError(Code.UNKNOWN_FORMAT, sentence, field="body", pointer=render(at))


def _resolve_format(format_name: str) -> Format:
    try:
        return Format(format_name)
    except ValueError as e:
        names = ", ".join(Format)
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"{format_name[:40]!a} is no format of a request body. Use one of: {names}.",
            field="format",
        ) from e


def detect(body: Value) -> Format:
    """Returns the format of a body by its structure. Whether every message fits this format is not checked.

    Raises:
        CoatcheckError: `unknown_format` if the body has no history in a known format.
    """
    around = as_object(body)
    if isinstance(around.get("contents"), list):
        return Format.GEMINI
    if is_text(around.get("input")) or isinstance(around.get("input"), list):
        return Format.OPENAI_RESPONSES
    messages = as_list(body) if isinstance(body, list) else as_list(around.get("messages"))
    for message in map(as_object, messages[:_EXAMINED_MESSAGES]):
        if (format_ := _sign(message, alone=isinstance(body, list))) is not None:
            return format_
    if isinstance(around.get("messages"), list) or messages:
        return Format.ANTHROPIC if _says_anthropic(around) or _has(messages, _EITHER) else Format.OPENAI_CHAT
    _refuse(
        "The request body's format is not recognised: it has no `messages`, `input` or `contents` list. Send the body "
        "as the provider gets it, or name its format.",
        (),
    )


def _sign(message: Object, *, alone: bool) -> Format | None:
    """Returns the only format that has such a message; None if several have it.

    `alone` says that the message comes from a list without a body around it.
    """
    kind = kind_of(message)
    is_item = alone and bool(kind) and ("role" not in message or kind == "message")
    signs = (
        (Format.LANGCHAIN, is_langchain(message)),
        (Format.PYDANTIC_AI, is_pydantic_ai(message)),
        (Format.GEMINI, is_gemini(message)),
        (Format.BEDROCK, "role" in message and is_bedrock(message)),
        (Format.OPENAI_CHAT, str(message.get("role")) in _CHAT_ROLES or "tool_calls" in message),
        (Format.ANTHROPIC, _has([message], _BLOCKS)),
        (Format.OPENAI_RESPONSES, is_item),
    )
    return next((format_ for format_, fits in signs if fits), None)


def _has(messages: list[Value], kinds: frozenset[str]) -> bool:
    contents = (as_list(as_object(message).get("content")) for message in messages[:_EXAMINED_MESSAGES])
    return any(kind_of(as_object(block)) in kinds for content in contents for block in content)


def _says_anthropic(around: Object) -> bool:
    tools = [as_object(tool) for tool in as_list(around.get("tools"))]
    return (
        "system" in around
        or "anthropic_version" in around
        or isinstance(around.get("thinking"), dict)
        or any("input_schema" in tool for tool in tools)
    ) and not any("function" in tool for tool in tools)
