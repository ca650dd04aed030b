"""What a model got in an artifact's place is stored, found, removed and brought back with it, on every catalogue."""

import asyncio

import pytest

from coatcheck.core import ids
from coatcheck.core.artifact import DeclaredMetadata, ReceiptRecord
from coatcheck.ports.artifacts import DeleteArtifact, IngestResult, StoreArtifact
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.retention import RestoreArtifact
from contract.sample_changes import DAY, START, Everything, blob_of, number_of, store

INLINE = ReceiptRecord(engine=3, sha256=b"a" * 32, tokens=7)
CARD = ReceiptRecord(
    engine=4, sha256=b"b" * 32, tokens=9, budget=256, query="why\0?", tools=False, text="[x]\n🌊" * 9_000
)
FIRST = DeclaredMetadata(tool_call_id="c", title="first")


async def record_of(catalog: Everything, change: StoreArtifact) -> ReceiptRecord | None:
    found = await catalog.find(change.namespace, number_of(change), START, with_receipt=True)
    assert isinstance(found, FoundArtifact)
    assert await catalog.find(change.namespace, number_of(change), START) == FoundArtifact(found.artifact)
    return found.receipt


@pytest.mark.parametrize("receipt", [None, INLINE, CARD], ids=["none", "inline", "card"])
async def test_a_receipt_is_found_only_where_it_is_asked_for(
    catalog: Everything, receipt: ReceiptRecord | None
) -> None:
    change = store(receipt=receipt)
    await catalog.commit(change)
    assert await record_of(catalog, change) == receipt


async def test_artifacts_that_are_stored_together_keep_their_own_receipts(catalog: Everything) -> None:
    receipts = [None if i % 3 == 0 else ReceiptRecord(engine=i, sha256=b"%032d" % i, tokens=i) for i in range(40)]
    changes = [store(b"%d" % i, receipt=receipt) for i, receipt in enumerate(receipts)]
    await asyncio.gather(*map(catalog.commit, changes))
    assert [await record_of(catalog, change) for change in changes] == receipts


async def test_a_repeated_request_and_another_declaration_leave_the_first_receipt(catalog: Everything) -> None:
    await catalog.commit(store(said=FIRST, receipt=CARD))
    await catalog.commit(store(said=FIRST, receipt=INLINE))
    again = store(said=DeclaredMetadata(tool_call_id="c", title="second"), receipt=INLINE)
    answer = await catalog.commit(again)
    assert isinstance(answer, IngestResult)
    assert answer.redeclared
    assert await record_of(catalog, again) == CARD


async def test_a_deletion_removes_the_receipt_and_an_undo_brings_it_back(catalog: Everything) -> None:
    change = store(said=FIRST, receipt=CARD)
    await catalog.commit(change)
    number = ids.number(change.identity)
    gone = DeleteArtifact(namespace=change.namespace, number=number, now=START, tombstone_until=START + DAY)
    assert await catalog.commit(gone) is True
    left = await catalog.find_removal(change.namespace, number, START - DAY)
    assert left is not None
    restore = RestoreArtifact(
        namespace=change.namespace,
        number=number,
        seq=left.seq,
        now=START,
        ttl=None,
        blob=blob_of(b"hello\n"),
        inline=change.inline,
        views=(),
        by=gone.by,
        since=START - DAY,
    )
    assert isinstance(await catalog.commit(restore), IngestResult)
    assert await record_of(catalog, change) == CARD
    await catalog.commit(gone)
    await catalog.commit(store(said=FIRST))
    assert await record_of(catalog, change) is None
