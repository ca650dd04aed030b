"""Finds artifacts that contain all words of a query.

Words become keys, documents are packed into segments, and segments are merged into fewer segments. This works the same
on every database, because it does not use the databases' own text searches: these do not split Chinese, Japanese or
Thai, and row-level security keeps PostgreSQL from using its text indexes. Only 40 bits of a hash are stored for each
word, so that no word of a deleted artifact remains in the index. Pure. Word order counts only inside identifiers and
paths. Nothing is ranked, and matching is by words, not by meaning.
"""

from coatcheck.core.fulltext.document import (
    ENDS,
    MAX_KEYS,
    MAX_POSTINGS,
    MAX_QUERY_CHARS,
    SegmentSize,
    fingerprint,
    keys_of,
    query_keys,
    to_merge,
)
from coatcheck.core.fulltext.segment import (
    MAX_DOCUMENTS,
    IndexedDocument,
    PackedSegment,
    build_segment,
    documents_of,
    is_whole,
    locate,
    matches,
    merge_segments,
)

__all__ = [
    "ENDS",
    "MAX_DOCUMENTS",
    "MAX_KEYS",
    "MAX_POSTINGS",
    "MAX_QUERY_CHARS",
    "IndexedDocument",
    "PackedSegment",
    "SegmentSize",
    "build_segment",
    "documents_of",
    "fingerprint",
    "is_whole",
    "keys_of",
    "locate",
    "matches",
    "merge_segments",
    "query_keys",
    "to_merge",
]
