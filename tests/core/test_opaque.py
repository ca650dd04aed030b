"""Opaque words: each has one meaning, which only the right artifact or key reads; no other word is taken."""

import base64
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import SESSION_SECONDS, KeySession, form_token, open_session, seal_session
from coatcheck.core.opaque import decode_word, seal_position, unseal_position
from coatcheck.core.views.cursor import Cursor, read, write
from coatcheck.core.views.window import NUMBER_LIMIT, Unit

KEY = b"a key"
SECRET = bytes(range(32))
NOW = 1_800_000_000
SESSION = KeySession("ck_live_" + "k" * 40, NOW)
numbers = st.integers(0, NUMBER_LIMIT)
cursors = st.builds(
    Cursor,
    st.sampled_from(["raw", "text"]),
    st.sampled_from(get_args(Unit)),
    numbers,
    st.none() | numbers,
    st.none() | numbers,
    numbers,
    st.none() | st.integers(0, 2_000),
    numbers,
)


def _read(word: str, artifact: int = 7) -> Cursor | None:
    try:
        return read(word, artifact)
    except CoatcheckError as error:
        return None if error.code is Code.INVALID_CURSOR else read(word, artifact)


@given(cursors, st.integers(0, 10**18 - 1))
def test_cursor_comes_back_to_its_artifact_alone(cursor: Cursor, artifact: int) -> None:
    word = write(cursor, artifact)
    assert read(word, artifact) == cursor
    assert _read(word, artifact + 1) is None
    assert len(word) <= 96


@given(cursors, st.data())
def test_changed_cursor_is_refused(cursor: Cursor, data: st.DataObject) -> None:
    word = write(cursor, 7)
    at = data.draw(st.integers(0, len(word) - 1))
    other = data.draw(st.sampled_from("ABab01-_=+/ \u00e9").filter(lambda c: c != word[at]))
    assert [_read(each) for each in (word[:at] + other + word[at + 1 :], word[:at], word + other)] == [None] * 3


@given(st.text(max_size=80) | st.text("ABCDEFGHijklmnop0123-_", max_size=30))
def test_rubbish_is_no_cursor(word: str) -> None:
    assert _read(word) is None


@pytest.mark.parametrize("field", [{"view": "page"}, {"unit": "word"}, {"byte": -1}, {"page": NUMBER_LIMIT + 1}])
def test_cursor_with_impossible_values_is_refused(field: dict[str, Any]) -> None:
    assert _read(write(msgspec.structs.replace(Cursor("raw", "line", 0), **field), 7)) is None


@given(st.integers(0, 2**63 - 1), st.sampled_from(["default", "acme", "\u00e9"]))
def test_sealed_position_comes_back_to_its_namespace_and_key(position: int, namespace: str) -> None:
    word = seal_position(KEY, namespace, position)
    assert word == seal_position(KEY, namespace, position)
    assert unseal_position(KEY, namespace, word) == position
    for key, name in ((KEY, f"{namespace}x"), (b"another", namespace)):
        with pytest.raises(ValueError, match=r"."):
            unseal_position(key, name, word)


def test_sealed_neighbours_have_nothing_in_common() -> None:
    words = [seal_position(KEY, "default", position) for position in range(1_000)]
    assert len({word[:8] for word in words}) == len({word[-8:] for word in words}) == 1_000


def test_sealed_session_opens_within_its_time_and_clock_skew() -> None:
    word = seal_session(SECRET, SESSION)
    for now in (NOW - 60, NOW, NOW + SESSION_SECONDS - 1):
        assert open_session(SECRET, word, now) == SESSION
    for now in (NOW - 61, NOW + SESSION_SECONDS):
        with pytest.raises(ValueError, match="over"):
            open_session(SECRET, word, now)


def test_session_with_any_changed_bit_or_another_secret_is_refused() -> None:
    word = seal_session(SECRET, SESSION)
    packed = decode_word(word)
    forged = [
        bytes(n ^ (1 << bit % 8) * (at == bit // 8) for at, n in enumerate(packed)) for bit in range(8 * len(packed))
    ]
    forged += [packed[:-1], packed + b"\0", b""]
    for data in forged:
        with pytest.raises(ValueError, match=r"(?s)^(?!.*over)"):
            open_session(SECRET, base64.urlsafe_b64encode(data).decode().rstrip("="), NOW)
    with pytest.raises(ValueError, match=r"(?s)^(?!.*over)"):
        open_session(bytes(32), word, NOW)


@pytest.mark.parametrize("word", ["", "A", "AQ", "\u00e9", "A" * 10_000, SESSION.key, "\x00"])
def test_word_that_was_never_sealed_is_no_session(word: str) -> None:
    with pytest.raises(ValueError, match=r"(?s)^(?!.*over)"):
        open_session(SECRET, word, NOW)


def test_session_hides_the_key_and_its_likeness_to_another() -> None:
    packed, later = (decode_word(seal_session(SECRET, SESSION._replace(since=at))) for at in (NOW, NOW + 1))
    assert SESSION.key.encode()[8:12] not in packed
    assert sum(a == b for a, b in zip(packed, later, strict=True)) < len(packed) // 4


def test_form_token_belongs_to_one_session_and_secret() -> None:
    sealed = seal_session(SECRET, SESSION)
    assert len({form_token(secret, session) for secret in (SECRET, bytes(32)) for session in (None, sealed)}) == 4
