"""Identifies binary formats by their first bytes.

Reads a bounded prefix and never raises. A signature that text may begin with counts only if no text follows.
"""

import codecs
import re
import tarfile
from typing import Final

from msgspec import Struct


class BinaryFormat(Struct, frozen=True):
    """A binary format: its media type and its name in English."""

    media_type: str
    name: str


_STATES: Final = rb"PK\x03\x04.{22}\x08\0\0\0mimetypeapplication/"
"""Matches a ZIP whose first member says what it is."""
_OPEN: Final = "vnd.oasis.opendocument"
_SIGNATURES: Final = (
    (rb"\x89PNG\r\n\x1a\n", "image/png", "PNG image"),
    (rb"GIF8[79]a", "image/gif", "GIF image"),
    (rb"\xff\xd8\xff", "image/jpeg", "JPEG image"),
    (rb"II\*\0|MM\0\*", "image/tiff", "TIFF image"),
    (rb"RIFF.{4}WEBP", "image/webp", "WebP image"),
    (rb"BM.{4}\0{4}.{4}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0", "image/bmp", "BMP image"),
    (rb"\0\0[\x01\x02]\0[^\0]\0.{3}\0", "image/vnd.microsoft.icon", "icon"),
    (rb"\0\0..ftypavi[fs]", "image/avif", "AVIF image"),
    (rb"\0\0..ftyphe(?:i[cxms]|vc)", "image/heic", "HEIC image"),
    (rb"\0\0..ftypm[is]f1", "image/heif", "HEIF image"),
    (rb"\0\0\0\x0cJXL \r\n\x87\n", "image/jxl", "JPEG XL image"),
    (rb"\0\0\0\x0cjP  \r\n\x87\n", "image/jp2", "JPEG 2000 image"),
    (rb"RIFF.{4}WAVE", "audio/wav", "WAV audio"),
    (rb"ID3", "audio/mpeg", "MP3 audio"),
    (rb"fLaC", "audio/flac", "FLAC audio"),
    (rb"OggS\0", "application/ogg", "Ogg media"),
    (rb"\0\0..ftypM4[AB] ", "audio/mp4", "M4A audio"),
    (rb"\0\0..ftyp(?:iso[m2456]|mp4[12]|avc1|dash|M4V )", "video/mp4", "MP4 media"),
    (rb"\0\0..ftypqt  ", "video/quicktime", "QuickTime media"),
    (rb"\0\0..ftyp", "application/mp4", "ISO media file"),
    (rb"RIFF.{4}AVI ", "video/vnd.avi", "AVI video"),
    (rb"\x1a\x45\xdf\xa3.{0,56}\x42\x82\x84webm", "video/webm", "WebM media"),
    (rb"\x1a\x45\xdf\xa3", "video/matroska", "Matroska media"),
    (rb"%PDF-", "application/pdf", "PDF document"),
    (_STATES + rb"epub\+zip", "application/epub+zip", "EPUB book"),
    *(
        (_STATES + rf"{_OPEN}\.{form}(?!-)".encode(), f"application/{_OPEN}.{form}", f"OpenDocument {form}")
        for form in ("text", "spreadsheet", "presentation")
    ),
    (rb"PK(?:\x03\x04|\x05\x06)", "application/zip", "ZIP archive"),
    (rb"\x1f\x8b\x08", "application/gzip", "gzip data"),
    (rb"\x28\xb5\x2f\xfd", "application/zstd", "Zstandard data"),
    (rb"\xfd7zXZ\0", "application/x-xz", "xz data"),
    (rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", "application/x-bzip2", "bzip2 data"),
    (rb"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed", "7-Zip archive"),
    (rb"Rar!\x1a\x07", "application/vnd.rar", "RAR archive"),
    (rb"!<arch>\ndebian-binary", "application/vnd.debian.binary-package", "Debian package"),
    (rb"!<arch>\n", "application/x-archive", "ar archive"),
    (rb"SQLite format 3\0", "application/vnd.sqlite3", "SQLite database"),
    (rb"PAR1", "application/vnd.apache.parquet", "Parquet table"),
    (rb"ARROW1\0\0", "application/vnd.apache.arrow.file", "Arrow table"),
    (rb"\x89HDF\r\n\x1a\n", "application/x-hdf5", "HDF5 data"),
    (rb"\x93NUMPY", "application/x-npy", "NumPy array"),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage", "OLE compound file"),
    (rb"wOF2", "font/woff2", "WOFF2 font"),
    (rb"wOFF", "font/woff", "WOFF font"),
    (rb"OTTO\0", "font/otf", "OpenType font"),
    (rb"\0\x01\0\0\0", "font/ttf", "TrueType font"),
    (rb"\x7fELF", "application/x-elf", "ELF file"),
    (rb"[\xce\xcf]\xfa\xed\xfe", "application/x-mach-binary", "Mach-O file"),
    (rb"\xca\xfe\xba\xbe\0\0\0[\0-\x2c]", "application/x-mach-binary", "Mach-O universal file"),  # number of parts
    (rb"\xca\xfe\xba\xbe.{4}", "application/java-vm", "Java class"),
    (rb"\0asm", "application/wasm", "WebAssembly module"),
    (rb"..\r\n[\0-\x03]\0\0\0.{9}", "application/x-python-code", "Python bytecode"),  # PEP 552
    (rb"\xde\x12\x04\x95\0\0", "application/x-gettext-translation", "gettext translations"),
    (rb"TZif", "application/tzif", "time zone data"),
)
_SIGNED: Final = re.compile(b"|".join(b"(%b)" % signature for signature, *_ in _SIGNATURES), re.DOTALL)
"""Its group that matches is the number of the signature."""
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x7f]")
_DECLARED: Final = re.compile(rb"\s*<\?xml\s[^>]{0,200}?\bencoding\s*=\s*[\"']([A-Za-z][\w.:-]{0,39})[\"']")
_DECODED: Final = 16 * 1024
_PREFIX: Final = 4096
"""Bytes that tell whether a payload is text after all."""


