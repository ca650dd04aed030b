"""A key as a browser keeps it: only what was sealed is opened, in its time, and nothing of the key is seen."""

import base64

import pytest

from coatcheck.core.keys import SESSION_SECONDS, KeySession, form_token, open_session, seal_session

SECRET = bytes(range(32))
OTHER = bytes(32)
NOW = 1_800_000_000
KEY = "ck_live_" + "k" * 40
SEALED = seal_session(SECRET, KeySession(KEY, NOW))


def test_a_sealed_session_is_opened_in_its_time_and_by_clocks_that_differ_a_little() -> None:
    for now in (NOW - 60, NOW, NOW + SESSION_SECONDS - 1):
        assert open_session(SECRET, SEALED, now) == KeySession(KEY, NOW)
    for now in (NOW - 61, NOW + SESSION_SECONDS):
        with pytest.raises(ValueError, match="over"):
            open_session(SECRET, SEALED, now)


def test_no_changed_bit_and_no_other_secret_is_taken() -> None:
    packed = base64.urlsafe_b64decode(SEALED + "=" * (-len(SEALED) % 4))
    for bit in range(8 * len(packed)):
        forged = bytearray(packed)
        forged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match="not a session"):
            open_session(SECRET, base64.urlsafe_b64encode(forged).decode().rstrip("="), NOW)
    with pytest.raises(ValueError, match="not a session"):
        open_session(OTHER, SEALED, NOW)


@pytest.mark.parametrize(
    "word", ["", "A", "AQ", "é", SEALED[:-1], SEALED[:30], SEALED + "AAAA", "A" * 10_000, KEY, "\x00"]
)
def test_what_was_never_sealed_is_no_session(word: str) -> None:
    with pytest.raises(ValueError, match="not a session"):
        open_session(SECRET, word, NOW)


def test_neither_the_key_nor_what_two_sessions_share_is_seen_in_a_cookie() -> None:
    packed = base64.urlsafe_b64decode(SEALED + "=" * (-len(SEALED) % 4))
    later = seal_session(SECRET, KeySession(KEY, NOW + 1))
    unpacked = base64.urlsafe_b64decode(later + "=" * (-len(later) % 4))
    assert KEY.encode()[8:12] not in packed
    assert sum(a == b for a, b in zip(packed[25:], unpacked[25:], strict=True)) < len(packed) // 4


def test_a_forms_token_is_its_sessions_own() -> None:
    tokens = {form_token(SECRET, None), form_token(SECRET, SEALED), form_token(OTHER, SEALED), form_token(OTHER, None)}
    assert len(tokens) == 4
