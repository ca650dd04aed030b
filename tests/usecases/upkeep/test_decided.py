"""What administrators have decided is kept to by ingest, changes, deletes and reads; and by what upkeep does."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from coatcheck.core import ids
from coatcheck.core.artifact import Caller, Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.policy import Policy, PolicyScope
from coatcheck.core.policies.quota import Usage
from coatcheck.ports.decisions import Decisions
from coatcheck.storing.evict import Evict
from coatcheck.storing.find import Find
from coatcheck.storing.ingest_request import Receipt
from coatcheck.storing.ledger import NoteReads
from coatcheck.storing.policies import Policies
from coatcheck.usecases.retention.administer_holds import Holds
from coatcheck.usecases.tenants.show_usage import EmptyNamespace, EmptyRound
from support.clock import START
from support.harness import CALLER, TOMBSTONE_LIFE, Harness
from support.refusals import code_of, refusal
from support.samples import given, lines, noise

DAY = 86_400


class Office:
    """A house with administrators."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        decisions: Decisions = harness.catalog
        self.policies = Policies(decisions, harness.clock)
        note = NoteReads(harness.catalog, harness.reads)
        self.make_room = Evict(harness.catalog, harness.clock, self.policies, note, tombstone_life=TOMBSTONE_LIFE)
        self.find = Find(harness.catalog, harness.clock, harness.reads, harness.fallback, self.policies.evicts)
        self.extend = replace(harness.extend, rules=self.policies.now)
        self.forget = replace(harness.forget, policies=self.policies)
        self.forget_session = replace(harness.forget_session, policies=self.policies)
        self.holds = Holds(
            decisions, harness.clock, lambda count: bytes(range(count)), harness.session_names, harness.fallback
        )
        self.empty = EmptyNamespace(decisions, harness.clock, self.policies, tombstone_life=TOMBSTONE_LIFE)

    async def decide(self, policy: Policy, **part: str) -> None:
        scope = PolicyScope("default", *next(iter(part.items()))) if part else PolicyScope("default")  # pyright: ignore[reportArgumentType]
        await self.policies.set(CALLER, scope, policy)

    async def put(self, payload: bytes | AsyncIterator[bytes], **asked: Any) -> Receipt:  # noqa: ANN401 - as the house
        settings = {"rules": self.policies.now, "rooms": self.make_room}
        return await self.harness.put(payload, settings=settings, **asked)

    async def usage(self) -> Usage:
        return await self.harness.catalog.usage_of("default")


@pytest.fixture
def office(harness: Harness) -> Office:
    return Office(harness)


async def test_a_receipt_tells_the_expiry_that_the_policy_gives(office: Office) -> None:
    await office.decide(Policy(ttl=DAY, idle_ttl=3600), kind="json")
    await office.decide(Policy(max_ttl=7 * DAY))
    default = await office.put(b"plain text\n")
    assert default.expires_at == START + timedelta(days=7)
    by_kind = await office.put(b'{"a": [1, 2, 3]}\n')
    assert by_kind.expires_at == START + timedelta(hours=1)
    asked = await office.put(b"asked\n", ttl=60)
    assert (asked.expires_at, asked.warnings) == (START + timedelta(minutes=1), ())
    for ttl in (30 * DAY, None):
        cut = await office.put(b"cut %d\n" % (ttl or 0), ttl=ttl)
        assert cut.expires_at == START + timedelta(days=7)
        assert [warning.code for warning in cut.warnings] == ["ttl_capped"]
    pinned = await office.put(b"pinned\n", pinned=True)
    assert pinned.expires_at is None


async def test_a_longer_life_is_cut_to_the_longest_when_it_is_changed(office: Office) -> None:
    await office.decide(Policy(max_ttl=DAY), session="short")
    receipt = await office.put(b"x\n", said={"session": "short"})
    other = await office.put(b"y\n", said={"session": "long"})
    assert (await office.extend(CALLER, ids.parse(receipt.id), ttl=9 * DAY)).ttl == DAY
    assert (await office.extend(CALLER, ids.parse(receipt.id), ttl=None)).ttl == DAY
    assert (await office.extend(CALLER, ids.parse(other.id), ttl=9 * DAY)).ttl == 9 * DAY


