"""A session of 25 turns whose facts were fixed before it was run: which of them are left at its end, and at what price.

Each turn runs a real program over the standard library's sources. In five turns the agent reads a part of the output
back with `read_artifact`, in two it writes a file. The 20 facts: five that it dug out with reads, five that the user
said, four that it concluded, four outcomes at the end of long outputs, and the names of the two files. A fact is lost
if the last request does not say it, and far if no artifact says it that the request names. Every request of the
session is made smaller as it would have been sent.

    .venv/bin/python -m bench.replay.session
"""

import json
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from bench.replay.caching import RULES, common, dollars
from bench.replay.rivals import CLEARED, KEEP, MASKED_BUT
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.context.counting import CountCache, Counter
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.window import cache_price
from support.service import serving

Body = dict[str, Any]
TURNS: Final = 25
WINDOWS: Final = (20_000, 60_000, 200_000)
READ_BACK: Final = (2, 6, 10, 14, 18)
"""Turns in which the agent reads a part of the output back."""
CONCLUDED: Final = (3, 8, 13, 19)
WRITTEN: Final = (5, 17)
TOLD: Final = (1, 7, 11, 16, 20)
FAILED: Final = (4, 9, 15, 21)
_MOST_CHARS: Final = 120_000


class Output(NamedTuple):
    """What a program printed, and the name of a real thing in it."""

    command: str
    text: str


def outputs() -> list[Output]:
    """What real programs print of the standard library, one for each turn."""
    library = sysconfig.get_paths()["stdlib"]
    words = ("socket", "thread", "encode", "Lock", "timeout", "cache", "parse", "header", "signal", "buffer", "yield")
    commands = [f"grep -rn --include=*.py {word} . | sort | head -n {300 + 90 * at}" for at, word in enumerate(words)]
    commands += [f"cat {name}.py" for name in ("argparse", "tarfile", "inspect", "typing", "ssl", "zipfile", "smtplib")]
    commands += ["ls -l", "wc -l *.py", "ls -l asyncio email json", "grep -c import *.py"]
    commands += [f"{sys.executable} -m dis {name}.py" for name in ("bisect", "heapq", "queue")]
    made: list[Output] = []
    for command in commands:
        run = subprocess.run(command, shell=True, cwd=library, capture_output=True, text=True, check=False)  # noqa: S602
        made.append(Output(command, run.stdout[:_MOST_CHARS]))
    return made


class Event(NamedTuple):
    """One message of the session: who, what it says, and the call that it makes or answers."""

    role: str
    text: str
    call: tuple[str, str, dict[str, Any]] | None = None


def session(client: httpx.Client) -> tuple[list[Event], dict[str, str]]:
    """Returns the session, and its facts by what they are."""
    events: list[Event] = []
    facts: dict[str, str] = {}
    for turn, output in enumerate(outputs()):
        told = f" Mind that the port of node {turn} is {41_000 + 137 * turn}." if turn in TOLD else ""
        if told:
            facts[f"told {turn}"] = f"port of node {turn} is {41_000 + 137 * turn}"
        events.append(Event("user", f"Task {turn}: look at what `{output.command[:40]}` prints.{told}"))
        text = output.text
        if turn in FAILED:
            facts[f"failed {turn}"] = f"code E{70_000 + 811 * turn}"
            text += f"\nERROR: check {turn} of the tree failed with code E{70_000 + 811 * turn}\n"
        call = (f"call_{turn}", "bash", {"command": output.command})
        events += [Event("assistant", "Running it.", call), Event("tool", text, call)]
        if turn in READ_BACK:
            events += _read_back(client, turn, text, call[0], facts)
        if turn in WRITTEN:
            note = {"path": f"notes/turn_{turn}.md", "content": f"# Turn {turn}\n" + text[:9_000]}
            facts[f"path {turn}"] = f"notes/turn_{turn}.md"
            wrote = (f"write_{turn}", "write_file", note)
            events += [Event("assistant", "Noting it.", wrote), Event("tool", "written", wrote)]
        said = "That is what it prints."
        if turn in CONCLUDED:
            facts[f"concluded {turn}"] = f"retry budget of stage {turn} must be {300 + 17 * turn} ms"
            said = f"It comes down to this: the retry budget of stage {turn} must be {300 + 17 * turn} ms."
        events.append(Event("assistant", said))
    events.append(Event("user", "Sum up everything."))
    return events, facts


