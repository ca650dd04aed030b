"""Finds bytes that are encoded as text: data URIs, and strings that are the Base64 of a file. Pure, linear in the text.

Words, tokens, cursors, digests, paths and PEM are not blobs. Base64 is a blob in four cases: it is in a data URI; its
bytes begin like a file; a member beside it names a media type or the encoding; or it is a quoted string that is far
longer than any token, and as varied as encoded bytes are.
"""

import binascii
import codecs
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

SHORTEST: Final = 400
"""Minimum characters of a string that is worth a name. A shorter line contains no such string."""
_UNKNOWN: Final = 2_000
"""Minimum characters of a quoted string that is a blob without any sign of its type. Tokens and cursors are shorter."""
_HEAD: Final = 8 * 1024
"""Maximum characters that are decoded to recognise the type of a blob."""
_AROUND: Final = 300
"""Bytes before and after a string in which members beside it are searched for."""
_VARIED: Final = 50
"""In a blob, at least one in this many characters is a capital letter, one is a small letter, and one is a digit."""
_CHAR: Final = rb"[A-Za-z0-9+/_-]"
"""Matches a character of Base64, in the standard or the URL-safe alphabet."""
_AT_ONCE: Final = b"+" if sys.version_info >= (3, 11) else b""
"""Makes a repetition possessive: then nothing is remembered for going back, which is never needed here. Python 3.10 has
no such repetitions; they only save memory."""
_URI: Final = re.compile(
    rb"data:(?:([A-Za-z0-9.+-]{1,60})\\{0,8}/([\w.+-]{1,80}))?(?:;[^;,\s\"'<>]{1,80}){0,4};base64,"
    rb"((?:" + _CHAR + rb"+" + _AT_ONCE + rb"|\\{1,8}/|%(?:2[BFbf]|3[Dd]))+" + _AT_ONCE + rb"={0,2})"
)
_SHORTEST_URI: Final = 48
"""Minimum encoded characters of a data URI."""
_KB: Final = 1_000
"""Bytes of a kilobyte, from which sizes are shown in kilobytes."""
REFUSED: Final = "refused for a secret"
"""Replaces the ID in the name of encoded bytes that the service refused to store."""
_LARGE: Final = 1_000
"""Minimum characters of encoded bytes that are stored as artifacts of their own."""
_MOST: Final = 64
"""Maximum artifacts that are made of the encoded bytes in one text."""
_NAME: Final = re.compile(r"\[(?:bytes|[\w.+-]+/[\w.+-]+)(?:, [0-9,]+ (?:bytes|kB))?\]")
"""Matches what `name_of` returns without an ID."""
_IS_CHAR: Final = bytes(120 if re.match(_CHAR, bytes([code])) else 32 for code in range(256))
"""Translates every character of Base64 to `x`, and every other byte to a space."""
_OTHERS: Final = bytes(code for code in range(256) if _IS_CHAR[code] == 32)  # noqa: PLR2004 - as above
_RUN: Final = b"x" * 56
"""Part of a line of Base64, translated by `_IS_CHAR`. Finding it takes a tenth of the time of a regular expression."""
_BODY: Final = re.compile(
    rb"(?:" + _CHAR + rb"+" + _AT_ONCE + rb"|\\{1,8}[/nr])*" + _AT_ONCE + rb"={0,2}(?:\\{1,8}[nr])*" + _AT_ONCE
)
"""Matches a whole string of Base64, with escaped slashes and escaped line ends."""
_CLOSING: Final = re.compile(rb"\\*[\"']|\Z")
"""Matches the quotation mark at the end of a string, or the end of the text."""
_REST: Final = re.compile(_CHAR + rb"{32768,}" + _AT_ONCE + rb"={0,2}")
"""Matches the rest of a blob at the beginning of a part of a line. A run of that length is no word, whatever precedes
it."""
_ESCAPED: Final = re.compile(rb"\\+[nr]?|%3[Dd]")
"""Matches what encodes no bytes: escapes of line ends and slashes, and escaped padding."""
_PERCENT: Final = re.compile(rb"%2([BFbf])")
"""Matches an escaped `+` or `/`."""
_TYPE: Final = re.compile(
    rb"(?i)[\"'](?:mime|media)_?type\\*[\"']\s*:\s*\\*[\"']([\w.+-]+/[\w.+-]+)|[\"']encoding\\*[\"']\s*:\s*\\*[\"']base64\\*[\"']"
)
"""Matches a member that names a media type, or Base64 as the encoding."""
_BRACKET: Final = re.compile(rb"[{}\[\]]")
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


