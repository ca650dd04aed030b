"""Opaque words of `A-Z a-z 0-9 - _` that callers keep and send back: cursors, positions in the store, sessions.

A cursor is checked and bound to one artifact and question. It is not a secret and grants nothing: the artifact is
looked up and authorised as always. The server keeps no state for it.

A sealed word hides what it means, and is always the same for the same bytes: a synthetic initialisation vector
(RFC 5297 section 3) of keyed BLAKE2b (RFC 7693) authenticates and encrypts them. It is bound to a purpose and a
context.
"""

import base64
import hashlib
import hmac
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T", bound=Struct)

MAX_WORD_CHARS: Final = 512
"""Maximum characters of a word: a session has a key of a tenth of that."""
_CHECK_BYTES: Final = 5
"""Bytes of a cursor's hash: a mistyped cursor passes once in 10^12; its numbers are checked too."""
_TAG_BYTES: Final = 16
"""Bytes of a seal's tag, the vector of its keystream as well, as in RFC 5297: it cannot be guessed."""
_BLOCK_BYTES: Final = 64
"""Bytes of one digest of BLAKE2b, which the keystream is made of."""
_POSITION_BYTES: Final = 8
"""Bytes of a row's position."""
_POSITION: Final = b"position"
"""Purpose of the seal of a position."""


def encode_word(data: bytes) -> str:
    """Returns bytes as a word."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_word(word: str) -> bytes:
    """Returns the bytes of a word.

    Raises:
        ValueError: it is none, or not the one way to spell these bytes.
    """
    data = base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_") if len(word) <= MAX_WORD_CHARS else b""
    if encode_word(data) != word:
        raise ValueError(word[:MAX_WORD_CHARS])
    return data


def write_cursor(cursor: Struct, artifact: int, question: str = "") -> str:
    """Returns a cursor as a word that is valid only for the artifact of this number, and this question."""
    body = msgspec.msgpack.encode(cursor)
    return encode_word(body + _check(body, artifact, question))


def read_cursor(word: str, decoder: msgspec.msgpack.Decoder[T], artifact: int, question: str = "") -> T:
    """Returns what `write_cursor` encoded.

    Raises:
        ValueError: for any other word, or that of another artifact or question.
    """
    data = decode_word(word)
    body, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
    if check != _check(body, artifact, question):
        raise ValueError(word)
    return decoder.decode(body)


def _check(body: bytes, artifact: int, question: str) -> bytes:
    key, context = artifact.to_bytes(8, "big"), question.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(body + b"\0" + context, digest_size=_CHECK_BYTES, key=key, person=b"cursor").digest()


def seal(key: bytes, purpose: bytes, plain: bytes, context: bytes = b"") -> str:
    """Returns bytes as a word that reveals them only to the holder of the key."""
    tag = _tag(key, purpose, plain, context)
    return encode_word(tag + _encrypt(key, purpose, tag, plain))


def unseal(key: bytes, purpose: bytes, word: str, context: bytes = b"") -> bytes:
    """Returns the bytes that `seal` was given.

    Raises:
        ValueError: for any other word, or that of another key, purpose or context.
    """
    data = decode_word(word)
    tag, hidden = data[:_TAG_BYTES], data[_TAG_BYTES:]
    plain = _encrypt(key, purpose, tag, hidden)
    if not hmac.compare_digest(_tag(key, purpose, plain, context), tag):
        raise ValueError(word)
    return plain


def _tag(key: bytes, purpose: bytes, plain: bytes, context: bytes) -> bytes:
    message = len(context).to_bytes(4, "big") + context + plain
    return hashlib.blake2b(message, digest_size=_TAG_BYTES, key=key, person=purpose, salt=b"tag").digest()


def _encrypt(key: bytes, purpose: bytes, tag: bytes, data: bytes) -> bytes:
    """Returns the data combined with the tag's keystream, which hides it, or reveals it again."""
    blocks = range(-(-len(data) // _BLOCK_BYTES))
    stream = b"".join(
        hashlib.blake2b(tag + number.to_bytes(4, "big"), key=key, person=purpose, salt=b"stream").digest()
        for number in blocks
    )
    return bytes(a ^ b for a, b in zip(data, stream, strict=False))


def seal_position(key: bytes, namespace: str, position: int) -> str:
    """Returns a position in the store that all namespaces share, for a tenant.

    It counts what all of them hold: two readable positions would reveal how much others stored meanwhile.
    """
    return seal(key, _POSITION, position.to_bytes(_POSITION_BYTES, "big"), namespace.encode())


def unseal_position(key: bytes, namespace: str, word: str) -> int:
    """Returns the position that `seal_position` was given.

    Raises:
        ValueError: for any other word, or that of another key or namespace.
    """
    return int.from_bytes(unseal(key, _POSITION, word, namespace.encode()), "big")
