"""Keys of documents that are read together, against the keys of each chunk read by itself."""

import itertools
import random
import sysconfig
from pathlib import Path

import pytest

from coatcheck.core.artifact import Artifact, DeclaredMetadata
from coatcheck.core.fulltext import MAX_KEYS, keys_of
from coatcheck.core.fulltext.words import gram_key, pair_key, read, runs, word_key
from contract.sample_changes import store

SIGNS = [
    "aB1zZ9 \n'/.:->_#\u2019é数ก\t@~\\%+\0",
    "aaBB1199::: -->'/. ",
    "abcdefghijklmnopqrstuvwxyzABCDEFGH0123456789_ ",
]
FILES = 300


def of_text(said: DeclaredMetadata | None = None) -> Artifact:
    """An artifact of which no more than this is said."""
    change = store(said=said or DeclaredMetadata())
    assert change.blob is not None
    return Artifact(
        namespace="acme",
        id="art_1",
        declared=change.declared,
        measure=change.measure,
        facts=change.facts,
        blob=change.blob,
        created_at=change.now,
        expires_at=None,
        ttl=None,
        idle_ttl=None,
    )


def keys(*texts: bytes) -> list[list[int]]:
    """What documents of these texts have as keys when they are read together."""
    return [found.tolist() for found in keys_of([(of_text(), (text,)) for text in texts])]


def expected(text: bytes, encoding: str = "utf-8") -> list[int]:
    """The keys, chunk by chunk."""
    found: set[int] = set()
    for chunk in (read(run) for between in text.decode(encoding, "replace").split() for run in runs(between)):
        for word, parts, *_ in chunk.words:
            found |= {word_key(word), *map(word_key, parts), *map(pair_key, itertools.pairwise(parts))}
        found |= {*map(pair_key, chunk.joints), *map(gram_key, chunk.grams)}
    return sorted(found)


@pytest.mark.parametrize("signs", SIGNS)
def test_texts_of_any_signs_have_the_keys_of_their_chunks(signs: str) -> None:
    rng = random.Random(signs)
    for longest in (3, 20, 300) * 60:
        texts = ["".join(rng.choices(signs, k=rng.randrange(longest))).encode() for _ in range(rng.randrange(1, 12))]
        assert keys(*texts) == [expected(text) for text in texts], texts


def test_words_that_begin_or_end_alike_are_told_apart_whatever_their_length() -> None:
    rng = random.Random(7)
    for _ in range(40):
        long = "".join(rng.choices("ab1", k=140))
        words = [long[: rng.randrange(1, 140)] for _ in range(60)] + [long[rng.randrange(1, 140) :] for _ in range(60)]
        text = rng.choice(" .").join(rng.sample(words, len(words))).encode()
        assert keys(text, text[::-1]) == [expected(text), expected(text[::-1])]


def test_files_have_the_keys_of_their_chunks() -> None:
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*/*.py*"))
    texts = [path.read_bytes()[:20_000] for path in random.Random(1).sample(files, FILES)]
    for first in range(0, FILES, 40):
        some = texts[first : first + 40]
        assert keys(*some) == [expected(text) for text in some]


def test_utf_16_has_the_keys_of_its_text_beside_others_and_with_what_is_said() -> None:
    text = "src/app.py: Zürich 12:30, don't"
    said = DeclaredMetadata(title="Größe 5", command="make test-all")
    documents = [(of_text(), (text.encode("utf-16"),)), (of_text(said), (text.encode(), b"src end"))]
    one, two = keys_of(documents)
    assert one.tolist() == expected(text.encode())
    assert two.tolist() == expected(f"{text} src end {said.title} {said.command}".encode())


def test_of_too_many_keys_those_of_the_beginning_stay() -> None:
    words = [f"w{number:05x}" for number in range(MAX_KEYS)]
    beginning = " ".join(words[: MAX_KEYS // 4]).encode()
    (found,) = keys(" ".join(words).encode())
    assert len(found) == MAX_KEYS
    assert found == sorted(found)
    assert set(expected(beginning)) <= set(found)


def test_a_text_without_words_has_no_keys() -> None:
    assert keys(b"", b" ", b"\0") == [[], [], []]
