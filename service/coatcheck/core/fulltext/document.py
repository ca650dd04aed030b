"""Makes documents: an artifact's declared and detected metadata, and its payload's text, as keys.

Of a text longer than twice ENDS, the first and the last ENDS bytes are read; words between them are not found. A
payload that is not text is found by its metadata.
"""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coatcheck.core.artifact import SAMPLE_BYTES, Artifact
from coatcheck.core.fulltext.ascii_keys import ascii_keys
from coatcheck.core.fulltext.words import KEY_BITS, keys_of_words

ENDS: Final = SAMPLE_BYTES
"""Bytes at either end of a payload's text that are read."""
MAX_KEYS: Final = 50_000
"""Maximum different keys of one document; a payload with more is not text, and is found by those of its beginning."""
_Text = tuple[bytes, list[str]]
"""The ASCII of a document, and its texts between blanks that are not ASCII, each once."""
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def keys_of(documents: Sequence[tuple[Artifact, tuple[bytes, ...]]]) -> list[NDArray[np.uint64]]:
    """Returns the keys of each of one or more documents, sorted, without duplicates.

    Args:
        documents: of the artifact, its title, URLs, names, command, labels and hints are used. With it, the payload's
            text, or its two ends, in UTF-8 as far as it is valid, or in UTF-16 with its mark. Of incomplete UTF-16, the
            second end is lost.
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

    A row may be reused by another artifact, its labels may change, a view may be added, and it may be declared anew: a
    result of the index counts only while its fingerprint matches.
    """
    text = f"{number}\0{_moment(created_at)}\0{labels or ''}\0{view or ''}"
    if declared_at is not None:
        text += f"\0{_moment(declared_at)}"
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=b"document").digest()
    return int.from_bytes(digest, "big") >> 1


def _moment(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
