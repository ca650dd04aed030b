"""Positions in a store that its tenants share, as one of them may hold them: sealed words that tell nothing.

A position counts what all namespaces hold: two of them, readable, would say how much others stored meanwhile. A word is
bound to its namespace, and the same for the same position. It grants nothing: what it leads to is looked up and
authorised as always. Rule: a synthetic initialisation vector (RFC 5297 section 3), of keyed BLAKE2b (RFC 7693).
"""

import base64
import binascii
import hashlib
from typing import Final

_VERSION: Final = b"\x02"
_TAG: Final = 12
"""Bytes that no one makes without the key: one in 10^28."""
_NUMBER: Final = 8
_LENGTH: Final = 28
"""Characters of a word."""
MOST: Final = 2**63 - 1
"""The largest position: what a row's number may be."""


def seal(key: bytes, namespace: str, position: int) -> str:
    """A position, from 0 to MOST, as 28 characters of `A-Z a-z 0-9 - _`."""
    tag = _tag(key, namespace, position)
    hidden = position ^ _stream(key, tag)
    return base64.urlsafe_b64encode(_VERSION + tag + hidden.to_bytes(_NUMBER, "big")).decode()


def unseal(key: bytes, namespace: str, word: str) -> int:
    """The position that `seal` was given.

    Raises:
        ValueError: for any other word, and for another key's or another namespace's.
    """
    if len(word) != _LENGTH or not word.isascii():
        raise ValueError(word[:_LENGTH])
    try:
        packed = base64.b64decode(word, altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError(word) from None
    tag = packed[1 : 1 + _TAG]
    position = int.from_bytes(packed[1 + _TAG :], "big") ^ _stream(key, tag)
    if position > MOST or seal(key, namespace, position) != word:
        raise ValueError(word)
    return position


def _tag(key: bytes, namespace: str, position: int) -> bytes:
    said = position.to_bytes(_NUMBER, "big") + namespace.encode()
    return hashlib.blake2b(said, digest_size=_TAG, key=key, person=b"position").digest()


def _stream(key: bytes, tag: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(tag, digest_size=_NUMBER, key=key, person=b"stream").digest(), "big")
