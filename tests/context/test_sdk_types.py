"""Bodies before and after compaction are what the providers' own SDKs call a request."""

import re
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from types import GenericAlias
from typing import Any, cast

import pytest
from pydantic import TypeAdapter

from coatcheck.core.context.body.encoding import as_object
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.errors import CoatcheckError, Code
from context.histories import FORMATS, LISTS, compact, conversation, counter

Json = Any

POLICIES = {
    "cards": CompactionPolicy(
        inline_tokens=100, card_tokens=80, argument_tokens=64, media="placeholder", protect="none"
    ),
    "budget": CompactionPolicy(inline_tokens=100, card_tokens=80, argument_tokens=64, max_tokens=2_000),
}


def exhaust(value: Any) -> None:  # noqa: ANN401 - what a lazy validator gives
    """Look at everything: fields of type Iterable are validated only when they are walked through."""
    if isinstance(value, dict):
        exhaust(list(as_object(value).values()))
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for one in cast("Iterable[Any]", value):
            exhaust(one)


TYPES = {
    "openai-chat": ("openai.types.chat", "ChatCompletionMessageParam"),
    "openai-responses": ("openai.types.responses", "ResponseInputItemParam"),
    "anthropic": ("anthropic.types", "MessageParam"),
    "gemini": ("google.genai.types", "Content"),
}
"""What each SDK says an item of a history is. The parameters around it are not ours to change, and take seconds."""


@cache
def adapter(name: str) -> TypeAdapter[Any]:
    module, item = TYPES[name]
    items: Any = GenericAlias(list, (getattr(import_module(module), item),))
    return TypeAdapter(items)


def valid(name: str, body: Any) -> None:  # noqa: ANN401 - any JSON
    exhaust(adapter(name).validate_python(body[LISTS[name]]))


def valid_langchain(body: Any) -> None:  # noqa: ANN401 - any JSON
    from langchain_core.messages import messages_from_dict  # noqa: PLC0415 - slow

    assert len(messages_from_dict(body["messages"])) == len(body["messages"])


def valid_dumped(body: Any) -> None:  # noqa: ANN401 - any JSON
    from langchain_core.load import load  # noqa: PLC0415 - slow
    from langchain_core.messages import BaseMessage  # noqa: PLC0415 - slow

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = load(body["messages"], allowed_objects="messages")
    assert all(isinstance(message, BaseMessage) for message in loaded)


def valid_flat(body: Any) -> None:  # noqa: ANN401 - any JSON
    from langchain_core.messages import AnyMessage  # noqa: PLC0415 - slow

    exhaust(TypeAdapter(list[AnyMessage]).validate_python(body["messages"]))


def valid_bedrock(body: Any) -> None:  # noqa: ANN401 - any JSON
    import botocore.session  # noqa: PLC0415 - slow
    from botocore.validate import ParamValidator  # noqa: PLC0415 - slow

    sdk: Any = botocore.session
    shape = sdk.get_session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    validator: Any = ParamValidator()
    report = validator.validate(body, shape)
    assert not report.has_errors(), report.generate_report()
    results = [block["toolResult"] for one in body["messages"] for block in one["content"] if "toolResult" in block]
    assert all(isinstance(part["json"], dict) for one in results for part in one["content"] if "json" in part)


def valid_pydantic_ai(body: Any) -> None:  # noqa: ANN401 - any JSON
    from pydantic_ai.messages import ModelMessagesTypeAdapter  # noqa: PLC0415 - slow

    assert len(ModelMessagesTypeAdapter.validate_python(body["messages"])) == len(body["messages"])