@pytest.mark.parametrize(
    ("stored", "asked", "kept"),
    [
        (90 * DAY, 120 * DAY, 90 * DAY),
        (90 * DAY, None, 90 * DAY),
        (90 * DAY, 60 * DAY, 60 * DAY),
        (None, 120 * DAY, 120 * DAY),
        (None, None, None),
        (45 * DAY, 120 * DAY, 50 * DAY),
    ],
)
async def test_a_longest_life_that_is_younger_than_an_artifact_does_not_end_it(
    office: Office, stored: int | None, asked: int | None, kept: int | None
) -> None:
    number = ids.parse((await office.put(b"x\n", ttl=stored)).id)
    office.harness.clock.forward(days=40)
    await office.decide(Policy(max_ttl=50 * DAY if stored == 45 * DAY else 30 * DAY))
    changed = await office.extend(CALLER, number, ttl=asked)
    expires_at = None if kept is None else START + timedelta(seconds=kept)
    assert (changed.ttl, changed.expires_at) == (kept, expires_at)
    assert (await office.extend(CALLER, number, labels=("still here",))).expires_at == expires_at


async def test_cards_and_inline_answers_take_the_policys_sizes_where_the_caller_names_none(office: Office) -> None:
    text = lines(20_000)
    await office.decide(Policy(card_tokens=128, inline_tokens=0), label="small")
    small = await office.put(text, said={"labels": ("small",)})
    usual = await office.put(text + b"x\n")
    named = await office.put(text + b"y\n", said={"labels": ("small",)}, card_tokens=400)
    assert small.tokens <= 128 < usual.tokens
    assert named.tokens > 128
    assert not (await office.put(b"a short text\n", said={"labels": ("small",)})).inline


async def test_what_no_policy_would_take_is_refused_before_it_is_read_to_its_end(office: Office) -> None:
    await office.decide(Policy(max_artifact_bytes=100_000))
    await office.decide(Policy(max_artifact_bytes=1_000), kind="text")
    read: list[str] = []
    payload = given([noise(60_000), noise(60_000), lambda: read.append("the rest")])
    assert await code_of(office.put(payload)) is Code.PAYLOAD_TOO_LARGE
    assert read == []
    assert await code_of(office.put(b"word " * 300)) is Code.PAYLOAD_TOO_LARGE
    assert (await office.put(noise(50_000))).stored
    assert office.harness.count("artifacts") == 1
    assert (await office.usage()).reserved == 0


@pytest.mark.parametrize("scope", ["session", "tool", "label", "kind"])
async def test_both_ends_are_kept_of_what_is_over_the_limit_of_any_policy(office: Office, scope: str) -> None:
    await office.decide(Policy(max_artifact_bytes=1_000), **{scope: "text" if scope == "kind" else "small"})
    declared: dict[str, Any] = {
        "session": {"session": "small"},
        "tool": {"tool_name": "small"},
        "label": {"labels": ("small",)},
        "kind": {"kind": Kind.TEXT},
    }[scope]
    payload = b"word " * 900
    kept = await office.put(payload, said=declared, keep_ends=True)
    assert kept.stored
    assert kept.card.size <= 1_000
    assert kept.card.dropped == len(payload) - kept.card.size
    assert await code_of(office.put(payload, said=declared)) is Code.PAYLOAD_TOO_LARGE
    if scope == "kind":
        error = await refusal(office.put(payload, keep_ends=True))
        assert "declare kind=text" in error.detail


async def test_a_full_namespace_refuses_what_is_new_and_loses_nothing(office: Office) -> None:
    first = noise(40_000)
    await office.decide(Policy(max_bytes=60_000))
    kept = await office.put(first)
    before = await office.usage()
    for payload in (noise(50_000, 2), noise(25_000, 3)):
        error = await refusal(office.put(payload))
        assert error.code is Code.QUOTA_EXCEEDED
        assert error.extra["max_bytes"] == 60_000
    assert await office.usage() == before
    assert (await office.put(first)).created is False
    assert await office.harness.content(kept.id) == first
    await office.harness.rest()
    assert office.harness.count("uploads") == 0
    assert len(office.harness.stored_files()) == 1


