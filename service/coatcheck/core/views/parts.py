"""Turns content in a provider's format into one payload. Pure: knows formats, not protocols.

`content` is one of: text; `{"base64": …}`; a list of parts as OpenAI, Anthropic, Gemini, MCP or LangChain write them;
a provider's whole tool-result object around such parts, which also gives the call ID and the tool name; or any other
JSON object.

The first rule that applies determines the payload:

1. One part that is text: the payload is its text. One part that is bytes (an image, audio, a document, an embedded
   resource): the payload is those bytes, decoded, with their media type.
2. Only plain text parts: the payload is their texts in order. A line feed is added between two texts unless the first
   of them ends with one.
3. Anything else: the payload is the parts as a JSON array, in UTF-8, without spaces, with sorted keys. Whitespace,
   order of keys and escapes are normalised, so that the habits of a client do not change the artifact's ID.
   `cache_control` and `prompt_cache_breakpoint` of a part are left out, because clients move them from turn to turn.
   Where a result has a JSON value in place of parts, as Gemini allows, the payload is that value. Likewise, an object
   of an unknown format is the payload itself.

A list that holds a tool result and nothing else is treated as that tool result. If a result says that the tool failed,
this is recorded beside the payload.

Rule 3 keeps everything in a part, so that one section for each part can be cut from the stored payload. Structured
content beside the parts is stored with them, unless the text of the only part is the same value, serialised. Nothing is
fetched: a URL stays a URL.
"""

import base64
import binascii
import re
from typing import Any, Final, cast

import msgspec
from msgspec import Struct, structs

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck_client.contract.json_values import is_among

Value = Any
Object = dict[str, Any]

JSON = "application/json"
_MOVING = ("cache_control", "prompt_cache_breakpoint")
_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "text-plain"})
_DATA_URL = re.compile(r"data:([-!#$&^_.+a-zA-Z0-9]+/[-!#$&^_.+a-zA-Z0-9]+)(?:;[^,;]+)*;base64,", re.ASCII)
_WRAPS = 4
"""Maximum nested objects around the parts: an MCP response, its result, a LangChain message, a block in it."""


MAX_PARTS = 10_000
"""Maximum number of parts. It is bounded because each part is examined. Chosen, not measured."""
_AT_ONCE: Final = 1024 * 1024
"""Characters of a text that are encoded at once."""


class PartsPayload(Struct, frozen=True, kw_only=True):
    """The payload for which content stands, with the metadata that the content gives."""

    data: bytes
    media_type: str | None = None
    """The payload's media type; None if the content does not give it."""
    tool_call_id: str | None = None
    tool_name: str | None = None
    url: str | None = None
    """Address of an embedded resource; None if there is none."""
    title: str | None = None
    failed: bool = False
    """Whether the provider's result says that the tool failed."""


class _Result(Struct, frozen=True):
    """A tool result without the object around it."""

    parts: list[Value]
    tool_call_id: str | None = None
    tool_name: str | None = None
    structured: Value = None
    """MCP's structured content beside the parts; None if there is none."""
    bare: bool = False
    """Whether the result has a JSON value in place of parts, as some providers allow; it is then the only item of
    `parts`."""
    failed: bool = False
    """Whether the result says that the tool failed."""


def payload(content: str | list[Value] | Object) -> PartsPayload:
    """Returns the payload for which content stands.

    Raises:
        CoatcheckError: `invalid_content` if the content has no parts or too many, is nested too deeply, or is invalid
            base64.
    """
    if isinstance(content, str):
        return PartsPayload(data=_encode_text(content))
    if isinstance(content, dict) and content.keys() == {"base64"}:
        return PartsPayload(data=_decode_base64(content["base64"]))
    return _decide(_result(content))


def parts_of(content: str | list[Value] | Object) -> list[Value]:
    """Returns the parts of content, without the objects around them; an empty list for text, bytes and a JSON value."""
    if isinstance(content, str):
        return []
    result = _result(content)
    return [] if result.bare else result.parts