CHECKS: dict[str, Callable[[Any], None]] = {
    "openai-chat": lambda body: valid("openai-chat", body),
    "openai-responses": lambda body: valid("openai-responses", body),
    "anthropic": lambda body: valid("anthropic", body),
    "gemini": lambda body: valid("gemini", body),
    "gemini without ids": lambda body: valid("gemini", body),
    "langchain": valid_langchain,
    "langchain dumped": valid_dumped,
    "langchain flat": valid_flat,
    "bedrock": valid_bedrock,
    "pydantic-ai": valid_pydantic_ai,
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", CHECKS)
def test_bodies_are_valid_before_and_after(name: str, policy: str) -> None:
    changed = 0
    for seed in range(3):
        body = FORMATS[name](conversation(seed, 4 if policy == "cards" else 9, open_calls=False))
        CHECKS[name](body)
        new, report = compact(body, POLICIES[policy])
        CHECKS[name](new)
        changed += len(report.changes) + report.omitted_now
    assert changed > 5


@pytest.mark.parametrize("name", ["anthropic", "openai-responses"])
def test_a_placeholder_is_a_part_that_the_provider_knows(name: str) -> None:
    body = FORMATS[name](conversation(0, 2))
    if name == "anthropic":
        block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
        body["messages"] += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "shot", "name": "shoot", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "shot", "content": [block]}]},
        ]
    else:
        part = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0KGgo="}
        body["input"] += [
            {"type": "function_call", "call_id": "shot", "name": "shoot", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "shot", "output": [part]},
        ]
    valid(name, body)
    new, report = compact(body, POLICIES["cards"])
    assert [change.call_id for change in report.changes if change.to == "placeholder"] == ["shot"]
    valid(name, new)


_SCREENSHOT: Json = {"type": "computer_screenshot", "image_url": "https://e.org/shot.png"}
_COMMANDS: Json = {"commands": [f"echo {n}" for n in range(300)], "timeout_ms": 1_000, "max_output_length": 100}
_SOURCES: Json = [{"type": "url", "url": f"https://e.org/{n}/a/path"} for n in range(200)]
_KEYS: Json = {"type": "keypress", "keys": ["a", "b"] * 600}
_DRAG: Json = {"type": "drag", "path": [{"x": n, "y": n} for n in range(300)]}
_EXECUTION: Json = {"type": "exec", "command": ["env"], "env": {f"NAME_{n}": f"value {n}" for n in range(200)}}
_EDIT: Json = {"type": "update_file", "path": "a.py", "diff": "+ a line\n" * 400}
SCHEMATIC_CALLS: dict[str, tuple[str, Json, Json, str | None]] = {
    "drag": ("computer", {"action": _DRAG, "pending_safety_checks": []}, _SCREENSHOT, None),
    "keypress": ("computer", {"action": _KEYS, "pending_safety_checks": []}, _SCREENSHOT, "/action/keys"),
    "sources": ("web_search", {"action": {"type": "search", "query": "q", "sources": _SOURCES}}, None, None),
    "commands": ("shell", {"action": _COMMANDS}, [], "/action/commands"),
    "environment": ("local_shell", {"action": _EXECUTION}, "{}", None),
    "diff": ("apply_patch", {"operation": _EDIT}, "ok", "/operation/diff"),
}
"""Calls whose arguments OpenAI defines: each with its tool, its output if it has one, and where a marker fits in."""


def test_a_marker_stands_only_where_openai_allows_a_text() -> None:
    items: list[Json] = [{"role": "user", "content": "Go"}]
    for name, (tool, fields, output, _) in SCHEMATIC_CALLS.items():
        items.append({"type": f"{tool}_call", "id": name, "call_id": name, "status": "completed", **fields})
        answer = {"type": f"{tool}_call_output", "id": name, "call_id": name, "status": "completed", "output": output}
        items += [answer] if output is not None else []
    body = {"input": [*items, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "Go on"}]}
    valid("openai-responses", body)
    policy = CompactionPolicy(inline_tokens=100, card_tokens=80, server_tools=True, protect="none", max_tokens=6_000)
    new, report = compact(body, policy)
    valid("openai-responses", new)
    places = {one["id"]: f"/input/{n}" for n, one in enumerate(items) if one.get("type", "").endswith("_call")}
    texts = [places[name] + place for name, (*_, place) in SCHEMATIC_CALLS.items() if place is not None]
    assert [change.pointer for change in report.changes] == texts
    others = [places[name] for name, (*_, place) in SCHEMATIC_CALLS.items() if place is None]
    kept = [one.pointer for one in report.left if one.why == "the provider's types allow no text here"]
    assert [pointer.rsplit("/", 2)[0] for pointer in kept] == others


