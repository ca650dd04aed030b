"""Converts a query to terms: of each, a document must have one of the keys.

Question words are left out, unless there are no others. A query without anything to search for is refused, as is one
that is too long: leaving part of it out would answer another question.
"""

import itertools
from typing import Final

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.fulltext.words import MAX_WORD, Chunk, gram_key, pair_key, read, runs, word_key
from coatcheck.core.passages.stopwords import ASKING, PARTICLES, STOPWORDS
from coatcheck.core.passages.terms import KANA

MAX_QUERY_CHARS: Final = 1_000
MAX_QUERY_TERMS: Final = 64
"""Maximum different keys of one query."""


Term = tuple[int, ...]
"""Keys of which a document must have one."""


def query_keys(query: str) -> tuple[Term, ...]:
    """Returns the terms, all of which a document must have.

    Raises:
        CoatcheckError: `invalid_request` for a query without a word, or one that is too long.
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
    if len(keys) > MAX_QUERY_TERMS:
        raise _too_long(f"It comes to {len(keys)} terms, {MAX_QUERY_TERMS} are possible.")
    return tuple(keys)


def _keys(query: str, *, stop: bool) -> list[Term]:
    text = ASKING.sub(" ", query) if stop else query
    return list(dict.fromkeys(term for run in runs(text) for term in _of_chunk(read(run), stop=stop)))


def _of_chunk(chunk: Chunk, *, stop: bool) -> list[Term]:
    """Returns terms of whole words; for a composed word, its sequence of parts, or the word in one piece."""
    terms: list[Term] = [
        (word_key(word),)
        for word, parts in chunk.words
        if not parts and not (stop and len(chunk.words) == 1 and word in STOPWORDS)
    ]
    for word, parts in chunk.words:
        terms += [(pair_key(pair), word_key(word)) for pair in itertools.pairwise(parts)]
    terms += [(pair_key(pair),) for pair in chunk.joints]
    return terms + [(gram_key(gram),) for gram in _telling(chunk.grams, stop=stop)]


def _telling(grams: tuple[str, ...], *, stop: bool) -> list[str]:
    """Returns the longest grams of a run, without those that only connect words, unless there are no others."""
    longest = [gram for gram in grams if len(gram) == max(map(len, grams))]
    return [g for g in longest if not stop or (not KANA.fullmatch(g) and PARTICLES.isdisjoint(g))]


def _too_long(why: str) -> CoatcheckError:
    return CoatcheckError(
        Code.INVALID_REQUEST, f"The query is too long. {why} Name only the few words that matter.", field="q"
    )
