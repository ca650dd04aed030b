"""Turns artifacts and queries into keys, and decides which segments to merge.

A document consists of an artifact's declared and detected metadata and its payload's text. Of a text longer than twice
ENDS, only the first and the last ENDS bytes are read; words between them are not found. A payload that is not text is
found by its metadata.

A query becomes terms; a document must have at least one key of each term. Question words are left out, unless the query
has no others. A query without a word to search for is refused, and so is a query that is too long: if part of it were
left out, the result would answer another question.

Eight segments of about equal size are merged into one, so that a query reads few segments, and each document is seldom
rewritten.
"""

import hashlib
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from coatcheck.core.artifact import SAMPLE_BYTES, Artifact
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.fulltext.words import (
    KEY_BITS,
    MAX_WORD,
    Chunk,
    ascii_keys,
    gram_key,
    has_long_word,
    keys_of_words,
    pair_key,
    read,
    runs,
    word_key,
)
from coatcheck.core.passages.terms import ASKING, KANA, PARTICLES, STOPWORDS

ENDS: Final = SAMPLE_BYTES
"""Bytes at either end of a payload's text that are indexed."""
MAX_KEYS: Final = 50_000
"""Maximum different keys of one document. A payload with more keys is hardly text; it is found only by the keys of its
beginning."""
_Text = tuple[bytes, list[str]]
"""The ASCII text of a document, and its words between blanks that are not ASCII, each once."""
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def keys_of(documents: Sequence[tuple[Artifact, tuple[bytes, ...]]]) -> list[NDArray[np.uint64]]:
    """Returns the keys of each of one or more documents, sorted, without duplicates.

    Args:
        documents: the artifact of each document, and its payload's text or the two ends of that text. Of the artifact,
            titles, URLs, the tool's name, the command and labels are used. The text is UTF-8 as far as it is valid, or
            UTF-16 with a byte order mark. The second end of a UTF-16 text has no mark, so it is read in the byte order
            of this machine.
    """
    texts = [_read(artifact, parts) for artifact, parts in documents]
    all_keys = np.sort(_collect_keys(texts))  # `np.unique` of many takes twenty times as long
    all_keys = all_keys[np.diff(all_keys, prepend=~np.uint64(0)) > 0]
    bounds = np.arange(1, len(texts), dtype=np.uint64) << np.uint64(KEY_BITS)
    keys = np.split(all_keys & np.uint64((1 << KEY_BITS) - 1), np.searchsorted(all_keys, bounds))
    return [_beginning(text) if len(mine) > MAX_KEYS else mine for text, mine in zip(texts, keys, strict=True)]


def _collect_keys(texts: Sequence[_Text]) -> NDArray[np.uint64]:
    """Returns the keys of each text, possibly with duplicates, with the text's index above their KEY_BITS."""
    others = [
        np.fromiter(dict.fromkeys(keys_of_words(words)), dtype=np.uint64) | np.uint64(at << KEY_BITS)
        for at, (_, words) in enumerate(texts)
        if words
    ]
    return np.concatenate([*others, ascii_keys([plain for plain, _ in texts])])


def _beginning(text: _Text) -> NDArray[np.uint64]:
    """Returns the first MAX_KEYS of a text's keys, sorted."""
    keys = _collect_keys([text])
    _, at = np.unique(keys, return_index=True)
    return np.sort(keys[np.sort(at)[:MAX_KEYS]])


def _read(artifact: Artifact, texts: tuple[bytes, ...]) -> _Text:
    declared, facts = artifact.declared, artifact.facts
    final_url = facts.fetch_of(declared).final_url
    spoken = (
        declared.title,
        facts.title,
        declared.url,
        facts.url,
        final_url,
        declared.tool_name,
        declared.command,
        *declared.labels,
    )
    encoding = "utf-16" if texts and texts[0][:2] in _UTF_16 else "utf-8"
    plain = [text for text in texts if encoding == "utf-8" and text.isascii()]
    sources = [word for word in spoken if word]
    sources += [text.decode(encoding, "replace") for text in texts if encoding == "utf-16" or not text.isascii()]
    words = dict.fromkeys(word for text in sources for word in text.split())
    plain += [word.encode() for word in words if word.isascii()]
    return b"\n".join(plain), [word for word in words if not word.isascii()]


def fingerprint(
    number: int, created_at: datetime, labels: str | None, view: str | None, declared_at: datetime | None = None
) -> int:
    """Returns 63 bits that identify the state of an artifact from which a document was made.

    Another artifact may reuse the row; an artifact's labels may change, a view may be added, and it may be declared
    again. A result of the index therefore counts only while its fingerprint matches.
    """
    text = f"{number}\0{_moment(created_at)}\0{labels or ''}\0{view or ''}"
    if declared_at is not None:
        text += f"\0{_moment(declared_at)}"
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=b"document").digest()
    return int.from_bytes(digest, "big") >> 1