def identify(head: bytes) -> BinaryFormat | None:
    """Returns the format of a payload that begins with `head`; None for text and for unknown formats."""
    match = _SIGNED.match(head)
    if match is not None and not (is_text(match[0]) and is_text(head[:_PREFIX])):
        _, media_type, name = _SIGNATURES[(match.lastindex or 0) - 1]
        return BinaryFormat(media_type, name)
    if head[:2] == b"MZ" and len(head) >= 64 and not is_text(head[:64]):  # noqa: PLR2004 - the DOS header
        at = int.from_bytes(head[60:64], "little")
        system = "Windows" if head[at : at + 4] == b"PE\0\0" else "DOS"
        return BinaryFormat("application/vnd.microsoft.portable-executable", f"{system} executable")
    return BinaryFormat("application/x-tar", "tar archive") if _is_tar(head) else None


def read_encoding(head: bytes) -> str | None:
    """Returns the encoding that XML declares for itself, if it is not Unicode and the beginning is text in it."""
    declared = _DECLARED.match(head)
    name = "" if declared is None else declared[1].decode()
    try:
        unicode = codecs.lookup(name).name.startswith("utf")
        text = head[:_DECODED].decode(name, "replace")
    except (LookupError, ValueError, AssertionError):  # no encoding, or none of text
        return None
    return None if unicode or "\0" in text or text.count("\ufffd") * 50 > len(text) else name


def is_text(head: bytes) -> bool:
    """Returns whether bytes, which may end inside a character, are UTF-8 without control characters of binaries."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(head) is None


def _is_tar(head: bytes) -> bool:
    """Returns whether bytes begin with the header of a tar member that has a correct checksum."""
    checksum = head[148:156]
    try:
        return not checksum.strip(b"01234567\0 ") and bool(tarfile.TarInfo.frombuf(head[:512], "utf-8", "replace"))
    except tarfile.HeaderError:
        return False
