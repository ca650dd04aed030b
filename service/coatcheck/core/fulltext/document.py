"""Makes documents: an artifact's declared and detected metadata, and its payload's text, as keys.

Of a text longer than twice ENDS, the first and the last ENDS bytes are read; words between them are not found. A
payload that is not text is found by its metadata.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coatcheck.core.artifact import SAMPLE_BYTES, Artifact
from coatcheck.core.fulltext.words import keys_of_words

ENDS: Final = SAMPLE_BYTES
"""Bytes at either end of a payload's text that are read."""
MAX_KEYS: Final = 50_000
"""Maximum different keys of one document; a payload with more is not text, and is found by those of its beginning."""
_TOGETHER: Final = 4_000
"""Texts between blanks whose keys are made before checking whether there are enough."""
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def keys_of(artifact: Artifact, texts: tuple[bytes, ...]) -> NDArray[np.uint64]:
    """Returns the keys of a document, sorted, without duplicates.

    Args:
        artifact: its title, URLs, names, command, labels and hints are used.
        texts: the payload's text, or its two ends, in UTF-8 as far as it is valid, or in UTF-16 with its mark. Of
            incomplete UTF-16, the second end is lost.
    """
    said, facts = artifact.said, artifact.facts
    spoken = (said.title, facts.title, said.url, facts.url, said.tool_name, said.command, *said.labels)
    encoding = "utf-16" if texts and texts[0][:2] in _UTF_16 else "utf-8"
    written: dict[str, None] = {}
    for text in (*(word for word in spoken if word), *(text.decode(encoding, "replace") for text in texts)):
        # Each text between blanks once, in order, as most of them recur. No chunk contains blanks.
        written.update(dict.fromkeys(text.split()))
    left = iter(written)
    keys: dict[int, None] = {}
    while len(keys) < MAX_KEYS and (some := list(islice(left, _TOGETHER))):
        keys.update(dict.fromkeys(keys_of_words(some)))
    return np.sort(np.array(list(keys)[:MAX_KEYS], dtype=np.uint64))


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
