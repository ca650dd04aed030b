"""Marks in place of look-ahead: the same tokens as tiktoken's own patterns give, for any text."""

import random
import re
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from coatcheck.adapters.blank_marks import MARK, marked
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.adapters.vocabularies import VOCABULARIES, ranks_of
from core.matter import HOSTILE, ORDINARY

NAMES = ("o200k_base", "cl100k_base")
BLANKS = " \t\x0b\x0c\r\n\x85\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000"
NO_BLANKS = "\x1c\x1d\x1e\x1f\u200b\u2060\ufeff\u180e"
"""Python takes the first four for blanks, and the encoder none."""
PIECES = st.sampled_from(
    [*BLANKS, *NO_BLANKS, "  ", "    ", "\n\n", "\t\t", "a", "Bc", "'s", "7", "1234", "é", "数据", "{", "};", "/", "!"]
)
TEXTS = st.lists(PIECES, max_size=60).map("".join) | st.text(max_size=60)


def _reference(name: str) -> tiktoken.Encoding:
    """The encoding with tiktoken's own pattern."""
    pattern = VOCABULARIES[name].pattern
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks_of(name), special_tokens={})


REFERENCE = {name: _reference(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
@given(TEXTS)
def test_any_text_has_the_tokens_of_the_pattern_with_look_ahead(name: str, text: str) -> None:
    tokens = REFERENCE[name].encode_ordinary(text)
    assert load_tokenizer(name).encode(text) == tokens
    assert load_tokenizer(name).count(text) == len(tokens)
    assert load_tokenizer(name).decode(tokens) == text.encode()


@pytest.mark.parametrize("name", NAMES)
@given(st.integers(), st.lists(PIECES, min_size=1, max_size=20))
def test_so_has_long_text(name: str, seed: int, pieces: list[str]) -> None:
    text = "".join(random.Random(seed).choices(pieces, k=3_000))
    assert load_tokenizer(name).encode(text) == REFERENCE[name].encode_ordinary(text)


@pytest.mark.parametrize("name", NAMES)
def test_so_have_real_and_hostile_texts(name: str) -> None:
    for what, (data, *_) in {**ORDINARY, **HOSTILE}.items():
        text = data[:100_000].decode("utf-8", "replace")
        assert load_tokenizer(name).encode(text) == REFERENCE[name].encode_ordinary(text), what
    for path in Path(__file__).parent.glob("*.py"):
        text = path.read_text()
        assert load_tokenizer(name).encode(text) == REFERENCE[name].encode_ordinary(text), path


@pytest.mark.parametrize(
    "text", [MARK, f"a  {MARK}{MARK} b", "  \udbff\udfff  x", f"{MARK}\ud800   y", "\ud800  \udfff z"]
)
def test_text_that_has_the_mark_is_counted_without_it(text: str) -> None:
    for name in NAMES:
        assert load_tokenizer(name).encode(text) == REFERENCE[name].encode_ordinary(text)


def test_text_with_the_mark_and_a_million_blanks_is_counted() -> None:
    text = MARK + " " * 1_200_000 + "x"
    assert load_tokenizer().decode(load_tokenizer().encode(text)) == text.encode()


def test_marks_stand_before_the_last_blank_of_a_run_and_nowhere_else() -> None:
    assert marked("a  b   c\n\n  d e  ") == (f"a {MARK} b  {MARK} c\n\n {MARK} d e  ", 3)
    assert marked("no run of blanks at all") == ("no run of blanks at all", 0)
    long = "    x = 1\n" * 500
    assert marked(long) == (f"   {MARK} x = 1\n" * 500, 500)


def _nothing(*_: object, **__: object) -> dict[bytes, int]:
    return {}


def test_the_patterns_are_those_of_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", _nothing)
    for name in NAMES:
        theirs = getattr(openai_public, name)()["pat_str"]
        plain = re.sub(r"(?<=[+*?])\+|(?<=,3})\+", "", theirs) if name == "cl100k_base" else theirs
        ours = VOCABULARIES[name].pattern
        assert {*plain.split("|")} - {*ours.split("|")} <= {r"\s"}
