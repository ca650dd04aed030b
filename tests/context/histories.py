"""Conversations told once and written in every wire format; and what stands in for storing and for counting."""

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from coatcheck.core import ids
from coatcheck.core.context.apply import carry_out
from coatcheck.core.context.body.encoding import MessageLines, as_list, as_object, plain
from coatcheck.core.context.counting import Counter
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.plan import CompactionPlan, PlanContext, Planner
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.references import KnownArtifacts
from coatcheck.core.context.replace import StoredPayload
from coatcheck.core.context.replaceable import PlannedPayload
from coatcheck.core.context.report import CompactionReport
from coatcheck.core.context.window import ModelWindow

Body = Any


def rows_of(name: str) -> list[Body]:
    """The rows of a file in `bodies`, one on each line."""
    text = (Path(__file__).parent / "bodies" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


class Call(Struct):
    """A tool call and what came back; None while nothing has."""

    id: str
    name: str
    args: dict[str, Any]
    output: str | None


class Step(Struct):
    """What the model wrote at once."""

    text: str
    calls: list[Call] = field(default_factory=list[Call])


class Turn(Struct):
    """What the user asked, and what the model did."""

    prompt: str
    steps: list[Step]


class Bytes:
    """Four bytes are a token: exact, cheap and additive enough for properties."""

    name = "four-bytes"

    def count(self, text: str) -> int:
        return -(-len(text.encode("utf-8", "replace")) // 4)

    def encode(self, text: str) -> list[int]:
        data = text.encode("utf-8", "replace")
        return [int.from_bytes(b"\x01" + data[at : at + 4], "big") for at in range(0, len(data), 4)]

    def decode(self, tokens: list[int]) -> bytes:
        return b"".join(token.to_bytes((token.bit_length() + 7) // 8, "big")[1:] for token in tokens)

    def ends(self, text: str) -> npt.NDArray[np.int64]:
        size = len(text.encode("utf-8", "replace"))
        return np.minimum(size, np.arange(4, size + 4, 4))


def counter() -> Counter:
    return Counter(Bytes())


def artifact_id(call_id: str | None, content: object) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content, sort_keys=True).encode()
    digest = hashlib.sha256(data).digest()
    return ids.render(ids.number(ids.identity("test", None, call_id, digest)))


def stored_content(content: object) -> object:
    """What is stored of a payload, as a test compares it."""
    return b"".join(content) if isinstance(content, MessageLines) else plain(content)


def stored(planned: CompactionPlan | list[PlannedPayload]) -> dict[str, StoredPayload]:
    """Every payload stored, with a card that is a function of the payload."""
    kept: dict[str, StoredPayload] = {}
    for payload in planned if isinstance(planned, list) else planned.payloads_to_store:
        content = stored_content(payload.content)
        name = artifact_id(payload.call_id, content)
        card = f"[{name} · text · stored outside this conversation; below: facts]\n"
        card += f"{len(str(content)):,} characters"
        kept[payload.key] = StoredPayload(name, card if payload.needs_card else None)
    return kept


def plan_with_cards(body: Body, policy: CompactionPolicy, counting: Counter, context: PlanContext) -> CompactionPlan:
    """The plan, with every card that it asks for."""
    planner, kept = Planner(body, policy, counting, context), dict[str, StoredPayload]()
    while isinstance(step := planner.advance(kept), list):
        kept |= stored(step)
    return step


def apply(
    body: Body, planned: CompactionPlan, kept: dict[str, StoredPayload], counting: Counter
) -> tuple[Body, CompactionReport]:
    """The new body and the report."""
    done = carry_out(body, planned, kept, counting)
    return done.body, done.report


def compact(
    body: Body,
    policy: CompactionPolicy,
    named: str | None = None,
    known: KnownArtifacts = KnownArtifacts(),  # noqa: B008 - frozen
    window: ModelWindow | None = None,
) -> tuple[Body, CompactionReport]:
    """Both phases."""
    counting = counter()
    context = PlanContext(index=index_of(body, named), known_artifacts=known, window=window)
    planned = plan_with_cards(body, policy, counting, context)
    return apply(body, planned, stored(planned), counting)


def words(rng: random.Random, size: int) -> str:
    """Text of about that many characters, with what JSON must escape in it."""
    alphabet = ['"quoted"', "back\\slash", "line\nend", "naïve", "日本語", "plain", "words", "and", "more", "{", "7"]
    found: list[str] = []
    length = 0
    while length < size:
        word = rng.choice(alphabet)
        found.append(word)
        length += len(word) + 1
    return " ".join(found)


SIZES: Final = (0, 3, 40, 300, 900, 2_000, 9_000)
TOOLS: Final = ("run_shell", "web_search", "write_file", "mcp__disk__write_file", "read_page")


def conversation(seed: int, turns: int = 4, *, open_calls: bool = True) -> list[Turn]:
    """A random conversation. The last step may wait for its outputs."""
    rng = random.Random(seed)
    number = 0
    told: list[Turn] = []
    for at in range(turns):
        steps: list[Step] = []
        for _ in range(rng.randint(0, 3)):
            calls: list[Call] = []
            for _ in range(rng.choice((1, 1, 2, 3))):
                number += 1
                name = rng.choice(TOOLS)
                args: dict[str, Any] = {"path": f"f{number}.md", "n": 1.0}
                if "write" in name:
                    args["content"] = words(rng, rng.choice(SIZES))
                calls.append(Call(f"call_{number}", name, args, words(rng, rng.choice(SIZES))))
            steps.append(Step(rng.choice(("", "Looking.")), calls))
        if at < turns - 1 or rng.random() < 0.3:
            steps.append(Step(f"Answer {at}."))
        told.append(Turn(f"Question {at}: {words(rng, rng.choice((10, 200)))}", steps))
    last = told[-1].steps[-1:]
    if open_calls and last and last[0].calls and rng.random() < 0.3:
        for call in last[0].calls:
            call.output = None
    return told


def moments(told: list[Turn]) -> Iterator[list[Turn]]:
    """The conversation as it was at each request."""
    for at, turn in enumerate(told):
        for steps in range(len(turn.steps) + 1):
            before = turn.steps[:steps]
            if not before or (before[-1].calls and all(call.output is not None for call in before[-1].calls)):
                yield [*told[:at], Turn(turn.prompt, before)]


# ---------------------------------------------------------------------------------------------------- in every format


def chat(told: list[Turn]) -> Body:
    messages: list[Body] = [{"role": "developer", "content": "Be brief."}]
    for turn in told:
        messages.append({"role": "user", "content": turn.prompt})
        for step in turn.steps:
            calls = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": json.dumps(c.args)}}
                for c in step.calls
            ]
            messages.append(
                {"role": "assistant", "content": step.text or None, **({"tool_calls": calls} if calls else {})}
            )
            messages += [
                {"role": "tool", "tool_call_id": c.id, "content": c.output} for c in step.calls if c.output is not None
            ]
    return {"model": "gpt-5.6-sol", "messages": messages}


def responses(told: list[Turn]) -> Body:
    items: list[Body] = []
    for turn in told:
        items.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": turn.prompt}]})
        for number, step in enumerate(turn.steps):
            reasoning: Body = {"type": "reasoning", "id": f"rs_{len(items)}", "summary": []}
            items.append({**reasoning, "encrypted_content": "gAAA" * 9})
            if step.text:
                content: Body = [{"type": "output_text", "text": step.text, "annotations": []}]
                name = {"type": "message", "id": f"msg_{len(items)}", "role": "assistant"}
                items.append({**name, "status": "completed", "phase": "commentary", "content": content})
            for c in step.calls:
                arguments = json.dumps(c.args, ensure_ascii=bool(number % 2), separators=(",", ":"))
                call = {"type": "function_call", "id": f"fc_{c.id}", "call_id": c.id, "name": c.name}
                items.append({**call, "arguments": arguments})
            for at, c in enumerate(step.calls):
                output: Body = [{"type": "input_text", "text": c.output}] if at % 2 else c.output
                if c.output is not None:
                    items.append({"type": "function_call_output", "call_id": c.id, "output": output})
    return {"model": "gpt-5.6-sol", "instructions": "Be brief.", "store": False, "input": items}


def messages(told: list[Turn]) -> Body:
    found: list[Body] = []
    for turn in told:
        found.append({"role": "user", "content": turn.prompt})
        for step in turn.steps:
            blocks: list[Body] = [{"type": "thinking", "thinking": "Hm.", "signature": f"Eq{len(found)}=="}]
            blocks += [{"type": "text", "text": step.text}] if step.text else []
            blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.args} for c in step.calls]
            found.append({"role": "assistant", "content": blocks})
            results: list[Body] = [
                {
                    "type": "tool_result",
                    "tool_use_id": c.id,
                    "content": [{"type": "text", "text": c.output}] if at % 2 and c.output else c.output,
                    "is_error": at % 3 == 0,
                }
                for at, c in enumerate(step.calls)
                if c.output is not None
            ]
            if results:
                results[-1]["cache_control"] = {"type": "ephemeral"}
                found.append({"role": "user", "content": results})
    return {"model": "claude-opus-5-5", "max_tokens": 900, "system": "Be brief.", "messages": found}


