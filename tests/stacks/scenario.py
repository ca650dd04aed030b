"""What every stack is tried with: tools, what the model looks for, services that fail, and what must come out."""

import contextlib
import json
import os
import random
import re
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final

from coatcheck_client import Client
from model_server import ModelServer, Plan
from support.http_server import QuietHandler, http_server

ROOT: Final = Path(__file__).parents[2]
_DRAWN: Final = random.Random(20)
_CODES: Final = [f"{_DRAWN.getrandbits(40):010x}" for _ in range(3_600)]
LOG: Final = "".join(
    f"2026-03-01T10:{n // 60 % 60:02}:{n % 60:02}Z INFO worker {n % 7} finished request {n} with code {code}\n"
    for n, code in enumerate(_CODES)
)
"""More than 100,000 tokens of lines that look alike."""
WANTED: Final = 1_777
NEEDLE: Final = _CODES[WANTED]
"""In one line in the middle, which no card shows."""
PICTURE: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel, in base64."""
MOST_TOKENS: Final = 600
"""Of a card."""


def plan(*first: list[Any]) -> Plan:
    """What the model does: these turns (by default one call of get_log), then it looks for the code of a request."""
    found = Plan(
        re.compile(rf"(?:request {WANTED} with code|The answer is) ([0-9a-f]{{10}})"), f"request {WANTED} with"
    )
    if first:
        found.first = list(first)
    return found


def get_log() -> str:
    """Get the log of the workers."""
    return LOG


def get_old_log() -> str:
    """Get the log of the day before."""
    return LOG.replace("2026-03-01", "2026-02-28").replace(NEEDLE, "0000000000")


def get_status() -> str:
    """Get the status of the workers."""
    return "7 workers run."


def fail() -> str:
    """Get the log of a worker that is not there."""
    raise ValueError("no such worker")


TOOLS: Final[dict[str, Callable[[], str]]] = {tool.__name__: tool for tool in (get_log, get_old_log, get_status, fail)}


# ------------------------------------------------------------------------------------------ services that fail


@contextlib.contextmanager
def failing(how: str) -> Generator[str]:
    """The address of a service that is `stopped`, `hanging` or `refusing`, for the length of a `with` block."""
    if how == "stopped":
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        yield f"http://127.0.0.1:{port}"
        return
    ended = threading.Event()

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.0"  # a connection that hung is closed

        def do_POST(self) -> None:
            self.body()
            if how == "hanging":
                ended.wait(60)
                return
            data = json.dumps({"code": "quota_exceeded", "status": 507, "detail": "The namespace is full."}).encode()
            self.answer(507, data, "application/problem+json")

        do_GET = do_POST

    with http_server(Handler) as url:
        try:
            yield url
        finally:
            ended.set()


# ------------------------------------------------------------------------------------------ what must come out


def sees_cards(model: ModelServer, answer: str, client: Client) -> None:
    """The model saw a card in place of the log, read on, and its answer has the code.

    Raises:
        AssertionError: otherwise.
    """
    assert NEEDLE in answer, answer
    (card,) = [one for one in model.results[1] if "art_" in one]
    assert tokens_of(client, card) <= MOST_TOKENS + 20, card  # a framework may put words of its own around it
    assert any("read_artifact" in name for name in model.offered[1]), model.offered[1]
    assert all(len(one) < len(LOG) // 4 for results in model.results for one in results)
    assert len(model.results) >= 3, "the model did not read on"


def saw_a_card(model: ModelServer, answer: str) -> None:
    """The model saw a card somewhere and never the middle of the log, and its answer has the code.

    Raises:
        AssertionError: otherwise.
    """
    assert NEEDLE in answer, answer
    assert any("[art_" in one for results in model.results for one in results)
    assert all(LOG.splitlines()[2_000] not in one for results in model.results for one in results)


def sees_originals(model: ModelServer, answer: str) -> None:
    """The model saw the log itself, and had no reason to read on.

    Raises:
        AssertionError: otherwise.
    """
    assert NEEDLE in answer, answer
    assert LOG.splitlines()[0] in model.results[1][0]
    assert LOG.splitlines()[-1] in model.results[1][0]
    assert len(model.results) == 2


def tokens_of(client: Client, text: str) -> int:
    """Tokens of a text, as the service counts them, with the few of a message around it."""
    return int(client.measure({"messages": [{"role": "user", "content": text}]})["persisted"]["tokens"])


def record(name: str, tested: str, model: ModelServer, client: Client, key: str) -> None:
    """Keeps what a run sent to the model, in tokens, for the table; `key` is `cards` or `originals`."""
    report = os.environ.get("COATCHECK_STACKS_REPORT")
    if report is None:
        return
    total = sum(tokens_of(client, "\n".join(_texts(body))) for body in model.bodies)
    line = {"stack": name, "tested": tested, "run": key, "tokens": total}
    with Path(report).open("a") as file:
        file.write(json.dumps({**line, "requests": len(model.bodies)}) + "\n")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value
