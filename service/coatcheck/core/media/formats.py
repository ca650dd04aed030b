"""Identifies binary formats by their first bytes.

Looks at a bounded prefix and raises nothing. A signature that text may begin with counts only where no text follows.
"""

import codecs
import re
import tarfile
from typing import Final

from msgspec import Struct


class Format(Struct, frozen=True):
    """A binary format: its media type and its name in English."""

    media_type: str
    name: str

    @property
    def image(self) -> bool:
        """Whether this is a picture."""
        return self.media_type.startswith("image/")


_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png", "PNG image"),
    (b"GIF87a", "image/gif", "GIF image"),
    (b"GIF89a", "image/gif", "GIF image"),
    (b"\xff\xd8\xff", "image/jpeg", "JPEG image"),
    (b"II*\0", "image/tiff", "TIFF image"),
    (b"MM\0*", "image/tiff", "TIFF image"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "image/jxl", "JPEG XL image"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "image/jp2", "JPEG 2000 image"),
    (b"%PDF-", "application/pdf", "PDF document"),
    (b"PK\x05\x06", "application/zip", "ZIP archive"),
    (b"\x1f\x8b\x08", "application/gzip", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "application/zstd", "Zstandard data"),
    (b"\xfd7zXZ\x00", "application/x-xz", "xz data"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed", "7-Zip archive"),
    (b"Rar!\x1a\x07", "application/vnd.rar", "RAR archive"),
    (b"!<arch>\ndebian-binary", "application/vnd.debian.binary-package", "Debian package"),
    (b"!<arch>\n", "application/x-archive", "ar archive"),
    (b"\x7fELF", "application/x-elf", "ELF file"),
    (b"\xcf\xfa\xed\xfe", "application/x-mach-binary", "Mach-O file"),
    (b"\xce\xfa\xed\xfe", "application/x-mach-binary", "Mach-O file"),
    (b"\x00asm", "application/wasm", "WebAssembly module"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3", "SQLite database"),
    (b"PAR1", "application/vnd.apache.parquet", "Parquet table"),
    (b"ARROW1\0\0", "application/vnd.apache.arrow.file", "Arrow table"),
    (b"\x89HDF\r\n\x1a\n", "application/x-hdf5", "HDF5 data"),
    (b"\x93NUMPY", "application/x-npy", "NumPy array"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage", "OLE compound file"),
    (b"ID3", "audio/mpeg", "MP3 audio"),
    (b"fLaC", "audio/flac", "FLAC audio"),
    (b"wOF2", "font/woff2", "WOFF2 font"),
    (b"wOFF", "font/woff", "WOFF font"),
    (b"OTTO\0", "font/otf", "OpenType font"),
    (b"\0\x01\0\0\0", "font/ttf", "TrueType font"),
    (b"\xde\x12\x04\x95\0\0", "application/x-gettext-translation", "gettext translations"),
    (b"OggS\0", "application/ogg", "Ogg media"),
    (b"TZif", "application/tzif", "time zone data"),
)
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x7f]")
_RIFF: Final = {
    b"WEBP": Format("image/webp", "WebP image"),
    b"WAVE": Format("audio/wav", "WAV audio"),
    b"AVI ": Format("video/vnd.avi", "AVI video"),
}
_MP4: Final = Format("video/mp4", "MP4 media")
_BRANDS: Final = {
    **dict.fromkeys((b"avif", b"avis"), Format("image/avif", "AVIF image")),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc"), Format("image/heic", "HEIC image")),
    **dict.fromkeys((b"mif1", b"msf1"), Format("image/heif", "HEIF image")),
    **dict.fromkeys((b"M4A ", b"M4B "), Format("audio/mp4", "M4A audio")),
    **dict.fromkeys((b"isom", b"iso2", b"iso4", b"iso5", b"iso6", b"mp41", b"mp42", b"avc1", b"dash", b"M4V "), _MP4),
    b"qt  ": Format("video/quicktime", "QuickTime media"),
}
_STATED: Final = {
    "application/vnd.oasis.opendocument.text": "OpenDocument text",
    "application/vnd.oasis.opendocument.spreadsheet": "OpenDocument spreadsheet",
    "application/vnd.oasis.opendocument.presentation": "OpenDocument presentation",
    "application/epub+zip": "EPUB book",
}
_BITMAP_HEADERS: Final = frozenset({12, 40, 52, 56, 64, 108, 124})
_BZIP2: Final = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
_MACH_FAT: Final = 45
"""The fourth big-endian number below this counts machines; from this on it is the version of a Java class."""


def identify(head: bytes) -> Format | None:
    """Returns the format of a payload that begins with `head`; None for text and for unknown formats."""
    for signature, media_type, name in _SIGNATURES:
        if head.startswith(signature) and not (is_text(signature) and is_text(head[:4096])):
            return Format(media_type, name)
    return _structured(head)


def is_text(head: bytes) -> bool:
    """Returns whether bytes, which may end inside a character, are UTF-8 without control characters of binaries."""
    if _CONTROL.search(head):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _zip(head: bytes) -> Format:
    """Returns the format of a ZIP, whose first member may state it, as OpenDocument and EPUB ask for."""
    if head[26:38] == b"\x08\0\0\0mimetype":
        stated = head[38 : 38 + int.from_bytes(head[18:22], "little")].decode("latin-1")
        if stated in _STATED:
            return Format(stated, _STATED[stated])
    return Format("application/zip", "ZIP archive")


def _structured(head: bytes) -> Format | None:  # noqa: C901, PLR0911 - a table of formats
    """Returns a format whose signature is not at the start, or is too short to be believed without more fields."""
    start = head[:4]
    if head[4:8] == b"ftyp" and head[:2] == b"\0\0":
        return _BRANDS.get(head[8:12], Format("application/mp4", "ISO media file"))
    if start == b"PK\x03\x04":
        return _zip(head)
    if start == b"RIFF":
        return _RIFF.get(head[8:12])
    if start == b"\x1a\x45\xdf\xa3":
        webm = b"\x42\x82\x84webm" in head[:64]
        return Format("video/webm", "WebM media") if webm else Format("video/matroska", "Matroska media")
    if _BZIP2.match(head):
        return Format("application/x-bzip2", "bzip2 data")
    if start == b"\xca\xfe\xba\xbe" and len(head) >= 8:  # noqa: PLR2004 - both numbers
        if int.from_bytes(head[4:8], "big") < _MACH_FAT:
            return Format("application/x-mach-binary", "Mach-O universal file")
        return Format("application/java-vm", "Java class")
    if head[:2] == b"MZ" and len(head) >= 64 and not is_text(head[:64]):  # noqa: PLR2004 - the DOS header
        at = int.from_bytes(head[60:64], "little")
        windows = head[at : at + 4] == b"PE\0\0"
        return Format("application/vnd.microsoft.portable-executable", f"{'Windows' if windows else 'DOS'} executable")
    if head[:2] == b"BM" and head[6:10] == bytes(4) and int.from_bytes(head[14:18], "little") in _BITMAP_HEADERS:
        return Format("image/bmp", "BMP image")
    if start in {b"\0\0\1\0", b"\0\0\2\0"} and head[4:5] > b"\0" and head[5:6] == head[9:10] == b"\0":
        return Format("image/vnd.microsoft.icon", "icon")
    if head[2:4] == b"\r\n" and head[5:8] == bytes(3) and head[4] < 4 and len(head) > 16:  # noqa: PLR2004 - PEP 552
        return Format("application/x-python-code", "Python bytecode")
    return Format("application/x-tar", "tar archive") if _is_tar(head) else None


def _is_tar(head: bytes) -> bool:
    """Returns whether bytes begin with the header of a tar member, whose checksum is right."""
    if head[148:156].strip(b"01234567\0 "):  # where the checksum is
        return False
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "replace")
    except tarfile.HeaderError:
        return False
    return True
