"""What holds for a payload: the most specific scope decides, field by field, and nothing else does."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from coatcheck.core.errors import CoatcheckError
from coatcheck.core.policies.policy import (
    EVERYWHERE,
    FIELDS,
    NO_RULES,
    NOTHING,
    PARTS,
    Policy,
    PolicyScope,
    PolicySource,
    RetentionTerms,
    Rules,
    check,
    decisions,
    decode,
    encode,
    resolve_terms,
)
from coatcheck.core.policies.policy import Part as PartName

VALUES: dict[PartName, list[str]] = {
    "session": ["s", "t"],
    "kind": ["log", "json"],
    "tool": ["bash", "grep"],
    "label": ["x", "y", "z"],
}
Wish = int | None | UnsetType
SECONDS = st.sampled_from([None, 60, 3600, 86400])
PARTS_AND_WHOLE: tuple[PartName | None, ...] = (None, *PARTS)


FIELD_VALUES: dict[str, list[Any]] = {
    "ttl": [None, 60, 3600],
    "max_ttl": [None, 60, 3600],
    "max_artifact_bytes": [None, 10, 1000],
    "card_tokens": [64, 100, "auto"],
    "evict": ["off", "least_recently_read"],
}


def random_scope(rng: random.Random) -> PolicyScope:
    space, part = rng.choice(["acme", "other", EVERYWHERE]), rng.choice(PARTS_AND_WHOLE)
    return PolicyScope(space) if part is None else PolicyScope(space, part, rng.choice(VALUES[part]))


def random_policy(rng: random.Random) -> Policy:
    chosen = rng.sample(sorted(FIELD_VALUES), rng.randrange(1, 4))
    return Policy(**{name: rng.choice(FIELD_VALUES[name]) for name in chosen})


def random_rules(rng: random.Random) -> dict[PolicyScope, Policy]:
    return {random_scope(rng): random_policy(rng) for _ in range(rng.randrange(9))}


def random_payload(rng: random.Random) -> dict[str, Any]:
    return {
        "session": rng.choice([None, "s", "t"]),
        "kind": rng.choice([None, "log", "json"]),
        "tool_name": rng.choice([None, "bash", "grep"]),
        "labels": tuple(rng.choices("xyz", k=rng.randrange(4))),
    }


def matches(scope: PolicyScope, namespace: str, about: dict[str, Any]) -> bool:
    """Whether a payload is in a scope, by the words of the documentation."""
    if scope.namespace not in {namespace, EVERYWHERE}:
        return False
    named = {"session": about["session"], "kind": about["kind"], "tool": about["tool_name"]}
    if scope.part is None:
        return True
    return scope.value in about["labels"] if scope.part == "label" else named[scope.part] == scope.value


def rank(scope: PolicyScope) -> tuple[Any, ...]:
    """The more specific, the higher; of labels the first in the order of characters is the highest."""
    label = -ord(scope.value) if scope.part == "label" else 0
    return PARTS_AND_WHOLE.index(scope.part), scope.namespace != EVERYWHERE, label


@pytest.mark.parametrize("seed", range(10))
def test_each_field_is_decided_by_the_most_specific_scope_that_says_it(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        compare(random_rules(rng), rng.choice(["acme", "other"]), random_payload(rng))


def compare(rules: dict[PolicyScope, Policy], namespace: str, about: dict[str, Any]) -> None:
    """The rules against the words of the documentation."""
    inside = sorted((scope for scope in rules if matches(scope, namespace, about)), key=rank)
    expected: dict[str, PolicySource] = {}
    for scope in inside:
        expected |= {name: PolicySource(scope, value) for name, value in decisions(rules[scope]).items()}
    made = Rules(rules)
    assert made.explain(namespace, **about) == expected
    merged: dict[str, Any] = {name: source.value for name, source in expected.items()}
    assert made.effective(namespace, **about) == Policy(**merged)


def test_no_payload_is_allowed_more_bytes_than_the_ceiling_that_is_told_before() -> None:
    rng = random.Random(20260301)
    told = 0
    for _ in range(2000):
        made = Rules(random_rules(rng))
        ceiling = made.ceiling("acme")
        limit = made.effective("acme", **random_payload(rng)).max_artifact_bytes
        if ceiling is not None:
            told += 1
            assert isinstance(limit, int)
            assert limit <= ceiling
    assert told > 50


def test_a_policy_is_kept_as_it_is() -> None:
    rng = random.Random(20260301)
    for policy in [random_policy(rng) for _ in range(200)]:
        assert decode(encode(policy)) == policy


@given(
    st.sampled_from([UNSET, None, 60, 3600, 86400]),
    st.sampled_from([UNSET, None, 60, 3600]),
    SECONDS | st.just(UNSET),
    SECONDS | st.just(UNSET),
)
def test_nobody_gets_longer_than_the_longest_and_a_wish_within_it_is_met(
    wish: Wish, idle: Wish, ttl: Wish, longest: Wish
) -> None:
    got = resolve_terms(Policy(ttl=ttl, max_ttl=longest), ttl=wish, idle_ttl=idle, otherwise=7200)
    wanted = wish if wish is not UNSET else ttl if ttl is not UNSET else 7200
    most = None if longest is UNSET else longest
    fits = most is None or (wanted is not None and wanted <= most)
    assert got == RetentionTerms(
        wanted if fits else most, None if idle is UNSET else idle, is_capped=not fits and wish is not UNSET
    )


def test_without_policies_nothing_is_decided() -> None:
    assert NO_RULES.effective("acme", session="s", labels=("x",)) is NOTHING
    assert (bool(NO_RULES), NO_RULES.ceiling("acme"), NO_RULES.all()) == (False, None, [])


@pytest.mark.parametrize("field", ["max_bytes", "max_artifacts", "evict", "tombstone_ttl"])
def test_what_a_namespace_keeps_is_not_said_of_a_part_of_it(field: str) -> None:
    value: Any = "off" if field == "evict" else 60
    policy = Policy(**{field: value})
    check(PolicyScope("acme"), policy)
    with pytest.raises(CoatcheckError, match=f"'{field}' applies to a whole namespace"):
        check(PolicyScope("acme", "session", "s"), policy)


REFUSED: dict[str, tuple[PolicyScope, Policy]] = {
    "nothing decided": (PolicyScope("acme"), Policy()),
    "no namespace": (PolicyScope(""), Policy(ttl=60)),
    "a value without a part": (PolicyScope("acme", None, "x"), Policy(ttl=60)),
    "a part without a value": (PolicyScope("acme", "tool"), Policy(ttl=60)),
    "an unknown kind": (PolicyScope("acme", "kind", "novel"), Policy(ttl=60)),
    "a NUL": (PolicyScope("acme", "label", "a\0b"), Policy(ttl=60)),
    "an idle TTL that cannot be kept": (PolicyScope("acme"), Policy(idle_ttl=59)),
    "no time at all": (PolicyScope("acme"), Policy(ttl=0)),
    "more than ten years": (PolicyScope("acme"), Policy(max_ttl=10 * 365 * 86400 + 1)),
    "a card of no size": (PolicyScope("acme"), Policy(card_tokens=63)),
    "an address for a domain": (PolicyScope("acme"), Policy(search_excluded_domains=("https://e.org",))),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_could_not_be_kept_is_refused(why: str) -> None:
    with pytest.raises(CoatcheckError):
        check(*REFUSED[why])


def test_every_field_is_checked_or_has_few_values() -> None:
    assert set(FIELDS) == {
        "ttl",
        "idle_ttl",
        "max_ttl",
        "max_bytes",
        "max_artifacts",
        "max_artifact_bytes",
        "evict",
        "keep_card_text",
        "tombstone_ttl",
        "card_tokens",
        "inline_tokens",
        "search_enabled",
        "search_keep_summary",
        "search_max_searches",
        "search_max_searches_per_turn",
        "search_max_results",
        "search_max_tokens_per_result",
        "search_max_total_tokens",
        "search_allowed_domains",
        "search_excluded_domains",
        "redaction",
    }
