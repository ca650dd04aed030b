"""Bodies before and after compaction are what the providers' own SDKs call a request."""

import warnings
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, cast

import pytest
from pydantic import TypeAdapter

from coatcheck.core.context import CompactionPolicy
from coatcheck.core.context.body.shape import as_object
from context.histories import FORMATS, LISTS, compact, conversation

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


@cache
def adapter(name: str) -> TypeAdapter[Any]:
    """What the SDK says a history is. The parameters around it are not ours to change, and take seconds to build."""
    if name == "openai-chat":
        from openai.types.chat import ChatCompletionMessageParam  # noqa: PLC0415 - slow

        return TypeAdapter(list[ChatCompletionMessageParam])
    if name == "openai-responses":
        from openai.types.responses import ResponseInputParam  # noqa: PLC0415 - slow

        return TypeAdapter(ResponseInputParam)
    if name == "anthropic":
        from anthropic.types import MessageParam  # noqa: PLC0415 - slow

        return TypeAdapter(list[MessageParam])
    from google.genai.types import Content  # noqa: PLC0415 - slow

    return TypeAdapter(list[Content])


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


CHECKS: dict[str, Callable[[Any], None]] = {
    "openai-chat": lambda body: valid("openai-chat", body),
    "openai-responses": lambda body: valid("openai-responses", body),
    "anthropic": lambda body: valid("anthropic", body),
    "gemini": lambda body: valid("gemini", body),
    "gemini without ids": lambda body: valid("gemini", body),
    "langchain": valid_langchain,
    "langchain dumped": valid_dumped,
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
