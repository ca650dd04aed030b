"""A tool result of several parts as text: the text of each part under a heading, other parts on one line each.

`core/views/parts.py` defines what a part is. Encoded bytes are named, with their size.
"""

import re
from typing import Any, Final, cast

import msgspec

from coatcheck.core.extract.json_text import indent_json
from coatcheck.core.extract.sections import count_lines, locate_headings, one_line, sections
from coatcheck.core.extract.tags import words
from coatcheck.core.parts.blobs import name_blobs
from coatcheck.core.views import parts
from coatcheck.core.views.view import ExtractedText
from coatcheck_client.contract.blobs import name_of

PARTS_EXTRACTOR: Final = "parts 3"
_TYPES: Final = words(
    "text input_text output_text text-plain image image_url input_image audio input_audio file input_file document "
    "resource resource_link search_result tool_reference video media refusal thinking redacted_thinking json "
    "function_call_output code_execution_output"
)
_MEDIA: Final = ("inlineData", "inline_data", "fileData", "file_data", "functionResponse", "function_response")
_PARTS_MEMBER: Final = re.compile(
    rb'"type"\s*:\s*"(?:'
    + b"|".join(sorted(name.encode() for name in _TYPES))
    + rb')"|"(?:inline_?[dD]ata|file_?[dD]ata)"'
)
_START: Final = re.compile(
    rb'\s*(?:\[\s*[{"]|\{\s*(?:"(?:jsonrpc|id)"\s*:[^,{\[]{1,80},\s*)*(?:"result"\s*:\s*\{\s*)?'
    rb'"(?:content"\s*:\s*\[|structuredContent"|isError"|_meta"))'
)
"""Matches the beginning of a list of parts, or of an MCP call's result, also inside its JSON-RPC answer."""
_RESULT: Final = frozenset(["content", "structuredContent", "isError", "_meta"])
"""Members of the result of a call as MCP defines it."""
_ANSWER: Final = frozenset(["jsonrpc", "id", "result"])
"""Members of the answer around it."""


def may_be_parts(head: bytes) -> bool:
    """Returns whether a document that begins like this is worth reading as parts."""
    return bool(_START.match(head) and _PARTS_MEMBER.search(head))


def extract_parts(data: bytes) -> ExtractedText | None:
    """Returns the text of a payload that `core/views/parts.py` made of several parts, or of the result of an MCP call.

    None for any other payload. A result that is an error says so first.
    """
    if not may_be_parts(data):
        return None
    try:
        value: object = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    whole = cast("dict[str, Any]", value) if isinstance(value, dict) else {"content": value}
    if whole.keys() == _ANSWER and isinstance(whole["result"], dict):
        whole = cast("dict[str, Any]", whole["result"])
    content = whole.get("content")
    if not whole.keys() <= _RESULT or not isinstance(content, list) or not is_parts(cast("list[object]", content)):
        return None
    return _write_parts(
        cast("list[object]", content), whole.get("structuredContent"), failed=whole.get("isError") is True
    )


def is_parts(value: list[object]) -> bool:
    """Returns whether a list is a provider's parts, rather than similar data."""
    typed = 0
    for each in value:
        if isinstance(each, str):
            continue
        if not isinstance(each, dict):
            return False
        part = cast("dict[str, Any]", each)
        kind = part.get("type")
        if kind not in _TYPES if kind is not None else not (part.keys() & set(_MEDIA) or part.keys() == {"text"}):
            return False
        typed += kind is not None or part.keys() != {"text"}
    return typed > 0


def _write_parts(value: list[object], structured: object, *, failed: bool) -> ExtractedText:
    out: list[bytes] = []
    headings: list[tuple[int, str, int, str | None]] = []
    size = 0

    def put(title: str, text: str, url: str | None) -> None:
        nonlocal size
        body = text if text.endswith("\n") or not text else f"{text}\n"
        heading = f"{chr(10) if out else ''}# Part {len(headings) + 1}: {one_line(title)}\n"
        piece = heading.encode("utf-8", "replace") + name_blobs(body.encode("utf-8", "replace"))
        headings.append((size + bool(out), title, 1, url))
        out.append(piece)
        size += len(piece)

    if failed:
        put("error", "The result says that the call failed.", None)
    for part in value:
        put(*_part(part))
    if structured is not None:
        put("structured content", _json(structured), None)
    data = b"".join(out)
    outline = sections(locate_headings(headings, data), prefix="p", size=len(data), lines=count_lines(data))
    return ExtractedText(text=data, sections=outline, extractor=PARTS_EXTRACTOR)


def _part(part: object) -> tuple[str, str, str | None]:
    """Returns a part's title, its readable text, and its URL."""
    if isinstance(part, str):
        return "text", part, None
    block = cast("dict[str, Any]", part)
    kind = str(block.get("type") or next((key for key in _MEDIA if key in block), "text"))
    resource = parts.open_part(block)
    if resource is not None:
        title = resource.title or resource.url or kind
        media = resource.media_type or ""
        if _is_text(resource.data, media):
            return title, _indent_json(resource.data.decode()), resource.url
        return title, name_of(resource.media_type, len(resource.data)), resource.url
    text = block.get("text")
    url = next((v for k in ("url", "uri", "source") if isinstance(v := block.get(k), str)), None)
    name = block.get("title") or block.get("name")
    title = name if isinstance(name, str) and name else url if url and not url.startswith("data:") else kind
    if isinstance(text, str):
        rest = {k: v for k, v in block.items() if k not in {"text", "type"}}
        return title, f"{text}\n{_json(rest)}" if rest else text, url
    content = block.get("content")
    if isinstance(content, list) and is_parts(cast("list[object]", content)):
        inner = [_part(each)[1] for each in cast("list[object]", content)]
        head = f"{url}\n" if url else ""
        return title, head + "\n".join(inner), url
    return title, _json(block), url


def _is_text(data: bytes, media_type: str) -> bool:
    if media_type.startswith(("image/", "audio/", "video/")) or b"\x00" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _indent_json(text: str) -> str:
    """Returns a text that is JSON in one line, as results of programs often are, indented; any other as it is."""
    if text.lstrip()[:1] not in {"{", "["} or "\n" in text.strip():
        return text
    try:
        return _json(msgspec.json.decode(text))
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return text


def _json(value: object) -> str:
    return indent_json(msgspec.json.encode(value).decode())[0]
