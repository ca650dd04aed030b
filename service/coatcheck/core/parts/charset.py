"""Finds the charset of a payload and decodes it.

The first evidence decides, in this order: a byte order mark; escapes of ISO-2022; NULs in the pattern of UTF-16 or
UTF-32; valid UTF-8; a declared charset that decodes the bytes; detection on the lines with bytes outside ASCII. In
bytes that are not valid UTF-8, a declared charset comes before the pattern of NULs. Without any evidence, the charset
is UTF-8 with replacements. Nothing is guessed for binary data.
"""

import codecs
import re
import unicodedata
from typing import Final, final

from coatcheck.core.artifact import Charset
from coatcheck.core.text.excerpt import align

UTF_8: Final = "utf-8"
_BOMS: Final = (
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SHIFTS: Final = ((re.compile(rb"\x1b\$(?:[@B]|\([@BD])"), "iso2022_jp_ext"), (re.compile(rb"\x1b\$\)C"), "iso2022_kr"))
"""Escapes that begin double-byte text (RFC 1468, RFC 1557). Terminals do not use them."""
_ESCAPE_BYTES: Final = 16
"""Bytes in which the codecs of ISO-2022 search for the end of an escape sequence."""
_HEADER: Final = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_MARKUP: Final = re.compile(
    rb"(?:<meta[^>]{0,200}?charset\s*=\s*[\"']?|<\?xml[^>]{0,80}?encoding\s*=\s*[\"'])([A-Za-z0-9_:.-]{1,40})",
    re.IGNORECASE,
)
_MARKUP_BYTES: Final = 4 * 1024
"""Bytes in which a page declares its charset. HTML requires the declaration in the first 1,024 bytes, but generators
put scripts before it."""
_HEAD_BYTES: Final = 64 * 1024
"""Bytes at the beginning by which text is distinguished from binary data."""
_EVIDENCE: Final = 32 * 1024
"""Maximum bytes of lines with bytes outside ASCII from which a charset is detected."""
_CONTROLS: Final = bytes([*range(7), 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 28, 29, 30, 31, 127])
"""Control characters that no text contains. Texts may contain line ends, tabs, form feeds and terminal controls."""
_CONTROL_CHARS: Final = frozenset(_CONTROLS.decode("latin-1") + "\ufffd")
_WIDE: Final = re.compile("[^\x00-\x7f\ufffd]")
"""Matches a character that UTF-8 encodes in several bytes."""
_NOT_WESTERN: Final = re.compile(rb"(?<![A-Za-z])[\x80-\xff]+(?![A-Za-z])|[\x80-\xff]{4}|[\x80-\xbf\xd7\xf7]")
"""Matches bytes that are not accented letters inside words of ASCII. If there are none, the text is probably Western;
such letters are often too few to detect a language."""
_NEAR_WIDE: Final = re.compile(rb"[^\x80-\xff]{0,64}(?:[\x80-\xff][^\x80-\xff]{0,64})+")
"""Matches bytes outside ASCII, with up to 64 bytes on either side."""
_ASCII_PAIR: Final = re.compile(rb"[ -~]{2}")
_UNLIKELY: Final = 0.05
"""Minimum confidence of the detector with which its charset is used; its plain fallback has 0.1."""
_CHARS: Final = 2_000
"""Maximum characters that are examined to decide whether units of two or four bytes are text."""
_NO_TEXT: Final = frozenset({"Cn", "Co", "Cs"})
"""Unicode categories of characters that no text has: unassigned, private use, surrogates."""
_UNITS: Final = 8
"""Minimum units of UTF-16 or UTF-32: in shorter data, NULs prove nothing."""
_SCATTERED: Final = 50
"""Text with a few damaged bytes has at most one control character, or undecodable byte, in this many."""
_WEB: Final = {
    "ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "utf-16": "utf-16-le",
    "utf-32": "utf-32-le",
}
"""Codecs that browsers use for these names (WHATWG Encoding, section 4.2)."""


def find_charset(head: bytes, media_type: str | None, *, is_whole: bool) -> Charset | None:
    """Returns the charset of a payload that begins with `head`; None if the payload is UTF-8 or binary data.

    `is_whole`: `head` is the whole payload.
    """
    for mark, name in _BOMS:
        if head.startswith(mark):
            return None if name == UTF_8 and _is_utf8(head) else Charset(name, mark=len(mark))
    if head.isascii():
        name = next((name for escape, name in _SHIFTS if escape.search(head)), None)
        return Charset(name) if name else _by_nuls(head)
    if _is_utf8(head, is_whole=is_whole):
        return _by_nuls(head)
    for name in _list_declared(head, media_type):
        if _decodes(head, name, is_whole=is_whole):
            return Charset(name)
    return _by_nuls(head) or (None if _is_utf8(head) else _detect_charset(head))


def has_controls(head: bytes) -> bool:
    """Returns whether a payload with this beginning is binary data: it has more than a few control characters."""
    start = head[:_HEAD_BYTES]
    return (len(start) - len(start.translate(None, _CONTROLS))) * _SCATTERED > len(start)


def decode(data: bytes, media_type: str | None) -> str:
    """Returns the text of a document with LF as line ends. Never raises: U+FFFD replaces undecodable bytes."""
    charset = find_charset(data, media_type, is_whole=True) or Charset(UTF_8, mark=3 * data.startswith(codecs.BOM_UTF8))
    text = data[charset.mark :].decode(charset.name, "replace").replace("\0", "")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _is_utf8(data: bytes, *, is_whole: bool = False) -> bool:
    """Returns whether bytes are UTF-8. Their last character may be cut off.

    If they are a whole payload, that is only so after other characters outside ASCII: it may be a letter of another
    charset.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data"
        return is_cut and not (is_whole and data[: error.start].isascii())
    return True


def _by_nuls(head: bytes) -> Charset | None:
    """Returns UTF-16 or UTF-32 if the NULs have the pattern of that charset, and the decoded characters are text.

    None for any other data.
    """
    start = head[: _HEAD_BYTES & -4]
    if not start.count(0):
        return None
    for name, width, low in (("utf-32-le", 4, 0), ("utf-32-be", 4, 3), ("utf-16-le", 2, 0), ("utf-16-be", 2, 1)):
        units = len(start) // width
        is_sparse = width > 2 and start.count(0) < 2 * units  # noqa: PLR2004 - half of UTF-32 are NULs
        if units < _UNITS or is_sparse or start[low::width].count(0) * _SCATTERED > units:
            continue
        if width == 2 and _is_spaced(start):  # noqa: PLR2004 - words of ASCII, not units of two bytes
            continue
        text = start[: units * width].decode(name, "replace")
        odd = sum(unicodedata.category(char) in _NO_TEXT or char in _CONTROL_CHARS for char in text[:_CHARS])
        if odd * _SCATTERED <= min(units, _CHARS):
            return Charset(name, is_guess=True)
    return None


def _is_spaced(data: bytes) -> bool:
    """Returns whether most pairs of bytes are ASCII."""
    return len(_ASCII_PAIR.findall(data[:_HEAD_BYTES])) * 4 > min(len(data), _HEAD_BYTES)


def _list_declared(head: bytes, media_type: str | None) -> list[str]:
    header = _HEADER.search(media_type[:300]) if media_type else None
    markup = _MARKUP.search(head, 0, _MARKUP_BYTES)
    codec_names: list[str] = []
    for name in (header[1] if header else "", markup[1].decode("ascii") if markup else ""):
        try:
            codec = codecs.lookup(name).name
            b"".decode(codec)  # raises for a codec that is no charset, such as base64
        except (LookupError, ValueError, AssertionError):
            continue
        codec_names.append(_WEB.get(codec, codec))
    return [name for name in codec_names if name not in {UTF_8, "utf-8-sig", "utf-7"}]


def _decodes(head: bytes, name: str, *, is_whole: bool) -> bool:
    """Returns whether a charset decodes all but a few damaged bytes, and the result is text."""
    try:
        text = codecs.getincrementaldecoder(name)("replace").decode(
            head[:_HEAD_BYTES], is_whole and len(head) <= _HEAD_BYTES
        )
    except UnicodeError:  # some codecs raise errors in spite of "replace"
        return False
    wrong = text.count("\ufffd") * _SCATTERED > len(text)
    if name.startswith("utf-") and head.count(0) == 0 and _is_spaced(head):  # words of ASCII, not two-byte units
        return False
    return not wrong and not has_controls(text.encode("utf-8", "replace"))


def _detect_charset(head: bytes) -> Charset | None:
    """Returns the most likely charset of the lines with bytes outside ASCII.

    If enough of the lines are UTF-8, the result is UTF-8 with that charset for the other lines. None if the bytes are
    binary data, if nothing is likely, or if the text is UTF-8 with a few wrong bytes.
    """
    if has_controls(head):
        return None
    lines = [b" ".join(_NEAR_WIDE.findall(line)) for line in head[:_HEAD_BYTES].splitlines() if not line.isascii()]
    wrong = [line for line in lines if not _is_utf8(line) and not _WIDE.search(line.decode("utf-8", "replace"))]
    evidence = b"\n".join(lines)[:_EVIDENCE].decode("utf-8", "replace")
    valid = "".join(line.decode("utf-8", "ignore") for line in lines if _is_utf8(line))
    is_utf8 = evidence.count("\ufffd") * 4 <= len(_WIDE.findall(evidence)) or len(_WIDE.findall(valid)) > len(wrong)
    charset_name = _name_of(b"\n".join(wrong if is_utf8 else lines)[:_EVIDENCE])
    if charset_name is None or not is_utf8:
        return None if charset_name is None else Charset(charset_name, is_guess=True)
    return Charset(UTF_8, charset_name, is_guess=True)


def _name_of(lines: bytes) -> str | None:
    if not lines:
        return None
    from chardet import detect  # noqa: PLC0415 - the import takes 20 ms, and almost no payload needs it

    answer = detect(lines)
    name = answer["encoding"]
    if name is None or answer["confidence"] < _UNLIKELY or not _decodes(lines, name, is_whole=True):
        return None if _NOT_WESTERN.search(lines) else "cp1252"
    name = codecs.lookup(name).name
    return _WEB.get(name, name)


@final
class BlockDecoder:
    """Decodes blocks by one charset. U+FFFD replaces undecodable bytes."""

    def __init__(self, charset_name: str) -> None:
        self._codec = codecs.getincrementaldecoder(charset_name)("replace")
        self._rest = b""
        """Bytes that the codec gets with the next block, from an escape on."""

    def decode(self, data: bytes, is_last: bool = False) -> str:
        """Returns the text of the characters that became complete."""
        incomplete, state = self._codec.getstate()
        data = incomplete + self._rest + data
        end, is_whole, ends = len(data), is_last, iter((False, False, True))
        while True:
            self._rest = data[end:]
            self._codec.setstate((b"", state))
            try:
                return self._codec.decode(data[:end], is_whole)
            except UnicodeError:
                # The codecs of ISO-2022 search 16 bytes for the end of an escape sequence, but keep only 8 between
                # blocks: the bytes from the escape on wait for the next block. They may follow another such escape.
                end = data.find(b"\x1b", max(0, end - _ESCAPE_BYTES + 1), end)
                if is_whole or end < 0:
                    raise
                is_whole = next(ends)


@final
class LineDecoder:
    """Decodes lines of UTF-8, and all other lines by another charset."""

    def __init__(self, rest: str) -> None:
        self._rest = rest
        self._line = b""
        """The beginning of a line whose end was not fed yet."""

    def decode(self, data: bytes, is_last: bool = False) -> str:
        """Returns the text of the lines that became complete. A line of more than _HEAD_BYTES is decoded in parts.

        A part ends with a blank, or else between two characters of UTF-8.
        """
        data = self._line + data
        end = len(data) if is_last else max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - end > _HEAD_BYTES:
            end = data.rfind(b" ", end) + 1 or align(data, len(data) - 1)
        self._line = data[end:]
        try:
            return data[:end].decode()
        except UnicodeDecodeError:
            return "".join(map(self._decode, data[:end].splitlines(keepends=True)))

    def _decode(self, line: bytes) -> str:
        return line.decode(UTF_8 if _is_utf8(line) else self._rest, "replace")
