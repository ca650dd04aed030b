"""Bytes that the disk has lost: nothing new is promised on them, and posting the payload again heals every artifact."""

import logging
from typing import Any

import pytest

from coatcheck.core import ids
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.artifacts import StoreArtifact
from coatcheck.ports.decisions import CatalogChange
from coatcheck.storing.blob_health import BlobHealth
from coatcheck.storing.content import OpenContent
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.find import Find
from coatcheck.storing.ingest_request import IngestRequest
from coatcheck.usecases.payloads.find_or_ingest import FindOrIngest, PayloadRetention
from coatcheck.usecases.payloads.ingest import Ingest
from support.clock import INSTANT
from support.harness import CALLER, GRACE, LEASE, Harness
from support.refusals import code_of
from support.samples import noise, stream
from usecases.ingest.test_history_cards import in_history
from usecases.ingest.test_slow_views import Slow, cards_with, page

PAYLOAD = noise(300_000)


async def read(harness: Harness, artifact_id: str) -> bytes:
    """Read as the service does, and wait for what the reader had to tell."""
    trust = BlobHealth(harness.catalog, harness.blobs, harness.clock)
    found = await harness.find(CALLER, ids.parse(artifact_id), with_bytes=True)
    try:
        content = OpenContent(harness.catalog, harness.blobs, harness.pool, trust.report_damage)(found)
        return b"".join([block async for block in content.blocks(0, content.size)])
    finally:
        await trust.wait_until_recorded()


@pytest.mark.parametrize("how", ["same call", "same key", "another call", "counted again"])
@pytest.mark.parametrize("loss", ["missing", "cut off"])
async def test_posting_again_what_was_lost_is_never_answered_on_the_lost_file(
    harness: Harness, how: str, loss: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = await harness.put(PAYLOAD, key="k")
    sharing = await harness.put(PAYLOAD, said={"tool_call_id": "s"})
    (path,) = harness.stored_files()
    if loss == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    offer: Any = {"same key": {"key": "k"}, "another call": {"said": {"tool_call_id": "a"}}}.get(how, {})
    settings = {"inline_bytes": 1 << 20} if how == "counted again" else {}
    again = await harness.put(PAYLOAD, settings=settings, **offer)
    assert again.created is (how in {"same key", "another call"})
    for receipt in (first, sharing, again):
        assert await read(harness, receipt.id) == PAYLOAD
    assert [r.levelno for r in caplog.records if r.name == "coatcheck.storing.blob_health"] == [logging.ERROR]
    harness.clock.forward(GRACE + INSTANT)
    assert (await harness.tidy()()).removed == 2, "the lost one, and what the sharing post did not need"
    assert harness.count("blobs") == 1
    for receipt in (first, sharing, again):
        assert await read(harness, receipt.id) == PAYLOAD


async def test_a_small_payload_is_not_folded_into_a_lost_file(harness: Harness) -> None:
    await harness.put(b"small\n" * 500, settings={"inline_bytes": 0})
    (path,) = harness.stored_files()
    path.unlink()
    again = await harness.put(b"small\n" * 500, said={"tool_call_id": "a"})
    assert again.created is True
    assert await read(harness, again.id) == b"small\n" * 500


async def test_damage_that_a_reader_met_is_healed_for_all_by_the_next_post(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    receipts = [await harness.put(PAYLOAD, said={"tool_call_id": str(n)}) for n in range(3)]
    (path,) = harness.stored_files()
    flipped = bytearray(path.read_bytes())
    flipped[150_000] ^= 1
    path.write_bytes(flipped)
    for receipt in receipts:
        assert await code_of(read(harness, receipt.id)) is Code.INTEGRITY
    said = [r for r in caplog.records if r.name == "coatcheck.storing.blob_health"]
    assert [r.levelno for r in said] == [logging.ERROR], "once"
    assert harness.count("blobs", "condemned_at IS NOT NULL") == 1
    again = await harness.put(PAYLOAD, said={"tool_call_id": "1"})
    assert (again.created, again.id) == (False, receipts[1].id)
    for receipt in receipts:
        assert await read(harness, receipt.id) == PAYLOAD
    assert harness.count("blobs", "dead_at IS NULL AND condemned_at IS NOT NULL") == 0


async def test_small_bytes_that_vanished_from_their_row_are_healed_too(harness: Harness) -> None:
    first = await harness.put(b"small\n")
    await harness.catalog._writer.run(lambda conn: conn.exec_driver_sql("DELETE FROM inline_bytes"))  # type: ignore[attr-defined] # pyright: ignore[reportPrivateUsage]
    assert await code_of(read(harness, first.id)) is Code.INTEGRITY
    assert (await harness.put(b"small\n")).created is False
    assert await read(harness, first.id) == b"small\n"


async def test_a_page_that_is_damaged_is_taken_in_though_its_card_needs_its_bytes(harness: Harness) -> None:
    html = page(1)
    said: dict[str, Any] = {"session": "s", "tool_name": "fetch", "tool_call_id": "call_1"}
    first = await harness.put(html, said=said, settings={"inline_bytes": 0})
    (path,) = harness.stored_files()
    path.write_bytes(bytes(path.stat().st_size))
    cards = cards_with(harness, extractor := Slow())
    extractor.go.set()
    deps = harness.deps(inline_bytes=0)
    again = await Ingest(deps, cards)(
        CALLER, stream(html), IngestRequest(declared=DeclaredMetadata(**said), inline_tokens=0)
    )
    assert (again.id, again.stored, again.created) == (first.id, True, False)
    find = Find(harness.catalog, harness.clock, harness.reads)
    history = FindOrIngest(Ingest(deps, cards), deps, find, cards)
    payload = in_history(html.decode(), tool="fetch", command=None)
    card = (await history(CALLER, [payload], PayloadRetention(session="s"), 600))[payload.key]
    assert (card.id, card.is_stored, card.notices) == (first.id, True, ())
    assert "of a page about coats" in (card.text or "")


class Unanswering:
    """A catalogue whose answer to a commit is lost; whether the commit is made is the test's choice."""

    def __init__(self, harness: Harness, *, commits: bool) -> None:
        self._catalog = harness.catalog
        self._commits = commits

    async def commit(self, change: CatalogChange[Any]) -> Any:  # noqa: ANN401 - the change's own answer
        if not isinstance(change, StoreArtifact) or self._commits:
            answer = await self._catalog.commit(change)
            if not isinstance(change, StoreArtifact):
                return answer
        raise CoatcheckError(Code.STORAGE_UNAVAILABLE, "It did not answer.")

    def __getattr__(self, name: str) -> object:
        return getattr(self._catalog, name)


@pytest.mark.parametrize("commits", [True, False])
async def test_a_commit_without_an_answer_keeps_its_file_until_its_fate_is_known(
    harness: Harness, commits: bool
) -> None:
    receipt = await harness.put(
        PAYLOAD, settings={"catalog": Unanswering(harness, commits=commits), "fallback": FallbackBuffer(0)}
    )
    assert not receipt.stored
    assert len(harness.stored_files()) == 1
    assert harness.count("uploads") == (0 if commits else 1)
    harness.clock.forward(LEASE + INSTANT)
    assert (await harness.tidy()()).reaped == (0 if commits else 1)
    harness.clock.forward(GRACE + INSTANT)
    assert (await harness.tidy()()).removed == (0 if commits else 1)
    again = await harness.put(PAYLOAD)
    assert again.created is not commits
    assert await read(harness, again.id) == PAYLOAD
