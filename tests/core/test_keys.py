"""What a key looks like, what a mistyped one is told, and that none shows itself by accident."""

import random
import re
import string
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from coatcheck.core import keys
from coatcheck.core.artifact import EVERY_SCOPE, Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import KeyInfo, KeyRow

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENTROPY = st.tuples(st.binary(min_size=8, max_size=8), st.binary(min_size=32, max_size=32))
SHAPE = re.compile(r"ck_live_[0-9A-Za-z]{11}_[0-9A-Za-z]{49}")


def made(seed: int = 1) -> tuple[keys.Key, str]:
    rng = random.Random(seed)
    key, secret = keys.make(rng.randbytes(8), rng.randbytes(32))
    return key, secret.reveal()


def row(key: keys.Key, **changed: object) -> KeyRow:
    info = KeyInfo(
        id=key.id,
        namespace="acme",
        name="ci",
        scopes=("ingest", "read"),
        session_prefix="run-",
        created_at=NOW,
        expires_at=None,
        revoked_at=None,
        requests_per_minute=None,
        bytes_per_minute=None,
    )
    return KeyRow(replace(info, **changed), key.digest)


def refusal(key: keys.Key, found: KeyRow | None, at: datetime = NOW) -> CoatcheckError:
    with pytest.raises(CoatcheckError) as caught:
        keys.caller_of(key, found, at)
    return caught.value


@given(ENTROPY)
def test_a_key_is_read_back_as_the_one_that_was_made_whatever_its_bytes(entropy: tuple[bytes, bytes]) -> None:
    key, secret = keys.make(*entropy)
    assert SHAPE.fullmatch(secret.reveal())
    assert keys.parse(secret.reveal()) == key
    assert secret.reveal().startswith(f"ck_live_{key.id}_")


@given(ENTROPY, ENTROPY)
def test_other_bytes_make_another_key(one: tuple[bytes, bytes], other: tuple[bytes, bytes]) -> None:
    (first, _), (second, _) = keys.make(*one), keys.make(*other)
    assert (first == second) is (one == other)


@given(ENTROPY, st.data())
def test_one_wrong_character_is_told_without_looking_the_key_up(
    entropy: tuple[bytes, bytes], data: st.DataObject
) -> None:
    _, secret = keys.make(*entropy)
    text = secret.reveal()
    at = data.draw(st.integers(len("ck_live_"), len(text) - 1))
    other = data.draw(st.sampled_from(sorted(set(string.ascii_letters + string.digits) - {text[at]})))
    with pytest.raises(CoatcheckError) as caught:
        keys.parse(text[:at] + other + text[at + 1 :])
    assert caught.value.code is Code.UNAUTHENTICATED
    assert secret.reveal()[20:] not in caught.value.detail


@pytest.mark.parametrize(
    "text", ["", "ck_live_", "ck_test_x", "secret", "ck_live_\0", "é" * 68, "ck_live_" + "0" * 10**6]
)
def test_what_is_no_key_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(CoatcheckError) as caught:
        keys.parse(text)
    assert caught.value.code is Code.UNAUTHENTICATED
    assert len(caught.value.detail) < 200
    assert caught.value.extra == {}


def test_neither_a_new_key_nor_a_presented_one_shows_its_secret() -> None:
    rng = random.Random(2)
    key, secret = keys.make(rng.randbytes(8), rng.randbytes(32))
    hidden = secret.reveal().rpartition("_")[2]
    for shown in (repr(secret), str(secret), f"{secret}", repr([secret]), repr(key), repr(row(key))):
        assert hidden not in shown
        assert hidden[:43] not in shown


def test_a_caller_is_what_the_row_says() -> None:
    key, _ = made()
    scopes = frozenset({"ingest", "read"})
    assert keys.caller_of(key, row(key), NOW) == Caller("acme", "ci", scopes, "run-", key.id)


def test_the_same_id_with_another_secret_is_an_unknown_key() -> None:
    key, _ = made()
    forged = keys.Key(key.id, made(3)[0].digest)
    unknown = refusal(forged, None)
    assert (unknown.code, unknown.extra) == (Code.UNAUTHENTICATED, {})
    assert refusal(forged, row(key)).detail == unknown.detail
    # Only who has the secret learns more.
    assert refusal(forged, row(key, revoked_at=NOW)).detail == unknown.detail
    assert "revoked" in refusal(key, row(key, revoked_at=NOW)).detail


def test_a_key_expires_to_the_moment() -> None:
    key, _ = made()
    end = NOW + timedelta(days=90)
    found = row(key, expires_at=end)
    assert keys.caller_of(key, found, end - timedelta(microseconds=1)).key_id == key.id
    assert refusal(key, found, end).code is Code.UNAUTHENTICATED


