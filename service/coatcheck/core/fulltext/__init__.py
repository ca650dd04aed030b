"""Which artifacts say all words of a query: words to keys, keys of many documents to one segment, segments to fewer.

The same on every database, because no database's own text search is used: they split no Chinese, Japanese or Thai,
and row-level security keeps PostgreSQL from its text indexes. What is stored are 40 bits of a hash of each word, so
that no word of what was deleted lies in the index. Pure. It knows no order of words but inside identifiers and paths,
ranks nothing, and understands nothing: a document that says it in other words is not found.
"""

from coatcheck.core.fulltext.document import ENDS, MAX_KEYS, fingerprint, keys_of
from coatcheck.core.fulltext.query import MAX_QUERY_CHARS, MAX_QUERY_TERMS, query_keys
from coatcheck.core.fulltext.segment import (
    MAX_DOCUMENTS,
    IndexedDocument,
    PackedSegment,
    built,
    documents_of,
    is_whole,
    locate,
    matches,
    merged,
)
from coatcheck.core.fulltext.tiers import MAX_POSTINGS, SegmentSize, to_merge

__all__ = [
    "ENDS",
    "MAX_DOCUMENTS",
    "MAX_KEYS",
    "MAX_POSTINGS",
    "MAX_QUERY_CHARS",
    "MAX_QUERY_TERMS",
    "IndexedDocument",
    "PackedSegment",
    "SegmentSize",
    "built",
    "documents_of",
    "fingerprint",
    "is_whole",
    "keys_of",
    "locate",
    "matches",
    "merged",
    "query_keys",
    "to_merge",
]
