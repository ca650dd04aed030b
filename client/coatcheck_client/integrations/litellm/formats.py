"""The formats that a proxy's clients use: how an answer contains a model's calls, and how messages contain them."""

# ruff: noqa: ANN401, D102 - LiteLLM's answers are of many types; the first class documents the methods
# pyright: basic

from collections.abc import Collection
from typing import Any, Final, Literal

from coatcheck_client import Client
from coatcheck_client.contract.json_values import is_among
from coatcheck_client.fallback import sentence
from coatcheck_client.integrations.litellm.messages import Raw
from coatcheck_client.integrations.litellm.usage import plain

_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
"""Types of items that are calls in OpenAI's Responses."""


class Chat:
    """OpenAI's Chat Completions: a message contains the model's calls, and each result is a message of its own."""

    name: Literal["openai-chat"] = "openai-chat"
    key = "messages"
    no_choice: Any = "none"
    holds_streams = False
    """Whether LiteLLM itself holds a stream back until it knows that the model does not call `read_artifact`."""

    def calls(self, response: Any) -> list[Raw]:
        """Returns the calls of an answer, as the provider wrote them."""
        return [one.model_dump(exclude_none=True) for one in response.choices[0].message.tool_calls or ()]

    def id_of(self, call: Raw) -> str:
        """Returns the ID by which a result names its call."""
        return call["id"]

    def name_of(self, call: Raw) -> str:
        """Returns the name of the tool."""
        return (call.get("function") or call.get("custom") or {}).get("name") or ""

    def arguments_of(self, call: Raw) -> Any:
        """Returns the arguments of a call, or their JSON."""
        return (call.get("function") or {}).get("arguments")

    def strip(self, response: Any, ids: Collection[str]) -> None:
        """Removes calls from an answer."""
        choice = response.choices[0]
        choice.message.tool_calls = [one for one in choice.message.tool_calls if one.id not in ids] or None
        if choice.message.tool_calls is None:
            choice.finish_reason = "stop"

    def turn(self, response: Any, calls: list[Raw]) -> list[Raw]:
        """Returns the model's turn as messages that contain only these of its calls."""
        return [{**response.choices[0].message.model_dump(exclude_none=True), "tool_calls": calls}]

    def results(self, answers: list[Raw]) -> list[Raw]:
        """Returns the messages that bring these answers to the model."""
        return answers

    def answered(self, client: Client, call: Raw) -> Raw:
        """Executes a call of `read_artifact`; returns its result in the provider's form. Blocks the thread."""
        return answered(client, call, {"role": "tool", "tool_call_id": call["id"]}, "content")

    def calls_of(self, message: Raw) -> list[Raw]:
        """Returns the calls in a message of a request."""
        return message.get("tool_calls") or []

    def joined(self, turn: list[Raw], calls: list[Raw], answers: list[Raw], rest: list[Raw]) -> list[Raw]:
        """Returns the model's turn with the calls that were removed from it, then their answers, then the rest."""
        last = {**turn[-1], "tool_calls": [*turn[-1]["tool_calls"], *calls]} if calls else turn[-1]
        return [*turn[:-1], last, *answers, *rest]

    def names_in(self, part: Any) -> list[str]:
        """Returns the names of the tools whose calls begin in a part of a stream."""
        delta = part.choices[0].delta if getattr(part, "choices", None) else None
        return [one.function.name or "" for one in getattr(delta, "tool_calls", None) or () if one.function]