def test_a_key_of_a_disabled_namespace_is_known_and_forbidden() -> None:
    key, _ = made()
    found = row(key)
    assert refusal(key, KeyRow(found.info, found.digest, NOW)).code is Code.FORBIDDEN


def test_a_missing_scope_is_named() -> None:
    caller = Caller(scopes=frozenset({"read"}))
    keys.allow(caller, "read")
    with pytest.raises(CoatcheckError) as caught:
        keys.allow(caller, "delete")
    assert (caught.value.code, caught.value.extra) == (Code.FORBIDDEN, {"scope": "delete"})
    assert "'delete'" in caught.value.detail


GOOD = {"namespace": "acme", "name": "ci", "scopes": ("read",), "session_prefix": None}


@pytest.mark.parametrize(
    "terms",
    [
        {},
        {"scopes": tuple(EVERY_SCOPE)},
        {"session_prefix": "user 1/ü"},
        {"namespace": "*", "scopes": ("admin",)},
        {"namespace": "0_a-" + "b" * 59},
    ],
    ids=["plain", "every scope", "prefix", "everywhere", "longest name"],
)
def test_what_a_key_can_hold(terms: dict[str, object]) -> None:
    keys.check_terms(**GOOD | terms)  # pyright: ignore[reportArgumentType] - the fields of a key


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"scopes": ()}, "scopes"),
        ({"scopes": ("read", "write")}, "scopes"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"session_prefix": ""}, "session_prefix"),
        ({"session_prefix": "a\0"}, "session_prefix"),
        ({"session_prefix": "x", "scopes": ("admin",)}, "scopes"),
        ({"namespace": "*", "scopes": ("admin", "read")}, "scopes"),
        ({"namespace": ""}, "namespace"),
        ({"namespace": "Acme"}, "namespace"),
        ({"namespace": "a/b"}, "namespace"),
        ({"namespace": "a" * 64}, "namespace"),
        ({"namespace": "-a"}, "namespace"),
    ],
)
def test_what_no_key_can_hold(terms: dict[str, object], field: str) -> None:
    with pytest.raises(CoatcheckError) as caught:
        keys.check_terms(**GOOD | terms)  # pyright: ignore[reportArgumentType] - the fields of a key
    assert (caught.value.code, caught.value.extra) == (Code.INVALID_REQUEST, {"field": field})


LOCAL = Caller()
ONE = Caller("acme", "admin", EVERY_SCOPE, None, "k1")
ALL = Caller("*", "root", frozenset({"admin"}), None, "k2")


@pytest.mark.parametrize(
    ("caller", "named", "space"),
    [
        (LOCAL, None, "default"),
        (LOCAL, "other", "other"),
        (ONE, None, "acme"),
        (ONE, "acme", "acme"),
        (ONE, "other", Code.FORBIDDEN),
        (ONE, "*", Code.FORBIDDEN),
        (ALL, "acme", "acme"),
        (ALL, "*", "*"),
        (ALL, None, Code.INVALID_REQUEST),
    ],
    ids=lambda part: part.name if isinstance(part, Caller) else str(part),
)
def test_which_namespace_an_administrators_request_is_about(
    caller: Caller, named: str | None, space: str | Code
) -> None:
    if not isinstance(space, Code):
        assert keys.resolve_administered(caller, named) == space
        return
    with pytest.raises(CoatcheckError) as caught:
        keys.resolve_administered(caller, named)
    assert caught.value.code is space


def test_only_who_administers_all_namespaces_is_everywhere() -> None:
    assert [keys.is_everywhere(caller) for caller in (LOCAL, ONE, ALL)] == [True, False, True]


@given(st.text(max_size=8), st.text(max_size=8) | st.none())
def test_a_caller_bound_to_a_prefix_sees_the_sessions_that_begin_with_it_and_nothing_else(
    prefix: str, session: str | None
) -> None:
    caller = Caller(session_prefix=prefix)
    assert caller.sees(session) is (session is not None and session[: len(prefix)] == prefix)
    assert Caller().sees(session)


def test_a_key_in_a_text_is_hidden_and_so_is_the_rest_of_one_and_nothing_else_is() -> None:
    _, secret = keys.make(bytes(8), bytes(32))
    whole = secret.reveal()
    for text in (whole, whole[:30], whole[:9], f"{whole}x"):
        assert keys.hide(f"the key {text!r} is wrong") == "the key 'ck_live_***' is wrong"
    for text in ("ck_live_", "Present one as `Authorization: Bearer ck_live_…`.", "ck_live_***", "nothing"):
        assert keys.hide(text) == text
