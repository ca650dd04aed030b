"""The same input gives the same card in every process, whatever order its hash tables happen to have."""

import os
import subprocess
import sys

import pytest

_SCRIPT = """
import hashlib, json, random
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core import card
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.card.model import CardInput
from coatcheck.core.encoding.payload_encoder import PayloadEncoder
from coatcheck.core.kinds import recognise

tokenizer, rng, told = load_tokenizer(), random.Random(7), hashlib.sha256()
words = ["alpha", "bravo_charlie", "delta", "echo/foxtrot.py", "golf", "Größe", "hotel", "数据库", "india", "error:"]
for number in range(60):
    lines = [" ".join(rng.choices(words, k=rng.randint(2, 12))) + f" {rng.randrange(99)}" for _ in range(400)]
    if number % 3 == 1:
        lines = [f"def {rng.choice('abc')}_{n}(value):\\n    return '{line}'" for n, line in enumerate(lines)]
    payload = "\\n".join(lines).encode()
    if number % 6 == 5:
        rare = dict.fromkeys(rng.sample(words, 4), number)
        records = [{"id": n, "line": line} | (rare if n == 9 else {}) for n, line in enumerate(lines)]
        payload = json.dumps(records).encode()
    intake = PayloadEncoder(tokenizer)
    intake.end(payload)
    intake.count()
    sample = intake.sample()
    facts = recognise(sample, DeclaredMetadata(tool_name="bash" if number % 2 else None))
    for budget in (128, 600, 2000):
        query = "delta golf" if number % 5 == 0 else None
        said = DeclaredMetadata()
        inputs = CardInput("art_830561827364510297", said, intake.measure(), facts, sample, budget=budget,
                           query=query, tokenizer=tokenizer)
        _, text, _ = card.cut(inputs)
        told.update(text.encode())
print(told.hexdigest())
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_card_does_not_depend_on_the_order_of_hash_tables(seed: str) -> None:
    def cards(hash_seed: str) -> str:
        environment = {"PATH": os.defpath, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT], env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    assert cards("0") == cards(seed)
