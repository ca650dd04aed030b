"""Requests and answers of OpenAI's two interfaces, Anthropic's and Gemini's, as much as a scripted model needs."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from text_calls import calls_in, results_in

Json = Any


@dataclass
class Call:
    """A call of a tool."""

    name: str
    arguments: dict[str, Any] | Callable[[list[str]], dict[str, Any]]
    """What makes them of the results so far, where they depend on these."""


@dataclass
class Answer:
    """What a model says: text, or calls."""

    text: str = ""
    calls: list[Call] = field(default_factory=list)


def strings(value: Json) -> Iterator[str]:
    """All texts in a value, in order; images as base64 are texts, too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def _joined(value: Json) -> str:
    return "\n".join(strings(value))


class WireFormat:
    """One provider's interface."""

    path = ""

    def is_path(self, path: str) -> bool:
        """Whether a request to this path is of this format."""
        return path.endswith(self.path)

    def is_stream(self, path: str, body: Json) -> bool:
        """Whether the answer is to be streamed."""
        return bool(body.get("stream"))

    def tools(self, body: Json) -> list[str]:
        """Names of the tools that the model is offered."""
        return [one.get("name") or one.get("function", {}).get("name") for one in body.get("tools") or ()]

    def results(self, body: Json) -> list[str]:
        """The tool results that the model sees."""
        raise NotImplementedError

    def calls(self, body: Json) -> list[Call]:
        """The calls that the model made."""
        raise NotImplementedError

    def turns(self, body: Json) -> int:
        """How many times the model has called tools: its messages with calls."""
        raise NotImplementedError

    def message(self, answer: Answer, number: int) -> Json:
        """The whole answer."""
        raise NotImplementedError

    def stream(self, answer: Answer, number: int) -> Iterator[tuple[str | None, Json]]:
        """The answer as events: a name and the data."""
        raise NotImplementedError

    def whole(self, body: Json, threads: dict[str, Json]) -> Json:
        """The request with what the provider keeps of its conversation."""
        return body

    def keep(self, body: Json, message: Json, threads: dict[str, Json]) -> None:
        """Keep the conversation, where the provider does."""


