"""Seals positions in a store that tenants share, as words that reveal nothing.

A position counts what all namespaces hold: two readable ones would reveal how much others stored meanwhile. A word is
bound to its namespace, and always the same for the same position. It grants nothing: what it leads to is looked up and
authorised as always. It is made with a synthetic initialisation vector (RFC 5297 section 3) of keyed BLAKE2b (RFC
7693).
"""

import base64
import binascii
import hashlib
from typing import Final

_SEAL_VERSION: Final = b"\x02"
_TAG: Final = 12
"""Bytes that cannot be guessed without the key: one in 10^28."""
_NUMBER: Final = 8
_LENGTH: Final = 28
"""Characters of a word."""
MOST: Final = 2**63 - 1
"""The largest position, that of a row."""


def seal(key: bytes, namespace: str, position: int) -> str:
    """Returns a position, from 0 to MOST, as 28 characters of `A-Z a-z 0-9 - _`."""
    tag = _tag(key, namespace, position)
    hidden = position ^ _stream(key, tag)
    return base64.urlsafe_b64encode(_SEAL_VERSION + tag + hidden.to_bytes(_NUMBER, "big")).decode()


def unseal(key: bytes, namespace: str, word: str) -> int:
    """Returns the position that `seal` was given.

    Raises:
        ValueError: for any other word, or that of another key or namespace.
    """
    if len(word) != _LENGTH or not word.isascii():
        raise ValueError(word[:_LENGTH])
    try:
        data = base64.b64decode(word, altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError(word) from None
    tag = data[1 : 1 + _TAG]
    position = int.from_bytes(data[1 + _TAG :], "big") ^ _stream(key, tag)
    if position > MOST or seal(key, namespace, position) != word:
        raise ValueError(word)
    return position


def _tag(key: bytes, namespace: str, position: int) -> bytes:
    message = position.to_bytes(_NUMBER, "big") + namespace.encode()
    return hashlib.blake2b(message, digest_size=_TAG, key=key, person=b"position").digest()


def _stream(key: bytes, tag: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(tag, digest_size=_NUMBER, key=key, person=b"stream").digest(), "big")
