"""Runs of agents to replay: transcripts from a folder, or runs made here over the sources of the standard library.

A run is a list of messages as Chat Completions has them. Read are such lists or bodies, also one on each line,
LangChain's messages (also under `values`), and trajectories of SWE-agent.
"""

import json
import lzma
import random
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from coatcheck.core.context.body.encoding import as_list, as_object

Json = Any
Message = dict[str, Any]

_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_][\w./:#@-]{3,}[A-Za-z0-9_]")
_TELLING: Final = re.compile(r"[_/.:#@\d]|[a-z][A-Z]")
_DEFINED: Final = re.compile(r"^\s*(?:def|class) (\w{6,})", re.MULTILINE)
_ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_RUNS: Final = 6
_STEPS: Final = 32
_TURN: Final = 8
"""Steps until the user speaks again."""


class Run(NamedTuple):
    """One conversation of an agent."""

    name: str
    messages: list[Message]

    def requests(self) -> Iterator[tuple[list[Message], Message]]:
        """What was sent before each of the model's messages, and that message."""
        for at, message in enumerate(self.messages):
            if message["role"] == "assistant" and at > 0:
                yield self.messages[:at], message


def words(message: Message) -> str:
    """Everything that a message says, with the arguments of its calls."""
    content = message.get("content") or ""
    texts = [content] if isinstance(content, str) else [str(part.get("text", "")) for part in content]
    return "\n".join([*texts, *(call["function"]["arguments"] for call in message.get("tool_calls") or ())])


def identifiers(text: str) -> set[str]:
    """Names, paths, addresses and numbers in a text; not ordinary words."""
    return {found for found in _IDENTIFIER.findall(text) if _TELLING.search(found)}


def written(request: list[Message]) -> str:
    """What the model itself has written so far, which no way of making requests smaller takes first."""
    return "\n".join(words(each) for each in request if each["role"] == "assistant")


def used(request: list[Message], action: Message) -> set[str]:
    """Identifiers of an action that the model has from tools: no user said them."""
    given = "\n".join(words(each) for each in request if each["role"] == "tool")
    said = "\n".join(words(each) for each in request if each["role"] in {"user", "system"})
    return {each for each in identifiers(words(action)) if each in given and each not in said}


# ---------------------------------------------------------------------------------------------------- transcripts


def load(folder: Path) -> list[Run]:
    """The runs of a folder's files by name: `.json`, `.traj`, and `.jsonl.xz` with a run on each line.

    Raises:
        ValueError: for a folder without any, and for a file that holds none.
    """
    paths = sorted(path for path in folder.rglob("*") if path.name.endswith((".json", ".traj", ".jsonl.xz")))
    if not paths:
        raise ValueError(f"{folder} has no .json, no .traj and no .jsonl.xz file.")
    return [run for path in paths for run in _runs(path, str(path.relative_to(folder)))]


def _runs(path: Path, name: str) -> Iterator[Run]:
    if path.suffix != ".xz":
        yield Run(name, _messages(path, json.loads(path.read_text())))
        return
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            yield Run(f"{name} {number}", _messages(path, json.loads(line)))


def _messages(path: Path, value: Json) -> list[Message]:
    if "trajectory" in as_object(value):
        return list(_from_trajectory(value))
    messages = as_list(value) or as_list(as_object(as_object(value).get("values", value)).get("messages"))
    if not messages or not all(map(as_object, messages)):
        raise ValueError(f"{path} holds no conversation.")
    return [_from_langchain(each) if "role" not in each else each for each in messages]


def _from_langchain(message: Message) -> Message:
    data = message.get("data", message)
    content = data.get("content") or ""
    made: Message = {"role": _ROLES[message["type"]], "content": content}
    if data.get("tool_calls"):
        made["tool_calls"] = [
            _call(str(call["id"]), call["name"], json.dumps(call["args"], ensure_ascii=False))
            for call in data["tool_calls"]
        ]
    if data.get("tool_call_id"):
        made["tool_call_id"] = data["tool_call_id"]
    return made


def _from_trajectory(value: Json) -> Iterator[Message]:
    for message in value.get("history", ()):
        if message["role"] == "assistant":
            break
        yield {"role": message["role"], "content": message["content"]}
    for number, step in enumerate(value["trajectory"]):
        call = _call(f"call_{number}", "bash", json.dumps({"command": step["action"]}, ensure_ascii=False))
        yield {"role": "assistant", "content": step.get("thought") or "", "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": f"call_{number}", "content": step.get("observation") or ""}


def _call(call_id: str, name: str, arguments: str) -> Message:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


# ------------------------------------------------------------------------------------------------------ made here


def made() -> list[Run]:
    """Runs that search and read the standard library's sources, and go on to use names that they found."""
    library = Path(sysconfig.get_paths()["stdlib"])
    sources = {
        str(path.relative_to(library)): text
        for path in sorted([*library.glob("*.py"), *library.glob("asyncio/*.py"), *library.glob("email/*.py")])
        if 4_000 < len(text := path.read_text("utf-8", "replace")) < 90_000
    }
    return [Run(f"run {seed}", list(_made(random.Random(seed), sources))) for seed in range(_RUNS)]


def _made(rng: random.Random, sources: dict[str, str]) -> Iterator[Message]:
    found: list[str] = []
    yield {"role": "system", "content": "You look into a code base with tools and report what you find."}
    for step in range(_STEPS):
        if step % _TURN == 0:
            yield {"role": "user", "content": f"Question {step // _TURN + 1}: who else depends on this, and why?"}
        older = rng.choices(found[-60:], k=2) if found else ["threading"]
        name, arguments, output = _tool(rng, sources, older)
        call = _call(f"call_{step}", name, json.dumps(arguments))
        yield {"role": "assistant", "content": f"Next: {', '.join(older)}.", "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": f"call_{step}", "content": output}
        found += rng.sample(names, k=min(6, len(names))) if (names := _DEFINED.findall(output)) else []
        if step % _TURN == _TURN - 1:
            yield {"role": "assistant", "content": f"It comes down to {', '.join(rng.choices(found, k=4))}."}
    yield {"role": "user", "content": "Sum up."}
    yield {"role": "assistant", "content": f"In the end: {', '.join(rng.choices(found, k=12))}."}


def _tool(rng: random.Random, sources: dict[str, str], older: list[str]) -> tuple[str, Json, str]:
    """A call and what came back: a search for a known name, a file, a part of one, or a note that is written."""
    path = rng.choice(list(sources))
    kind = rng.choices(("grep", "read_file", "read_lines", "write_file"), weights=(4, 4, 3, 1))[0]
    match kind:
        case "grep":
            pattern = rng.choice([*older, "def _", "class ", "raise "])
            hits = [
                f"{name}:{number}:{line}"
                for name, text in rng.sample(list(sources.items()), k=40)
                for number, line in enumerate(text.splitlines(), 1)
                if pattern in line
            ]
            return "bash", {"command": f"grep -rn '{pattern}' ."}, "\n".join(hits[:400]) or "(no match)"
        case "read_file":
            return "read_file", {"path": path}, sources[path]
        case "read_lines":
            lines = sources[path].splitlines(keepends=True)
            start = rng.randrange(max(len(lines) - 60, 1))
            return "read_file", {"path": path, "offset": start, "limit": 60}, "".join(lines[start : start + 60])
        case _:
            note = f"# {', '.join(older)}\n" + sources[path][:6_000]
            return "write_file", {"path": f"notes/{path}", "content": note}, "written"
