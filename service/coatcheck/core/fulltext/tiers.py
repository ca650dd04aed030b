"""Decides which segments to merge, so that a query reads few, and each document is rewritten seldom.

Segments of about equal size are merged by eights; large ones are left alone. Only sizes matter.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

FAN: Final = 8
MAX_POSTINGS: Final = 2_000_000
"""Maximum postings of a segment: 4,000 documents of 500 words. Merging takes 40 bytes of memory for each."""


class SegmentSize(Struct, frozen=True):
    """What is known about a segment without reading it."""

    id: int
    documents: int
    postings: int


def to_merge(sizes: Sequence[SegmentSize], most_documents: int) -> list[int]:
    """Returns the IDs of the segments to merge next, given oldest first; none if nothing is to be done."""
    tiers: dict[int, list[SegmentSize]] = {}
    for size in sizes:
        tiers.setdefault(_tier(size.postings), []).append(size)
    for tier in sorted(tiers):
        group = tiers[tier]
        if len(group) < FAN:
            continue
        segment_ids: list[int] = []
        documents = postings = 0
        for size in group[:FAN]:
            documents, postings = documents + size.documents, postings + size.postings
            if documents > most_documents or postings > MAX_POSTINGS:
                break
            segment_ids.append(size.id)
        if len(segment_ids) > 1:
            return segment_ids
    return []


def _tier(postings: int) -> int:
    """Returns the tier: up to 1,000 postings, 8,000, 64,000 and so on."""
    tier = 0
    while postings > 1_000 * FAN**tier:
        tier += 1
    return tier