def _result(content: list[Value] | Object) -> _Result:
    """Returns the tool result in content."""
    if isinstance(content, dict):
        return _unwrap(content, _WRAPS) or _Result([_still(content)], bare=True)
    only = _object(content[0]) if len(content) == 1 else None
    result = _unwrap(only, _WRAPS) if only is not None and _is_wrapped(only) else None
    return result or _Result(content)


def _encode_text(text: str) -> bytes:
    """Returns the text in UTF-8. Encoding in pieces saves a buffer of up to four bytes for each character."""
    if text.isascii() or len(text) <= _AT_ONCE:
        return text.encode()
    return b"".join([text[at : at + _AT_ONCE].encode() for at in range(0, len(text), _AT_ONCE)])


def _decide(result: _Result) -> PartsPayload:
    parts = result.parts
    if not parts and result.structured is None:
        raise CoatcheckError(Code.INVALID_CONTENT, "The content has no parts. Give at least one.")
    if len(parts) > MAX_PARTS:
        raise CoatcheckError(
            Code.INVALID_CONTENT,
            f"The content has {len(parts):,} parts; at most {MAX_PARTS:,} are accepted. Send it as text.",
            limit=MAX_PARTS,
        )
    parts_payload = open_part(parts[0]) if len(parts) == 1 else _join_parts(parts)
    if parts_payload is None or not _covers(parts_payload, result.structured):
        whole: Value = parts[0] if result.bare else [_still(part) for part in parts]
        if result.structured is not None:
            whole = {"content": whole, "structuredContent": result.structured} if parts else result.structured
        parts_payload = PartsPayload(data=_json(whole), media_type=JSON)
    return structs.replace(
        parts_payload, tool_call_id=result.tool_call_id, tool_name=result.tool_name, failed=result.failed
    )


def _covers(parts_payload: PartsPayload, structured: Value) -> bool:
    """Returns whether the payload is all of the structured content, serialised, as MCP asks servers to ensure."""
    if structured is None:
        return True
    try:
        return bool(msgspec.json.decode(parts_payload.data) == structured)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _still(part: Value) -> Value:
    """Returns a part without the members that clients move between turns (_MOVING)."""
    block = _object(part)
    return part if block is None else {key: value for key, value in block.items() if key not in _MOVING}


def _json(value: Value) -> bytes:
    try:
        return msgspec.json.encode(value, order="sorted")
    except RecursionError as e:
        raise CoatcheckError(Code.INVALID_CONTENT, "The content is nested too deeply.") from e


# ------------------------------------------------------------------------------------------------ parts


def _join_parts(parts: list[Value]) -> PartsPayload | None:
    """Returns the payload of parts that are all plain text; None if any part is something else."""
    texts: list[str] = []
    for part in parts:
        text = _text(part)
        if text is None:
            return None
        if texts and not texts[-1].endswith("\n"):
            texts.append("\n")
        texts.append(text)
    return PartsPayload(data="".join(texts).encode())


def _text(part: Value) -> str | None:
    """Returns the text of a part that is only text; None for any other part. Cache marks do not count as content."""
    if isinstance(part, str):
        return part
    block = _object(part)
    if block is None:
        return None
    text = block.get("text")
    if not isinstance(text, str) or block.get("citations"):
        return None
    kind = _kind(block)
    if kind in _TEXT_TYPES:
        return text
    alone = kind is None and not (block.keys() - {"text", "thought", "thoughtSignature", "thought_signature"})
    return text if alone and not block.get("thought") else None


def open_part(part: Value) -> PartsPayload | None:
    """Returns the payload of a part that is only text or only bytes; None for any other part."""
    block = _object(part)
    text = _text(part)
    if text is not None:
        return PartsPayload(data=text.encode(), media_type=_mime(block) if block else None)
    return None if block is None else _open_embedded(block) or _image(block)