async def test_a_full_namespace_lets_go_of_what_was_read_longest_ago(office: Office) -> None:
    await office.decide(Policy(max_bytes=100_000, evict="least_recently_read"))
    read, old, pinned = [await office.put(noise(25_000, at), pinned=at == 3) for at in (1, 2, 3)]
    office.harness.clock.forward(timedelta(minutes=5))
    await office.find(CALLER, ids.parse(read.id))
    new = await office.put(noise(45_000, 4))
    assert await code_of(office.find(CALLER, ids.parse(old.id))) is Code.ARTIFACT_GONE
    for receipt in (read, pinned, new):
        await office.find(CALLER, ids.parse(receipt.id))
    assert await code_of(office.put(noise(110_000, 5))) is Code.QUOTA_EXCEEDED
    assert (await office.usage()).artifacts == 3


@pytest.mark.parametrize(("most", "said"), [(1, "it holds 1 artifact of at most 1."), (2, "it holds 2 artifacts of")])
async def test_a_full_namespace_says_how_many_it_holds(office: Office, most: int, said: str) -> None:
    await office.decide(Policy(max_artifacts=most))
    for at in range(most):
        await office.put(noise(1_000, at))
    with pytest.raises(CoatcheckError, match=said):
        await office.put(noise(1_000, most))


async def test_a_lowered_limit_is_made_true_by_upkeep_where_the_policy_evicts(office: Office) -> None:
    for at in range(4):
        await office.put(noise(1_000, at))
    await office.decide(Policy(max_artifacts=3))
    assert await office.make_room.relieve_all(office.harness.catalog) == 0
    await office.decide(Policy(max_artifacts=3, evict="least_recently_read"))
    assert await office.make_room.relieve_all(office.harness.catalog) == 1
    assert (await office.usage()).artifacts == 3


async def test_an_upload_that_ends_badly_gives_its_room_back(office: Office) -> None:
    await office.decide(Policy(max_bytes=10_000_000))

    def broken() -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await office.put(given([noise(1_200_000), broken]))
    assert await office.usage() == Usage(namespace="default")


async def test_repeats_take_no_room_from_what_is_new_in_the_same_transaction(office: Office) -> None:
    await office.decide(Policy(max_artifacts=2))
    await office.put(b"first\n")
    # All of these arrive at once, so that they share transactions.
    posted = await asyncio.gather(*(office.put(b"first\n") for _ in range(6)), office.put(b"second\n"))
    assert [receipt.created for receipt in posted] == [False] * 6 + [True]
    await office.decide(Policy(max_artifacts=3))
    alike = await asyncio.gather(*(office.put(b"third\n") for _ in range(6)))
    assert sum(receipt.created for receipt in alike) == 1
    refused = await asyncio.gather(*(code_of(office.put(b"%d\n" % at)) for at in range(6)))
    assert set(refused) == {Code.QUOTA_EXCEEDED}
    assert (await office.usage()).artifacts == office.harness.count("artifacts") == 3


async def test_a_held_artifact_is_not_deleted_and_the_refusal_names_the_hold(office: Office) -> None:
    receipt = await office.put(b"evidence\n", said={"session": "s"})
    other = await office.put(b"other\n", said={"session": "s"})
    hold = await office.holds.place(CALLER, None, reason="case 7", number=ids.parse(receipt.id))
    error = await refusal(office.forget(CALLER, ids.parse(receipt.id)))
    assert (error.code, error.extra) == (Code.HELD, {"holds": hold.id})
    error = await refusal(office.forget_session(CALLER, "s"))
    assert (error.code, error.extra) == (Code.HELD, {"holds": hold.id, "deleted": 1})
    assert await code_of(office.find(CALLER, ids.parse(other.id))) is Code.ARTIFACT_GONE
    await office.holds.release(CALLER, hold.id)
    await office.forget(CALLER, ids.parse(receipt.id))