class Chat(WireFormat):
    """OpenAI's Chat Completions."""

    path = "/chat/completions"

    def _texts(self, body: Json, role: str) -> list[str]:
        return [_joined(one.get("content")) for one in body["messages"] if one["role"] == role]

    def results(self, body: Json) -> list[str]:
        told = [result for text in self._texts(body, "user") for result in results_in(text)]
        return [*self._texts(body, "tool"), *told]

    def calls(self, body: Json) -> list[Call]:
        made = [call["function"] for one in body["messages"] for call in one.get("tool_calls") or ()]
        told = [call for text in self._texts(body, "assistant") for call in calls_in(text)]
        return [
            *(Call(one["name"], json.loads(one["arguments"] or "{}")) for one in made),
            *(Call(one["name"], one["arguments"]) for one in told),
        ]

    def turns(self, body: Json) -> int:
        told = [result for text in self._texts(body, "user") for result in results_in(text)]
        return sum(bool(one.get("tool_calls")) for one in body["messages"]) + len(told)

    def _said(self, answer: Answer, number: int) -> Json:
        calls = [
            {
                "index": at,
                "id": f"call_{number}_{at}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for at, call in enumerate(answer.calls)
        ]
        return {"role": "assistant", "content": answer.text or None, **({"tool_calls": calls} if calls else {})}

    def _base(self, number: int, kind: str) -> Json:
        return {"id": f"chatcmpl-{number}", "object": kind, "created": int(time.time()), "model": "stub"}

    def message(self, answer: Answer, number: int) -> Json:
        said = self._said(answer, number)
        for call in said.get("tool_calls", ()):
            del call["index"]
        why = "tool_calls" if answer.calls else "stop"
        choice = {"index": 0, "message": said, "finish_reason": why, "logprobs": None}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {**self._base(number, "chat.completion"), "choices": [choice], "usage": usage}

    def stream(self, answer: Answer, number: int) -> Iterator[tuple[str | None, Json]]:
        base = self._base(number, "chat.completion.chunk")
        why = "tool_calls" if answer.calls else "stop"
        said = self._said(answer, number)
        deltas = [{**said, "tool_calls": [call]} for call in said["tool_calls"]] if answer.calls else [said]
        for delta in deltas:  # each call in one of its own, as the provider sends them
            yield None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield None, {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": why}]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        yield None, {**base, "choices": [], "usage": usage}
        yield None, "[DONE]"


class Responses(WireFormat):
    """OpenAI's Responses."""

    path = "/responses"

    def whole(self, body: Json, threads: dict[str, Json]) -> Json:
        before = body.get("previous_response_id")
        return body if before is None else {**body, "input": [*threads[before]["input"], *self._items(body)]}

    def keep(self, body: Json, message: Json, threads: dict[str, Json]) -> None:
        if body.get("store", True):
            threads[message["id"]] = {**body, "input": [*self._items(body), *message["output"]]}

    def _items(self, body: Json) -> list[Json]:
        return body["input"] if isinstance(body["input"], list) else []

    def tools(self, body: Json) -> list[str]:
        offered = body.get("tools") or ()
        own = [one["name"] for one in offered if one["type"] == "function"]
        spaces = [one for one in offered if one["type"] == "namespace"]
        return [*own, *(f"{space['name']}.{one['name']}" for space in spaces for one in space["tools"])]

    def results(self, body: Json) -> list[str]:
        return [_joined(one["output"]) for one in self._items(body) if one.get("type") == "function_call_output"]

    def calls(self, body: Json) -> list[Call]:
        made = [one for one in self._items(body) if one.get("type") == "function_call"]
        return [Call(one["name"], json.loads(one["arguments"] or "{}")) for one in made]

    def turns(self, body: Json) -> int:
        kinds = [one.get("type") for one in self._items(body)]
        return sum(one == "function_call" and before != one for before, one in zip([None, *kinds], kinds, strict=False))

    def message(self, answer: Answer, number: int) -> Json:
        output: list[Json] = [
            {
                "type": "function_call",
                "id": f"fc_{number}_{at}",
                "call_id": f"call_{number}_{at}",
                **_named(call.name),
                "arguments": json.dumps(call.arguments),
                "status": "completed",
            }
            for at, call in enumerate(answer.calls)
        ]
        if answer.text:
            content = [{"type": "output_text", "text": answer.text, "annotations": []}]
            said = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
            output.append({**said, "content": content})
        usage = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1}
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": int(time.time()),
            "model": "stub",
            "status": "completed",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {**usage, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2},
        }

    def stream(self, answer: Answer, number: int) -> Iterator[tuple[str | None, Json]]:
        whole = self.message(answer, number)
        events: list[Json] = [
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
        ]
        for at, item in enumerate(whole["output"]):
            place = {"output_index": at, "item_id": item["id"]}
            is_call = item["type"] == "function_call"
            begun = {**item, "status": "in_progress", **({"arguments": ""} if is_call else {"content": []})}
            events.append({"type": "response.output_item.added", "output_index": at, "item": begun})
            if is_call:
                done = {"arguments": item["arguments"], "name": item["name"]}
                events += [
                    {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]},
                    {"type": "response.function_call_arguments.done", **place, **done},
                ]
            else:
                part, place = item["content"][0], {**place, "content_index": 0}
                empty = {**part, "text": ""}
                events += [
                    {"type": "response.content_part.added", **place, "part": empty},
                    {"type": "response.output_text.delta", **place, "delta": part["text"], "logprobs": []},
                    {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []},
                    {"type": "response.content_part.done", **place, "part": part},
                ]
            events.append({"type": "response.output_item.done", "output_index": at, "item": item})
        events.append({"type": "response.completed", "response": whole})
        for at, event in enumerate(events):
            yield event["type"], {**event, "sequence_number": at}


def _named(name: str) -> dict[str, str]:
    """The members of a call that say which tool it is, of `name` or `namespace.name`."""
    namespace, _, own = name.rpartition(".")
    return {"name": own, **({"namespace": namespace} if namespace else {})}