def _read_back(client: httpx.Client, turn: int, text: str, call_id: str, facts: dict[str, str]) -> list[Event]:
    """The agent reads the middle of an output; the fact is the longest word of the line in the middle."""
    put = {"content": text, "session": "facts", "tool_call_id": call_id}
    stored = client.post("/v1/artifacts", json=put).json()
    lines = text.splitlines()
    middle = len(lines) // 2
    asked = {"artifact_id": stored["id"], "offset": middle - 14, "limit": 30}
    answer = client.post("/v1/tools/call", json={"name": "read_artifact", "arguments": asked}).json()
    facts[f"read {turn}"] = max((line.strip() for line in lines[middle - 5 : middle + 5]), key=len)[:80]
    call = (f"read_{turn}", "read_artifact", asked)
    return [Event("assistant", "Looking closer.", call), Event("tool", str(answer["text"]), call)]


def openai(events: list[Event]) -> Body:
    """The session in Chat Completions."""
    messages: list[Body] = []
    for role, text, call in events:
        message: Body = {"role": role, "content": text}
        if call is not None and role == "assistant":
            function = {"name": call[1], "arguments": json.dumps(call[2])}
            message["tool_calls"] = [{"id": call[0], "type": "function", "function": function}]
        elif call is not None:
            message["tool_call_id"] = call[0]
        messages.append(message)
    return {"model": "gpt-5", "messages": messages}


def anthropic(events: list[Event]) -> Body:
    """The session in Anthropic Messages, with thinking before each of the model's texts."""
    messages: list[Body] = []
    for number, (role, text, call) in enumerate(events):
        if role == "tool" and call is not None:
            blocks: list[Body] = [{"type": "tool_result", "tool_use_id": call[0], "content": text}]
        elif role == "assistant":
            thought = f"Step {number}: what the user wants next is to see that output. " * 6
            blocks = [{"type": "thinking", "thinking": thought, "signature": "Eq" + "QIGb3V0" * 40}]
            blocks.append({"type": "text", "text": text})
            blocks += [{"type": "tool_use", "id": call[0], "name": call[1], "input": call[2]}] if call else []
        else:
            messages.append({"role": "user", "content": text})
            continue
        messages.append({"role": "user" if role == "tool" else "assistant", "content": blocks})
    return {"model": "claude-opus-5", "max_tokens": 4_000, "messages": messages}


class Result(NamedTuple):
    """What one way made of the session."""

    sent: int
    last: int
    changes: int
    """Requests that do not begin with the one before."""
    early: int
    """Changes without pressure, of what had cost less to repeat so far than the change costs."""
    cost: float


Make = Callable[[list[Event]], Body]
Way = Callable[[Body, int], tuple[Body, int]]
"""From a body and a window to what is sent, and the size from which a body is made smaller."""


def _service(client: httpx.Client, name: str) -> Way:
    def way(body: Body, window: int) -> tuple[Body, int]:
        asked = {"body": body, "window": {"model": window}, "session": name}
        answer = client.post("/v1/context/compact", json=asked, timeout=120)
        answer.raise_for_status()
        return answer.json()["body"], answer.json()["report"]["budget"]["start"]

    return way


def _same(body: Body, _window: int) -> tuple[Body, int]:
    return body, 0


def _emptied(spared: int, text: str) -> Way:
    """All but the last tool results emptied; the format is Chat Completions."""

    def way(body: Body, _window: int) -> tuple[Body, int]:
        results = [number for number, each in enumerate(body["messages"]) if each["role"] == "tool"]
        gone = set(results[:-spared])
        messages = [{**each, "content": text} if at in gone else each for at, each in enumerate(body["messages"])]
        return {**body, "messages": messages}, 0

    return way