class Messages(Chat):
    """Anthropic's Messages: calls and results are blocks; all results of a turn are in one message."""

    name: Any = "anthropic"
    no_choice: Any = {"type": "none"}  # noqa: RUF012 - never changed
    holds_streams = True

    def calls(self, response: Any) -> list[Raw]:
        return [one for one in response["content"] if one.get("type") == "tool_use"]

    def name_of(self, call: Raw) -> str:
        return call.get("name") or ""

    def arguments_of(self, call: Raw) -> Any:
        return call.get("input")

    def strip(self, response: Any, ids: Collection[str]) -> None:
        response["content"] = [one for one in response["content"] if not is_among(one.get("id"), ids)]
        if not self.calls(response) and response.get("stop_reason") == "tool_use":
            response["stop_reason"] = "end_turn"

    def turn(self, response: Any, calls: list[Raw]) -> list[Raw]:
        kept = [one for one in response["content"] if one.get("type") != "tool_use" or one in calls]
        return [{"role": "assistant", "content": kept}]

    def results(self, answers: list[Raw]) -> list[Raw]:
        return [{"role": "user", "content": answers}]

    def answered(self, client: Client, call: Raw) -> Raw:
        return answered(client, call, {"type": "tool_result", "tool_use_id": call["id"]}, "content")

    def calls_of(self, message: Raw) -> list[Raw]:
        content = message.get("content")
        return [one for one in content if one.get("type") == "tool_use"] if isinstance(content, list) else []

    def joined(self, turn: list[Raw], calls: list[Raw], answers: list[Raw], rest: list[Raw]) -> list[Raw]:
        if not calls:
            return [*turn, *rest]
        last_message = {**turn[-1], "content": [*turn[-1]["content"], *calls]}
        if not rest:
            return [*turn[:-1], last_message, *self.results(answers)]
        content = rest[0]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return [*turn[:-1], last_message, {**rest[0], "content": [*answers, *blocks]}, *rest[1:]]


class Responses(Chat):
    """OpenAI's Responses: calls and results are items."""

    name: Any = "openai-responses"
    key = "input"

    def calls(self, response: Any) -> list[Raw]:
        items = [plain(one) for one in response.output]
        return [one for one in items if is_among(one.get("type"), _CALLS)]

    def id_of(self, call: Raw) -> str:
        return call["call_id"]

    def name_of(self, call: Raw) -> str:
        return call.get("name") or ""

    def arguments_of(self, call: Raw) -> Any:
        return call.get("arguments")

    def strip(self, response: Any, ids: Collection[str]) -> None:
        response.output = [one for one in response.output if not is_among(plain(one).get("call_id"), ids)]

    def turn(self, response: Any, calls: list[Raw]) -> list[Raw]:
        items = [plain(one) for one in response.output]
        return [one for one in items if not is_among(one.get("type"), _CALLS) or one in calls]

    def answered(self, client: Client, call: Raw) -> Raw:
        return answered(client, call, {"type": "function_call_output", "call_id": call["call_id"]}, "output")

    def names_in(self, part: Any) -> list[str]:
        item = plain(getattr(part, "item", None))
        return [self.name_of(item)] if self.calls_of(item) else []

    def calls_of(self, message: Raw) -> list[Raw]:
        return [message] if is_among(message.get("type"), _CALLS) else []

    def joined(self, turn: list[Raw], calls: list[Raw], answers: list[Raw], rest: list[Raw]) -> list[Raw]:
        return [*turn, *calls, *answers, *rest]


Format = Chat
_CHAT, _MESSAGES, _RESPONSES = Chat(), Messages(), Responses()
FORMATS: Final[dict[str, Format]] = {
    **dict.fromkeys(("completion", "acompletion"), _CHAT),
    **dict.fromkeys(("anthropic_messages", "aanthropic_messages"), _MESSAGES),
    **dict.fromkeys(("responses", "aresponses"), _RESPONSES),
}
"""Formats, by LiteLLM's name for the type of a request."""


def format_of(response: Any) -> Format:
    """Returns the format of an answer."""
    if isinstance(response, dict):
        return _MESSAGES
    return _RESPONSES if hasattr(response, "output") else _CHAT


def answered(client: Client, call: Raw, around: Raw, member: str) -> Raw:
    """Executes a call at the service and returns its result, which says what to do if the service fails."""
    try:
        return client.call([call])[0]
    except Exception as e:  # noqa: BLE001 - the model gets a sentence about the failure
        return {**around, member: sentence(e)}
