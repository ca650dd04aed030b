"""Cursors of readings by path: where the next page begins, bound to one artifact and one query.

URL-safe, checked, not secret: they grant nothing, and the server keeps no state for them.
"""

import base64
import binascii
import hashlib
from typing import Final

import msgspec
from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath.hits import Resume

LENGTH_LIMIT: Final = 96
_CHECK_BYTES: Final = 5


class ValueCursor(Struct, frozen=True, tag="i", array_like=True):
    """A next page inside one value: its bytes from `byte` to before `end`."""

    byte: int
    end: int
    text: bool
    """Whether the value is a string; then its characters are shown, without quotes and escapes."""
    partial: bool = False
    """Whether the value is not JSON, or incomplete; this was said with its first part."""


_DECODER: Final = msgspec.msgpack.Decoder(ValueCursor | Resume)


def write(at: Resume | ValueCursor, artifact: int, question: str) -> str:
    """Returns the cursor as at most 96 characters of `A-Z a-z 0-9 - _`."""
    body = msgspec.msgpack.encode(at)
    return base64.urlsafe_b64encode(body + _check(body, artifact, question)).rstrip(b"=").decode()


def read(text: str, artifact: int, question: str) -> Resume | ValueCursor:
    """Returns what `write` encoded.

    Raises:
        CoatcheckError: `invalid_cursor` for anything else, and for a cursor of another artifact or path.
    """
    cursor = _unpack_cursor(text, artifact, question) if len(text) <= LENGTH_LIMIT else None
    if cursor is None:
        raise CoatcheckError(
            Code.INVALID_CURSOR,
            "This cursor does not belong to this artifact and path. Use the `next` of the last answer unchanged, "
            "with the same path and fields, or leave it out.",
        )
    return cursor


def _unpack_cursor(text: str, artifact: int, question: str) -> ValueCursor | Resume | None:
    try:
        data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        body, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
        return _DECODER.decode(body) if check == _check(body, artifact, question) else None
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        return None


def _check(body: bytes, artifact: int, question: str) -> bytes:
    key = artifact.to_bytes(8, "big")
    question_bytes = question.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(body + b"\0" + question_bytes, digest_size=_CHECK_BYTES, key=key, person=b"json").digest()
