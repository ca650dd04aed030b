"""Finds the charset of a payload and decodes it.

In this order: byte order mark, escapes of ISO-2022, NULs in the pattern of UTF-16 or UTF-32, UTF-8 wherever the bytes
are valid, what is declared if it decodes, detection on the lines with bytes outside ASCII, UTF-8 with replacements. A
test for binary data stands in front of everything that is guessed.
"""

import codecs
import re
import unicodedata
from typing import Final, final

from coatcheck.core.artifact import Charset

UTF_8: Final = "utf-8"
_BOMS: Final = (
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SHIFTS: Final = ((re.compile(rb"\x1b\$(?:[@B]|\([@BD])"), "iso2022_jp_ext"), (re.compile(rb"\x1b\$\)C"), "iso2022_kr"))
"""Escapes that begin double-byte text (RFC 1468, RFC 1557); no terminal has any use for them."""
_HEADER: Final = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_MARKUP: Final = re.compile(
    rb"(?:<meta[^>]{0,200}?charset\s*=\s*[\"']?|<\?xml[^>]{0,80}?encoding\s*=\s*[\"'])([A-Za-z0-9_:.-]{1,40})",
    re.IGNORECASE,
)
_MARKUP_BYTES: Final = 4 * 1024
"""Bytes in which a page declares its charset: HTML wants it in the first 1,024, but generators put scripts before
it."""
_HEAD_BYTES: Final = 64 * 1024
"""Bytes at the beginning that tell text from binary data."""
_EVIDENCE: Final = 32 * 1024
"""Bytes of lines outside ASCII from which a charset is detected."""
_CONTROLS: Final = bytes([*range(7), 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 28, 29, 30, 31, 127])
"""What no text contains: neither line ends, tabs and form feeds, nor what terminals understand."""
_CONTROL_CHARS: Final = frozenset(_CONTROLS.decode("latin-1") + "\ufffd")
_WIDE: Final = re.compile("[^\x00-\x7f\ufffd]")
"""Matches a character that UTF-8 encodes in several bytes."""
_NOT_WESTERN: Final = re.compile(rb"(?<![A-Za-z])[\x80-\xff]+(?![A-Za-z])|[\x80-\xff]{4}|[\x80-\xbf\xd7\xf7]")
"""Matches bytes that are no letters with accents in words of ASCII, too few of which look like any language."""
_NEAR_WIDE: Final = re.compile(rb"[^\x80-\xff]{0,64}(?:[\x80-\xff][^\x80-\xff]{0,64})+")
"""Matches bytes outside ASCII with what is near them in a long line."""
_ASCII_PAIR: Final = re.compile(rb"[ -~]{2}")
_UNLIKELY: Final = 0.05
"""Confidence below which a charset is no better than another; that of a plain fallback is 0.1."""
_CHARS: Final = 2_000
"""Characters that tell whether two-byte units are text."""
_NO_TEXT: Final = frozenset({"Cn", "Co", "Cs"})
"""Categories of characters that no text has: unassigned, private, half a pair."""
_UNITS: Final = 8
"""Characters below which NULs tell nothing."""
_SCATTERED: Final = 50
"""At most one byte in this many is a control character, or undecodable, in text of which a few bytes are damaged."""
_WEB: Final = {
    "ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "utf-16": "utf-16-le",
    "utf-32": "utf-32-le",
}
"""What browsers understand by these names (WHATWG Encoding, section 4.2)."""


def find_charset(head: bytes, media_type: str | None, *, is_whole: bool) -> Charset | None:
    """Returns the charset of a payload that begins with `head`; None if it is UTF-8, or binary data."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return None if name == UTF_8 and _is_utf8(head) else Charset(name, mark=len(mark))
    if head.isascii():
        name = next((name for escape, name in _SHIFTS if escape.search(head)), None)
        return Charset(name) if name else _by_nuls(head)
    if _is_utf8(head):
        return _by_nuls(head)
    for name in _list_declared(head, media_type):
        if _decodes(head, name, is_whole=is_whole):
            return Charset(name)
    return _by_nuls(head) or _detect_charset(head)


def has_controls(head: bytes) -> bool:
    """Returns whether bytes that begin like this are binary data: more than a few control characters are in them."""
    start = head[:_HEAD_BYTES]
    return (len(start) - len(start.translate(None, _CONTROLS))) * _SCATTERED > len(start)


def decode(data: bytes, media_type: str | None) -> str:
    """Returns the text of a document with LF as line ends. Never raises: undecodable bytes are replaced."""
    charset = find_charset(data, media_type, is_whole=True) or Charset(UTF_8, mark=3 * data.startswith(codecs.BOM_UTF8))
    text = data[charset.mark :].decode(charset.name, "replace").replace("\0", "")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _is_utf8(data: bytes) -> bool:
    """Returns whether data is UTF-8, perhaps cut inside its last character."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True


def _by_nuls(head: bytes) -> Charset | None:
    """Returns UTF-16 or UTF-32 if NULs stand only where they do there, and the characters are those of a text."""
    start = head[: _HEAD_BYTES & -4]
    if not start.count(0):
        return None
    for name, width, low in (("utf-32-le", 4, 0), ("utf-32-be", 4, 3), ("utf-16-le", 2, 0), ("utf-16-be", 2, 1)):
        units = len(start) // width
        is_sparse = width > 2 and start.count(0) < 2 * units  # noqa: PLR2004 - half of UTF-32 are NULs
        if units < _UNITS or is_sparse or start[low::width].count(0) * _SCATTERED > units:
            continue
        if width == 2 and _is_spaced(start):  # noqa: PLR2004 - words, not units of two bytes
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
            b"".decode(codec)  # raises for what is no encoding of text, such as base64
        except (LookupError, ValueError, AssertionError):
            continue
        codec_names.append(_WEB.get(codec, codec))
    return [name for name in codec_names if name not in {UTF_8, "utf-8-sig", "utf-7"}]


def _decodes(head: bytes, name: str, *, is_whole: bool) -> bool:
    """Returns whether a charset decodes all but a few damaged bytes, and to text."""
    try:
        text = codecs.getincrementaldecoder(name)("replace").decode(
            head[:_HEAD_BYTES], is_whole and len(head) <= _HEAD_BYTES
        )
    except UnicodeError:  # some codecs raise for what is none of theirs
        return False
    wrong = text.count("\ufffd") * _SCATTERED > len(text)
    if name.startswith("utf-") and head.count(0) == 0 and _is_spaced(head):  # words of ASCII, not two-byte units
        return False
    return not wrong and not has_controls(text.encode("utf-8", "replace"))


def _detect_charset(head: bytes) -> Charset | None:
    """Returns what the lines outside ASCII look like, if they are text and not UTF-8 in which a few bytes are wrong.

    In a text of which some lines are UTF-8, that is what the other lines look like.
    """
    if has_controls(head):
        return None
    lines = [b" ".join(_NEAR_WIDE.findall(line)) for line in head[:_HEAD_BYTES].splitlines() if not line.isascii()]
    wrong = [line for line in lines if not _is_utf8(line) and not _WIDE.search(line.decode("utf-8", "replace"))]
    some = b"\n".join(lines)[:_EVIDENCE].decode("utf-8", "replace")
    valid = "".join(line.decode("utf-8", "ignore") for line in lines if _is_utf8(line))
    is_utf8 = some.count("\ufffd") * 4 <= len(_WIDE.findall(some)) or len(_WIDE.findall(valid)) > len(wrong)
    charset_name = _name_of(b"\n".join(wrong if is_utf8 else lines)[:_EVIDENCE])
    if charset_name is None or not is_utf8:
        return None if charset_name is None else Charset(charset_name, is_guess=True)
    return Charset(UTF_8, charset_name, is_guess=True)


def _name_of(lines: bytes) -> str | None:
    if not lines:
        return None
    from chardet import detect  # noqa: PLC0415 - 20 ms that almost no payload needs

    answer = detect(lines)
    name = answer["encoding"]
    if name is None or answer["confidence"] < _UNLIKELY or not _decodes(lines, name, is_whole=True):
        return None if _NOT_WESTERN.search(lines) else "cp1252"
    name = codecs.lookup(name).name
    return _WEB.get(name, name)


@final
class LineDecoder:
    """Decodes lines that are not UTF-8 by another charset."""

    def __init__(self, rest: str) -> None:
        self._rest = rest
        self._line = b""
        """The beginning of a line whose end has not come."""

    def decode(self, data: bytes, is_last: bool = False) -> str:
        """Returns the text of the lines that have become complete, or are very long."""
        data = self._line + data
        end = len(data) if is_last or len(data) > _HEAD_BYTES else data.rfind(b"\n") + 1
        self._line = data[end:]
        try:
            return data[:end].decode()
        except UnicodeDecodeError:
            return "".join(map(self._decode, data[:end].splitlines(keepends=True)))

    def _decode(self, line: bytes) -> str:
        return line.decode(UTF_8 if _is_utf8(line) else self._rest, "replace")
