"""Finds the errors that a response of any form reports, and removes the wrappers that protocols put around a response.

A member whose name means error counts as one, anywhere outside the results. A message counts as an error if its object
says that something failed (by a code, a status or a flag), or if the response contains nothing else. A short text is a
failure if its first words say so; finding nothing is no failure. `unwrap_response` takes a response out of MCP results,
JSON-RPC, tool results and text parts.
"""

import re
from collections import deque
from collections.abc import Iterator
from typing import Final

from coatcheck.core.search.model import REASON_CHARS
from coatcheck.core.search.responses.generic_results import best_list
from coatcheck.core.search.responses.values import (
    Record,
    decode_document,
    fold_names,
    is_plain,
    items_of,
    key,
    record_of,
    text_of,
)

_MAX_REASONS: Final = 4
"""Maximum reasons that are read from one response. Chosen, not measured."""
_MAX_NODES: Final = 2_000
"""Maximum values of one response that are searched, breadth first, since errors are near the top. Chosen, not
measured."""
_MAX_DEPTH: Final = 4
"""Maximum depth of objects and lists that are searched for errors. Chosen, not measured."""
_SHORT_TEXT: Final = REASON_CHARS
"""Characters above which a text is no message. A shorter text is shown whole, so nothing is lost if it was no
message."""
_SILENCE: Final = " did not answer"
_ERROR_NAMES: Final = """
    error errors err exception fault failure errormessage errormsg errordescription blockreason lasterror errordetails
    failedresults
    """
_ERRORS: Final = frozenset(_ERROR_NAMES.split())
_MESSAGE_NAMES: Final = """
    readablemessage message msg detail details description errormessage errormsg reason statusmessage statustext
    error errors title info moredetails errorcode code type name status
    """
_MESSAGES: Final = tuple(_MESSAGE_NAMES.split())
"""Names of members that describe an error, the most informative first."""
_PLAIN_MESSAGES: Final = _MESSAGES[: _MESSAGES.index("error")]
_CODES: Final = ("statuscode", "code", "status", "httpstatus", "httpcode", "httpstatuscode")
_FLAGS: Final = ("success", "ok", "succeeded")
_FINE: Final = frozenset({"", "ok", "success", "none", "null", "false", "0", "200", "true", "no error"})
_BAD: Final = re.compile(r"[45]\d{2,}|.*(?:error|fail|denied|unauthori|forbidden|invalid|exceeded).*", re.IGNORECASE)
_NOTHING: Final = re.compile(
    r"\b(?:no|0|zero) (?:\w+ ){0,3}(?:results?|matches|hits|documents|pages)\b|nothing (?:was |could be )?found"
    r"|(?:not|n['’]t) (?:\w+ ){0,2}(?:match|return|find|found|yield)\w* any|not found any"  # noqa: RUF001
    r"|(?:没有|沒有|未)(?:找到|搜索到|搜尋到)|無結果|无结果|見つかりません|결과가 없|keine (?:treffer|ergebnisse)"
    r"|aucun résultat|(?:sin|ningún) resultados?|nessun risultato|nenhum resultado|ничего не найдено",
    re.IGNORECASE,
)
_FAILED_TEXT: Final = re.compile(
    r"\W*(?:[\w.'’-]+[\s:]+){0,6}?(?:[\w.]*(?:error|exception)\b|fail(?:ed|ure)|unauthori[sz]ed|forbidden|"  # noqa: RUF001
    r"(?:access |permission )?denied|too many requests|rate.?limit\w*|timed? ?out|timeout|captcha|blocked|quota|"
    r"(?:insufficient|not enough|out of) (?:\w+ )?(?:credits?|balance|funds)|unavailable|bad gateway|"
    r"(?:invalid|missing) (?:\w+ )?(?:api )?key|[45]\d\d\b)",
    re.IGNORECASE,
)


def reports_no_results(text: str) -> bool:
    """Returns whether a text is short and says that a search found nothing."""
    return len(text) <= _SHORT_TEXT and _NOTHING.search(text) is not None


def text_failure(text: str) -> str | None:
    """Returns a short text that begins like a failure, on one line; None for any other text."""
    flat = " ".join(text.split())
    if not flat or len(flat) > _SHORT_TEXT or reports_no_results(flat):
        return None
    return flat[:REASON_CHARS] if _FAILED_TEXT.match(flat) else None


def is_silence(reason: str) -> bool:
    """Returns whether a reason is about one of several search engines, so that the whole search did not fail."""
    return _SILENCE in reason


