"""Determines the wire format of a body, by its structure or by name; then indexes it.

What only one format has decides. A body of plain text in `messages` could be OpenAI's or Anthropic's: then both mean
the same, and it is read as OpenAI's. Anything but a model request, or without an adapter, is refused, with a sentence
that names what was looked for.
"""

from collections.abc import Callable
from typing import Final

from coatcheck.core.context.body.model import Format, HistoryIndex
from coatcheck.core.context.body.pointer import Pointer, get
from coatcheck.core.context.body.shape import Object, Value, as_list, as_object, kind_of, too_deep
from coatcheck.core.context.formats import anthropic, gemini, langchain, openai_chat, openai_responses
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.long_text import is_text

MAX_ITEMS: Final = 100_000
"""Maximum messages or items of one body: Anthropic's own limit, and far more than any window holds."""
_LISTS: Final = {
    Format.OPENAI_CHAT: "messages",
    Format.ANTHROPIC: "messages",
    Format.LANGCHAIN: "messages",
    Format.GEMINI: "contents",
    Format.OPENAI_RESPONSES: "input",
}
_INDEX: Final[dict[Format, Callable[[Value, Pointer], HistoryIndex]]] = {
    Format.OPENAI_CHAT: openai_chat.index,
    Format.ANTHROPIC: anthropic.index,
    Format.LANGCHAIN: langchain.index,
    Format.GEMINI: gemini.index,
    Format.OPENAI_RESPONSES: openai_responses.index,
}
_BLOCKS: Final = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use", "search_result"}
)
_STEPS: Final = frozenset({"user_input", "model_output", "function_result", "thought", "mcp_server_tool_call"})
_SEEN: Final = 2_000
"""Messages that are examined for structure."""


def index_of(body: Value, named: str | None = None) -> HistoryIndex:
    """Returns the index of a request body.

    Args:
        body: a decoded JSON body, or only the list of messages.
        named: its format, if the caller knows it.

    Raises:
        CoatcheckError: `invalid_request` if the format is unknown or the body has no list of that format, or one that
            is too long; `invalid_content` if it is nested too deeply.
    """
    try:
        return _index(body, detect(body) if named is None else _named(named))
    except RecursionError as e:
        raise too_deep() from e


def _index(body: Value, format_: Format) -> HistoryIndex:
    key = _LISTS[format_]
    list_at: Pointer = () if isinstance(body, list) else (key,)
    text = format_ is Format.OPENAI_RESPONSES  # whose whole input may be one text
    history = get(body, list_at)
    if not isinstance(history, list) and not (text and is_text(history)):
        raise CoatcheckError(
            Code.INVALID_REQUEST, f"A body of {format_} has its history in `{key}`; this one has none.", field=key
        )
    if (count := len(as_list(history))) > MAX_ITEMS:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"The body has {count:,} messages; at most {MAX_ITEMS:,} are taken.",
            limit=MAX_ITEMS,
        )
    return _INDEX[format_](body, list_at)


def _named(named: str) -> Format:
    try:
        return Format(named)
    except ValueError as e:
        names = ", ".join(Format)
        raise CoatcheckError(
            Code.INVALID_REQUEST, f"{named[:40]!a} is no format of a request body. Use one of: {names}.", field="format"
        ) from e


def detect(body: Value) -> Format:
    """Returns the format of a body, by its structure.

    Raises:
        CoatcheckError: `invalid_request` if it is not a known one.
    """
    around = as_object(body)
    messages = as_list(body) if isinstance(body, list) else as_list(around.get("messages"))
    if any(langchain.is_message(one) for one in messages[:_SEEN]):
        return Format.LANGCHAIN
    if isinstance(around.get("contents"), list) or _each(messages, _is_content):
        return Format.GEMINI
    if is_text(around.get("input")) or isinstance(around.get("input"), list):
        return _flat(as_list(around["input"]))
    if isinstance(body, list) and _each(messages, _is_item) and any("type" in as_object(one) for one in messages):
        return _flat(messages)
    if isinstance(around.get("messages"), list) or (messages and all("role" in as_object(one) for one in messages)):
        is_anthropic = _says_anthropic(around) or any(_is_anthropic(as_object(one)) for one in messages[:_SEEN])
        return Format.ANTHROPIC if is_anthropic else Format.OPENAI_CHAT
    raise CoatcheckError(
        Code.INVALID_REQUEST,
        "The request body's format is not recognised: it has no `messages`, `input` or `contents` list. Send the body "
        "as the provider gets it, or name its format.",
        field="body",
    )


def _each(messages: list[Value], like: Callable[[Object], bool]) -> bool:
    return bool(messages) and all(like(as_object(one)) for one in messages[:_SEEN])


def _is_content(message: Object) -> bool:
    """Returns whether this is one of Gemini's contents."""
    return isinstance(message.get("parts"), list) and "content" not in message


def _is_item(item: Object) -> bool:
    """Returns whether this is an item of OpenAI's Responses, which has a type unless it is a plain message."""
    return isinstance(item.get("type"), str) if "role" not in item else item.get("type", "message") == "message"


def _flat(items: list[Value]) -> Format:
    if any(kind_of(as_object(one)) in _STEPS for one in items[:_SEEN]):
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            "Bodies of Gemini's Interactions API cannot be compacted yet. Send it as generateContent takes it.",
            field="input",
        )
    return Format.OPENAI_RESPONSES


def _says_anthropic(around: Object) -> bool:
    tools = [as_object(tool) for tool in as_list(around.get("tools"))]
    return (
        "system" in around
        or "anthropic_version" in around
        or isinstance(around.get("thinking"), dict)
        or any("input_schema" in tool for tool in tools)
    ) and not any("function" in tool for tool in tools)


def _is_anthropic(message: Object) -> bool:
    return any(kind_of(as_object(block)) in _BLOCKS for block in as_list(message.get("content")))
