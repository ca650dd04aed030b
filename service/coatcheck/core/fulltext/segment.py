"""A segment of the full-text index says which documents have which keys.

It is packed into parts, of which a query reads only a few. A part contains the keys that begin with the same bits, each
with its documents: sorted, delta-coded, in byte planes, compressed. A segment never changes; `merge_segments` combines
several segments, without deleted documents. Bytes that `build_segment` did not make raise `integrity`.
"""

import itertools
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from coatcheck.core.encoding.frames import zstd
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.fulltext.words import KEY_BITS

Keys = NDArray[np.uint64]

_DOC_BITS: Final = 16
"""Bits of a document's number in a posting, below the 40 bits of its key: both are sorted as one 64-bit integer."""
MAX_DOCUMENTS: Final = (1 << _DOC_BITS) - 1
"""Maximum documents of a segment; also the bit mask of a document's number."""
_PART_POSTINGS: Final = 8_192
"""Average number of postings per part: such a part takes 10 to 16 KiB, and 0.1 ms to read."""
_MAX_PART_BITS: Final = 12
"""Maximum bits of a key that choose its part; a segment of 2,000,000 postings needs 8."""
_HEAD: Final = struct.Struct("<BII")
_VERSION: Final = 1
"""Number of the format of a part. Increase it when the format changes: parts with another number are refused."""
_ZSTD_LEVEL: Final = 3
"""Zstandard's own default."""


class IndexedDocument(Struct, frozen=True):
    """A document to put into a segment."""

    row: int
    """The artifact's number in the order of arrival."""
    fingerprint: int
    keys: Keys
    """The document's keys, sorted, without duplicates."""


class PackedSegment(Struct, frozen=True):
    """A segment as it is stored."""

    bits: int
    """Number of a key's bits that choose its part."""
    first: int
    """Row of the oldest document."""
    last: int
    documents: int
    postings: int
    packed_documents: bytes
    """Rows and fingerprints of the documents, compressed."""
    parts: tuple[bytes, ...]
    """The postings, in 2 to the power of `bits` parts."""


def build_segment(documents: Sequence[IndexedDocument]) -> PackedSegment:
    """Returns a segment of 1 to MAX_DOCUMENTS documents."""
    order = sorted(documents, key=lambda document: document.row)
    postings = np.concatenate(
        [(document.keys << np.uint64(_DOC_BITS)) | np.uint64(at) for at, document in enumerate(order)]
    )
    rows = np.array([document.row for document in order], dtype=np.uint64)
    prints = np.array([document.fingerprint for document in order], dtype=np.uint64)
    return _pack_segment(postings, rows, prints)


def merge_segments(segments: Sequence[PackedSegment], live: Sequence[NDArray[np.bool_]]) -> PackedSegment | None:
    """Merges several segments into one; returns None if no document is left.

    Args:
        segments: the segments, oldest first: if two have the same row, the later segment's document counts.
        live: for each segment, which of its documents are still valid, in the order of `documents_of`.
    """
    rows_of, prints_of = zip(*(documents_of(segment.packed_documents) for segment in segments), strict=True)
    all_rows, all_prints = np.concatenate(rows_of), np.concatenate(prints_of)
    newest_first = np.flatnonzero(np.concatenate(live))[::-1]
    rows, at = np.unique(all_rows[newest_first], return_index=True)
    if not len(rows):
        return None
    survivors = newest_first[at]
    # Documents get new numbers, in the order of their rows; postings of dropped documents are dropped.
    place = np.full(len(all_rows), -1, dtype=np.int64)
    place[survivors] = np.arange(len(survivors))
    pieces: list[Keys] = []
    start = 0
    for segment, mine in zip(segments, rows_of, strict=True):
        new = place[start : start + len(mine)]
        start += len(mine)
        for part in segment.parts:
            keys, counts, docs = _unpack_part(part)
            moved = new[docs]
            staying = moved >= 0
            pieces.append((np.repeat(keys, counts)[staying] << np.uint64(_DOC_BITS)) | moved[staying].astype(np.uint64))
    return _pack_segment(np.concatenate(pieces), rows, all_prints[survivors])


def documents_of(packed_documents: bytes) -> tuple[Keys, Keys]:
    """Returns the rows, ascending, and the fingerprints of a segment's documents.

    Raises:
        CoatcheckError: `integrity` if the bytes are damaged.
    """
    raw = _decompress_bytes(packed_documents)
    count = len(raw) // 16
    if len(raw) != 16 * count:
        raise _damage_error()
    columns = _from_planes(raw, count * 2, 8).reshape(2, count)
    return np.cumsum(columns[0], dtype=np.uint64), columns[1]


def is_whole(segment: PackedSegment) -> bool:
    """Returns whether every byte of a segment is intact and all its parts are present."""
    try:
        rows, _ = documents_of(segment.packed_documents)
        postings = sum(_open_part(part).steps.shape[1] for part in segment.parts)
    except CoatcheckError:
        return False
    return (len(rows), postings, len(segment.parts)) == (segment.documents, segment.postings, 1 << segment.bits)


def locate(key: int, bits: int) -> int:
    """Returns the index of the part that contains a key, in a segment with 2 to the power of `bits` parts."""
    return key >> (KEY_BITS - bits)


