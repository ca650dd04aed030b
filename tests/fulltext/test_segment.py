"""Segments and tiers, against sets."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.fulltext import (
    MAX_DOCUMENTS,
    MAX_POSTINGS,
    IndexedDocument,
    PackedSegment,
    SegmentSize,
    build_segment,
    documents_of,
    locate,
    matches,
    merge_segments,
    to_merge,
)


def made(rng: random.Random, rows: range, most: int = 400) -> list[IndexedDocument]:
    """Documents with common and rare keys, one in ten with none."""
    out: list[IndexedDocument] = []
    for row in rows:
        keys = {
            rng.randrange(1 << 40) if rng.random() < 0.3 else rng.randrange(2_000) * 500_000_003 for _ in range(most)
        }
        held = sorted(keys)[: rng.randrange(most)] if rng.random() < 0.9 else []
        out.append(IndexedDocument(row, rng.getrandbits(63), np.array(held, dtype=np.uint64)))
    return out


def rows_with(segment: PackedSegment, *terms: tuple[int, ...]) -> list[int]:
    """The rows that have a key of each term."""
    parts = {locate(key, segment.bits) for keys in terms for key in keys}
    places = matches(terms, segment.bits, {at: segment.parts[at] for at in parts})
    return documents_of(segment.packed_documents)[0][places].tolist()


@pytest.mark.parametrize("count", [1, 2, 40, 700])
def test_a_segment_answers_what_its_documents_say(count: int) -> None:
    rng = random.Random(count)
    documents = made(rng, range(5, 5 + 3 * count, 3))
    segment = build_segment(documents)
    keys = sorted({key for document in documents for key in document.keys.tolist()})
    held = {document.row: set(document.keys.tolist()) for document in documents}
    assert len(segment.parts) == 1 << segment.bits
    assert documents_of(segment.packed_documents)[1].tolist() == [document.fingerprint for document in documents]
    for _ in range(100):
        one, two, three = (rng.choice(keys) if keys else 1 for _ in range(3))
        assert rows_with(segment, (one,)) == [row for row in held if one in held[row]]
        assert rows_with(segment, (one,), (two, three)) == [
            row for row in held if one in held[row] and not held[row].isdisjoint({two, three})
        ]
    assert rows_with(segment, (1,)) == []


def test_merging_leaves_out_what_is_gone_and_keeps_the_last_of_a_row() -> None:
    rng = random.Random(5)
    groups = [made(rng, range(1, 50)), made(rng, range(50, 120)), made(rng, range(40, 60))]
    live = [np.array([rng.random() < 0.7 for _ in group], dtype=np.bool_) for group in groups]
    kept = {
        document.row: document
        for group, alive in zip(groups, live, strict=True)
        for document, here in zip(group, alive.tolist(), strict=True)
        if here
    }
    assert merge_segments([build_segment(group) for group in groups], live) == build_segment(list(kept.values()))


def test_merging_what_is_gone_leaves_nothing() -> None:
    group = made(random.Random(1), range(1, 9))
    assert merge_segments([build_segment(group)], [np.zeros(8, dtype=np.bool_)]) is None


def test_damage_is_an_error_and_never_another_answer() -> None:
    rng = random.Random(9)
    segment = build_segment(made(rng, range(1, 30)))
    key = 500_000_003
    whole = rows_with(segment, (key,))
    for _ in range(300):
        part = bytearray(segment.parts[0])
        part[rng.randrange(len(part))] ^= 1 << rng.randrange(8)
        try:
            assert rows_with(replace(segment, parts=(bytes(part), *segment.parts[1:])), (key,)) == whole
        except CoatcheckError as error:
            assert error.code is Code.INTEGRITY  # noqa: PT017 - either is right


def test_segments_of_one_size_are_merged_by_eights_until_they_are_large() -> None:
    sizes: list[SegmentSize] = []
    written = 0
    for new in range(20_000):
        sizes.append(SegmentSize(new, 64, 32_000))
        while chosen := to_merge(sizes, MAX_DOCUMENTS):
            gone = [size for size in sizes if size.id in chosen]
            made_of = SegmentSize(gone[0].id, sum(s.documents for s in gone), sum(s.postings for s in gone))
            assert made_of.postings <= MAX_POSTINGS
            assert made_of.documents <= MAX_DOCUMENTS
            written += made_of.documents
            sizes = [size for size in sizes if size.id not in chosen]
            sizes.append(made_of)
            sizes.sort(key=lambda size: size.id)
    assert sum(size.documents for size in sizes) == 20_000 * 64
    assert written < 4 * 20_000 * 64
    assert len(sizes) < 20_000 * 32_000 / MAX_POSTINGS * 1.6 + 24