def replay(events: list[Event], make: Make, way: Way, window: int) -> tuple[Result, str]:
    """Every request of the session, as it would have been sent; returns the last one, too."""
    counter = Counter(load_tokenizer(), CountCache())
    requests: list[list[tuple[str, int]]] = []
    changes = early = 0
    body: Body = {}
    for at in [*(n for n, event in enumerate(events) if event.role == "assistant"), len(events)]:
        body, start = way(make(events[:at]), window)
        sizes = [counter.item(body, item).total for item in index_of(body).items]
        now = [(json.dumps(one), size) for one, size in zip(body["messages"], sizes, strict=True)]
        before = requests[-1] if requests else []
        if common(before, now) < len(before):
            changes += 1
            price = cache_price(body, index_of(body).format)
            is_calm = sum(size for _, size in (*before, *now[len(before) :])) <= start
            early += is_calm and not price.is_due(*_rewritten(requests, now))
        requests.append(now)
    rule = RULES[1] if body["model"].startswith("claude") else RULES[0]
    sent = [sum(size for _, size in request) for request in requests]
    return Result(sum(sent), sent[-1], changes, early, dollars(rule, requests)), json.dumps(body, ensure_ascii=False)


def _rewritten(requests: list[list[tuple[str, int]]], now: list[tuple[str, int]]) -> tuple[int, int]:
    """What repeating the replaced messages has cost so far, and what is behind the first of them."""
    before = requests[-1]
    same = common(before, now)
    repeated = 0
    for at in range(same, min(len(before), len(now))):
        if before[at][0] != now[at][0]:
            times = sum(len(one) > at and one[at] == before[at] for one in requests)
            repeated += times * (before[at][1] - now[at][1])
    return repeated, sum(size for _, size in now[same : len(before)])


def losses(client: httpx.Client, facts: dict[str, str], last: str) -> tuple[list[str], list[str]]:
    """The facts that a request does not say, and those of them that no artifact says that it names."""
    named = "\n".join(client.get(f"/v1/artifacts/{one}/content").text for one in dict.fromkeys(_ids(last)))
    lost = [name for name, fact in facts.items() if _escaped(fact) not in last]
    return lost, [name for name in lost if facts[name] not in named and _escaped(facts[name]) not in named]


def _escaped(fact: str) -> str:
    return json.dumps(fact, ensure_ascii=False)[1:-1]


def _ids(text: str) -> list[str]:
    return [f"art_{part[:18]}" for part in text.split("art_")[1:] if part[:18].isdecimal()]


def run() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as data, serving(Path(data) / "data") as service:
        events, facts = session(service.client)
        print(f"{TURNS} turns, {len(events)} messages, {len(facts)} facts")
        print(f"{'':>34}{'sent':>12}{'last':>9}{'changes':>9}{'early':>7}{'cost':>9}{'lost':>6}{'far':>5}")
        ways: list[tuple[str, Make, Way, int]] = [
            (name := f"{make.__name__} {window:,}", make, _service(service.client, name), window)
            for make in (openai, anthropic)
            for window in WINDOWS
        ]
        ways += [
            ("as it is", openai, _same, 0),
            (f"results cleared but {KEEP}", openai, _emptied(KEEP, CLEARED), 0),
            (f"observations masked but {MASKED_BUT}", openai, _emptied(MASKED_BUT, "Output omitted for brevity"), 0),
        ]
        for name, make, way, window in ways:
            result, last = replay(events, make, way, window)
            lost, far = losses(service.client, facts, last)
            cells = f"{result.sent:>12,}{result.last:>9,}{result.changes:>9}{result.early:>7}{result.cost:>9.3f}"
            print(f"{name:>34}{cells}{len(lost):>6}{len(far):>5}  {', '.join(lost)}", flush=True)


if __name__ == "__main__":
    run()