def _open_embedded(block: Object) -> PartsPayload | None:
    """Returns the payload in an inner object of a part: MCP's resource, Anthropic's source or Gemini's inline data.

    None if there is no such object.
    """
    kind = block.get("type")
    if kind == "resource" and (resource := _object(block.get("resource"))) is not None:
        return _resource(resource)
    if kind is None and "uri" in block and ("text" in block or "blob" in block):
        return _resource(block)
    if (source := _object(block.get("source"))) is not None:
        return _source(source, title=_str(block.get("title")))
    data = _object(block.get("inlineData", block.get("inline_data")))
    return None if data is None else _bytes(data.get("data"), _mime(data))


def _image(block: Object) -> PartsPayload | None:
    """Returns an image, audio, video or a file in base64 or a data URL, as OpenAI, MCP and LangChain write them.

    None if the part is none of these.
    """
    at = block.get("image_url", block.get("file_data"))
    url = _str((_object(at) or {"url": at}).get("url"))
    if url is not None:
        head = _DATA_URL.match(url)
        return _bytes(url[head.end() :], head[1].lower()) if head else None
    if _kind(block) in {"image", "audio", "file", "video"}:
        return _bytes(block.get("data", block.get("base64")), _mime(block))
    return None


def _resource(resource: Object) -> PartsPayload | None:
    url, mime, text = _str(resource.get("uri")), _mime(resource), resource.get("text")
    if isinstance(text, str):
        return PartsPayload(data=text.encode(), media_type=mime, url=url)
    return _bytes(resource.get("blob"), mime, url=url)


def _source(source: Object, *, title: str | None) -> PartsPayload | None:
    """Returns the payload of an Anthropic image or document; None if the source holds neither text nor base64."""
    match source:
        case {"type": "text", "data": str(text)}:
            return PartsPayload(data=text.encode(), media_type=_mime(source), title=title)
        case {"type": "base64", "data": data}:
            return _bytes(data, _mime(source), title=title)
        case _:
            return None


def _bytes(data: Value, mime: str | None, *, url: str | None = None, title: str | None = None) -> PartsPayload | None:
    """Returns the payload of base64; None if the base64 is invalid, so that its part is stored as it was given."""
    if not isinstance(data, str):
        return None
    decoded = _base64(data)
    return None if decoded is None else PartsPayload(data=decoded, media_type=mime, url=url, title=title)


def _base64(text: str) -> bytes | None:
    """Decodes standard or URL-safe base64, padded or not, in one piece or in lines; returns None if it is invalid."""
    compact = "".join(text.split()).rstrip("=")
    if "-" in compact or "_" in compact:
        compact = compact.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _decode_base64(value: Value) -> bytes:
    decoded = _base64(value) if isinstance(value, str) else None
    if decoded is None:
        raise CoatcheckError(Code.INVALID_CONTENT, "'content.base64' is not base64 (RFC 4648).", field="content.base64")
    return decoded


def _object(value: Value) -> Object | None:
    """Returns a value that is a JSON object, whose keys are strings; None for any other value."""
    return cast("Object", value) if isinstance(value, dict) else None


def _kind(block: Object) -> str | None:
    """Returns the type of a part; None if the part has none, and an empty text if the type is not a string."""
    kind = block.get("type")
    return kind if kind is None or isinstance(kind, str) else ""


def _mime(block: Object) -> str | None:
    return _first(block, ("mimeType", "mime_type", "media_type"))


def _first(block: Object, names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := _str(block.get(name))) is not None), None)


def _str(value: Value) -> str | None:
    return value if isinstance(value, str) and value else None


# ----------------------------------------------------------------------------------------- tool results