def _moment(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


MAX_QUERY_CHARS: Final = 1_000
"""Maximum characters of a query. Chosen, not measured."""
MAX_QUERY_TERMS: Final = 64
"""Maximum different keys of one query."""


Term = tuple[int, ...]
"""Keys of a term: a document must have at least one of them."""


def query_keys(query: str) -> tuple[Term, ...]:
    """Returns the terms of a query; a document must have all of them.

    Raises:
        CoatcheckError: `invalid_request` if the query has no word, or if it or a word beside others is too long.
    """
    if len(query) > MAX_QUERY_CHARS:
        raise _too_long(f"It has {len(query):,} characters, {MAX_QUERY_CHARS:,} are possible.")
    keys = _keys(query, stop=True) or _keys(query, stop=False)
    if not keys:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            "The query contains no word to look for. Give words that the artifact contains: letters or digits, at most "
            f"{MAX_WORD} in one word.",
            field="q",
        )
    if any(map(has_long_word, runs(query))):
        raise _too_long(f"A word has more than {MAX_WORD} letters, which no artifact is found by.")
    if len(keys) > MAX_QUERY_TERMS:
        raise _too_long(f"It comes to {len(keys)} terms, {MAX_QUERY_TERMS} are possible.")
    return tuple(keys)


def _keys(query: str, *, stop: bool) -> list[Term]:
    text = ASKING.sub(" ", query) if stop else query
    return list(dict.fromkeys(term for run in runs(text) for term in _of_chunk(read(run), stop=stop)))


def _of_chunk(chunk: Chunk, *, stop: bool) -> list[Term]:
    """Returns the terms of a chunk: its whole words, pairs of neighbouring parts, and characters."""
    # A composed word is found by its parts in order, or as one word: `readFile` finds `read_file`.
    terms: list[Term] = [
        (word_key(word),)
        for word, parts, *_ in chunk.words
        if not parts and not (stop and len(chunk.words) == 1 and word in STOPWORDS)
    ]
    for word, parts, *_ in chunk.words:
        terms += [(pair_key(pair), word_key(word)) for pair in itertools.pairwise(parts)]
    terms += [(pair_key(pair),) for pair in chunk.joints]
    return terms + [(gram_key(gram),) for gram in _select_grams(chunk.grams, stop=stop)]


def _select_grams(grams: tuple[str, ...], *, stop: bool) -> list[str]:
    """Returns the longest pieces of a run; with `stop`, without pieces that only connect words."""
    longest = [gram for gram in grams if len(gram) == max(map(len, grams))]
    return [g for g in longest if not stop or (not KANA.fullmatch(g) and PARTICLES.isdisjoint(g))]


def _too_long(why: str) -> CoatcheckError:
    return CoatcheckError(
        Code.INVALID_REQUEST, f"The query is too long. {why} Name only the few words that matter.", field="q"
    )


MERGED_SEGMENTS: Final = 8
"""Number of segments of about one size that are merged into one: a posting is rewritten once per factor of eight."""
MAX_POSTINGS: Final = 2_000_000
"""Maximum postings of a segment, as of 4,000 documents of 500 words. Merging takes 40 bytes of memory per posting."""


class SegmentSize(Struct, frozen=True):
    """The sizes of a segment, which are known without reading it."""

    id: int
    documents: int
    postings: int


def to_merge(sizes: Sequence[SegmentSize], most_documents: int) -> list[int]:
    """Returns the IDs of the segments to merge next; empty if no merge is due. `sizes` are given oldest first."""
    tiers: dict[int, list[SegmentSize]] = {}
    for size in sizes:
        tiers.setdefault(_tier(size.postings), []).append(size)
    for tier in sorted(tiers):
        group = tiers[tier]
        if len(group) < MERGED_SEGMENTS:
            continue
        segment_ids: list[int] = []
        documents = postings = 0
        for size in group[:MERGED_SEGMENTS]:
            documents, postings = documents + size.documents, postings + size.postings
            if documents > most_documents or postings > MAX_POSTINGS:
                break
            segment_ids.append(size.id)
        if len(segment_ids) > 1:
            return segment_ids
    return []


def _tier(postings: int) -> int:
    """Returns the tier of a segment: 0 up to 1,000 postings, 1 up to 8,000, 2 up to 64,000, and so on."""
    tier = 0
    while postings > 1_000 * MERGED_SEGMENTS**tier:
        tier += 1
    return tier