class Blob(Struct, frozen=True):
    """Encoded bytes in a text: their half-open range from `start` to `end`, and what the bytes are."""

    start: int
    end: int
    body: int
    """Where the characters that encode the bytes begin, after the head of a data URI."""
    media_type: str | None
    """The media type of the bytes; None: unknown."""
    size: int
    """Number of the decoded bytes."""

    def decode(self, text: bytes) -> bytes:
        """Returns the decoded bytes; `text` is the text in which they were found."""
        return decode(text[self.body : self.end])


def name_of(media_type: str | None, size: int | None, artifact_id: str | None = None) -> str:
    """Returns what is shown in place of bytes: `[image/png, 90 kB]`, with the ID of their artifact if they have one.

    An unknown size is left out.
    """
    amount = None if size is None else f"{size} bytes" if size < _KB else f"{(size + _KB // 2) // _KB:,} kB"
    return f"[{', '.join(filter(None, (media_type or 'bytes', amount, artifact_id)))}]"


def has_names(text: str) -> bool:
    """Returns whether a text contains names of bytes that are not shown."""
    return _NAME.search(text) is not None


def find_blobs(
    text: bytes, identify: Callable[[bytes], str | None] = lambda _: None, *, begins: bool = True
) -> list[Blob]:
    """Returns the encoded bytes in a text, in order.

    Args:
        text: whole lines, or a part of one.
        identify: returns the media type of data that begins with these bytes; None if it is unknown.
        begins: whether the text begins at the start of a line; false: it may begin inside a blob.
    """
    out: list[Blob] = []
    if b";base64," in text:
        out += (blob for match in _URI.finditer(text) if (blob := _of_uri(match)) is not None)
    for low, high in _long_lines(text):
        out += _in_line(text, low, high, identify, begins=begins or low > 0)
    ordered: list[Blob] = []
    for blob in sorted(out, key=lambda blob: blob.start):
        if not ordered or blob.start >= ordered[-1].end:
            ordered.append(blob)
    return ordered


def large_blobs(text: bytes, identify: Callable[[bytes], str | None] = lambda _: None) -> list[Blob]:
    """Returns the encoded bytes in a whole text that are worth an artifact of their own: large ones, and not too many.

    A blob at the very end is left out, because it may be cut off.
    """
    blobs = find_blobs(text, identify)
    return [blob for blob in blobs if blob.end - blob.start >= _LARGE and blob.end < len(text)][:_MOST]


def with_ids(text: bytes, ids: Sequence[tuple[Blob, str | None]]) -> bytes:
    """Returns a text in which blobs with an artifact ID are replaced by their names; blobs without an ID stay."""
    out: list[bytes] = []
    at = 0
    for blob, artifact_id in ids:
        if artifact_id is not None:
            out += (text[at : blob.start], name_of(blob.media_type, blob.size, artifact_id).encode())
            at = blob.end
    return b"".join([*out, text[at:]])


def rest_of(text: bytes) -> int:
    """Returns how many bytes at the beginning of a part of a line may be the rest of a blob."""
    return len(text) - len(text.translate(_IS_CHAR).lstrip(b"x"))


def _of_uri(match: re.Match[bytes]) -> Blob | None:
    body = match[3]
    if len(body) < _SHORTEST_URI:
        return None
    media_type = f"{match[1].decode()}/{match[2].decode()}".lower() if match[1] else "text/plain"  # RFC 2397
    return Blob(match.start(), match.end(), match.start(3), media_type, _size(body))


