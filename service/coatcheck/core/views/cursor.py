"""Opaque words for positions: cursors, where a reading continues, and sealed positions in a store that tenants share.

A cursor is URL-safe, versioned, bound to one artifact, checked. It is not a secret and grants nothing: the artifact is
looked up and authorised as always. The server keeps no state for it.

A sealed position hides its number, which counts what all namespaces hold: two readable ones would reveal how much
others stored meanwhile. Its word is bound to its namespace, and always the same for the same position. It is made with
a synthetic initialisation vector (RFC 5297 section 3) of keyed BLAKE2b (RFC 7693).
"""

import base64
import binascii
import hashlib
from typing import Final, NoReturn

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.views.window import NUMBER_LIMIT, UNITS, Unit

_VERSION = 1
"""First byte of a cursor; those of other versions are refused."""
_CHECK_BYTES = 5
"""Bytes of a hash over artifact and content: a mistyped cursor passes once in 10^12; its numbers are checked too."""
_LENGTH_LIMIT = 64
"""Maximum characters of a cursor: those of the largest numbers."""
_VIEWS = ("raw", "text")
_NUMBER_COUNT = 5
"""Numbers that every cursor has; a version may follow."""
_SEVEN = 0x7F
"""Bits of a number in each of its bytes (LEB128); the eighth says whether another byte follows."""


class Cursor(Struct, frozen=True):
    """The next part to read."""

    view: str
    unit: Unit
    byte: int
    """Where in the view it continues."""
    page: int | None = None
    """Units per page that the caller requested; None: unlimited."""
    page_remaining: int | None = None
    """Units of the current page that are still to come; None: unlimited."""
    token: int = 0
    """The token position of `byte`, for `unit` token."""
    section: int | None = None
    """Index, from 0, of the section that is read; None: the whole view."""
    version: int = 0
    """That of the view, if it is not the payload itself."""


def write(cursor: Cursor, artifact: int) -> str:
    """Returns the cursor as up to 64 characters of `A-Z a-z 0-9 - _`, valid only for the artifact of this number."""
    body = bytes([_VERSION, _VIEWS.index(cursor.view) << 4 | UNITS.index(cursor.unit)])
    numbers = [cursor.byte, _plus(cursor.page), _plus(cursor.page_remaining), cursor.token, _plus(cursor.section)]
    numbers += [cursor.version] if cursor.version else []
    body += b"".join(map(_varint, numbers))
    return base64.urlsafe_b64encode(body + _check(body, artifact)).rstrip(b"=").decode()


def read(text: str, artifact: int) -> Cursor:
    """Returns what `write` encoded.

    Raises:
        CoatcheckError: `invalid_cursor` for anything else, or for another artifact's cursor.
    """
    if len(text) > _LENGTH_LIMIT or not text.isascii():
        _refuse()
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        _refuse()
    body, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
    if len(body) < 2 + _NUMBER_COUNT or check != _check(body, artifact) or body[0] != _VERSION:
        _refuse()
    numbers = _varints(body[2:])
    view, unit = body[1] >> 4, body[1] & 0xF
    if (
        len(numbers) not in {_NUMBER_COUNT, _NUMBER_COUNT + 1}
        or view >= len(_VIEWS)
        or unit >= len(UNITS)
        or max(numbers) > NUMBER_LIMIT
    ):
        _refuse()
    byte, page, page_remaining, token, section, *version = numbers
    cursor = Cursor(
        _VIEWS[view], UNITS[unit], byte, _minus(page), _minus(page_remaining), token, _minus(section), *version
    )
    if write(cursor, artifact) != text:  # exactly one spelling: no spare bits, no padding, no long varints
        _refuse()
    return cursor


def _check(body: bytes, artifact: int) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECK_BYTES, key=artifact.to_bytes(8, "big"), person=b"cursor").digest()


def _plus(n: int | None) -> int:
    return 0 if n is None else n + 1


def _minus(n: int) -> int | None:
    return n - 1 if n else None


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > _SEVEN:
        out.append(n & _SEVEN | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _varints(body: bytes) -> list[int]:
    numbers: list[int] = []
    n = shift = 0
    for octet in body:
        n |= (octet & _SEVEN) << shift
        shift += 7
        if not octet & 0x80:
            numbers.append(n)
            n = shift = 0
    return numbers if shift == 0 else []


def _refuse() -> NoReturn:
    raise CoatcheckError(
        Code.INVALID_CURSOR,
        "This cursor does not belong to this artifact. Use the `next` of its last answer unchanged, or give an offset.",
    )


_SEAL_VERSION: Final = b"\x02"
_TAG: Final = 12
"""Bytes that cannot be guessed without the key: one in 10^28."""
_NUMBER_BYTES: Final = 8
"""Bytes of a position."""
_SEAL_CHARS: Final = 28
"""Characters of a word."""
MAX_POSITION: Final = 2**63 - 1
"""The largest position, that of a row."""


def seal(key: bytes, namespace: str, position: int) -> str:
    """Returns a position, from 0 to MAX_POSITION, as 28 characters of `A-Z a-z 0-9 - _`."""
    tag = _tag(key, namespace, position)
    hidden = position ^ _stream(key, tag)
    return base64.urlsafe_b64encode(_SEAL_VERSION + tag + hidden.to_bytes(_NUMBER_BYTES, "big")).decode()


def unseal(key: bytes, namespace: str, word: str) -> int:
    """Returns the position that `seal` was given.

    Raises:
        ValueError: for any other word, or that of another key or namespace.
    """
    if len(word) != _SEAL_CHARS or not word.isascii():
        raise ValueError(word[:_SEAL_CHARS])
    try:
        data = base64.b64decode(word, altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError(word) from None
    tag = data[1 : 1 + _TAG]
    position = int.from_bytes(data[1 + _TAG :], "big") ^ _stream(key, tag)
    if position > MAX_POSITION or seal(key, namespace, position) != word:
        raise ValueError(word)
    return position


def _tag(key: bytes, namespace: str, position: int) -> bytes:
    message = position.to_bytes(_NUMBER_BYTES, "big") + namespace.encode()
    return hashlib.blake2b(message, digest_size=_TAG, key=key, person=b"position").digest()


def _stream(key: bytes, tag: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(tag, digest_size=_NUMBER_BYTES, key=key, person=b"stream").digest(), "big")