def _unwrap(block: Object, depth: int) -> _Result | None:
    """Returns the tool result in a provider's object. Removes at most `depth` objects around the result.

    None if the object is neither a tool result nor a known part.
    """
    inner = _around(block)
    if inner is not None and depth:
        result = _unwrap(inner, depth - 1)
        return structs.replace(result, failed=True) if result is not None and _is_failed(block) else result
    response = _object(block.get("functionResponse", block.get("function_response")))
    if response is not None:
        return _gemini(response)
    for key in ("content", "output", "result", "contents"):
        if key in block and _is_result(block):
            return _Result(
                _list_parts(block[key]),
                _call_id(block),
                _name(block),
                block.get("structuredContent", block.get("structured_content")),
                bare=not isinstance(block[key], list),
                failed=_is_failed(block),
            )
    if "structuredContent" in block:
        return _Result([], structured=block["structuredContent"], failed=_is_failed(block))
    return _Result([block]) if open_part(block) is not None else None


def _is_failed(block: Object) -> bool:
    """Returns whether a result says that the tool failed, as Anthropic, MCP and LangChain do."""
    return block.get("is_error") is True or block.get("isError") is True or block.get("status") == "error"


def _is_wrapped(block: Object) -> bool:
    """Returns whether an object that is alone in a list is certainly a tool result, not a part or similar data."""
    if _around(block) is not None or "functionResponse" in block or "function_response" in block:
        return True
    return _is_result(block) if isinstance(block.get("type"), str) else _is_marked(block)


def _around(block: Object) -> Object | None:
    """Returns the object inside a JSON-RPC response or a serialised LangChain message; None for any other object."""
    if "jsonrpc" in block:
        return _object(block.get("result"))
    if block.get("type") == "tool" and "data" in block:
        return _object(block["data"])
    return _object(block.get("kwargs")) if block.get("lc") == 1 else None


_RESULT_TYPES = frozenset({"tool_result", "mcp_tool_result", "tool", "function_result", "server_tool_result"})


_CALL_IDS = ("tool_use_id", "tool_call_id", "call_id")
_RESULT_KEYS = frozenset({*_CALL_IDS, "isError", "is_error", "structuredContent"})
_PLAIN_KEYS = frozenset({"content", "contents", "name", "tool_name", "status", "_meta", "structured_content"})
"""Members that a tool result without a type may have. An object with any other member is data."""


def _is_marked(block: Object) -> bool:
    """Returns whether a role or a member marks an object without a type as a tool result."""
    return is_among(block.get("role"), {"tool", "function"}) or bool(block.keys() & _RESULT_KEYS)


def _is_result(block: Object) -> bool:
    """Returns whether an object is a tool result. A part that only has a `content`, such as a search result, is not."""
    kind = block.get("type")
    if not isinstance(kind, str):
        return _is_marked(block) or (not block.keys() - _PLAIN_KEYS and bool(block.keys() & {"content", "contents"}))
    return kind in _RESULT_TYPES or kind.endswith("_output") or kind == "mcp_call"


def _list_parts(content: Value) -> list[Value]:
    """Returns a result's content as parts: the items of a list; none for None; any other value as the only part."""
    if content is None:
        return []
    return cast("list[Value]", content) if isinstance(content, list) else [content]


def _gemini(response: Object) -> _Result:
    """Reads a functionResponse: its `output`, `error` or `result` if that is its only member, or else all of it.

    The media beside it are further parts.
    """
    answer = response.get("response")
    answer_object = _object(answer)
    parts: list[Value] = []
    if answer_object is not None and len(answer_object) == 1:
        key, value = next(iter(answer_object.items()))
        parts.append(value if key in {"output", "error", "result"} else answer)
    elif answer is not None:
        parts.append(answer)
    beside = response.get("parts")
    if isinstance(beside, list):
        parts.extend(cast("list[Value]", beside))
    return _Result(
        parts,
        _call_id(response),
        _name(response),
        bare=len(parts) == 1 and not beside,
        failed=_is_failed(response)
        or (answer_object is not None and (answer_object.keys() == {"error"} or _is_failed(answer_object))),
    )


def _call_id(block: Object) -> str | None:
    own = _kind(block) in {"local_shell_call_output", "mcp_call"} or "response" in block
    return _first(block, (*_CALL_IDS, "id") if own else _CALL_IDS)


def _name(block: Object) -> str | None:
    return _first(block, ("name", "tool_name"))