async def test_only_who_administers_brings_back_what_a_hold_has_kept(office: Office) -> None:
    receipt = await office.put(b"evidence\n", ttl=60)
    await office.holds.place(CALLER, None, reason="case 7", number=ids.parse(receipt.id))
    office.harness.clock.forward(timedelta(hours=1))
    await office.harness.tidy()()
    plain = Caller(scopes=frozenset({"delete", "read"}))
    for caller in (plain, CALLER):
        assert await code_of(office.find(caller, ids.parse(receipt.id))) is Code.ARTIFACT_GONE
    assert await code_of(office.extend(plain, ids.parse(receipt.id), pinned=True)) is Code.ARTIFACT_GONE
    await office.extend(CALLER, ids.parse(receipt.id), ttl=DAY)
    assert await office.harness.content(receipt.id) == b"evidence\n"


async def test_tombstones_last_as_long_as_the_policy_says(office: Office) -> None:
    await office.decide(Policy(tombstone_ttl=60))
    receipt = await office.put(b"x\n")
    await office.forget(CALLER, ids.parse(receipt.id))
    assert await code_of(office.find(CALLER, ids.parse(receipt.id))) is Code.ARTIFACT_GONE
    office.harness.clock.forward(timedelta(minutes=1))
    assert await code_of(office.find(CALLER, ids.parse(receipt.id))) is Code.ARTIFACT_NOT_FOUND


async def test_a_namespace_goes_in_batches_around_what_is_held_and_can_be_used_again(office: Office) -> None:
    held = await office.put(b"evidence\n")
    for at in range(3):
        await office.put(b"%d\n" % at)
    hold = await office.holds.place(CALLER, None, reason="case 7", number=ids.parse(held.id))
    begun = await office.empty.begin(CALLER, "default")
    assert begun.deleting_at == START
    assert await office.empty() == EmptyRound(artifacts=3)
    assert await code_of(office.put(b"new\n")) is Code.NAMESPACE_DELETING
    await office.find(CALLER, ids.parse(held.id))
    await office.holds.release(CALLER, hold.id)
    assert await office.empty() == EmptyRound(artifacts=1, namespaces=1)
    assert await office.empty() == EmptyRound()
    assert (await office.put(b"new\n")).created


async def test_a_held_namespace_is_not_begun_to_be_deleted(office: Office) -> None:
    receipt = await office.put(b"x\n")
    await office.holds.place(CALLER, None, reason="case 7")
    assert await code_of(office.empty.begin(CALLER, "default")) is Code.HELD
    assert await code_of(office.empty.begin(CALLER, "nobody")) is Code.NAMESPACE_NOT_FOUND
    await office.find(CALLER, ids.parse(receipt.id))


async def test_another_process_learns_of_a_policy_when_it_asks(office: Office) -> None:
    other = Policies(office.harness.catalog, office.harness.clock)
    await office.decide(Policy(ttl=60))
    assert office.policies.effective("default") == Policy(ttl=60)
    assert other.effective("default") == Policy()
    await other.refresh()
    assert other.effective("default") == Policy(ttl=60)
    await office.policies.remove(CALLER, PolicyScope("default"))
    await other.refresh()
    assert other.effective("default") == office.policies.effective("default") == Policy()


async def test_who_administers_one_namespace_decides_nothing_for_others(office: Office) -> None:
    mine = Caller(namespace="acme", key_id="0123456789A")
    assert await code_of(office.policies.set(mine, PolicyScope("default"), Policy(ttl=60))) is Code.FORBIDDEN
    assert await code_of(office.policies.set(mine, PolicyScope("*"), Policy(ttl=60))) is Code.FORBIDDEN
    assert await code_of(office.policies.remove(mine, PolicyScope("default"))) is Code.FORBIDDEN
    assert await code_of(office.holds.place(mine, "default", reason="x")) is Code.FORBIDDEN
    assert await code_of(office.empty.begin(mine, "acme")) is Code.FORBIDDEN
    hold = await office.holds.place(CALLER, None, reason="case 7")
    assert await code_of(office.holds.release(mine, hold.id)) is Code.HOLD_NOT_FOUND
    await office.policies.set(CALLER, PolicyScope("*"), Policy(ttl=60))
    await office.policies.set(CALLER, PolicyScope("default"), Policy(ttl=70))
    await office.policies.set(mine, PolicyScope("acme"), Policy(ttl=80))
    assert [scope for scope, _ in (await office.policies.current(mine, None))[1]] == [
        PolicyScope("*"),
        PolicyScope("acme"),
    ]
