"""Mends a history: removes outputs without a call, adds missing outputs, and moves misplaced outputs.

Added and moved outputs follow those that are there already, as outputs without IDs answer calls in the order of both.

Messages without a fault are the same objects afterwards, so that a caller can keep their bytes. No output is invented:
an added output says that none was recorded. Halves of surrogate pairs are replaced by U+FFFD.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from coatcheck.core.context.body.encoding import Object, Value, as_list, as_object, as_raw
from coatcheck.core.context.body.model import Format, HistoryCall, HistoryIndex, Item, Role
from coatcheck.core.context.body.splice import Pointer, apply_edits, get, splice_body
from coatcheck.core.context.notice import wrap_langchain
from coatcheck.core.repair.faults import MERGED, TOGETHER, Fault, without_halves

MISSING: Final = "No output of this call was recorded."
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ARRAY: Final = msgspec.json.Decoder(list[Raw])
_CONTAINERS: Final = {
    Format.ANTHROPIC: "content",
    Format.BEDROCK: "content",
    Format.GEMINI: "parts",
    Format.PYDANTIC_AI: "parts",
}
"""Formats in which outputs are parts of messages, with the name of the member that contains the parts."""


class MendedHistory(Struct, frozen=True):
    """A body without the faults that could be mended."""

    body: Value
    mended: list[Fault]


def mend(body: Value, index: HistoryIndex, faults: Sequence[Fault]) -> MendedHistory:
    """Returns the body with all faults mended that this module can mend; the given body is not changed."""
    if index.list_at is None:
        return MendedHistory(body, [])
    # Halves of surrogate pairs are replaced first, because they are inside messages that may be moved.
    halves = {fault.at: without_halves(get(body, fault.at)) for fault in faults if fault.kind == "half"}
    body = apply_edits(body, halves)
    mended = [fault for fault in faults if fault.kind == "half"]
    # By message number: the parts to remove (None removes the whole message), and the outputs to insert after its
    # calls.
    removals: dict[int, set[int | None]] = {}
    added: dict[int, list[Value]] = {}
    # A fault that cannot be mended in this format is left, and not reported as mended.
    for fault in faults:
        if fault.kind == "half":
            continue
        value = _missing(index, body, fault) if fault.kind == "no output" else _take_message(index, body, fault)
        if value is None:
            continue
        mended.append(fault)
        if fault.output is not None:
            removals.setdefault(fault.item, set()).add(_part_of(index, fault.output.at))
        if fault.call is not None:
            added.setdefault(fault.call_item, []).append(value)
    if not mended:
        return MendedHistory(body, [])
    return MendedHistory(apply_edits(body, {index.list_at: _rebuilt(body, index, removals, added)}), mended)


def _part_of(index: HistoryIndex, at: Pointer) -> int | None:
    """Returns the number of the part that is an output; None if the output is a whole message."""
    number = at[len(index.list_at or ()) + 2] if index.format in _CONTAINERS else None
    return number if isinstance(number, int) else None


def _take_message(index: HistoryIndex, body: Value, fault: Fault) -> Value:
    """Returns the message or part that contains an output, unchanged."""
    depth = len(index.list_at or ()) + (3 if index.format in _CONTAINERS else 1)
    return get(body, fault.at[:depth])


def _rebuilt(
    body: Value, index: HistoryIndex, removals: dict[int, set[int | None]], added: dict[int, list[Value]]
) -> list[Value]:
    """Returns the messages without the removed parts, and with each added output after its call."""
    container = _CONTAINERS.get(index.format)
    messages: list[Value] = []
    waiting: list[Value] = []
    # Outputs wait until all calls of their step have passed: providers want all calls first, then all outputs.
    for number, message in enumerate(as_list(get(body, index.list_at or ()))):
        item, gone = index.items[number], removals.get(number, set())
        if container is not None:
            # Where consecutive messages of the model count as one, the outputs wait for the end of them. Before any
            # other message that cannot contain them, they need a message of their own.
            stays = item.model and index.format in MERGED
            if waiting and not stays and item.role not in {Role.USER, Role.TOOL}:
                messages.append(_message(index.format, waiting))
                waiting = []
            before, waiting = ([], waiting) if stays else (waiting, [])
            if before or gone:
                rest = _with_parts(index, number, message, before, gone)
                # What is left beside moved outputs goes where they went: two messages of the user may not be in a row.
                last = as_object(messages[-1]) if gone and rest and messages else {}
                if last and index.format in TOGETHER and last.get("role") == as_object(message).get("role"):
                    parts = [part for each in (last, *rest) for part in as_list(as_object(each).get(container))]
                    messages[-1:] = [{**last, container: parts}]
                else:
                    messages += rest
            else:
                messages.append(message)
        else:
            after_call = number > 0 and index.items[number - 1].model
            if waiting and not _goes_first(index.format, item, after_call=after_call):
                messages += waiting
                waiting = []
            messages += [] if gone else [message]
        waiting += added.get(number, [])
    return messages + ([_message(index.format, waiting)] if waiting and container is not None else waiting)


def _goes_first(format_: Format, item: Item, *, after_call: bool) -> bool:
    """Returns whether a message comes before outputs that are added to the step before it.

    `after_call` says that the message before it is the model's, so that a message of the model goes on with the step.
    """
    if item.model:
        return after_call and format_ is Format.OPENAI_RESPONSES
    return bool(item.outputs)


def _with_parts(
    index: HistoryIndex, number: int, message: Value, added: list[Value], removals: set[int | None]
) -> list[Value]:
    """Returns a list with the message, with outputs added and parts removed; empty if no part is left.

    The added outputs follow the outputs with which the message begins.
    """
    container = _CONTAINERS[index.format]
    content = as_object(message).get(container)
    own = as_list(content) if isinstance(content, list) else [_text_part(index.format, content)]
    outputs = {_part_of(index, output.at) for output in index.items[number].outputs}
    kept = [(at, part) for at, part in enumerate(own) if at not in removals]
    first = next((place for place, (at, _) in enumerate(kept) if at not in outputs), len(kept))
    parts = [part for _, part in kept]
    parts[first:first] = added
    return [{**as_object(message), container: parts}] if parts else []


def _text_part(format_: Format, text: Value) -> Object:
    return {"text": text} if format_ is Format.BEDROCK else {"type": "text", "text": text}


def _message(format_: Format, parts: list[Value]) -> Object:
    if format_ is Format.PYDANTIC_AI:
        return {"parts": parts, "kind": "request"}
    return {"role": "user", _CONTAINERS[format_]: parts}


def with_elements(data: bytes, at: Pointer, old: list[Value], new: list[Value], inside: str | None) -> bytes:
    """Returns the body with new elements in the array at a pointer; `inside` is the same as for `splice_body`.

    Elements of `new` that are the same objects as in `old` keep their bytes; `old` must have been decoded from `data`.
    """
    raw = Raw(data)
    for step in at if inside is None else (inside, *at):
        raw = _OBJECT.decode(raw)[step] if isinstance(step, str) else _ARRAY.decode(raw)[step]
    raw_elements, numbers = _ARRAY.decode(raw), {id(value): number for number, value in enumerate(old)}
    elements = [
        raw_elements[numbers[id(value)]] if id(value) in numbers else Raw(msgspec.json.encode(value, enc_hook=as_raw))
        for value in new
    ]
    return splice_body(data, {at: elements}, inside=inside)


_OUTPUT_TYPES: Final = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


def _missing(index: HistoryIndex, body: Value, fault: Fault) -> Value:  # noqa: PLR0911 - a table
    """Returns an output that says that none was recorded; None for a call whose output has a form of its own."""
    call = fault.call or HistoryCall(at=(), keys=())
    call_id, name = call.call_id, call.name
    # LangChain has three forms of messages, and Responses has several kinds of calls: the output has the form of its
    # call.
    like = as_object(get(body, index.items[fault.item].at))
    match index.format:
        case Format.OPENAI_CHAT if call_id is None:
            return {"role": "function", "name": name, "content": MISSING}
        case Format.OPENAI_CHAT:
            return {"role": "tool", "tool_call_id": call_id, "content": MISSING}
        case Format.OPENAI_RESPONSES:
            kind = _OUTPUT_TYPES.get(str(like.get("type")))
            return None if kind is None else {"type": kind, "call_id": call_id, "output": MISSING}
        case Format.ANTHROPIC:
            return {"type": "tool_result", "tool_use_id": call_id, "content": MISSING, "is_error": True}
        case Format.BEDROCK:
            return {"toolResult": {"toolUseId": call_id, "content": [{"text": MISSING}], "status": "error"}}
        case Format.GEMINI:
            own = {} if call_id is None else {"id": call_id}
            key = "function_response" if "function_call" in call.at else "functionResponse"
            return {key: {**own, "name": name, "response": {"error": MISSING}}}
        case Format.PYDANTIC_AI:
            part = {"tool_name": name, "content": MISSING, "tool_call_id": call_id, "outcome": "failed"}
            return {**part, "part_kind": "tool-return"}
        case Format.LANGCHAIN:
            data = {"type": "tool", "content": MISSING, "tool_call_id": call_id, "name": name, "status": "error"}
            return wrap_langchain("ToolMessage", data, {}, like)
