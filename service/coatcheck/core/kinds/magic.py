"""Formats told by their first bytes: images, sound, archives, programs, documents, data.

Looks at a bounded prefix and raises for nothing. What else a header says is read by `pictures`, `sounds`, `archives`
and `programs`; here is only what it is.
"""

import re
from typing import Final

from msgspec import Struct


class Format(Struct, frozen=True):
    """A recognised format: its media type and what to call it."""

    media_type: str
    name: str

    @property
    def image(self) -> bool:
        """Whether this is a picture."""
        return self.media_type.startswith("image/")


_SIGNATURES: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png", "PNG image"),
    (b"GIF87a", "image/gif", "GIF image"),
    (b"GIF89a", "image/gif", "GIF image"),
    (b"\xff\xd8\xff", "image/jpeg", "JPEG image"),
    (b"II*\0", "image/tiff", "TIFF image"),
    (b"MM\0*", "image/tiff", "TIFF image"),
    (b"8BPS\0\x01", "image/vnd.adobe.photoshop", "Photoshop image"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "image/jxl", "JPEG XL image"),
    (b"\xff\x0a", "image/jxl", "JPEG XL image"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "image/jp2", "JPEG 2000 image"),
    (b"%PDF-", "application/pdf", "PDF document"),
    (b"PK\x03\x04", "application/zip", "ZIP archive"),
    (b"PK\x05\x06", "application/zip", "empty ZIP archive"),
    (b"\x1f\x8b", "application/gzip", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "application/zstd", "Zstandard data"),
    (b"BZh", "application/x-bzip2", "bzip2 data"),
    (b"\xfd7zXZ\x00", "application/x-xz", "xz data"),
    (b"\x04\x22\x4d\x18", "application/x-lz4", "LZ4 data"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed", "7-Zip archive"),
    (b"Rar!\x1a\x07", "application/vnd.rar", "RAR archive"),
    (b"!<arch>\ndebian-binary", "application/vnd.debian.binary-package", "Debian package"),
    (b"!<arch>\n", "application/x-archive", "ar archive"),
    (b"\xed\xab\xee\xdb", "application/x-rpm", "RPM package"),
    (b"MSCF\0\0\0\0", "application/vnd.ms-cab-compressed", "cabinet archive"),
    (b"PACK\0\0\0\x02", "application/x-git-pack", "git pack"),
    (b"\x7fELF", "application/x-elf", "ELF"),
    (b"\xcf\xfa\xed\xfe", "application/x-mach-binary", "Mach-O"),
    (b"\xce\xfa\xed\xfe", "application/x-mach-binary", "Mach-O"),
    (b"\x00asm", "application/wasm", "WebAssembly module"),
    (b"MZ", "application/vnd.microsoft.portable-executable", "Windows executable"),
    (b"\xca\xfe\xba\xbe", "application/java-vm", "Java or Mach-O code"),
    (b"dex\n03", "application/vnd.android.dex", "Android bytecode"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3", "SQLite database"),
    (b"PAR1", "application/vnd.apache.parquet", "Parquet table"),
    (b"ARROW1\0\0", "application/vnd.apache.arrow.file", "Arrow table"),
    (b"Obj\x01", "application/avro", "Avro records"),
    (b"ORC", "application/vnd.apache.orc", "ORC table"),
    (b"\x89HDF\r\n\x1a\n", "application/x-hdf5", "HDF5 data"),
    (b"\x93NUMPY", "application/x-npy", "NumPy array"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage", "older Office document"),
    (b"OggS", "audio/ogg", "Ogg media"),
    (b"ID3", "audio/mpeg", "MP3 audio"),
    (b"fLaC", "audio/flac", "FLAC audio"),
    (b"MThd\0\0\0\x06", "audio/midi", "MIDI music"),
    (b"FLV\x01", "video/x-flv", "Flash video"),
    (b"\x1a\x45\xdf\xa3", "video/webm", "WebM or Matroska media"),
    (b"wOF2", "font/woff2", "WOFF2 font"),
    (b"wOFF", "font/woff", "WOFF font"),
    (b"OTTO\0", "font/otf", "OpenType font"),
    (b"\0\x01\0\0\0", "font/ttf", "TrueType font"),
    (b"ttcf\0", "font/collection", "font collection"),
    (b"\xde\x12\x04\x95", "application/x-gettext-translation", "gettext translations"),
    (b"TZif", "application/tzif", "time zone data"),
)
_RIFF: Final = {
    b"WEBP": ("image/webp", "WebP image"),
    b"WAVE": ("audio/wav", "WAV audio"),
    b"AVI ": ("video/vnd.avi", "AVI video"),
}
_BRANDS: Final = {
    **dict.fromkeys((b"avif", b"avis"), ("image/avif", "AVIF image")),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1"), ("image/heic", "HEIC image")),
    **dict.fromkeys((b"M4A ", b"M4B "), ("audio/mp4", "M4A audio")),
    b"qt  ": ("video/quicktime", "QuickTime video"),
}
_NO_TEXT: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x80-\xff]")
_PRINTABLE: Final = (
    b"%PDF-",
    b"BZh",
    b"MZ",
    b"ID3",
    b"PK\x03\x04",
    b"PAR1",
    b"OggS",
    b"ORC",
    b"TZif",
    b"wOFF",
    b"GIF8",
)
"""Signatures of printable letters: a text may begin like this, so a byte that no text has must follow."""
_MPEG_RATES: Final = 0x0C
_ICON_HEAD: Final = 8


def identify(head: bytes) -> Format | None:
    """The format of bytes that begin like `head`, or None for text and for the unknown."""
    for signature, media_type, name in _SIGNATURES:
        if head.startswith(signature) and (not signature.startswith(_PRINTABLE) or _unprintable(head[:4096])):
            return Format(media_type, name)
    if head[257:262] == b"ustar":
        return Format("application/x-tar", "tar archive")
    return _framed(head)


def _framed(head: bytes) -> Format | None:  # noqa: PLR0911 - a table of formats
    """Formats whose mark is not at the very start, or is too short to be believed alone."""
    if head[4:8] == b"ftyp" and head[:1] == b"\0":
        return Format(*_BRANDS.get(head[8:12], ("video/mp4", "MP4 media")))
    if head[:4] == b"RIFF" and head[8:12] in _RIFF:
        return Format(*_RIFF[head[8:12]])
    if head[:4] == b"FORM" and head[8:12] in {b"AIFF", b"AIFC"}:
        return Format("audio/aiff", "AIFF audio")
    if head[:2] == b"BM" and len(head) > 26 and head[6:10] == b"\0\0\0\0":  # noqa: PLR2004 - a BMP header's length
        return Format("image/bmp", "BMP image")
    if head[:4] in {b"\0\0\1\0", b"\0\0\2\0"} and len(head) >= _ICON_HEAD and head[4] > 0 and not head[5]:
        return Format("image/vnd.microsoft.icon", "icon")
    if head[2:4] == b"\r\n" and len(head) > 16 and _unprintable(head[:16]):  # noqa: PLR2004 - a .pyc header's length
        return Format("application/x-python-code", "Python bytecode")
    if _mpeg(head):
        return Format("audio/mpeg", "MP3 audio")
    return None


def _mpeg(head: bytes) -> bool:
    """A frame of MPEG audio, layer III, whose fields are all valid."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:  # noqa: PLR2004 - sync bits and the layer
        return False
    return head[1] & 0x18 != 0x08 and head[2] >> 4 not in {0, 15} and head[2] & _MPEG_RATES != _MPEG_RATES  # noqa: PLR2004


def _unprintable(data: bytes) -> bool:
    return _NO_TEXT.search(data) is not None
