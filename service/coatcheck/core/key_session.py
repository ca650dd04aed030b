"""A key as a browser keeps it: sealed, so that the cookie is not the key, and stored nowhere.

Whoever has the cookie can use the page for SESSION_SECONDS. The service's secret alone, or its database alone, is not
enough to make a cookie, because the key inside is checked like any presented key. So a revoked key ends every session
that was made with it. Sealing uses a synthetic initialisation vector (RFC 5297 section 3) of keyed BLAKE2b.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final, NamedTuple

SESSION_SECONDS: Final = 12 * 3600
"""Seconds that a browser stays signed in."""
_SKEW: Final = 60
"""Seconds by which the clocks of replicas may differ."""
_VERSION: Final = b"\x01"
_TAG: Final = 24
_TIME: Final = 8
_BLOCK: Final = 64
_LONGEST: Final = 512
"""Maximum characters of a sealed key."""


class KeySession(NamedTuple):
    """The content of a cookie."""

    key: str
    """Text of the key."""
    since: int
    """When the browser signed in, in seconds since 1970."""


def seal_session(secret: bytes, session: KeySession) -> str:
    """Returns a session as characters of `A-Z a-z 0-9 - _`, which reveal the key only to the holder of the secret."""
    plain = session.since.to_bytes(_TIME, "big") + session.key.encode()
    tag = _tag(secret, plain)
    return base64.urlsafe_b64encode(_VERSION + tag + _hidden(secret, tag, plain)).decode().rstrip("=")


def open_session(secret: bytes, word: str, now: int) -> KeySession:
    """Returns the session that was sealed.

    Raises:
        ValueError: the word was not made with this secret, or has expired.
    """
    if len(word) > _LONGEST or not word.isascii():
        raise ValueError("not a session")
    try:
        data = base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError("not a session") from None
    tag, hidden = data[1 : 1 + _TAG], data[1 + _TAG :]
    plain = _hidden(secret, tag, hidden)
    if data[:1] != _VERSION or not hmac.compare_digest(_tag(secret, plain), tag):
        raise ValueError("not a session")
    since = int.from_bytes(plain[:_TIME], "big")
    if not since - _SKEW <= now < since + SESSION_SECONDS:
        raise ValueError("the session is over")
    return KeySession(plain[_TIME:].decode(), since)


def form_token(secret: bytes, session: str | None) -> str:
    """Returns the token of a session's forms, which other sites' forms lack; None: nobody signed in."""
    data = b"" if session is None else session.encode()
    return hashlib.blake2b(data, digest_size=_TAG, key=secret, person=b"page form").hexdigest()


def _tag(secret: bytes, plain: bytes) -> bytes:
    return hashlib.blake2b(plain, digest_size=_TAG, key=secret, person=b"page session").digest()


def _hidden(secret: bytes, tag: bytes, data: bytes) -> bytes:
    """Returns the data combined with a keystream, which hides it, or reveals it again."""
    blocks = range((len(data) + _BLOCK - 1) // _BLOCK)
    stream = b"".join(
        hashlib.blake2b(tag + number.to_bytes(4, "big"), key=secret, person=b"page stream").digest()
        for number in blocks
    )
    return bytes(a ^ b for a, b in zip(data, stream, strict=False))
