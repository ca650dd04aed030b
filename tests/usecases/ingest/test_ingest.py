"""Handing over: what is created, what is answered, where it lies, and what stays when it goes wrong."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from coatcheck.core import ids
from coatcheck.core.artifact import Caller
from coatcheck.core.encoding.payload_encoder import PayloadEncoder
from coatcheck.core.errors import Code
from coatcheck.storing.ingestion import KEY_LIFE
from support.clock import INSTANT
from support.harness import CALLER, LEASE, Harness, harness_in
from support.refusals import code_of
from support.samples import given, lines, noise, stream

BIG = noise(200_000)


async def test_the_first_is_created_and_the_same_again_is_not(harness: Harness) -> None:
    for payload in (b"", b"small\n", lines(40_000), BIG):
        first, again = await harness.put(payload), await harness.put(payload)
        assert (first.created, again.created) == (True, False)
        assert (again.id, again.text, again.tokens) == (first.id, first.text, first.tokens)
        assert again.card == first.card
        assert await harness.content(first.id) == payload
    assert harness.count("artifacts") == harness.count("blobs") == 4
    assert len(harness.stored_files()) == 1


@pytest.mark.parametrize("size", [5_000, 100_000])
async def test_the_last_declaration_counts_and_budget_and_query_follow_the_request(harness: Harness, size: int) -> None:
    payload = lines(size) + b"a needle in the hay\n" + lines(size, seed=2)
    first = await harness.put(payload, said={"title": "First", "tool_name": "bash"}, inline_tokens=0)
    second = await harness.put(payload, said={"title": "Second", "tool_name": "curl"}, inline_tokens=0, card_tokens=120)
    third = await harness.put(payload, said={"title": "Third"}, inline_tokens=0, query="needle")
    assert (second.id, third.id, second.created, third.created) == (first.id, first.id, False, False)
    assert ["First" in first.text, "Second" in second.text, "Third" in third.text] == [True] * 3
    # a brief card has no room for the tool's name, which the reader knows from its call
    tools = [receipt.card.tool_name for receipt in (first, second, third)]
    assert (tools, "Tool: bash" in first.text, "Tool" in third.text) == (["bash", "curl", None], True, False)
    assert second.tokens <= 120 < first.tokens
    assert "a needle in the hay" in third.text
    said = (await harness.find(CALLER, ids.parse(first.id))).artifact.declared
    assert (said.title, said.tool_name) == ("Third", None)


@pytest.mark.parametrize("size", [5_000, 100_000])
async def test_a_request_that_declares_nothing_is_answered_as_ever_and_leaves_the_last_word(
    harness: Harness, size: int
) -> None:
    payload = lines(size)
    bare = await harness.put(payload, inline_tokens=0)
    named = await harness.put(payload, said={"title": "Named", "command": "make"}, inline_tokens=0)
    again = await harness.put(payload, inline_tokens=0)
    assert again.text == bare.text != named.text
    described = await harness.describe()(CALLER, ids.parse(bare.id))
    assert described.text == named.text


@pytest.mark.parametrize("payload", [b"tiny\n", BIG], ids=["inline", "file"])
async def test_the_same_bytes_under_another_tool_call_are_another_artifact_on_one_blob(
    harness: Harness, payload: bytes
) -> None:
    one = await harness.put(payload, said={"tool_call_id": "a"})
    two = await harness.put(payload, said={"tool_call_id": "b"})
    assert one.id != two.id
    assert (one.created, two.created) == (True, True)
    assert harness.count("blobs", "dead_at IS NULL") == 1
    assert len(harness.stored_files()) == (payload is BIG)
    await harness.forget(CALLER, ids.parse(one.id))
    assert await harness.content(two.id) == payload


async def test_another_namespace_shares_neither_ids_nor_blobs(harness: Harness) -> None:
    other = Caller(namespace="other")
    mine, theirs = await harness.put(BIG), await harness.put(BIG, caller=other)
    assert mine.id != theirs.id
    assert harness.count("blobs") == len(harness.stored_files()) == 2
    assert await code_of(harness.find(other, ids.parse(mine.id))) is Code.ARTIFACT_NOT_FOUND


def _crowded(identity: bytes, probe: int) -> int:
    """Every identity wants the same first two numbers."""
    return ids.check_digits(probe + 1) if probe < 2 else ids.number(identity, probe)


async def test_an_id_that_had_to_be_probed_is_the_one_that_the_card_names(tmp_path: Path, template: Path) -> None:
    with harness_in(tmp_path, template, number=_crowded) as harness:
        receipts = [await harness.put(lines(3_000, seed), inline_tokens=0) for seed in range(4)]
        assert [r.id for r in receipts[:2]] == [ids.render(_crowded(b"", 0)), ids.render(_crowded(b"", 1))]
        assert len({r.id for r in receipts}) == 4
        for seed, receipt in enumerate(receipts):
            assert receipt.id in receipt.text
            assert receipt.card.id == receipt.id
            assert not any(other.id in receipt.text for other in receipts if other is not receipt)
            assert receipt.tokens == harness.tokenizer.count(receipt.text)
            assert await harness.content(receipt.id) == lines(3_000, seed)
            again = await harness.put(lines(3_000, seed), inline_tokens=0)
            assert (again.id, again.created, again.text) == (receipt.id, False, receipt.text)


async def test_a_payload_is_inline_up_to_the_tokens_asked_and_not_one_more(harness: Harness) -> None:
    payload = lines(4_000)
    count = harness.tokenizer.count(payload.decode())
    at = await harness.put(payload, inline_tokens=count)
    assert (at.inline, at.text, at.tokens) == (True, payload.decode(), count)
    over = await harness.put(payload, inline_tokens=count - 1)
    assert (over.inline, over.id) == (False, at.id)
    assert at.id in over.text
    by_default = await harness.put(payload, settings={"inline_tokens": count})
    assert by_default.inline
    assert not (await harness.put(payload, settings={"inline_tokens": count - 1})).inline


@pytest.mark.parametrize(
    "payload",
    [b"\x7fELF\x02\x01\x01" + bytes(57), b"cut \xe2\x82", b"\x89PNG\r\n\x1a\n" + bytes(40)],
    ids=["binary", "cut character", "image"],
)
async def test_what_is_not_text_is_never_inline_however_small(harness: Harness, payload: bytes) -> None:
    receipt = await harness.put(payload, inline_tokens=100_000)
    assert not receipt.inline
    assert receipt.id in receipt.text
    assert await harness.content(receipt.id) == payload


async def test_zero_inline_tokens_make_a_card_of_everything_even_of_nothing(harness: Harness) -> None:
    for payload in (b"", b"x"):
        assert (await harness.put(payload, inline_tokens=1)).inline
        receipt = await harness.put(payload, inline_tokens=0)
        assert not receipt.inline
        assert receipt.id in receipt.text


async def test_a_payload_that_lost_its_middle_is_never_inline_and_says_so(harness: Harness) -> None:
    settings = {"payload_limit": 100}
    receipt = await harness.put(lines(101), keep_ends=True, inline_tokens=100_000, settings=settings)
    assert not receipt.inline
    assert [w.code for w in receipt.warnings] == ["middle_dropped"]
    whole = await harness.put(lines(100), keep_ends=True, inline_tokens=100_000, settings=settings)
    assert (whole.inline, whole.warnings) == (True, ())


def _stored_size(harness: Harness, payload: bytes) -> int:
    intake = PayloadEncoder(harness.tokenizer)
    return len(intake.end(payload))


@pytest.mark.parametrize("size", [0, 10_000, 700_000])
async def test_stored_bytes_up_to_the_limit_live_in_the_catalogue_and_one_more_makes_a_file(
    harness: Harness, size: int
) -> None:
    payload = lines(size)
    limit = _stored_size(harness, payload)
    inline = await harness.put(payload, said={"session": "inline"}, settings={"inline_bytes": limit})
    assert harness.stored_files() == []
    assert harness.count("inline_bytes") == 1
    await harness.forget(CALLER, ids.parse(inline.id))
    filed = await harness.put(payload, said={"session": "file"}, settings={"inline_bytes": limit - 1})
    assert [p.stat().st_size for p in harness.stored_files()] == [limit]
    assert await harness.content(filed.id) == payload
    assert harness.count("uploads") == 0


@pytest.mark.parametrize("before", [0, 100, 600_000, 3_000_000])
async def test_a_source_that_fails_in_the_middle_leaves_nothing(harness: Harness, before: int) -> None:
    class Broken(Exception):  # noqa: N818 - the client's own
        pass

    async def source() -> AsyncIterator[bytes]:
        async for piece in stream(noise(before)):
            yield piece
        raise Broken

    with pytest.raises(Broken):
        await harness.put(source())
    assert harness.is_empty()
    assert (await harness.put(noise(before))).created


async def test_a_payload_over_the_limit_is_refused_and_leaves_nothing(harness: Harness) -> None:
    settings = {"payload_limit": 1_000_000}
    assert await code_of(harness.put(noise(1_000_001), settings=settings)) is Code.PAYLOAD_TOO_LARGE
    assert harness.is_empty()
    assert (await harness.put(noise(1_000_000), settings=settings)).created


async def test_a_slow_upload_renews_its_lease_as_long_as_bytes_arrive(harness: Harness) -> None:
    """Steps just under the lease, with the reaper in between."""
    seen: list[int] = []
    step = LEASE - INSTANT

    async def source() -> AsyncIterator[bytes]:
        for part in range(5):
            yield noise(512 * 1024, seed=part)
            yield noise(512 * 1024, seed=part + 10)
            harness.clock.forward(step)
            seen.append((await harness.tidy()()).reaped)

    receipt = await harness.put(source())
    assert seen == [0] * 5
    assert len(await harness.content(receipt.id)) == 10 * 512 * 1024


async def test_an_upload_that_was_reaped_is_fenced_and_leaves_nothing(harness: Harness) -> None:
    reaped: list[int] = []

    async def source() -> AsyncIterator[bytes]:
        yield noise(512 * 1024)
        yield noise(512 * 1024)
        yield b"."
        await harness.flowing()
        harness.clock.forward(LEASE + timedelta(seconds=1))
        reaped.append((await harness.tidy()()).reaped)
        yield b"the rest"

    assert await code_of(harness.put(source())) is Code.UPLOAD_FENCED
    assert reaped == [1]
    assert harness.stored_files() == []
    assert (harness.count("artifacts"), harness.count("uploads")) == (0, 0)
    harness.clock.forward(timedelta(hours=1))
    assert (await harness.tidy()()).removed == 1
    assert harness.is_empty()


async def test_an_upload_reaped_after_its_last_byte_is_fenced_by_its_commit(harness: Harness) -> None:
    """The renewal finds nothing to do; only the transaction notices."""

    async def source() -> AsyncIterator[bytes]:
        yield noise(512 * 1024)
        yield noise(512 * 1024)
        yield b"."
        await harness.written("uploads")
        with closing(sqlite3.connect(harness.root / "coatcheck.db")) as conn, conn:
            assert conn.execute("DELETE FROM uploads").rowcount == 1

    assert await code_of(harness.put(source())) is Code.UPLOAD_FENCED
    assert harness.is_empty()


@pytest.mark.parametrize("payload", [b"text\n", BIG], ids=["inline", "file"])
async def test_a_repeated_key_answers_what_it_answered_before(harness: Harness, payload: bytes) -> None:
    first = await harness.put(payload, key="k1")
    replay = await harness.put(payload, key="k1")
    assert first.created
    assert replay == msgspec.structs.replace(first, replayed=True)
    plain = await harness.put(payload, key="k2")
    assert not plain.created
    assert await harness.put(payload, key="k2") == msgspec.structs.replace(plain, replayed=True)
    assert (harness.count("artifacts"), harness.count("uploads")) == (1, 0)
    assert len(harness.stored_files()) == (payload is BIG)


@pytest.mark.parametrize("payload", [b"text\n", BIG], ids=["inline", "file"])
async def test_a_key_used_for_another_request_is_refused_and_leaves_nothing(harness: Harness, payload: bytes) -> None:
    await harness.put(payload, key="k")
    for call in (
        harness.put(payload + b".", key="k"),
        harness.put(payload, key="k", ttl=60),
        harness.put(payload, key="k", said={"title": "other"}),
    ):
        assert await code_of(call) is Code.IDEMPOTENCY_KEY_REUSED
    assert (harness.count("artifacts"), harness.count("uploads")) == (1, 0)
    assert len(harness.stored_files()) == (payload is BIG)
    other = await harness.put(payload + b".", key="k", caller=Caller(namespace="other"))
    assert other.created


async def test_the_key_of_a_deleted_artifact_answers_gone_and_revives_nothing(harness: Harness) -> None:
    receipt = await harness.put(BIG, key="k", said={"tool_name": "bash"})
    await harness.forget(CALLER, ids.parse(receipt.id))
    assert await code_of(harness.put(BIG, key="k", said={"tool_name": "bash"})) is Code.ARTIFACT_GONE
    assert harness.count("artifacts") == 0
    assert (await harness.put(BIG, said={"tool_name": "bash"})).created


async def test_a_key_is_forgotten_after_a_day_to_the_microsecond(harness: Harness) -> None:
    await harness.put(b"one\n", key="k")
    harness.clock.forward(KEY_LIFE - INSTANT)
    assert (await harness.tidy()()).purged == 0
    assert await code_of(harness.put(b"two\n", key="k")) is Code.IDEMPOTENCY_KEY_REUSED
    harness.clock.forward(INSTANT)
    two = await harness.put(b"two\n", key="k")
    assert two.created
    assert await harness.put(b"two\n", key="k") == msgspec.structs.replace(two, replayed=True)
    harness.clock.forward(KEY_LIFE)
    assert (await harness.tidy()()).purged == 1


async def test_an_expired_artifact_posted_again_is_new_before_and_after_the_sweep(harness: Harness) -> None:
    first = await harness.put(BIG, ttl=10)
    harness.clock.forward(timedelta(seconds=10))
    second = await harness.put(BIG, ttl=10)
    harness.clock.forward(timedelta(seconds=10))
    await harness.tidy()()
    third = await harness.put(BIG, ttl=10)
    assert [r.created for r in (first, second, third)] == [True] * 3
    assert len({r.id for r in (first, second, third)}) == 1
    assert await harness.content(third.id) == BIG


async def test_the_bytes_arrive_in_any_pieces_and_make_the_same_artifact(harness: Harness) -> None:
    whole = await harness.put(BIG)
    pieces = await harness.put(given([BIG[:1], b"", BIG[1:150_000], BIG[150_000:]]))
    single = await harness.put(stream(BIG, size=777))
    assert {whole.id} == {pieces.id, single.id}
