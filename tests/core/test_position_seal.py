"""Sealed positions: the same word for the same position, nothing else that passes, nothing to be read in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coatcheck.core.views.cursor import MAX_POSITION, seal, unseal

KEY = b"a key"


@given(st.integers(0, MAX_POSITION), st.sampled_from(["default", "acme", "\u00e9"]))
def test_a_position_comes_back_to_its_namespace_alone(position: int, namespace: str) -> None:
    word = seal(KEY, namespace, position)
    assert (len(word), word) == (28, seal(KEY, namespace, position))
    assert unseal(KEY, namespace, word) == position
    with pytest.raises(ValueError, match=r"."):
        unseal(KEY, f"{namespace}x", word)
    with pytest.raises(ValueError, match=r"."):
        unseal(b"another", namespace, word)


@given(st.integers(0, 27), st.sampled_from("Ab0-_=!\n\u0661"))
def test_a_word_with_another_letter_is_refused(place: int, letter: str) -> None:
    word = seal(KEY, "default", 4_711)
    if word[place] != letter:
        with pytest.raises(ValueError, match=r"(?s)."):
            unseal(KEY, "default", f"{word[:place]}{letter}{word[place + 1 :]}")


def test_neighbours_have_nothing_in_common() -> None:
    words = [seal(KEY, "default", position) for position in range(1_000)]
    assert len({word[2:10] for word in words}) == len({word[-10:] for word in words}) == 1_000
