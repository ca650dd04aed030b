import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.views.cursor import Cursor, read, write
from coatcheck.core.views.window import NUMBER_LIMIT, UNITS

numbers = st.integers(0, NUMBER_LIMIT - 1)
cursors = st.builds(
    Cursor,
    st.sampled_from(["raw", "text"]),
    st.sampled_from(UNITS),
    numbers,
    st.none() | numbers,
    st.none() | numbers,
    numbers,
    st.none() | st.integers(0, 2_000),
)


def _refused(text: str, artifact: int = 7) -> None:
    with pytest.raises(CoatcheckError) as caught:
        read(text, artifact)
    assert caught.value.code is Code.INVALID_CURSOR


@given(cursors, st.integers(0, 10**18 - 1))
def test_what_is_written_is_read_back_and_stays_short(cursor: Cursor, artifact: int) -> None:
    text = write(cursor, artifact)
    assert read(text, artifact) == cursor
    assert len(text) <= 64
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(cursors, st.data())
def test_every_changed_character_is_noticed(cursor: Cursor, data: st.DataObject) -> None:
    text = write(cursor, 7)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("ABab01-_=+/ \u00e9").filter(lambda c: c != text[at]))
    _refused(text[:at] + other + text[at + 1 :])
    _refused(text[:at])
    _refused(text + other)
    _refused(text, 8)


@settings(max_examples=60)
@given(st.text(max_size=80))
def test_rubbish_is_refused(text: str) -> None:
    _refused(text)


def test_a_typical_cursor_is_a_short_word() -> None:
    assert len(write(Cursor("raw", "line", 123_456_789, 200, 37), 7)) <= 24


def test_random_bytes_never_pass() -> None:
    r = random.Random(5)
    for _ in range(2_000):
        _refused("".join(r.choice("ABCDEFGHijklmnop0123-_") for _ in range(r.randrange(30))))
