"""What of lines is not shown: their fields, and bytes that are written as text, which are named instead.

A rule of rendering, like colours: each line stays a line, its bytes stay where they are, and patterns match them.
"""

from typing import Final

from coatcheck.core.artifact import LineFields
from coatcheck.core.caches import remember
from coatcheck.core.media import identify
from coatcheck.core.parts.fields import drop_fields, hidden_fields
from coatcheck.core.text.visible_text import Hidden, blank_hidden, in_order, show_parts
from coatcheck_client.contract.blobs import Blob, find_blobs, large_blobs, name_of


def blobs_in(text: bytes, *, begins: bool = True) -> list[Blob]:
    """Returns the encoded bytes in a text, in order; without `begins`, its first byte is inside a line."""
    return find_blobs(text, _media_type, begins=begins)


def identify_blobs(text: bytes) -> list[Blob]:
    """Returns the encoded bytes in a text that are worth an artifact of their own."""
    return large_blobs(text, _media_type)


def find_blob_names(text: bytes, *, begins: bool = True, ends: bool = True) -> list[Hidden]:
    """Returns the encoded bytes in a text, in order, each with its name; without `ends`, its last line goes on."""
    sizes = ((blob, blob.size if ends or blob.end < len(text) else None) for blob in blobs_in(text, begins=begins))
    return [(blob.start, blob.end, name_of(blob.media_type, size).encode()) for blob, size in sizes]


def ends_inside(text: bytes, *, begins: bool) -> bool:
    """Returns whether a part of a text ends inside of encoded bytes."""
    return any(blob.end == len(text) for blob in blobs_in(text, begins=begins)[-1:])


def name_blobs(text: bytes) -> bytes:
    """Returns a text with names in place of encoded bytes."""
    return show_parts(text, find_blob_names(text))


def blank_blobs(block: bytes) -> bytes:
    """Returns a block of a text, which may begin and end inside of a line, with blanks in place of encoded bytes."""
    blobs = blobs_in(block, begins=False)
    if not blobs:
        return block
    out = bytearray(block)
    for blob in blobs:
        out[blob.start : blob.end] = b" " * (blob.end - blob.start)
    return bytes(out)


def blank_unseen(block: bytes) -> bytes:
    """Returns a block of a text with blanks in place of encoded bytes and of what was never visible."""
    return blank_hidden(blank_blobs(block))


def hidden_parts(fields: LineFields | None, data: bytes, *, begins: bool = True, ends: bool = True) -> list[Hidden]:
    """Returns what is not shown of the lines in `data`, in order, and what in its place.

    Args:
        fields: those of the lines.
        data: the lines.
        begins: whether its first byte begins a line.
        ends: whether a line ends after its last one.
    """
    hidden = [] if fields is None else hidden_fields(fields, data, begins=begins)
    blobs = find_blob_names(data, begins=begins, ends=ends)
    return in_order([*hidden, *blobs]) if hidden and blobs else hidden or blobs


def read_lines(fields: LineFields | None, data: bytes, *, begins: bool = True) -> bytes:
    """Returns the messages of the lines in `data`, each in its line, as they are shown."""
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
"""Bytes of a text whose messages are remembered: a payload is recognised, and then its card is cut."""
_read_again: Final = remember("messages", 4, 2 * _REMEMBERED)(_read_lines)


def _media_type(head: bytes) -> str | None:
    binary_format = identify(head)
    return None if binary_format is None else binary_format.media_type
