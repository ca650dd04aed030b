"""Which segments to make one of, so that a query looks into few and each document is rewritten seldom.

Segments of about one size are merged by eights; those that have grown large are left alone. Knows sizes only.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

FAN: Final = 8
MAX_POSTINGS: Final = 2_000_000
"""Postings of the largest segment: 4,000 documents of 500 words. Merging takes 40 bytes of memory for each."""


class SegmentSize(Struct, frozen=True):
    """What is known of a segment without reading it."""

    id: int
    documents: int
    postings: int


def to_merge(sizes: Sequence[SegmentSize], most_documents: int) -> list[int]:
    """The IDs of segments to make one of next, given oldest first; none when all is well."""
    tiers: dict[int, list[SegmentSize]] = {}
    for size in sizes:
        tiers.setdefault(_tier(size.postings), []).append(size)
    for tier in sorted(tiers):
        group = tiers[tier]
        if len(group) < FAN:
            continue
        chosen: list[int] = []
        documents = postings = 0
        for size in group[:FAN]:
            documents, postings = documents + size.documents, postings + size.postings
            if documents > most_documents or postings > MAX_POSTINGS:
                break
            chosen.append(size.id)
        if len(chosen) > 1:
            return chosen
    return []


def _tier(postings: int) -> int:
    """Segments of up to 1,000 postings, 8,000, 64,000 and so on."""
    tier = 0
    while postings > 1_000 * FAN**tier:
        tier += 1
    return tier
