"""Beside Deep Agents' offloading of large tool results: tokens until the line that a question needs has been seen.

Outputs of real programs (`payloads.py`), one question each, and one rule for every reader (`reader.py`): what the model
is shown first, a search for one word, then reading on. Counted are the tokens of everything that tools show on the way,
by one tokenizer. Deep Agents runs in an environment of its own, as a real agent, at its default limit of 20,000 tokens
and at the one from which Coatcheck makes cards.
"""

import json
import re
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.offloading.payloads import Question, questions
from bench.offloading.reader import LINES, Search, next_step
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck_client import Client
from coatcheck_client.contract.declare import declarations
from support.environments import environment
from support.service import serving

_HERE: Final = Path(__file__).parent
_HIT: Final = re.compile(r"^¦ (\d+)", re.MULTILINE)
_AFTER: Final = ("shown", "searched")
"""What a reader had done when it had the answer, by the number of texts that it had seen; then it had read."""
LIMITS: Final = {"Deep Agents": 20_000, "Deep Agents 1,000": 1_000}
"""Tokens from which Deep Agents offloads a result."""


def run() -> None:
    """Print the table."""
    python = environment("offloading", _HERE / "requirements.txt")
    if python is None:
        print("Deep Agents cannot be installed here: nothing is compared.")
        return
    encode = load_tokenizer().count
    with tempfile.TemporaryDirectory() as folder:
        asked = list(questions(Path(folder)))
        theirs = {name: _theirs(python, Path(folder), asked, limit) for name, limit in LIMITS.items()}
        seen = {name: one["seen"] for name, one in theirs.items()}
        seen["Coatcheck"] = _ours(Path(folder), asked)
    declared = {name: one["declared"] for name, one in theirs.items()}
    declared["Coatcheck"] = [json.dumps(tool) for tool in declarations("openai-chat")]
    print("| output | tokens | " + " | ".join(seen) + " |\n|---|--:|" + "--:|" * len(seen))
    for number, one in enumerate(asked):
        cells = [_cell(texts[number], one.answer, [encode(text) for text in texts[number]]) for texts in seen.values()]
        print(f"| {one.name} | {encode(one.payload):,} | " + " | ".join(cells) + " |")
    for name, texts in seen.items():
        sums = [sum(map(encode, each)) for each in texts]
        first = sum(one.answer in each[0] for one, each in zip(asked, texts, strict=True))
        found = sum(one.answer in each[-1] for one, each in zip(asked, texts, strict=True))
        print(
            f"{name}: found {found} of {len(asked)}, {first} in what is shown first; tokens in all {sum(sums):,}, "
            f"median {median(sums):,.0f}, of what is shown first {median(encode(each[0]) for each in texts):,.0f}; "
            f"calls {sum(len(each) - 1 for each in texts)}; in every request {sum(map(encode, declared[name])):,}"
        )


def _cell(texts: list[str], answer: str, tokens: list[int]) -> str:
    """Tokens until the answer, and after what it was seen."""
    if answer not in texts[-1]:
        return f"{sum(tokens):,} not found"
    return f"{sum(tokens):,} {_AFTER[len(texts) - 1] if len(texts) <= len(_AFTER) else f'read {len(texts) - 2}'}"


def _theirs(python: Path, folder: Path, asked: list[Question], limit: int) -> dict[str, Any]:
    told: list[dict[str, str]] = []
    for number, one in enumerate(asked):
        path = folder / f"{number}.txt"
        path.write_text(one.payload, encoding="utf-8")
        told.append({"path": str(path), "word": one.word, "answer": one.answer})
    words = [python, _HERE / "deep_agents.py", str(limit)]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(words, input=json.dumps(told), capture_output=True, text=True, check=True, env=env)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _ours(folder: Path, asked: list[Question]) -> list[list[str]]:
    with serving(folder / "data") as service, Client(service.url, session="offloading") as client:
        return [_read(client, one) for one in asked]


def _read(client: Client, one: Question) -> list[str]:
    """Everything that a reader with `read_artifact` is shown."""
    put = client.put(one.payload, tool_name="get_output")
    seen = [put.text]
    while (step := next_step(seen, one.word, one.answer, _HIT)) is not None:
        if isinstance(step, Search):
            seen.append(client.read_artifact(str(put.id), pattern=re.escape(step.word)))
        else:
            seen.append(client.read_artifact(str(put.id), offset=step.first, limit=LINES))
    return seen