# --------------------------------------------------------------------------------------- every part of pydantic-ai's

_WORDS = "the quick brown fox " * 60
_IMAGE: Json = {"kind": "binary", "data": "aGVsbG8=", "media_type": "image/png"}
_CALLED: Json = {"tool_name": "run", "tool_call_id": "c1"}
PARTS: dict[str, Json] = {
    "system-prompt": {"content": _WORDS},
    "user-prompt": {"content": [_WORDS, {"kind": "text-content", "content": _WORDS}, {"kind": "cache-point"}, _IMAGE]},
    "speech": {"speaker": "user", "transcript": _WORDS},
    "tool-return": {**_CALLED, "content": [_WORDS, {"rows": _WORDS}, {"kind": "image-url", "url": "https://e.org/i"}]},
    "retry-prompt": {**_CALLED, "content": [{"type": "missing", "loc": ["a"], "msg": _WORDS, "input": {}}]},
    "retry-feedback": {"content": _WORDS, "retry": {"cause": "no_output"}},
    "tool-availability-delta": {"tools_added": [_WORDS]},
    "capability-load-delta": {"loaded": [_WORDS]},
    "model-settings-delta": {"settings": {"max_tokens": 9}, "top_level": True},
    "instruction-delta": {"id": "i", "content": _WORDS},
    "instruction-baseline": {"instructions": [{"content": _WORDS, "part_kind": "instruction"}]},
    "compaction": {"content": _WORDS},
    "text": {"content": _WORDS},
    "tool-call": {"tool_name": "search_tools", "tool_call_id": "c2", "args": {"queries": [_WORDS]}},
    "builtin-tool-call": {"tool_name": "web", "tool_call_id": "c3", "args": {"query": _WORDS}},
    "builtin-tool-return": {"tool_name": "web", "tool_call_id": "c3", "content": {"hits": [_WORDS]}},
    "thinking": {"content": _WORDS},
    "file": {"content": _IMAGE},
}
_ANSWERED = {"text", "tool-call", "builtin-tool-call", "builtin-tool-return", "thinking", "file"}


@pytest.mark.parametrize("kind", PARTS)
def test_every_part_of_pydantic_ai_is_read(kind: str) -> None:
    from pydantic_ai.messages import ModelMessagesTypeAdapter as Messages  # noqa: PLC0415 - slow

    side = "response" if kind in _ANSWERED else "request"
    message = {"kind": side, "parts": [{**PARTS[kind], "part_kind": kind}]}
    given = [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Go"}]}, message]
    body = {"messages": Messages.dump_python(Messages.validate_python(given), mode="json")}
    index = index_of(body)
    counting = counter()
    size = counting.item(body, index.items[1]).total
    assert size >= {"file": 1_000, "model-settings-delta": 20}.get(kind, 300)
    new, report = compact(body, CompactionPolicy(inline_tokens=100, card_tokens=80, protect="none", max_tokens=2_000))
    CHECKS["pydantic-ai"](new)
    assert report.tokens_before >= size
    assert compact(new, CompactionPolicy(inline_tokens=100, card_tokens=80, protect="none", max_tokens=2_000))[0] is new


def test_the_parts_of_pydantic_ai_are_all_known_and_others_refused() -> None:
    from pydantic_ai.messages import ModelMessagesTypeAdapter as Messages  # noqa: PLC0415 - slow

    found = set(re.findall(r"'part_kind': \{'const': '([a-z-]+)'", str(Messages.json_schema())))
    assert found - {"instruction", "instruction-digest"} == set(PARTS)
    message = {"kind": "request", "parts": [{"part_kind": "hologram", "content": {"of": "a cat"}}]}
    with pytest.raises(CoatcheckError) as refused:
        _ = index_of({"messages": [message]})
    assert refused.value.code is Code.UNKNOWN_FORMAT
    assert refused.value.extra["pointer"] == "/messages/0"
