"""Formats told by their first bytes: images with their dimensions, archives, executables, documents.

Looks at a bounded prefix, trusts no length field, and raises for nothing: a broken header is a format without details.
"""

import re
import struct
from typing import Final

from msgspec import Struct


class Format(Struct, frozen=True):
    """A recognised format: its media type, what to call it, and pixels where the header says."""

    media_type: str
    name: str
    width: int = 0
    height: int = 0

    @property
    def image(self) -> bool:
        """Whether this is a picture."""
        return self.media_type.startswith("image/")


_SIGNATURES: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"%PDF-", "application/pdf", "PDF document"),
    (b"PK\x03\x04", "application/zip", "ZIP archive"),
    (b"PK\x05\x06", "application/zip", "empty ZIP archive"),
    (b"\x1f\x8b", "application/gzip", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "application/zstd", "Zstandard data"),
    (b"BZh", "application/x-bzip2", "bzip2 data"),
    (b"\xfd7zXZ\x00", "application/x-xz", "xz data"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed", "7-Zip archive"),
    (b"\x7fELF", "application/x-elf", "ELF executable or library"),
    (b"\xcf\xfa\xed\xfe", "application/x-mach-binary", "Mach-O executable or library"),
    (b"\xce\xfa\xed\xfe", "application/x-mach-binary", "Mach-O executable or library"),
    (b"\x00asm", "application/wasm", "WebAssembly module"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3", "SQLite database"),
    (b"MZ", "application/vnd.microsoft.portable-executable", "Windows executable"),
    (b"\xca\xfe\xba\xbe", "application/java-vm", "Java class or universal Mach-O"),
    (b"OggS", "audio/ogg", "Ogg media"),
    (b"ID3", "audio/mpeg", "MP3 audio"),
    (b"fLaC", "audio/flac", "FLAC audio"),
    (b"PAR1", "application/vnd.apache.parquet", "Parquet table"),
    (b"wOF2", "font/woff2", "WOFF2 font"),
)
_NO_TEXT: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x80-\xff]")
_TEXTUAL: Final = (b"%PDF-", b"BZh", b"MZ", b"ID3", b"PK\x03\x04", b"PAR1", b"OggS")
"""Signatures of printable letters: a text may begin like this, so a byte that no text has must follow."""


def identify(head: bytes) -> Format | None:
    """The format of bytes that begin like `head`, or None for text and for the unknown."""
    found = _picture(head)
    if found is not None:
        return found
    if head[257:262] == b"ustar":
        return Format("application/x-tar", "tar archive")
    if head[4:8] == b"ftyp" and head[:1] == b"\x00":
        return Format("video/mp4", "MP4 media")
    for signature, media_type, name in _SIGNATURES:
        if head.startswith(signature) and (signature not in _TEXTUAL or _unprintable(head[:4096])):
            return Format(media_type, name)
    return None


def _unprintable(data: bytes) -> bool:
    return _NO_TEXT.search(data) is not None


def _picture(head: bytes) -> Format | None:  # noqa: PLR0911 - a table of formats
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return _sized("image/png", "PNG image", head, ">II", 16)
    if head[:6] in {b"GIF87a", b"GIF89a"}:
        return _sized("image/gif", "GIF image", head, "<HH", 6)
    if head.startswith(b"\xff\xd8\xff"):
        return _jpeg(head)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp(head)
    if head[:2] == b"BM" and len(head) > 26 and head[6:10] == b"\0\0\0\0":  # noqa: PLR2004 - a BMP header's length
        found = _sized("image/bmp", "BMP image", head, "<ii", 18)
        return Format(found.media_type, found.name, abs(found.width), abs(found.height))
    if head[:4] == b"\0\0\1\0" and head[4:6] not in {b"", b"\0\0"}:
        width, height = (head[6] or 256, head[7] or 256) if len(head) > 7 else (0, 0)  # noqa: PLR2004
        return Format("image/vnd.microsoft.icon", "icon", width, height)
    if head[:4] in {b"II*\0", b"MM\0*"}:
        return Format("image/tiff", "TIFF image")
    if head[4:12] in {b"ftypavif", b"ftypheic", b"ftypheix", b"ftypmif1"}:
        return Format("image/avif" if head[8:12] == b"avif" else "image/heic", "AVIF or HEIC image")
    return None


def _sized(media_type: str, name: str, head: bytes, layout: str, at: int) -> Format:
    if len(head) < at + struct.calcsize(layout):
        return Format(media_type, name)
    width, height = struct.unpack_from(layout, head, at)
    return Format(media_type, name, width, height)


_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a start of frame; the three left out are tables."""


def _jpeg(head: bytes) -> Format:
    """Walk the segments to the first start-of-frame (ITU T.81 table B.1), within the sample."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:  # noqa: PLR2004 - every marker begins with it
        code = head[at + 1]
        if code in _FRAMES:
            height, width = struct.unpack_from(">HH", head, at + 5)
            return Format("image/jpeg", "JPEG image", width, height)
        at += 2 + max(2, struct.unpack_from(">H", head, at + 2)[0])
    return Format("image/jpeg", "JPEG image")


def _webp(head: bytes) -> Format:
    chunk = head[12:16]
    if chunk == b"VP8X" and len(head) >= 30:  # noqa: PLR2004 - the header's length
        width = int.from_bytes(head[24:27], "little") + 1
        height = int.from_bytes(head[27:30], "little") + 1
        return Format("image/webp", "WebP image", width, height)
    if chunk == b"VP8 " and len(head) >= 30:  # noqa: PLR2004
        width, height = struct.unpack_from("<HH", head, 26)
        return Format("image/webp", "WebP image", width & 0x3FFF, height & 0x3FFF)
    if chunk == b"VP8L" and len(head) >= 25:  # noqa: PLR2004
        bits = int.from_bytes(head[21:25], "little")
        return Format("image/webp", "WebP image", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    return Format("image/webp", "WebP image")