def _long_lines(text: bytes) -> Iterator[tuple[int, int]]:
    """Yields the ranges of the lines that are long enough to contain a blob."""
    at, last, rfind = 0, len(text) - SHORTEST, text.rfind
    while at <= last:
        end = rfind(b"\n", at, at + SHORTEST) + 1
        if not end:
            end = text.find(b"\n", at + SHORTEST) + 1 or len(text)
            yield at, end
        at = end


def _in_line(
    text: bytes, low: int, high: int, identify: Callable[[bytes], str | None], *, begins: bool
) -> Iterator[Blob]:
    base = low
    if not begins and (rest := _REST.match(text, low, high)) is not None and _is_varied(rest[0]):
        yield Blob(low, rest.end(), low, None, _size(rest[0]))
        low = rest.end()
    runs = text[base:high].translate(_IS_CHAR)
    while (run := runs.find(_RUN, low - base) + base) >= base:
        quote = max(text.rfind(mark, max(low, run - _AROUND), run) for mark in (b'"', b"'")) + 1
        end = _end(text, quote, high) if quote else 0
        is_quoted = end > run
        start, end = (quote, end) if is_quoted else (run, _end(text, run, high))
        low, body = end, text[start:end]
        if len(body) < SHORTEST or text.endswith(b";base64,", 0, run) or not _is_varied(body):
            continue
        is_whole = is_quoted and _CLOSING.match(text, end) is not None
        media_type = _type_of(text, start, end, identify, is_whole=is_whole)
        if media_type is not None:
            yield Blob(start, end, start, media_type or None, _size(body))


def _end(text: bytes, start: int, high: int) -> int:
    """Returns where the string of Base64 ends that may begin at `start`."""
    body = _BODY.match(text, start, high)
    return start if body is None else body.end()


def _type_of(
    text: bytes, start: int, end: int, identify: Callable[[bytes], str | None], *, is_whole: bool
) -> str | None:
    """Returns the media type of a string; empty if the type is unknown, None if the string is not a blob."""
    head = decode(text[start : min(end, start + _HEAD)])
    signed = identify(head)
    if signed is not None or not is_whole:
        return signed
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    brackets = [match.end() for match in _BRACKET.finditer(before)]
    after = after[: match.start()] if (match := _BRACKET.search(after)) else after
    sibling = _TYPE.search(before[brackets[-1] if brackets else 0 :]) or _TYPE.search(after)
    if sibling is not None and sibling[1]:
        return sibling[1].decode().lower()
    if sibling is None and end - start < _UNKNOWN:
        return None
    return "text/plain" if _is_text(head) else ""


def _is_text(head: bytes) -> bool:
    try:
        return "\0" not in codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False


def _is_varied(run: bytes) -> bool:
    """Returns whether capital letters, small letters and digits are all frequent, as in encoded bytes."""
    sample = run[:_HEAD]
    kinds = (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz", b"0123456789")
    return all((len(sample) - len(sample.translate(None, kind))) * _VARIED >= len(sample) for kind in kinds)


def _plain(body: bytes) -> bytes:
    """Returns only the characters that encode bytes, in the standard alphabet, without padding."""
    if b"%" in body:
        body = _PERCENT.sub(lambda match: b"+" if match[1] in b"Bb" else b"/", body)
    if b"\\" in body or b"%" in body:
        body = _ESCAPED.sub(b"", body)
    return body.translate(_URL_SAFE, _OTHERS)


def _size(body: bytes) -> int:
    return len(_plain(body)) * 3 // 4


def decode(body: bytes) -> bytes:
    """Returns the bytes that Base64 encodes, in either alphabet, with or without padding, in one piece or in lines."""
    plain = _plain(body)
    plain = plain[: len(plain) - (len(plain) % 4 == 1)]
    return binascii.a2b_base64(plain + b"=" * (-len(plain) % 4))
