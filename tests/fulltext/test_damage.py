"""A segment that the disk has spoilt: queries go on without it, and what it held is indexed again."""

from collections.abc import Sequence

import pytest

from coatcheck.core.findings import Finding
from coatcheck.ports.text_index import DropSegment, MergeSegments
from coatcheck.upkeep.index import check_text_index
from fulltext.index_harness import IndexHarness, call, called


async def spoil(shelf: IndexHarness, *, listed: bool) -> None:
    """Flip a bit in each stored segment: in the list of its documents, or in every part."""
    for size in await shelf.catalog.segment_sizes("acme"):
        whole = await shelf.catalog.read_segments("acme", [size.id])
        assert whole is not None
        (segment,) = whole
        spoilt = type(segment)(
            bits=segment.bits,
            first=segment.first,
            last=segment.last,
            documents=segment.documents,
            postings=segment.postings,
            packed_documents=_flipped(segment.packed_documents) if listed else segment.packed_documents,
            parts=segment.parts if listed else tuple(map(_flipped, segment.parts)),
        )
        change = MergeSegments(namespace="acme", old=(size.id,), segment_id=size.id + 1, segment=spoilt)
        assert await shelf.catalog.commit(change)


def _flipped(stored: bytes) -> bytes:
    return stored[:-1] + bytes([stored[-1] ^ 1])


async def filled(shelf: IndexHarness, *, listed: bool) -> Sequence[str]:
    """Three artifacts in a damaged segment and one that is not indexed yet; their calls, newest first."""
    changes = [await shelf.put(f"zeppelin {i}") for i in range(3)]
    assert len(await shelf.found("zeppelin")) == len(changes)
    await spoil(shelf, listed=listed)
    changes.append(await shelf.put("zeppelin new"))
    return [call(change) for change in changes][::-1]


LISTED = pytest.mark.parametrize("listed", [True, False], ids=["documents", "words"])


@LISTED
async def test_a_query_goes_on_without_a_damaged_segment_says_so_and_the_next_finds_all(
    shelf: IndexHarness, listed: bool
) -> None:
    names = await filled(shelf, listed=listed)
    first = await shelf.ask("zeppelin")
    assert (called(first), first.partial) == (names[:1], True)
    assert await shelf.found("zeppelin") == names


@LISTED
async def test_indexing_heals_a_damaged_segment_and_is_not_stopped_by_it(shelf: IndexHarness, listed: bool) -> None:
    names = await filled(shelf, listed=listed)
    await shelf.index()
    await shelf.index()
    assert await shelf.catalog.list_unindexed("acme", 10) == []
    assert await shelf.found("zeppelin") == names


@LISTED
async def test_a_check_names_a_damaged_segment_and_repairs_it_when_told_to(shelf: IndexHarness, listed: bool) -> None:
    names = await filled(shelf, listed=listed)
    for repairs, repaired in ((None, False), (shelf.catalog, True)):
        (finding,) = await check_text_index(shelf.catalog, repairs)
        assert isinstance(finding, Finding)
        assert (finding.what, finding.namespace, finding.repaired) == ("unlisted", "acme", repaired)
        assert "1 segments" in finding.detail
    assert await check_text_index(shelf.catalog, None) == []
    assert await shelf.found("zeppelin") == names


async def test_a_segment_that_is_given_up_twice_does_no_harm(shelf: IndexHarness) -> None:
    names = await filled(shelf, listed=True)
    (size,) = await shelf.catalog.segment_sizes("acme")
    for namespace in ("other", "acme", "acme"):
        await shelf.catalog.commit(DropSegment(namespace=namespace, segment_id=size.id))
    assert await shelf.found("zeppelin") == names
