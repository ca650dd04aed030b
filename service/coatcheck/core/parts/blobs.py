"""The parts of lines that rendering hides: their fields, and bytes that are encoded as text, which a name replaces.

This concerns only rendering, like colours do: each line stays a line, positions do not change, and patterns still match
the hidden parts.
"""

from typing import Final

from coatcheck.core.artifact import LineFields
from coatcheck.core.caches import remember
from coatcheck.core.media import identify
from coatcheck.core.parts.fields import drop_fields, hidden_fields
from coatcheck.core.text.visible_text import Hidden, blank_hidden, in_order, show_parts
from coatcheck_client.contract.blobs import Blob, find_blobs, large_blobs, name_of


def blobs_in(text: bytes, *, begins: bool = True) -> list[Blob]:
    """Returns the blobs of encoded bytes in a text, in order. Unless `begins`, the text begins inside a line."""
    return find_blobs(text, _media_type, begins=begins)


def identify_blobs(text: bytes) -> list[Blob]:
    """Returns the blobs of encoded bytes in a text that are worth an artifact of their own."""
    return large_blobs(text, _media_type)


def find_blob_names(text: bytes, *, begins: bool = True, ends: bool = True) -> list[Hidden]:
    """Returns the ranges of encoded bytes in a text, in order, each with the name that replaces it.

    Args:
        text: the text.
        begins: whether its first byte begins a line.
        ends: whether a line ends after its last byte.
    """
    sizes = ((blob, blob.size if ends or blob.end < len(text) else None) for blob in blobs_in(text, begins=begins))
    return [(blob.start, blob.end, name_of(blob.media_type, size).encode()) for blob, size in sizes]


def ends_inside(text: bytes, *, begins: bool) -> bool:
    """Returns whether the end of a text may be inside of encoded bytes. Unless `begins`, it begins inside a line."""
    return any(blob.end == len(text) for blob in blobs_in(text, begins=begins)[-1:])


def name_blobs(text: bytes) -> bytes:
    """Returns a text with names in place of encoded bytes."""
    return show_parts(text, find_blob_names(text))


def blank_blobs(block: bytes) -> bytes:
    """Returns a block of a text with blanks in place of encoded bytes. It may begin and end inside of a line."""
    blobs = blobs_in(block, begins=False)
    if not blobs:
        return block
    out = bytearray(block)
    for blob in blobs:
        out[blob.start : blob.end] = b" " * (blob.end - blob.start)
    return bytes(out)


def blank_unseen(block: bytes) -> bytes:
    """Returns a block of a text with blanks in place of encoded bytes and of bytes that a terminal never shows."""
    return blank_hidden(blank_blobs(block))


def hidden_parts(fields: LineFields | None, data: bytes, *, begins: bool = True, ends: bool = True) -> list[Hidden]:
    """Returns the hidden ranges of the lines in `data`, in order, each with the text that replaces it.

    Args:
        fields: the fields of the lines; None: they have none.
        data: the lines.
        begins: whether the first byte of `data` begins a line.
        ends: whether a line ends after the last byte of `data`.
    """
    hidden = [] if fields is None else hidden_fields(fields, data, begins=begins)
    blobs = find_blob_names(data, begins=begins, ends=ends)
    return in_order([*hidden, *blobs]) if hidden and blobs else hidden or blobs


def read_lines(fields: LineFields | None, data: bytes, *, begins: bool = True) -> bytes:
    """Returns the lines in `data` as they are shown: their messages. Unless `begins`, `data` begins inside a line."""
    reader = _read_again if len(data) <= _REMEMBERED else _read_lines
    return reader(fields, data, begins)


def _read_lines(fields: LineFields | None, data: bytes, begins: bool) -> bytes:
    if (
        fields is not None
        and begins
        and not find_blob_names(data)
        and (dropped := drop_fields(fields, data)) is not None
    ):
        return dropped
    out: list[bytes] = []
    at = 0
    for start, end, replacement in hidden_parts(fields, data, begins=begins):
        out += (data[at:start], replacement)
        at = end
    return b"".join([*out, data[at:]]) if at else data


_REMEMBERED: Final = 128 * 1024
"""Maximum bytes of a text whose messages are cached, because they are needed twice: when a payload is recognised, and
when its card is cut."""
_read_again: Final = remember("messages", 4, 2 * _REMEMBERED)(_read_lines)


def _media_type(head: bytes) -> str | None:
    binary_format = identify(head)
    return None if binary_format is None else binary_format.media_type