def reasons_of(value: object, *, alone: bool, skipped: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Returns the reasons of a failure, each on one line, without duplicates; empty if there are none.

    Args:
        value: the response.
        alone: whether the response has neither results nor a list for them; its message is then the reason.
        skipped: names, in compared form, of members that contain results.
    """
    out: dict[str, None] = {}
    queue: deque[tuple[object, int]] = deque([(value, 0)])
    node_count = 0
    while queue and node_count < _MAX_NODES and len(out) < _MAX_REASONS:
        each, depth = queue.popleft()
        node_count += 1
        items, record = items_of(each), record_of(each)
        if record is not None:
            record = fold_names(record)
            out.update(dict.fromkeys(_of_record(record, alone=alone and depth == 0)))
        # An error inside an error repeats the outer one, so members that are errors are not searched.
        members = items if items is not None else [] if record is None else _others(record, skipped)
        if depth < _MAX_DEPTH:
            queue.extend((member, depth + 1) for member in members if not is_plain(member))
    for engine in _silent(value):
        out[engine] = None
    return tuple(out)[:_MAX_REASONS]


def has_list(record: Record) -> bool:
    """Returns whether a response has a list in which results would be, even if it is empty."""
    return any(isinstance(member, list) and key(name) not in _MESSAGES for name, member in record.items())


def _others(record: Record, skipped: frozenset[str]) -> list[object]:
    return [member for name, member in record.items() if name not in _ERRORS and name not in skipped]


def _of_record(record: Record, *, alone: bool) -> Iterator[str]:
    reasons = [text for name in record if name in _ERRORS and (text := _reason(record[name]))]
    yield from reasons
    if not reasons and ((alone and not _is_fine(record)) or _has_sign(record)):
        text = next((text for name in _PLAIN_MESSAGES if name in record and (text := _reason(record[name]))), "")
        code = next((code for name in ("errorcode", *_CODES) if (code := text_of(record.get(name)))), "")
        if text or _has_sign(record):
            yield text or code or "no reason is given"


def _reason(value: object) -> str:
    """Returns the most informative text of an error: the value itself, its message's text, or its first item's."""
    inner = decode_document(value)
    items, record = items_of(inner), record_of(inner)
    if items is not None:
        return next((text for item in items if (text := _reason(item))), "")
    if record is not None:
        members = fold_names(record)
        return next((text for name in _MESSAGES if name in members and (text := _reason(members[name]))), "")
    if isinstance(inner, (bool, int, float)):
        return str(inner) if not isinstance(inner, bool) and inner >= 100 else ""  # noqa: PLR2004 - a status
    text = " ".join(text_of(inner).split())[:REASON_CHARS]
    return "" if text.lower().rstrip(".") in _FINE else text


def _has_sign(record: Record) -> bool:
    """Returns whether an object says that something failed."""
    if any(record.get(name) is False for name in _FLAGS) or any(
        record.get(name) is True for name in ("error", "iserror")
    ):
        return True
    if text_of(record.get("errorcode")).lower() not in _FINE:
        return True
    return any(_BAD.fullmatch(text_of(record.get(name))) for name in (*_CODES, "type"))


def _is_fine(record: Record) -> bool:
    """Returns whether an object says that everything succeeded."""
    return any(text_of(record.get(name)).lower() in {"ok", "success", "true", "200"} for name in (*_CODES, *_FLAGS))


def _silent(value: object) -> Iterator[str]:
    """Yields the engines of a metasearch that did not answer, each with the reasons that are given."""
    record = record_of(value) or {}
    for name, member in record.items():
        if key(name) == "unresponsiveengines":
            for each in items_of(member) or ():
                engine, *reasons = [text for part in items_of(each) or [each] if (text := text_of(part))] or [""]
                if engine:
                    reason = f": {' '.join(reasons)}" if reasons else ""
                    yield f"{engine}{_SILENCE}{reason}"[:REASON_CHARS]


_MAX_WRAPPERS: Final = 5
"""Maximum nested wrappers that are removed: MCP inside JSON-RPC inside a tool result is three. Chosen, not measured."""
_TEXT_PARTS: Final = frozenset({"text", "output_text", "input_text"})
_INNER: Final = ("tool_response", "structuredContent", "structured_content")
_BESIDE: Final = frozenset({*_INNER, "content", "isError", "is_error", "_meta", "meta", "resultType"})
_RESULT_TYPES: Final = frozenset({"tool_result", "mcp_tool_result", "tool", "function_call_output", "function_result"})


def unwrap_response(value: object, depth: int = _MAX_WRAPPERS) -> object:
    """Returns the response inside the wrappers of protocols: JSON or a text."""
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


def is_error_result(value: object, depth: int = _MAX_WRAPPERS) -> bool:
    """Returns whether a tool result, also inside wrappers of protocols, says that the tool failed."""
    record = record_of(value)
    if record is None or depth == 0:
        return False
    if record.get("isError") is True or record.get("is_error") is True:
        return True
    return any(is_error_result(record.get(name), depth - 1) for name in ("result", *_INNER))


def _inside(record: Record) -> object:
    """Returns the value inside a wrapper; None if the record is no wrapper."""
    # Structured content is used if it has results, or if there is no text beside it.
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
    """Returns text parts as one text, or as a list if several parts are all JSON documents; None for other values."""
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
