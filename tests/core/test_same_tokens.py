"""The encoder gives tiktoken's tokens, for any text."""

import random
import re
import sys
import threading
import time
from itertools import accumulate
from pathlib import Path

import pytest
import splintr
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from coatcheck.adapters.tokenizer import VOCABULARIES, load_tokenizer, ranks_of
from core.sample_payloads import HOSTILE, ORDINARY

NAMES = ("o200k_base", "cl100k_base")
BLANKS = " \t\x0b\x0c\r\n\x85\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000"
NO_BLANKS = "\x1c\x1d\x1e\x1f\u200b\u2060\ufeff\u180e"
"""Python takes the first four for blanks, and the encoder none."""
ENDINGS = ["'s", "'S", "'\u017f", "'ll", "'LL", "'re", "'Ve", "'\u212a", "''s", "\u017f", "'"]
"""Endings that the patterns take off words whatever their case; a long s and a Kelvin sign are cases too."""
OTHERS = [
    "  ",
    "    ",
    "\n\n",
    "\t\t",
    "a",
    "Bc",
    "7",
    "1234",
    "é",
    "e\u0301",
    "数据",
    "{",
    "};",
    "/",
    "!",
    "😀",
    "\u0e01",
]
ODD = ["<|endoftext|>", "\U0010ffff", "ǅ", "ʰ", "Ⅷ", "\ud7ff", "\x00"]
PIECES = st.sampled_from([*BLANKS, *NO_BLANKS, *ENDINGS, *OTHERS, *ODD])
TEXTS = st.lists(PIECES, max_size=60).map("".join) | st.text(max_size=60)


def _reference(name: str) -> tiktoken.Encoding:
    """The encoding with tiktoken's own pattern."""
    pattern = VOCABULARIES[name].pattern
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks_of(name), special_tokens={})


REFERENCE = {name: _reference(name) for name in NAMES}
for _name in NAMES:
    load_tokenizer(_name).count("'\u017f")  # loads what hardly any text needs, so that no case is slow by it


@pytest.mark.parametrize("name", NAMES)
@given(TEXTS)
def test_any_text_has_the_tokens_of_tiktoken(name: str, text: str) -> None:
    tokenizer, tokens = load_tokenizer(name), REFERENCE[name].encode_ordinary(text)
    assert tokenizer.encode(text) == tokens
    assert tokenizer.count(text) == len(tokens)
    assert tokenizer.decode(tokens) == text.encode()
    lengths = [len(REFERENCE[name].decode_single_token_bytes(token)) for token in tokens]
    assert tokenizer.ends(text).tolist() == list(accumulate(lengths))


@pytest.mark.parametrize("name", NAMES)
@given(st.integers(), st.lists(PIECES, min_size=1, max_size=20))
def test_so_has_long_text(name: str, seed: int, pieces: list[str]) -> None:
    text = "".join(random.Random(seed).choices(pieces, k=9_000))
    assert load_tokenizer(name).encode(text) == REFERENCE[name].encode_ordinary(text)


@pytest.mark.parametrize("name", NAMES)
def test_so_have_real_and_hostile_texts(name: str) -> None:
    for what, (data, *_) in {**ORDINARY, **HOSTILE}.items():
        text = data[:100_000].decode("utf-8", "replace")
        assert load_tokenizer(name).encode(text) == REFERENCE[name].encode_ordinary(text), what
    for path in Path(__file__).parent.glob("*.py"):
        text = path.read_text()
        assert load_tokenizer(name).encode(text) == REFERENCE[name].encode_ordinary(text), path


@pytest.mark.parametrize("name", NAMES)
def test_so_has_every_character(name: str) -> None:
    """Each in a word, before one, after an apostrophe, and between blanks: its class decides where the text is cut."""
    everything = [chr(n) for n in range(sys.maxunicode + 1) if not 0xD800 <= n <= 0xDFFF]
    for around in ("a{}B", " {} ", "x'{}s", "{}7\n"):
        for at in range(0, len(everything), 5_000):
            text = "".join(map(around.format, everything[at : at + 5_000]))
            assert load_tokenizer(name).encode(text) == REFERENCE[name].encode_ordinary(text), (around, at)


@pytest.mark.parametrize("text", ["\ud800", "a\udfff b", "\ud83d\ude00 x", "'\u017f\ud800", "\udc00\ud800" * 20_000])
def test_lone_surrogates_are_replaced_and_pairs_joined(text: str) -> None:
    for name in NAMES:
        assert load_tokenizer(name).encode(text) == REFERENCE[name].encode_ordinary(text)


def test_a_million_blanks_are_counted_in_parts() -> None:
    text = "'\u017f" + " " * 1_200_000 + "x"
    assert load_tokenizer().decode(load_tokenizer().encode(text)) == text.encode()


def test_long_text_leaves_the_interpreter_to_others() -> None:
    """Measured by what another thread gets done, not by a clock."""
    text = "".join(random.Random(1).choices("abcdefghij", k=2_000_000))  # one word: half a second of merging
    turns, done = 0, threading.Event()
    load_tokenizer()

    def count() -> None:
        load_tokenizer().count(text)
        done.set()

    thread = threading.Thread(target=count)
    thread.start()
    while not done.is_set():
        time.sleep(0.001)
        turns += 1
    thread.join()
    assert turns > 10


def test_the_patterns_are_those_of_tiktoken_and_known_to_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern that it does not know by its text would be matched by a general engine, slowly and not quite so."""
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", _nothing)
    known = {"o200k_base": splintr.O200K_BASE_PATTERN, "cl100k_base": splintr.CL100K_BASE_PATTERN}
    for name in NAMES:
        theirs = getattr(openai_public, name)()["pat_str"]
        plain = re.sub(r"(?<=[+*?])\+|(?<=,3})\+", "", theirs) if name == "cl100k_base" else theirs
        assert VOCABULARIES[name].pattern == plain == known[name]


def _nothing(*_: object, **__: object) -> dict[bytes, int]:
    return {}
