"""A long text, kept as its UTF-8 bytes: a `str` with a single emoji takes four bytes per character.

A long text is examined and stored, but not worked on: it knows its length, its beginning, and whether it equals another
text. A caller that needs the text itself makes a `str` of it, for one text at a time. ASCII texts stay `str`, because a
`str` of ASCII is as small. `decode` in core/context/body/encoding.py makes long texts.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, TypeGuard, final

LEAST: Final = 256
"""Minimum bytes of a text that is kept as UTF-8; a shorter text takes less memory as a `str`."""
AT_ONCE: Final = 256 * 1024
"""Bytes that are decoded to a `str` at a time."""


@final
class LongText:
    """A text that is not ASCII, kept as UTF-8. Its length is in characters, like that of a `str`."""

    __slots__ = ("_length", "data")

    def __init__(self, data: bytes) -> None:
        """Keeps the bytes, and counts their characters.

        Raises:
            UnicodeDecodeError: `data` is not UTF-8.
        """
        self.data: Final = data
        self._length: Final = sum(len(str(piece, "utf-8")) for piece in _pieces(data))

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return self.data.decode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LongText) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __contains__(self, text: str) -> bool:
        return text.encode() in self.data

    def startswith(self, beginnings: tuple[str, ...]) -> bool:
        """Returns whether the text begins with one of `beginnings`."""
        return self.data.startswith(tuple(one.encode() for one in beginnings))

    def head(self, characters: int) -> str:
        """Returns the first characters of the text, at most `characters`."""
        return self.data[: 4 * characters].decode("utf-8", "ignore")[:characters]

    def tail(self, characters: int) -> str:
        """Returns the last characters of the text, at most `characters`, which is at least 1."""
        return self.data[-4 * characters :].decode("utf-8", "ignore")[-characters:]


Text = str | LongText


def is_text(value: object) -> TypeGuard[Text]:
    """Returns whether a value of a decoded body is a text."""
    return isinstance(value, str | LongText)


def head_of(text: Text, characters: int) -> str:
    """Returns the first characters of a text, at most `characters`."""
    return text[:characters] if isinstance(text, str) else text.head(characters)


def tail_of(text: Text, characters: int) -> str:
    """Returns the last characters of a text, at most `characters`, which is at least 1."""
    return text[-characters:] if isinstance(text, str) else text.tail(characters)


def is_ascii(text: Text) -> bool:
    """Returns whether a text has only ASCII characters."""
    return isinstance(text, str) and text.isascii()


def encode_text(text: Text) -> bytes:
    """Returns a text in UTF-8. Halves of surrogate pairs become `?`."""
    return text.encode("utf-8", "replace") if isinstance(text, str) else text.data


def is_inside(byte: int) -> bool:
    """Returns whether a byte of UTF-8 continues a character."""
    return byte & 0xC0 == 0x80  # noqa: PLR2004 - its two high bits


def text_of(data: bytes) -> Text:
    """Returns the text that `data` encodes, in the form that takes less memory.

    Raises:
        UnicodeDecodeError: `data` is not UTF-8.
    """
    return data.decode() if len(data) < LEAST or data.isascii() else LongText(data)


def small(text: Text) -> Text:
    """Returns a text in the form that takes less memory. A text with halves of surrogate pairs stays a `str`."""
    try:
        return text if isinstance(text, LongText) or text.isascii() else text_of(text.encode())
    except UnicodeEncodeError:
        return text


def strings(text: Text) -> Iterator[str]:
    """Yields a text in pieces of about AT_ONCE bytes, but a `str` in one piece."""
    if isinstance(text, str):
        yield text
    else:
        yield from (str(piece, "utf-8") for piece in _pieces(text.data))


def _pieces(data: bytes) -> list[memoryview]:
    """Returns bytes in pieces of about AT_ONCE bytes, none of which splits a character."""
    view = memoryview(data)
    ends = [0]
    while ends[-1] < len(data):
        end = min(ends[-1] + AT_ONCE, len(data))
        while end < len(data) and end - ends[-1] < AT_ONCE + 4 and is_inside(data[end]):
            end += 1
        ends.append(end)
    return [view[start:end] for start, end in pairwise(ends)]