class Anthropic(WireFormat):
    """Anthropic's Messages."""

    path = "/messages"

    def whole(self, body: Json, threads: dict[str, Json]) -> Json:
        thread = body.get("thread") or {}
        if thread.get("type") != "continue":
            return body
        kept = threads[thread["previous_message_id"]]
        return {**kept, **body, "messages": [*kept["messages"], *body["messages"]]}

    def keep(self, body: Json, message: Json, threads: dict[str, Json]) -> None:
        if "thread" in body:
            said = {"role": "assistant", "content": message["content"]}
            threads[message["id"]] = {**body, "messages": [*body["messages"], said]}

    def _blocks(self, body: Json, kind: str) -> list[list[Json]]:
        lists = [one["content"] for one in body["messages"] if isinstance(one["content"], list)]
        found = [[block for block in one if block.get("type") == kind] for one in lists]
        return [one for one in found if one]

    def results(self, body: Json) -> list[str]:
        return [_joined(one.get("content")) for turn in self._blocks(body, "tool_result") for one in turn]

    def calls(self, body: Json) -> list[Call]:
        return [Call(one["name"], one["input"]) for turn in self._blocks(body, "tool_use") for one in turn]

    def turns(self, body: Json) -> int:
        return len(self._blocks(body, "tool_use"))

    def message(self, answer: Answer, number: int) -> Json:
        content: list[Json] = [
            {"type": "tool_use", "id": f"toolu_{number}_{at}", "name": call.name, "input": call.arguments}
            for at, call in enumerate(answer.calls)
        ]
        if answer.text:
            content.append({"type": "text", "text": answer.text})
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "stub",
            "content": content,
            "stop_reason": "tool_use" if answer.calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    def stream(self, answer: Answer, number: int) -> Iterator[tuple[str | None, Json]]:
        whole = self.message(answer, number)
        events: list[Json] = [
            {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        ]
        for at, block in enumerate(whole["content"]):
            if block["type"] == "tool_use":
                begun = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            else:
                begun, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
            events += [
                {"type": "content_block_start", "index": at, "content_block": begun},
                {"type": "content_block_delta", "index": at, "delta": delta},
                {"type": "content_block_stop", "index": at},
            ]
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        events += [
            {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        for event in events:
            yield event["type"], event


class Gemini(WireFormat):
    """Gemini's generateContent."""

    def is_path(self, path: str) -> bool:
        return path.endswith((":generateContent", ":streamGenerateContent"))

    def is_stream(self, path: str, body: Json) -> bool:
        return path.endswith(":streamGenerateContent")

    def tools(self, body: Json) -> list[str]:
        lists = [
            one.get("functionDeclarations") or one.get("function_declarations") or () for one in body.get("tools") or ()
        ]
        return [one["name"] for each in lists for one in each]

    def _parts(self, body: Json, kind: str) -> list[list[Json]]:
        found = [[part[kind] for part in one["parts"] if kind in part] for one in body["contents"]]
        return [one for one in found if one]

    def results(self, body: Json) -> list[str]:
        return [_joined(one.get("response")) for turn in self._parts(body, "functionResponse") for one in turn]

    def calls(self, body: Json) -> list[Call]:
        return [Call(one["name"], one.get("args") or {}) for turn in self._parts(body, "functionCall") for one in turn]

    def turns(self, body: Json) -> int:
        return len(self._parts(body, "functionCall"))

    def message(self, answer: Answer, number: int) -> Json:
        parts: list[Json] = [
            {"functionCall": {"id": f"call_{number}_{at}", "name": call.name, "args": call.arguments}}
            for at, call in enumerate(answer.calls)
        ]
        if answer.text:
            parts.append({"text": answer.text})
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub"}

    def stream(self, answer: Answer, number: int) -> Iterator[tuple[str | None, Json]]:
        yield None, self.message(answer, number)


FORMATS: tuple[WireFormat, ...] = (Chat(), Responses(), Anthropic(), Gemini())
