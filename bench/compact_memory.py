"""What memory compacting a request takes: the service's peak above what it had before, in sizes of the body.

Every shape of a body that takes more than others: characters beyond U+FFFF, which make Python hold a text at four bytes
a character; outputs that are objects; histories of which most is left out; each format.
"""

import json
import random
from collections.abc import Callable
from typing import Any, Final

from bench.compact import first_and_later
from bench.throughput import text

EMOJI: Final = " \U0001f600"

Said = list[tuple[str, dict[str, Any], Any]]
"""Calls in order: ID, arguments, and what came back."""


def chat(said: Said) -> dict[str, Any]:
    """Chat Completions."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Research this."}]
    for ref, arguments, output in said:
        function = {"name": "read_page", "arguments": json.dumps(arguments, ensure_ascii=False)}
        messages.append({"role": "assistant", "tool_calls": [{"id": ref, "type": "function", "function": function}]})
        messages.append({"role": "tool", "tool_call_id": ref, "content": output})
    return {"model": "gpt-5.6", "messages": messages}


def responses(said: Said) -> dict[str, Any]:
    """OpenAI Responses."""
    items: list[dict[str, Any]] = [{"role": "user", "content": "Research this."}]
    for ref, arguments, output in said:
        written = json.dumps(arguments, ensure_ascii=False)
        items.append({"type": "function_call", "call_id": ref, "name": "read_page", "arguments": written})
        items.append({"type": "function_call_output", "call_id": ref, "output": output})
    return {"model": "gpt-5.6", "input": items}


def anthropic(said: Said) -> dict[str, Any]:
    """Anthropic Messages."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Research this."}]
    for ref, arguments, output in said:
        call = {"type": "tool_use", "id": ref, "name": "read_page", "input": arguments}
        messages.append({"role": "assistant", "content": [call]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": ref, "content": output}]})
    return {"model": "claude-opus-5", "max_tokens": 4096, "messages": messages}


def gemini(said: Said) -> dict[str, Any]:
    """Gemini generateContent."""
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Research this."}]}]
    for ref, arguments, output in said:
        call = {"functionCall": {"id": ref, "name": "read_page", "args": arguments}}
        answer = {"functionResponse": {"id": ref, "name": "read_page", "response": {"result": output}}}
        contents += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [answer]}]
    return {"contents": contents}


def langchain(said: Said) -> dict[str, Any]:
    """LangChain messages."""
    messages: list[dict[str, Any]] = [{"type": "human", "data": {"type": "human", "content": "Research this."}}]
    for ref, arguments, output in said:
        call = {"name": "read_page", "args": arguments, "id": ref, "type": "tool_call"}
        messages.append({"type": "ai", "data": {"type": "ai", "content": "", "tool_calls": [call]}})
        messages.append({"type": "tool", "data": {"type": "tool", "content": output, "tool_call_id": ref}})
    return {"messages": messages}


FORMATS: Final[tuple[Callable[[Said], dict[str, Any]], ...]] = (chat, responses, anthropic, gemini, langchain)


def outputs(rng: random.Random, count: int, size: int, spice: str = EMOJI) -> Said:
    """Calls of short arguments that return texts; `spice` is in every one."""
    return [(f"c{n}", {"url": f"https://example.org/{n}"}, text(rng, size).decode() + spice) for n in range(count)]


def objects(rng: random.Random, count: int, size: int) -> Said:
    """Calls that return an object of texts of 1,000 characters."""
    return [
        (f"c{n}", {"n": n}, {f"k{at}": text(rng, 1_000).decode() + EMOJI for at in range(size // 1_000)})
        for n in range(count)
    ]


def arguments(rng: random.Random, count: int, size: int) -> Said:
    """Calls whose arguments are a long text."""
    return [(f"c{n}", {"path": f"{n}", "content": text(rng, size).decode() + EMOJI}, "ok") for n in range(count)]


def prompts(rng: random.Random, count: int, size: int) -> dict[str, Any]:
    """Long messages of both sides, which a known model's window is too small for."""
    messages = [
        {"role": ("user", "assistant")[n % 2], "content": text(rng, size).decode() + EMOJI} for n in range(count)
    ]
    return {"model": "gpt-5.6", "messages": [*messages, {"role": "user", "content": "Go on."}]}


def shapes(rng: random.Random) -> dict[str, bytes]:
    """The bodies, by what they are."""
    made: dict[str, Any] = {"chat, 20 MB, one output": chat(outputs(rng, 1, 20_000_000, ""))}
    for format_ in FORMATS:
        made[f"{format_.__name__}, 20 MB, one output, emoji"] = format_(outputs(rng, 1, 20_000_000))
    for format_ in FORMATS:
        made[f"{format_.__name__}, 200 of 100 KB, emoji"] = format_(outputs(rng, 200, 100_000))
    made |= {
        "chat, 8,000 outputs of 2.5 KB, emoji": chat(outputs(rng, 8_000, 2_500)),
        "chat, 8,000 outputs of 2.5 KB": chat(outputs(rng, 8_000, 2_500, "")),
        "chat, 200 objects of 100 KB, emoji": chat(objects(rng, 200, 100_000)),
        "gemini, one object of 20 MB, emoji": gemini(objects(rng, 1, 20_000_000)),
        "chat, 200 arguments of 100 KB, emoji": chat(arguments(rng, 200, 100_000)),
        "anthropic, 200 arguments of 100 KB, emoji": anthropic(arguments(rng, 200, 100_000)),
        "chat, 200 messages of 100 KB, emoji": prompts(rng, 200, 100_000),
        "chat, 8,000 messages of 2.5 KB, emoji": prompts(rng, 8_000, 2_500),
    }
    bodies = {name: json.dumps(body, ensure_ascii=False).encode() for name, body in made.items()}
    bodies["chat, 200 of 100 KB, emoji as escapes"] = json.dumps(chat(outputs(rng, 200, 100_000))).encode()
    return bodies


def run() -> None:
    """Print the table."""
    rng = random.Random(34)
    print(f"{'body':>42} | MB   | memory {'first':>5} {'then':>4} x | {'first':>5} {'then':>5} ms")
    for name, body in shapes(rng).items():
        first, later = first_and_later(body)
        held = max(each.memory for each in later)
        memory = f"{first.memory / len(body):12.1f} {held / len(body):4.1f}  "
        times = f"{first.wall:5.0f} {min(each.wall for each in later):5.0f}"
        print(f"{name:>42} | {len(body) / 1e6:4.1f} | {memory} | {times} | {first.answer:,}", flush=True)


if __name__ == "__main__":
    run()