def gemini(told: list[Turn], *, named: bool = True) -> Body:
    contents: list[Body] = []
    for turn in told:
        contents.append({"role": "user", "parts": [{"text": turn.prompt}]})
        for step in turn.steps:
            parts: list[Body] = [{"text": step.text}] if step.text else []
            for at, c in enumerate(step.calls):
                call = {"name": c.name, "args": c.args, **({"id": c.id} if named else {})}
                parts.append({"functionCall": call, **({} if at else {"thoughtSignature": "CpEBAdHtim8="})})
            contents.append({"role": "model", "parts": parts})
            answers: list[Body] = []
            for at, c in enumerate(step.calls):
                answer = {"name": c.name, "response": {("error", "output")[at % 2]: c.output, "code": at}}
                answer |= {"id": c.id} if named else {}
                answers += [] if c.output is None else [{"functionResponse": answer}]
            contents += [{"role": "user", "parts": answers}] if answers else []
    return {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": contents}


def gemini_without_ids(told: list[Turn]) -> Body:
    return gemini(told, named=False)


def langchain(told: list[Turn], *, dumped: bool = False, flat: bool = False) -> Body:
    def wrap(kind: str, name: str, data: Body) -> Body:
        said: Body = {"additional_kwargs": {}, "response_metadata": {}, "type": kind, "name": None, "id": None, **data}
        if dumped:
            return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": said}
        return said if flat else {"type": kind, "data": said}

    found: list[Body] = []
    for turn in told:
        found.append(wrap("human", "HumanMessage", {"content": turn.prompt}))
        for number, step in enumerate(turn.steps):
            plain = [{"name": c.name, "args": c.args, "id": c.id, "type": "tool_call"} for c in step.calls]
            blocks: list[Body] = [{"type": "text", "text": step.text}] if step.text else []
            raw: list[Body] = []
            for c in step.calls:
                if number % 2:
                    blocks.append({"type": "tool_use", "id": c.id, "name": c.name, "input": c.args})
                else:
                    arguments = json.dumps(c.args)
                    raw.append({"id": c.id, "type": "function", "function": {"name": c.name, "arguments": arguments}})
            data = {"content": blocks, "tool_calls": plain, "invalid_tool_calls": []}
            found.append(wrap("ai", "AIMessage", {**data, "additional_kwargs": {"tool_calls": raw} if raw else {}}))
            for c in step.calls:
                if c.output is not None:
                    data = {"content": c.output, "tool_call_id": c.id, "artifact": {"raw": c.output}}
                    found.append(wrap("tool", "ToolMessage", {**data, "status": "success"}))
    return {"messages": found}


def langchain_dumped(told: list[Turn]) -> Body:
    return langchain(told, dumped=True)


def langchain_flat(told: list[Turn]) -> Body:
    return langchain(told, flat=True)


def bedrock(told: list[Turn]) -> Body:
    found: list[Body] = []
    for turn in told:
        found.append({"role": "user", "content": [{"text": turn.prompt}]})
        for number, step in enumerate(turn.steps):
            blocks: list[Body] = [{"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "Eq"}}}]
            blocks += [{"text": step.text}] if step.text else []
            blocks += [{"toolUse": {"toolUseId": c.id, "name": c.name, "input": c.args}} for c in step.calls]
            found.append({"role": "assistant", "content": blocks})
            results: list[Body] = []
            for at, c in enumerate(step.calls):
                content = {"json": {"out": c.output, "n": at}} if (at + number) % 2 else {"text": c.output}
                result = {"toolUseId": c.id, "content": [content], "status": ("success", "error")[at % 2]}
                results += [] if c.output is None else [{"toolResult": result}]
            if results:
                found.append({"role": "user", "content": [*results, {"cachePoint": {"type": "default"}}]})
    tool = {"toolSpec": {"name": "run_shell", "inputSchema": {"json": {"type": "object"}}}}
    around = {"modelId": "us.anthropic.claude-opus-5-5-v1:0", "toolConfig": {"tools": [tool]}}
    return {**around, "system": [{"text": "Be brief."}], "messages": found}


def pydantic_ai(told: list[Turn]) -> Body:
    at = "2026-11-01T10:00:00Z"
    found: list[Body] = []
    for turn in told:
        asked: Body = {"content": turn.prompt, "timestamp": at, "part_kind": "user-prompt"}
        found.append({"parts": [asked], "instructions": "Be brief.", "kind": "request"})
        for number, step in enumerate(turn.steps):
            said: list[Body] = [{"content": "Hm.", "signature": "Eq", "part_kind": "thinking"}]
            said += [{"content": step.text, "part_kind": "text"}] if step.text else []
            for c in step.calls:
                args: Body = json.dumps(c.args) if number % 2 else c.args
                said.append({"tool_name": c.name, "args": args, "tool_call_id": c.id, "part_kind": "tool-call"})
            found.append({"parts": said, "model_name": "gpt-5.6-sol", "timestamp": at, "kind": "response"})
            results: list[Body] = []
            for c in step.calls:
                content = {"out": c.output} if c.name == "read_page" else c.output
                result = {"tool_name": c.name, "content": content, "tool_call_id": c.id, "timestamp": at}
                results += [] if c.output is None else [{**result, "part_kind": "tool-return"}]
            if results:
                found.append({"parts": results, "instructions": "Be brief.", "kind": "request"})
    return {"messages": found}


FORMATS: Final[dict[str, Callable[[list[Turn]], Body]]] = {
    "openai-chat": chat,
    "openai-responses": responses,
    "anthropic": messages,
    "gemini": gemini,
    "gemini without ids": gemini_without_ids,
    "langchain": langchain,
    "langchain dumped": langchain_dumped,
    "langchain flat": langchain_flat,
    "bedrock": bedrock,
    "pydantic-ai": pydantic_ai,
}
LISTS: Final = dict.fromkeys(FORMATS, "messages") | {
    "openai-responses": "input",
    "gemini": "contents",
    "gemini without ids": "contents",
}


def dumped(body: Body) -> str:
    return json.dumps(body, ensure_ascii=False)


def differences(old: Body, new: Body, at: str = "") -> Iterator[str]:
    """Pointers to every value that is different; containers of the same shape are looked into."""
    if old is new:
        return
    left, right = as_object(old), as_object(new)
    many, others = as_list(old), as_list(new)
    if left and list(left) == list(right):
        for key in left:
            yield from differences(left[key], right[key], f"{at}/{key}")
    elif many and len(many) == len(others):
        for number, (one, other) in enumerate(zip(many, others, strict=True)):
            yield from differences(one, other, f"{at}/{number}")
    elif type(old) is not type(new) or old != new:
        yield at
