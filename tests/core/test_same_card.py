"""The same input gives the same card in every process, whatever order its hash tables happen to have."""

import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from coatcheck.core.card import cut
from coatcheck.core.card.model import CardInput
from coatcheck.core.encoding.payload_encoder import PayloadEncoder
from coatcheck.core.kinds import recognise
from core.sample_payloads import ARTIFACT, HOSTILE, ORDINARY, TOKENIZER

_EVERYTHING = ORDINARY | HOSTILE
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


@pytest.mark.parametrize("name", _EVERYTHING)
def test_a_card_that_is_cut_again_is_the_one_that_was_cut_with_the_counted_tokens(name: str) -> None:
    data, said = _EVERYTHING[name]
    intake = PayloadEncoder(TOKENIZER)
    for start in range(0, len(data), 10_000):
        intake.feed(data[start : start + 10_000])
    intake.end(b"")
    intake.count()
    sample, survey = intake.sample(), intake.survey()
    facts = recognise(sample, said, survey)
    for budget in (100, 600, 3000):
        made = CardInput(ARTIFACT, said, intake.measure(), facts, sample, budget, TOKENIZER, survey=survey)
        assert cut(made) == cut(replace(made, sample=replace(sample, token_ends=b"")))


def test_the_ends_of_tokens_are_kept_of_payloads_that_are_counted_at_once() -> None:
    line = b"a line of an ordinary output\n"
    kept = [_token_ends(data) for data in (line * 100, line * 800, line * 900, line * 3, b"\xff" + line * 100)]
    assert [bool(ends) for ends in kept] == [True, True, False, False, False]
    assert kept[0] == TOKENIZER.ends((line * 100).decode()).astype("uint32").tobytes()


def _token_ends(data: bytes) -> bytes:
    intake = PayloadEncoder(TOKENIZER)
    intake.end(data)
    intake.count()
    return intake.sample().token_ends
