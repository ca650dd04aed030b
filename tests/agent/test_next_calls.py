"""A scripted reader makes the call that a card names, as it is written, and gets what the card lacks.

Each payload has something that a reader of its card would want next. The control is a card that shows it all.
"""

import json
import random
import re
from collections.abc import Iterator
from typing import Final

import pytest

from support.service import Service

_CALL: Final = re.compile(r"¦ Next: (\w+)\((.*)\)\Z", re.DOTALL)
_ARGUMENT: Final = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\d+)', re.DOTALL)


def followed(service: Service, card: str) -> str:
    """What the call on a card answers; AssertionError if it names none, or is refused."""
    call = _CALL.search(card)
    assert call is not None, card
    arguments = {name: json.loads(value) for name, value in _ARGUMENT.findall(call[2])}
    answer = service.client.post("/v1/tools/call", json={"name": call[1], "arguments": arguments}).json()
    assert not answer["is_error"], answer["text"]
    text: str = answer["text"]
    return text


def _manifests() -> Iterator[str]:
    for n in range(40):
        yield f"---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: svc-{n}\nspec:"
        yield f"  replicas: {0 if n == 23 else 3}\n  paused: false\n  template:\n    image: registry.example/svc-{n}:2"


def _history() -> Iterator[str]:
    rng = random.Random(3)
    for n in range(200):
        yield f"commit {rng.getrandbits(160):040x}\nAuthor: Ann <ann@example.org>"
        yield "Date:   Thu May 1 10:00:00 2031 +0000\n"
        yield f"    Change {n} of the {rng.choice(['press', 'rotor', 'valve'])}\n"


def _changes() -> Iterator[str]:
    for n in range(500):
        yield f"diff --git a/part_{n}.py b/part_{n}.py\n--- a/part_{n}.py\n+++ b/part_{n}.py\n@@ -1,40 +1,40 @@"
        yield from (f"-    old_{n}_{k} = {k}\n+    new_{n}_{k} = {k + 1}" for k in range(40))


def _pods() -> str:
    pods = [{"api": "v1", "meta": {"name": f"web-{n}", "node": f"node-{n % 4}"}, "phase": "up"} for n in range(90)]
    pods[41] = {"api": "v1", "meta": {"name": "web-41", "node": "node-9"}, "phase": "down", "exit": "137"}
    return json.dumps({"pods": pods}, indent=1)


def _events() -> Iterator[str]:
    for n in range(900):
        level = "error" if n == 400 else "warn" if n % 90 == 7 else "info"
        yield json.dumps({"level": level, "msg": "upstream is slow" if level == "warn" else "request", "n": n})


def _report() -> str:
    files = {f"src/part_{n}.py": {"lines": n, "skipped": n % 7} for n in range(9_000)}
    results = [{"rule": f"B{n % 40}", "text": f"finding {n} of the lint"} for n in range(4_000)]
    return json.dumps({"version": "2.1", "runs": [{"tool": {"name": "lint"}, "files": files, "results": results}]})


def _stats() -> str:
    warnings = [{"message": f"part{n}.js exceeds the size limit by {n * 7} KB"} for n in range(40)]
    modules = [{"name": f"./src/m{n}.js", "size": n, "depth": n % 9} for n in range(2_000)]
    return json.dumps({"hash": "e1", "modules": modules, "warnings": warnings, "children": [{"n": 1}] * 300})


PAYLOADS: Final[dict[str, tuple[str, str]]] = {
    "the odd part": ("\n".join(_manifests()), r"image: registry\.example/svc-23:2"),
    "a history": ("\n".join(_history()), r"Change 99 of"),
    "a large diff": ("\n".join(_changes()), r"part_2\.py - 1 hunk, \+40 -40"),
    "the record that is down": (_pods(), r'"name": ?"web-41"'),
    "the second-rarest level": ("\n".join(_events()), r"upstream is slow"),
    "findings beyond the sample": (_report(), r"finding 7 of the lint"),
    "warnings beside what is larger": (_stats(), r"part\d+\.js exceeds the size limit"),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_the_call_on_a_card_brings_what_a_reader_would_want_next(service: Service, name: str) -> None:
    payload, wanted = PAYLOADS[name]
    card: str = service.post(payload, inline_tokens=0, card_tokens=400)["text"]
    missing = set(re.findall(wanted, payload)) - set(re.findall(wanted, card))
    answer = followed(service, card)
    brought = [line for line in answer.split("\n") if re.search(wanted, line) and line not in card]
    assert brought, f"{card}\n=====\n{answer[:2_000]}"
    assert missing or len(re.findall(wanted, answer)) > len(re.findall(wanted, card))
