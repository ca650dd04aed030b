"""The form of a payload: what lies between its bytes and the text in them. Found once, when it is stored, and kept."""

import codecs
import re
from typing import Final, final

from coatcheck.core.artifact import Charset, PayloadForm, PayloadSample
from coatcheck.core.media import identify
from coatcheck.core.parts.charset import UTF_8, find_charset, has_controls
from coatcheck.core.parts.envelope import open_envelope, render

_SOLE_LINE: Final = 8 * 1024
"""Bytes at the beginning that decide what carriage returns mean."""
_PIECES: Final = 64
"""Pieces of that beginning that tell whether they are alike."""
_LETTERS: Final = re.compile(rb"[^A-Za-z\x80-\xff]+")
_SELDOM: Final = 20
"""At most one line end in this many is LF, in a text whose lines end with CR."""


def words_of(form: PayloadForm) -> str:
    """Returns what a card says of a form."""
    charset = form.charset
    named = "" if charset is None else f"from {charset.name.upper()}{' (a guess)' if charset.is_guess else ''}"
    ends = "lines end in CR" if form.ends_with_cr else ""
    return ", ".join(filter(None, (named, ends, "in JSON" if form.is_envelope else "")))


def open_payload(form: PayloadForm, payload: bytes) -> bytes:
    """Returns the text of a whole payload, as UTF-8 with LF."""
    data = FormDecoder(form).decode(payload, is_last=True)
    envelope = open_envelope(data) if form.is_envelope else None
    return data if envelope is None else render(envelope).encode("utf-8", "replace")


@final
class FormDecoder:
    """Decodes a payload block by block, as UTF-8 with LF; an envelope is not opened."""

    def __init__(self, form: PayloadForm) -> None:
        charset = form.charset or Charset(UTF_8)
        self._mark = charset.mark
        self._ends_with_cr = form.ends_with_cr
        self._decoder = codecs.getincrementaldecoder(charset.name)("replace")

    def decode(self, block: bytes, *, is_last: bool = False) -> bytes:
        """Returns the text that has become complete; undecodable bytes become U+FFFD, and NUL nothing."""
        data = block[self._mark :]
        self._mark -= len(block) - len(data)
        data = self._decoder.decode(data, is_last).replace("\0", "").encode("utf-8", "replace")
        return data.replace(b"\r", b"\n") if self._ends_with_cr else data


def find_form(sample: PayloadSample, media_type: str | None) -> PayloadForm | None:
    """Returns the form of a payload; None if its bytes are its text, or are no text at all."""
    head = sample.head
    if identify(head) is not None:
        return None
    charset = find_charset(head, media_type, is_whole=sample.whole)
    text = head if charset is None else open_payload(PayloadForm(charset), head)
    if has_controls(text):
        return None
    form = PayloadForm(charset, _ends_with_cr(text), sample.whole and open_envelope(text) is not None)
    return None if form == PayloadForm() else form


def _ends_with_cr(text: bytes) -> bool:
    """Returns whether CR ends lines rather than returning to a line's beginning, as in a terminal.

    Progress that is written over line by line ends with LF at last; a text without any, that CR ends, has lines.
    """
    returns = text.count(b"\r") - text.count(b"\r\n")
    if text.count(b"\n") * _SELDOM >= returns:
        return False
    if b"\n" not in text and text.endswith(b"\r"):
        return True
    # In an old text file, consecutive pieces differ by more than numbers.
    pieces = re.split(rb"[\r\n]", text[:_SOLE_LINE], maxsplit=_PIECES)[:_PIECES]
    lines = [_LETTERS.sub(b"", piece) for piece in pieces if piece.strip()]
    return len(lines) > 2 and len(set(lines)) * 2 > len(lines) + 1  # noqa: PLR2004 - two are alike or not by chance