def matches(terms: Sequence[Sequence[int]], bits: int, parts: dict[int, bytes]) -> NDArray[np.int64]:
    """Returns the numbers of documents that have at least one key of each term, ascending.

    `parts` has the parts that `locate` names for the keys, by index.

    Raises:
        KeyError: a part is missing.
        CoatcheckError: `integrity` if a part is damaged.
    """
    documents: NDArray[np.int64] | None = None
    open_parts = {at: _open_part(part) for at, part in parts.items()}
    for keys in terms:
        mine = [_holders(key, open_parts[locate(key, bits)]) for key in keys]
        holders = mine[0] if len(mine) == 1 else np.unique(np.concatenate(mine))
        documents = holders if documents is None else np.intersect1d(documents, holders, assume_unique=True)
        if not len(documents):
            break
    return np.empty(0, dtype=np.int64) if documents is None else documents


def _holders(key: int, part: "_Part") -> NDArray[np.int64]:
    at = int(np.searchsorted(part.keys, np.uint64(key)))
    if at == len(part.keys) or int(part.keys[at]) != key:
        return np.empty(0, dtype=np.int64)
    start = int(part.counts[:at].sum())
    return np.cumsum(_join_planes(part.steps[:, start : start + int(part.counts[at])]))


def _pack_segment(postings: Keys, rows: Keys, prints: Keys) -> PackedSegment:
    postings.sort()
    bits = min(_MAX_PART_BITS, max(0, (len(postings) // _PART_POSTINGS).bit_length()))
    keys = postings >> np.uint64(_DOC_BITS)
    docs = (postings & np.uint64(MAX_DOCUMENTS)).astype(np.int64)
    # A part has the keys with the same first bits, so that a query knows which parts to read.
    edges = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(KEY_BITS - bits)
    bounds = [0, *np.searchsorted(keys, edges).tolist(), len(keys)]
    gaps = np.diff(rows, prepend=np.uint64(0))
    return PackedSegment(
        bits=bits,
        first=int(rows[0]),
        last=int(rows[-1]),
        documents=len(rows),
        postings=len(postings),
        packed_documents=_compress_bytes(_planes(np.concatenate([gaps, prints]), 8)),
        parts=tuple(_pack(keys[low:high], docs[low:high]) for low, high in itertools.pairwise(bounds)),
    )


def _pack(keys: Keys, docs: NDArray[np.int64]) -> bytes:
    fresh = np.ones(len(keys), dtype=np.bool_)
    fresh[1:] = keys[1:] != keys[:-1]
    starts = np.flatnonzero(fresh)
    counts = np.diff(starts, append=len(keys))
    gaps = np.diff(docs, prepend=0)
    gaps[starts] = docs[starts]
    words = keys[starts]
    columns = _planes(words, KEY_BITS // 8) + _planes(counts - 1, 2) + _planes(gaps, 2)
    return _compress_bytes(_HEAD.pack(_VERSION, len(words), len(docs)) + columns)


class _Part(NamedTuple):
    """A decompressed part, ready to be searched; its documents are still encoded."""

    keys: Keys
    counts: NDArray[np.int64]
    """Number of documents per key."""
    steps: NDArray[np.uint8]
    """The documents of each key in turn, as the first number and increments: a row of low bytes, a row of high
    bytes."""


def _open_part(part: bytes) -> _Part:
    raw = _decompress_bytes(part)
    if len(raw) < _HEAD.size:
        raise _damage_error()
    version, words, postings = _HEAD.unpack_from(raw)
    width = KEY_BITS // 8
    if version != _VERSION or len(raw) != _HEAD.size + words * (width + 2) + postings * 2:
        raise _damage_error()
    middle, end = _HEAD.size + words * width, _HEAD.size + words * (width + 2)
    keys = _from_planes(raw[_HEAD.size : middle], words, width)
    counts = _from_planes(raw[middle:end], words, 2).astype(np.int64) + 1
    if int(counts.sum()) != postings:
        raise _damage_error()
    return _Part(keys, counts, np.frombuffer(raw, dtype=np.uint8, offset=end).reshape(2, postings))


def _join_planes(planes: NDArray[np.uint8]) -> NDArray[np.int64]:
    return planes[0].astype(np.int64) | (planes[1].astype(np.int64) << 8)


def _unpack_part(part: bytes) -> tuple[Keys, NDArray[np.int64], NDArray[np.int64]]:
    """Returns the keys, how many documents each has, and the documents, key by key."""
    keys, counts, planes = _open_part(part)
    sums = np.cumsum(_join_planes(planes))
    starts = np.cumsum(counts) - counts
    # The increments start again with each key.
    before = np.where(starts > 0, sums[starts - 1], 0) if len(keys) else starts
    return keys, counts, sums - np.repeat(before, counts)


def _planes(values: NDArray[np.uint64] | NDArray[np.int64], width: int) -> bytes:
    """Returns the lowest bytes of all numbers, then their next bytes, so that similar bytes are adjacent."""
    raw = values.astype("<u8").view(np.uint8).reshape(len(values), 8)
    return np.ascontiguousarray(raw[:, :width].T).tobytes()


def _from_planes(raw: bytes, count: int, width: int) -> Keys:
    wide = np.zeros((count, 8), dtype=np.uint8)
    wide[:, :width] = np.frombuffer(raw, dtype=np.uint8).reshape(width, count).T
    return wide.view("<u8").reshape(count).astype(np.uint64)


def _compress_bytes(raw: bytes) -> bytes:
    parameter = zstd.CompressionParameter
    return zstd.compress(raw, options={parameter.compression_level: _ZSTD_LEVEL, parameter.checksum_flag: True})


def _decompress_bytes(data: bytes) -> bytes:
    try:
        return zstd.decompress(data)
    except zstd.ZstdError as error:
        raise _damage_error() from error


def _damage_error() -> CoatcheckError:
    return CoatcheckError(
        Code.INTEGRITY,
        "The full-text index is damaged. The artifacts are not: lists without a query work. Run `coatcheck check`.",
    )
