"""Unwraps a search response from MCP results, JSON-RPC, provider's tool results and text parts."""

from typing import Final

from coatcheck.core.search.responses.generic_results import best_list
from coatcheck.core.search.responses.values import Record, decode_document, items_of, record_of, text_of

_DEEPEST: Final = 5
_TEXT_PARTS: Final = frozenset({"text", "output_text", "input_text"})
_INNER: Final = ("tool_response", "structuredContent", "structured_content")
_BESIDE: Final = frozenset({*_INNER, "content", "isError", "is_error", "_meta", "meta", "resultType"})
_RESULT_TYPES: Final = frozenset({"tool_result", "mcp_tool_result", "tool", "function_call_output", "function_result"})


def unwrap_response(value: object, depth: int = _DEEPEST) -> object:
    """Returns the response inside: JSON, or a text."""
    value = decode_document(value)
    if depth == 0:
        return value
    parts = _join_texts(value)
    if parts is not None:
        return unwrap_response(parts, depth - 1)
    record = record_of(value)
    if record is None:
        return value
    inner = _inside(record)
    return value if inner is None else unwrap_response(inner, depth - 1)


def is_error_result(value: object, depth: int = _DEEPEST) -> bool:
    """Returns whether a tool result, or one inside what protocols put around it, says that the tool failed."""
    record = record_of(value)
    if record is None or depth == 0:
        return False
    if record.get("isError") is True or record.get("is_error") is True:
        return True
    return any(is_error_result(record.get(name), depth - 1) for name in ("result", *_INNER))


def _inside(record: Record) -> object:
    """Returns what a record wraps; None if it wraps nothing."""
    for name in _INNER:
        inner = record.get(name)
        if best_list(inner)[1] or ("content" not in record and record_of(inner) is not None):
            return inner
    if "jsonrpc" in record or record.keys() == {"result"}:
        return record.get("result")
    answer = record_of(record.get("functionResponse", record.get("function_response")))
    if answer is not None:
        response = record_of(answer.get("response"))
        return None if response is None else response.get("output", response.get("result", response))
    contents = record.get("content")
    if text_of(record.get("type")) in _RESULT_TYPES or record.get("role") == "tool":
        return record.get("output", contents)
    alone = not record.keys() - _BESIDE
    return contents if alone and (isinstance(contents, str) or _join_texts(contents) is not None) else None


def _join_texts(value: object) -> object:
    """Returns text parts as one text; if each of several is a document of its own, the list of those."""
    items = items_of(value)
    if not items:
        return None
    texts: list[str] = []
    for item in items:
        part = record_of(item)
        if part is None or text_of(part.get("type")) not in _TEXT_PARTS or not isinstance(part.get("text"), str):
            return None
        if part.get("annotations") and part.get("type") == "output_text":
            return None
        texts.append(text_of(part["text"]))
    documents = [record_of(text) for text in texts]
    if len(texts) > 1 and all(documents):
        return documents
    return "\n\n".join(texts)
