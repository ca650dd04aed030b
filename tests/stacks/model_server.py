"""A model that speaks the wire formats of four providers, for agents of any framework: it is deterministic and reads.

It calls the tools that it is told to call first. When what it looks for is in no result, and a result is a card, it
calls `read_artifact` with a pattern. Then it says what it found. Only Python's own library is needed.
"""

import contextlib
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from support.http_server import QuietHandler, http_server
from wire_formats import FORMATS, Answer, Call, WireFormat

Json = Any
READ: Final = "read_artifact"
FINAL: Final = "final_answer"
_CARD: Final = re.compile(r"art_[0-9]{18}")
_PATIENCE: Final = 12
"""Calls after which it gives up."""


@dataclass
class Plan:
    """What the model wants: what it calls first, and what it looks for."""

    needle: re.Pattern[str]
    """Its first group is what the final answer must contain."""
    pattern: str
    """What it reads artifacts for."""
    first: list[list[Call]] = field(default_factory=lambda: [[Call("get_log", {})]])
    """Its first turns, each with calls that it makes together."""
    inner: list[list[Call]] = field(default_factory=lambda: [[Call("get_log", {})]])
    """The first turns of a sub-agent, which is not offered the tools of `first`."""
    answer: str = "The answer is {}."
    """What it says in the end, with what it found in place of `{}`."""


@dataclass
class ModelServer:
    """A model that runs, and what it was sent."""

    url: str
    plan: Plan
    bodies: list[Json] = field(default_factory=list)
    """Requests, decoded, each with all of its conversation."""
    results: list[list[str]] = field(default_factory=list)
    """The tool results of each request, each as one text."""
    offered: list[list[str]] = field(default_factory=list)
    """Names of the tools of each request."""
    threads: dict[str, Json] = field(default_factory=dict)
    """Conversations that the provider keeps, by the ID of the last answer, as requests with that answer."""

    def decide(self, wire: WireFormat, body: Json) -> Answer:
        """The model's next message."""
        results, made, offered = wire.results(body), wire.calls(body), wire.tools(body)
        self.bodies.append(body)
        self.results.append(results)
        self.offered.append(offered)
        turn = wire.turns(body)
        is_inner = not any(_is_offered(call.name, offered) for call in self.plan.first[0])
        first = self.plan.inner if is_inner else self.plan.first
        if turn < len(first):
            calls = first[turn]
            return Answer(calls=[Call(_as_offered(call.name, offered), _made(call, results)) for call in calls])
        for result in results:
            if found := self.plan.needle.search(result):
                return _said(self.plan.answer.format(found[1]), offered)
        read = {call.arguments.get("artifact_id") for call in made}
        cards = [one for result in results for one in _CARD.findall(result)[:1] if one not in read]
        if not cards or len(made) > _PATIENCE:
            return _said("It cannot be found.", offered)
        name = _as_offered(READ, offered)
        arguments = [{"artifact_id": one, "pattern": self.plan.pattern} for one in dict.fromkeys(cards)]
        return Answer(calls=[Call(name, one) for one in arguments])


def _made(call: Call, results: list[str]) -> dict[str, Any]:
    """The arguments of a call."""
    return call.arguments(results) if callable(call.arguments) else call.arguments


def _said(text: str, offered: list[str]) -> Answer:
    """An answer, by the tool for answers where a framework has one."""
    return Answer(calls=[Call(FINAL, {"answer": text})]) if FINAL in offered else Answer(text=text)


def _as_offered(name: str, offered: list[str]) -> str:
    """A tool's name under the prefix that a host may give it.

    Raises:
        LookupError: when the model was not offered it.
    """
    for one in offered:
        if _is_offered(name, [one]):
            return one
    raise LookupError(f"the model was not offered {name}: {offered}")


def _is_offered(name: str, offered: list[str]) -> bool:
    return any(one == name or one.endswith((f"_{name}", f".{name}")) for one in offered)


@contextlib.contextmanager
def model_server(plan: Plan) -> Generator[ModelServer]:
    """A model for the length of a `with` block."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.answer(200, b'{"object":"list","data":[]}')

        def do_POST(self) -> None:
            body = json.loads(self.body())
            path = self.path.partition("?")[0]
            wire = next((one for one in FORMATS if one.is_path(path)), None)
            if wire is None:
                self.answer(404, b'{"error":{"message":"no such path"}}')
                return
            try:
                body = wire.whole(body, model.threads)
                answer = model.decide(wire, body)
                wire.keep(body, wire.message(answer, len(model.bodies)), model.threads)
            except LookupError as e:
                self.answer(400, json.dumps({"error": {"message": str(e)}}).encode())
                return
            if wire.is_stream(path, body):
                self.answer(200, b"".join(_events(wire.stream(answer, len(model.bodies)))), "text/event-stream")
            else:
                self.answer(200, json.dumps(wire.message(answer, len(model.bodies))).encode())

    with http_server(Handler) as url:
        model = ModelServer(url, plan)
        yield model


def _events(events: Iterator[tuple[str | None, Json]]) -> Iterator[bytes]:
    for name, data in events:
        if name is not None:
            yield f"event: {name}\n".encode()
        yield b"data: " + (data if isinstance(data, str) else json.dumps(data)).encode() + b"\r\n\r\n"
