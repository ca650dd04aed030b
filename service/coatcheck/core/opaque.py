"""Opaque words of `A-Z a-z 0-9 - _` that callers keep and send back: cursors, positions in the store, sessions.

A cursor is checked, and bound to one artifact and question. It is not a secret and grants nothing: the artifact is
looked up and authorised as in any other call. The server keeps no state for a cursor.

A sealed word hides its meaning. The same bytes always give the same word: a synthetic initialisation vector (RFC 5297
section 3) of keyed BLAKE2b (RFC 7693) authenticates and encrypts them. A sealed word is bound to a purpose and a
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
"""Maximum characters of a word. A sealed session has about a quarter of that."""
_CHECK_BYTES: Final = 5
"""Bytes of a cursor's hash. One in 10^12 mistyped cursors passes it; the numbers in a cursor are checked, too."""
_TAG_BYTES: Final = 16
"""Bytes of a seal's tag, which is also the initialisation vector of the keystream, as in RFC 5297. A tag of this length
cannot be guessed."""
_BLOCK_BYTES: Final = 64
"""Bytes of one BLAKE2b digest. The keystream is a sequence of digests."""
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
        ValueError: the text is no word, is too long, or is not the canonical spelling of its bytes.
    """
    data = base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_") if len(word) <= MAX_WORD_CHARS else b""
    if encode_word(data) != word:
        raise ValueError(word[:MAX_WORD_CHARS])
    return data


def write_cursor(cursor: Struct, artifact: int, question: str = "") -> str:
    """Returns a cursor as a word that is valid only for the artifact with this number and for this question."""
    body = msgspec.msgpack.encode(cursor)
    return encode_word(body + _check(body, artifact, question))


def read_cursor(word: str, decoder: msgspec.msgpack.Decoder[T], artifact: int, question: str = "") -> T:
    """Returns the cursor that `write_cursor` encoded.

    Raises:
        ValueError: the text is no cursor, or a cursor of another artifact or question.
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
    """Returns the bytes that `seal` sealed.

    Raises:
        ValueError: the text is no sealed word, or was sealed with another key, purpose or context.
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
    """Returns the data combined with the tag's keystream. The same operation encrypts and decrypts."""
    blocks = range(-(-len(data) // _BLOCK_BYTES))
    stream = b"".join(
        hashlib.blake2b(tag + number.to_bytes(4, "big"), key=key, person=purpose, salt=b"stream").digest()
        for number in blocks
    )
    return bytes(a ^ b for a, b in zip(data, stream, strict=False))


def seal_position(key: bytes, namespace: str, position: int) -> str:
    """Returns a position in the store as a word that hides it from a tenant.

    All namespaces share the positions of the store. Two readable positions would reveal how much other tenants stored
    between them.
    """
    return seal(key, _POSITION, position.to_bytes(_POSITION_BYTES, "big"), namespace.encode())


def unseal_position(key: bytes, namespace: str, word: str) -> int:
    """Returns the position that `seal_position` sealed.

    Raises:
        ValueError: the text is no sealed position, or was sealed with another key or for another namespace.
    """
    return int.from_bytes(unseal(key, _POSITION, word, namespace.encode()), "big")
