"""Payloads that find every slot taken: a card all the same, nothing stored, nothing secret shown."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from coatcheck.adapters.redaction_rules import Masks
from coatcheck.core.artifact import SAMPLE_BYTES, Caller, DeclaredMetadata
from coatcheck.core.errors import Code
from coatcheck.core.policies.policy import Redaction
from coatcheck.runtime.concurrency_limiter import ConcurrencyLimiter, Sender
from coatcheck.storing.ingest_deps import IngestLimiters
from coatcheck.storing.ingest_request import IngestRequest, Receipt
from coatcheck.storing.redaction import RedactionPolicy
from support.harness import CALLER, Harness
from support.refusals import code_of, refusal
from support.samples import given, lines, stream

SMALL = b"a few lines\nof what a tool said\n"
LARGE = b"the first line\n" + lines(3_000_000) + b"\nERROR: the last line says what failed\n"
SECRET = b"ghp_4tQ9xWz7KpL2mN8vB3cR6yH1dF5sJ0aGu2Ei"
PAGE = b"<html><title>A page</title><body>" + b"<p>Something to read on a page.</p>" * 1_000 + b"</body></html>"
OVERLOADED = ["overloaded"]


@contextlib.asynccontextmanager
async def holding(*limiters: ConcurrencyLimiter, slots: int = 2) -> AsyncGenerator[None]:
    """Hold so many slots of each, for callers of their own."""
    with contextlib.ExitStack() as stack:
        for limiter in limiters:
            for number in range(slots):
                stack.enter_context(await limiter.acquire(str(number)))
        yield


class Busy:
    """The use case, with limiters that nobody waits for long."""

    def __init__(self, harness: Harness, **settings: Any) -> None:  # noqa: ANN401 - settings
        self.harness = harness
        self.limiters = IngestLimiters(2, 2, 0.01)
        self.settings = {"limiters": self.limiters, **settings}

    async def put(self, payload: bytes, **offer: Any) -> Receipt:  # noqa: ANN401 - fields of an IngestRequest
        """Hand a payload over while all slots are held."""
        async with holding(self.limiters.payloads, self.limiters.uploads):
            return await self.put_now(payload, **offer)

    async def put_now(self, payload: bytes, **offer: Any) -> Receipt:  # noqa: ANN401 - as above
        return await self.harness.put(payload, settings=self.settings, **offer)

    def is_idle(self) -> bool:
        return not (self.limiters.running or self.limiters.waiting or self.limiters.cards.running)


def codes(receipt: Receipt) -> list[str]:
    return [notice.code for notice in receipt.warnings]


async def test_a_small_payload_is_answered_whole_and_not_stored(harness: Harness) -> None:
    busy = Busy(harness)
    receipt = await busy.put(SMALL)
    assert (receipt.stored, receipt.inline, receipt.text, codes(receipt)) == (
        False,
        True,
        SMALL.decode(),
        OVERLOADED,
    )
    assert receipt.expires_at is None
    assert (harness.is_empty(), harness.fallback.count, busy.is_idle()) == (True, 0, True)
    again = await busy.put_now(SMALL)  # control: with a free slot it is stored, under the ID that the receipt names
    assert (again.stored, again.created, again.id, codes(again)) == (True, True, receipt.id, [])


async def test_of_a_large_payload_the_card_has_both_ends_and_true_sizes(harness: Harness) -> None:
    busy = Busy(harness)
    receipt = await busy.put(LARGE)
    assert (receipt.stored, receipt.inline, codes(receipt), receipt.card.next) == (False, False, OVERLOADED, None)
    count = LARGE.count(b"\n")
    first = receipt.text.split("\n")[0]
    assert f"{count} lines" in first
    assert "NOT STORED" in first
    assert "the first line\n" in receipt.text
    assert receipt.card.excerpts[-1].lines.last == count
    assert "ERROR: the last line says what failed" in receipt.text
    assert "the middle was counted, but not looked at" in receipt.text
    assert "cannot be read back" in receipt.text.split("\n")[-1]
    assert (receipt.card.size, receipt.card.lines, receipt.card.dropped) == (len(LARGE), count, 0)
    shown = sum(each.bytes.end - each.bytes.start for each in receipt.card.excerpts)
    assert shown + sum(each.bytes.end - each.bytes.start for each in receipt.card.omitted) == len(LARGE)
    assert (harness.is_empty(), harness.fallback.count) == (True, 0)
    assert await code_of(harness.content(receipt.id)) is Code.ARTIFACT_NOT_FOUND
    again = await busy.put_now(LARGE)
    assert (again.stored, again.id, "not looked at" in again.text) == (True, receipt.id, False)


@pytest.mark.parametrize("budget", [64, 100, 300])
async def test_the_card_keeps_to_its_budget_and_says_that_it_is_not_stored(harness: Harness, budget: int) -> None:
    receipt = await Busy(harness).put(LARGE, card_tokens=budget)
    assert receipt.tokens == harness.tokenizer.count(receipt.text) <= budget
    assert "NOT STORED" in receipt.text.split("\n")[0]
    assert "left out" in receipt.text.split("\n")[-1]


async def test_a_payload_that_is_stored_already_is_not_said_to_be_lost(harness: Harness) -> None:
    busy = Busy(harness)
    for payload in (SMALL, LARGE):
        first = await busy.put_now(payload)
        receipt = await busy.put(payload, key="a key")
        assert (receipt.stored, receipt.created, receipt.id, codes(receipt)) == (True, False, first.id, [])


async def test_an_idempotency_key_is_not_used_up_by_an_answer_that_stored_nothing(harness: Harness) -> None:
    busy = Busy(harness)
    assert not (await busy.put(SMALL, key="a key")).stored
    stored = await busy.put_now(SMALL, key="a key")
    assert (stored.stored, stored.created, stored.replayed) == (True, True, False)
    assert (await busy.put_now(SMALL, key="a key")).replayed  # control: now it is
    assert await code_of(busy.put_now(LARGE, key="a key")) is Code.IDEMPOTENCY_KEY_REUSED


async def test_limits_hold_as_ever(harness: Harness) -> None:
    busy = Busy(harness, payload_limit=1_000_000)
    assert await code_of(busy.put(LARGE)) is Code.PAYLOAD_TOO_LARGE
    assert await code_of(busy.put(SMALL, idle_ttl=1)) is Code.INVALID_REQUEST
    kept = await busy.put(LARGE, keep_ends=True)
    assert (kept.stored, kept.card.size + kept.card.dropped, kept.card.size) == (False, len(LARGE), 1_000_000)
    assert sorted(codes(kept)) == ["middle_dropped", "overloaded"]
    assert (harness.is_empty(), busy.is_idle()) == (True, True)


async def test_beyond_the_slots_for_cards_a_payload_is_refused(harness: Harness) -> None:
    busy = Busy(harness)
    cards = busy.limiters.cards = ConcurrencyLimiter("cards", 1, 0)
    async with holding(cards, slots=1):
        error = await refusal(busy.put(SMALL))
    assert (error.code, "cards are under way" in error.detail, cards.refused) == (Code.OVERLOADED, True, 1)
    assert not (await busy.put(SMALL)).stored  # control
    assert (cards.granted_count, busy.is_idle()) == (2, True)


async def test_a_source_that_fails_leaves_no_slot_held(harness: Harness) -> None:
    busy = Busy(harness)

    def fail() -> None:
        raise ConnectionError("The sender left.")

    for size in (10, SAMPLE_BYTES):
        source = given([b"x" * size, fail, b"more"])
        with pytest.raises(ConnectionError):
            await harness.put(source, settings=busy.settings)
        async with holding(busy.limiters.payloads, busy.limiters.uploads):
            with pytest.raises(ConnectionError):
                await harness.put(given([b"x" * size, fail, b"more"]), settings=busy.settings)
    assert (busy.is_idle(), harness.is_empty()) == (True, True)


PLACES = {
    "in its beginning": 100,
    "across the end of its first sample": SAMPLE_BYTES - 20,
    "between its ends": 1_500_000,
    "across the beginning of its last sample": len(LARGE) - SAMPLE_BYTES - 20,
    "in its end": len(LARGE) - 200,
}


def planted(place: int) -> bytes:
    return LARGE[:place] + b"\ntoken: " + SECRET + b"\n" + LARGE[place:]


def redacting(harness: Harness, mode: Redaction) -> RedactionPolicy:
    return RedactionPolicy(mode, Masks(), harness.pool)


@pytest.mark.parametrize("mode", ["shown", "stored"])
async def test_no_secret_is_shown_wherever_it_is(harness: Harness, mode: Redaction) -> None:
    busy = Busy(harness, redacting=redacting(harness, mode))
    for place in PLACES.values():
        receipt = await busy.put(planted(place), card_tokens=8_000, query="token")
        assert not receipt.stored
        assert not any(SECRET.decode()[at : at + 8] in receipt.text for at in range(4, len(SECRET) - 8))
    small = await busy.put(SMALL + b"token: " + SECRET)
    assert (small.stored, SECRET.decode()[:12] in small.text, "a few lines" in small.text) == (False, False, True)
    for place in (PLACES["in its beginning"], PLACES["in its end"]):
        plain = await Busy(harness, redacting=redacting(harness, "off")).put(
            planted(place), card_tokens=8_000, query="token"
        )
        assert SECRET.decode() in plain.text  # control


async def test_a_policy_that_refuses_secrets_refuses_them_anywhere(harness: Harness) -> None:
    busy = Busy(harness, redacting=redacting(harness, "refuse"))
    for place in PLACES.values():
        assert await code_of(busy.put(planted(place))) is Code.SECRET_REFUSED
    assert await code_of(busy.put(SMALL + b"token: " + SECRET)) is Code.SECRET_REFUSED
    assert codes(await busy.put(LARGE)) == OVERLOADED  # control
    assert busy.is_idle()


async def test_a_page_is_recognised_as_ever(harness: Harness) -> None:
    receipt = await Busy(harness).put(PAGE)
    assert (receipt.stored, receipt.card.kind, receipt.card.title) == (False, "web_page", "A page")


@pytest.mark.parametrize(
    ("holder", "same", "other"),
    [
        ("key1", Caller(key_id="key1", address="10.0.0.1"), Caller(key_id="key2", address="10.0.0.1")),
        ("10.0.0.1", Caller(address="10.0.0.1"), Caller(address="10.0.0.2")),
    ],
    ids=["key", "address"],
)
async def test_uploads_of_one_key_or_address_leave_slots_to_others(
    harness: Harness, holder: str, same: Caller, other: Caller
) -> None:
    busy = Busy(harness)
    asked = IngestRequest(declared=DeclaredMetadata(session="one for all"))

    async def upload(caller: Caller) -> Receipt:
        ingest = harness.ingest(**busy.settings)
        return await ingest(caller, stream(LARGE), asked, sender=Sender())

    with await busy.limiters.uploads.acquire(holder):
        assert not (await upload(same)).stored  # half of two slots is one
        assert (await upload(other)).stored


async def test_on_one_machine_uploads_of_one_session_leave_slots_to_others(harness: Harness) -> None:
    busy = Busy(harness)
    stored = list[bool]()
    with await busy.limiters.uploads.acquire("first"):
        for session in ("first", "second", None):
            asked = IngestRequest(declared=DeclaredMetadata(session=session))
            ingest = harness.ingest(**busy.settings)
            receipt = await ingest(CALLER, stream(LARGE), asked, sender=Sender())
            stored.append(receipt.stored)
    assert stored == [False, True, True]
