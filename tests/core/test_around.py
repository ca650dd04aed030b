"""A text counted once is counted with anything around it, exactly."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.text.excerpt import count_around
from coatcheck.core.views.window import LineIndex, Position
from core.sample_payloads import HOSTILE, ORDINARY

ENCODINGS = (load_tokenizer(), load_tokenizer("cl100k_base"))
AFTER = ("(Lines 1-2 of 3.)", "\n(That is the end.)", "/", "'s", "\n\n", " ", "")
BEFORE = ("[art_1 \u00b7 x]\n", "\n", "  ", "a", "")


@pytest.mark.parametrize("name", [*ORDINARY, *HOSTILE])
def test_a_text_with_others_around_it_is_what_counting_all_of_it_gives(name: str) -> None:
    text = {**ORDINARY, **HOSTILE}[name][0][:30_000].decode("utf-8", "replace")
    for tokenizer in ENCODINGS:
        tokens = tokenizer.count(text)
        for before in BEFORE:
            for after in AFTER:
                assert count_around(before, text, tokens, after, tokenizer) in {
                    None,
                    tokenizer.count(f"{before}{text}{after}"),
                }


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.text(max_size=12), st.text(max_size=12))
def test_whatever_is_cut_out_of_a_text_and_put_around_it(seed: int, before: str, after: str) -> None:
    rng = random.Random(seed)
    alphabet = rng.choice(("ab \n", "a1.,'/ \r\n\t", "数据,。 \n\u3000", "é'sX _-/\n\n", "\U0001f44d\u200d a\n"))
    text = "".join(rng.choices(alphabet, k=1_200))
    tokenizer = rng.choice(ENCODINGS)
    got = count_around(before, text, tokenizer.count(text), after, tokenizer)
    assert got in {None, tokenizer.count(f"{before}{text}{after}")}


def test_most_texts_are_not_counted_again() -> None:
    tokenizer = ENCODINGS[0]
    known = [
        count_around("a\n", text, tokenizer.count(text), "\nb", tokenizer)
        for text in (data[:30_000].decode("utf-8", "replace") for data, *_ in ORDINARY.values())
        if len(text) > 1_000
    ]
    assert len(known) > 4
    assert known.count(None) < len(known) / 2


def test_places_are_what_counting_up_to_each_gives() -> None:
    rng = random.Random(5)
    for data in (b"", b"a\nb\n\nc", "é\n数据\n\n👍x".encode() * 50, bytes(rng.randbytes(5_000)), b"\x80\x80\nx"):
        start = Position(700, 12, 650)
        places = LineIndex(start, data)
        for at in {0, len(data), *(rng.randrange(len(data) + 1) for _ in range(50))}:
            assert places.at(700 + at) == start.after(data[:at])
