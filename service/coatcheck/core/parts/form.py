"""The form of a payload: how its text is obtained from its bytes. It is determined once, when the payload is stored."""

import re
from itertools import pairwise
from typing import Final, Literal, final

from msgspec.structs import replace

from coatcheck.core.artifact import Charset, PayloadForm, PayloadSample
from coatcheck.core.media import identify, identify_written
from coatcheck.core.parts.charset import UTF_8, BlockDecoder, LineDecoder, find_charset, has_controls
from coatcheck.core.parts.envelope import open_envelope, render, url_beside

_SOLE_LINE: Final = 8 * 1024
"""Bytes at the beginning that show whether carriage returns end lines."""
_PIECES: Final = 64
"""Maximum pieces of that beginning that are compared with one another."""
_LETTERS: Final = re.compile(rb"[^A-Za-z\x80-\xff]+")
"""Matches everything but letters."""
_MAX_NUL_SHARE: Final = 0.55
"""Maximum share of NULs in a text. In UTF-16, half of the bytes may be NULs."""
_SELDOM: Final = 20
"""In a text whose lines end with CR, fewer than one line end in this many is LF. NULs and undecodable bytes are judged
by the same ratio."""


def words_of(form: PayloadForm) -> str:
    """Returns a form in words, for a card."""
    charset = form.charset
    charset_text = ""
    if charset is not None:
        rest = f" and {charset.rest.upper()}" if charset.rest else ""
        charset_text = f"from {charset.name.upper()}{rest}{' (a guess)' if charset.is_guess else ''}"
    ends = "lines end in CR" if form.ends_with_cr else "lines end in NUL" if form.nuls == "line ends" else ""
    dropped = "without NULs" if form.nuls == "dropped" else ""
    return ", ".join(filter(None, (charset_text, ends, dropped, "unwrapped" if form.is_envelope else "")))


def open_payload(form: PayloadForm, payload: bytes) -> bytes:
    """Returns the text of a whole payload, as UTF-8 with LF."""
    data = FormDecoder(form).decode(payload, is_last=True)
    envelope = open_envelope(data) if form.is_envelope else None
    return data if envelope is None else render(envelope).encode("utf-8", "replace")


@final
class FormDecoder:
    """Decodes a payload block by block into UTF-8 with LF. It does not open an envelope."""

    def __init__(self, form: PayloadForm) -> None:
        charset = form.charset or Charset(UTF_8)
        self._mark = charset.mark
        self._ends = {13: "\n"} if form.ends_with_cr else {}
        self._ends[0] = "\n" if form.nuls == "line ends" else ""
        self._decode = (LineDecoder(charset.rest) if charset.rest else BlockDecoder(charset.name)).decode

    def decode(self, block: bytes, *, is_last: bool = False) -> bytes:
        """Returns the text that became complete. U+FFFD replaces undecodable bytes; NULs are line ends or dropped."""
        data = block[self._mark :]
        self._mark -= len(block) - len(data)
        return self._decode(data, is_last).translate(self._ends).encode("utf-8", "replace")


def find_form(sample: PayloadSample, media_type: str | None) -> PayloadForm | None:
    """Returns the form of a payload; None if its bytes are its text, or if it is not text."""
    head = sample.head
    if identify(head) is not None or identify_written(head, media_type) is not None:  # each part has its own charset
        return None
    charset = find_charset(head, media_type, is_whole=sample.whole)
    form = PayloadForm(charset, nuls=_find_nuls(head) if charset is None else "")
    text = head if form == PayloadForm() else open_payload(form, head)
    if has_controls(text):
        return None
    form = replace(form, ends_with_cr=_ends_with_cr(text))
    if sample.whole and (envelope := open_envelope(text)) is not None:
        form = replace(form, is_envelope=True, url=url_beside(envelope))
    return None if form == PayloadForm() else form


def _find_nuls(head: bytes) -> Literal["", "dropped", "line ends"]:
    """Returns what becomes of the NULs in a text: they are line ends, or are dropped as gaps or halves of characters.

    Empty if there are no NULs, or the bytes would not be text without them.
    """
    if 0 not in head:  # faster than counting; `_ends_with_cr` does the same
        return ""
    count = head.count(0)
    if count > _MAX_NUL_SHARE * len(head):
        return ""
    if head.decode("utf-8", "replace").count("\ufffd") * _SELDOM > len(head):
        return ""
    is_list = head.count(b"\0\0") == 0 and head.count(b"\n") * _SELDOM < count
    return "line ends" if is_list else "dropped"


def _ends_with_cr(text: bytes) -> bool:
    """Returns whether CR ends lines. The alternative is that CR returns to the beginning of a line, as in a terminal.

    Progress output, in which each line overwrites the line before, finally ends with LF. So CR ends lines in a text
    that contains no LF and ends with CR.
    """
    if b"\r" not in text:
        return False
    returns = text.count(b"\r") - text.count(b"\r\n")
    if text.count(b"\n") * _SELDOM >= returns:
        return False
    if b"\n" not in text and text.endswith(b"\r"):
        return True
    # In an old text file, most consecutive pieces differ in letters; in progress output, mostly in numbers.
    pieces = re.split(rb"[\r\n]", text[:_SOLE_LINE], maxsplit=_PIECES)[:_PIECES]
    lines = [_LETTERS.sub(b"", piece) for piece in pieces if piece.strip()]
    changes = sum(first != second for first, second in pairwise(lines))
    return len(lines) > 2 and changes * 2 > len(lines)  # noqa: PLR2004 - two are alike or not by chance
