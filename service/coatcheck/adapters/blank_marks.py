r"""A mark before the last blank of a run that a word follows, so that an encoding's pattern needs no look-ahead.

The patterns of the encodings leave the last of several blanks to what follows them (`\s+(?!\S)`). Look-ahead puts
their engine into its slow way of matching, for every character of a text and not only for its blanks. With a mark where
the run is cut the pattern without look-ahead makes the same pieces, in about half the time.
"""

import re
from typing import Final

import numpy as np

MARK: Final = "\U0010ffff"
"""A noncharacter: Unicode reserves it for uses like this one. Text that has it cannot be marked."""

_BLANKS: Final = " \t\x0b\x0c"
_OTHERS: Final = "\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""With these, the carriage return and the line feed: Unicode's White_Space, which is the encoder's `\\s`."""
_OTHER: Final = re.compile(f"[{_OTHERS}]")
_ENDS_RUN: Final = re.compile(f"[{_BLANKS}](?=[{_BLANKS}][^{_BLANKS}\r\n])")
_ENDS_ANY_RUN: Final = re.compile(f"[{_BLANKS}{_OTHERS}](?=[{_BLANKS}{_OTHERS}][^{_BLANKS}{_OTHERS}\r\n])")
_LONG: Final = 1_000
"""Characters from which on arrays are faster than an expression."""
_MARK_BYTES: Final = MARK.encode()

_WORD, _BLANK, _BREAK = 0, 1, 2
_CLASSES: Final = np.zeros(256, dtype=np.uint8)
_CLASSES[list(_BLANKS.encode())] = _BLANK
_CLASSES[list(b"\r\n")] = _BREAK


def marked(text: str) -> tuple[str, int]:
    """The text with its marks, and how many there are. `text` has no lone surrogates and no mark of its own."""
    if not text.isascii() and _OTHER.search(text):
        return _ENDS_ANY_RUN.subn(_with_mark, text)
    if not ("  " in text or "\t" in text or "\x0b" in text or "\x0c" in text):
        return text, 0
    return _ENDS_RUN.subn(_with_mark, text) if len(text) < _LONG else _marked_bytes(text)


def _with_mark(blank: re.Match[str]) -> str:
    return blank.group() + MARK


def _marked_bytes(text: str) -> tuple[str, int]:
    data = text.encode()
    classes = _CLASSES[np.frombuffer(data, dtype=np.uint8)]
    blank = classes == _BLANK
    last = np.flatnonzero(blank[:-2] & blank[1:-1] & (classes[2:] == _WORD)) + 1
    pieces: list[bytes] = []
    start = 0
    for at in last.tolist():
        pieces.append(data[start:at])
        start = at
    pieces.append(data[start:])
    return _MARK_BYTES.join(pieces).decode(), len(pieces) - 1
