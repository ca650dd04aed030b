"""Identifies binary formats by their first bytes, and reads the facts that headers state: dimensions, durations.

Only a bounded prefix is read, and no image is decoded. A signature with which a text may begin counts only if the
following bytes are not text.
"""

import codecs
import re
import struct
import tarfile
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import PayloadSample

Facts = tuple[str, ...]
Sides = tuple[int, int]
HEADER_FAULTS: Final = (struct.error, IndexError, ValueError, OverflowError, ZeroDivisionError)
"""The errors that reading a header raises if the header is cut off or makes no sense."""
_PIXELS_LIMIT: Final = 1 << 31
"""PNG's limit for a side (31 bits); a larger number is a damaged header."""
_SECONDS_LIMIT: Final = 1_000 * 3_600
"""A thousand hours: a longer recording is a damaged header."""


def sides(media_type: str | None, head: bytes) -> Sides | None:
    """Returns width and height in pixels from an image's header; None if the header does not state them."""
    reader = _SIDES.get(media_type or "")
    try:
        width, height = (reader(head) if reader is not None else None) or (0, 0)
    except HEADER_FAULTS:
        return None
    return (width, height) if 0 < width < _PIXELS_LIMIT and 0 < height < _PIXELS_LIMIT else None


def header_facts(media_type: str, sample: PayloadSample) -> Facts:
    """Returns facts such as `640 x 480 pixels` or `1:40 minutes`; uncertain ones are left out.

    Raises:
        HEADER_FAULTS: the header is cut off, or makes no sense.
    """
    if (dimensions := sides(media_type, sample.head)) is not None:
        return (f"{dimensions[0]} x {dimensions[1]} pixels",)
    reader = _READERS.get(media_type)
    return reader(sample) if reader is not None else ()


def _png(head: bytes) -> Sides | None:
    return struct.unpack_from(">II", head, 16) if head[12:16] == b"IHDR" else None


_SOF: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG's markers of a start of frame. The three excluded markers begin other segments (ITU T.81 table B.1)."""


def _jpeg(head: bytes) -> Sides | None:
    at = 2
    while head[at] == 0xFF:  # noqa: PLR2004 - every marker begins with it
        code, size = struct.unpack_from(">BH", head, at + 1)
        if code in _SOF:
            height, width = struct.unpack_from(">HH", head, at + 5)
            return width, height
        at += 1 if code == 0xFF else 2 + max(2, size)  # noqa: PLR2004 - padding
    return None


def _webp(head: bytes) -> Sides | None:
    chunk = head[12:16]
    if chunk == b"VP8X" and len(head) >= 30:  # noqa: PLR2004 - the header's length
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if chunk == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    if chunk == b"VP8L" and head[20] == 0x2F:  # noqa: PLR2004 - its signature
        (bits,) = struct.unpack_from("<I", head, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None


def _bmp(head: bytes) -> Sides | None:
    oldest = int.from_bytes(head[14:18], "little") == 12  # noqa: PLR2004 - its header's length
    width, height = struct.unpack_from("<HH" if oldest else "<ii", head, 18)
    return abs(width), abs(height)


def _lasting(count: int, each_second: int) -> Facts:
    """Returns `2.0 seconds`, `1:40 minutes` or `1:02:05 hours`."""
    seconds = count / each_second
    whole = round(seconds)
    if not 0 < seconds < _SECONDS_LIMIT:
        return ()
    if whole < 60:  # noqa: PLR2004 - a minute
        return (f"{seconds:.1f} seconds",)
    hours, minutes = whole // 3600, whole // 60 % 60
    return (f"{hours}:{minutes:02}:{whole % 60:02} hours" if hours else f"{minutes}:{whole % 60:02} minutes",)


_PCM: Final = frozenset({1, 3})
"""WAV encodings in which every sample has the same size."""


def _wav(sample: PayloadSample) -> Facts:
    at, rate = 12, 0
    for _ in range(64):
        name, size = struct.unpack_from("<4sI", sample.head, at)
        if name == b"fmt ":
            encoding, _, hertz, _, block = struct.unpack_from("<HHIIH", sample.head, at + 8)
            rate = hertz * block if encoding in _PCM else 0
        if name == b"data":
            return _lasting(size, rate) if at + 8 + size <= sample.size else ()
        at += 8 + size + size % 2
    return ()


def _flac(sample: PayloadSample) -> Facts:
    (bits,) = struct.unpack_from(">Q", sample.head, 18)
    return _lasting(bits & (1 << 36) - 1, bits >> 44)


def _mp4(sample: PayloadSample) -> Facts:
    """Reads the movie header (ISO 14496-12), the first box of the movie, which may follow all media."""
    at = 0
    for _ in range(64):
        size, name = struct.unpack(">I4s", _piece(sample, at, 8))
        if name == b"moov":
            box = _piece(sample, at + 8, 48)
            scale, length = struct.unpack_from(">IQ" if box[8] else ">II", box, 28 if box[8] else 20)
            has_duration = box[4:8] == b"mvhd" and length not in {0xFFFFFFFF, (1 << 64) - 1}
            return _lasting(length, scale) if has_duration else ()
        at += struct.unpack(">Q", _piece(sample, at + 8, 8))[0] if size == 1 else max(size, 8)
    return ()


def _piece(sample: PayloadSample, at: int, size: int) -> bytes:
    """Returns `size` bytes from offset `at`; fewer at the payload's end, none if the sample lacks them."""
    if at + size <= len(sample.head):
        return sample.head[at : at + size]
    start = at - (sample.size - len(sample.tail)) if sample.tail else at
    return (sample.tail or sample.head)[start : start + size] if start >= 0 else b""


_NPY: Final = re.compile(rb"\{'descr': '([^']{1,20})', 'fortran_order': \w{4,5}, 'shape': (\([\d, ]{0,200}\)), \}")


def _npy(sample: PayloadSample) -> Facts:
    match = _NPY.search(sample.head[:1000])
    return (f"shape {match[2].decode()}", f"type {match[1].decode()}") if match else ()


_SIDES: Final[dict[str, Callable[[bytes], Sides | None]]] = {
    "image/png": _png,
    "image/gif": lambda head: struct.unpack_from("<HH", head, 6),
    "image/jpeg": _jpeg,
    "image/webp": _webp,
    "image/bmp": _bmp,
}
_READERS: Final[dict[str, Callable[[PayloadSample], Facts]]] = {
    "audio/wav": _wav,
    "audio/flac": _flac,
    "audio/mp4": _mp4,
    "video/mp4": _mp4,
    "video/quicktime": _mp4,
    "application/x-npy": _npy,
}


class BinaryFormat(Struct, frozen=True):
    """A binary format: its media type and its name in English."""

    media_type: str
    name: str


_STATES: Final = rb"PK\x03\x04.{22}\x08\0\0\0mimetypeapplication/"
"""Matches the beginning of a ZIP whose first member states the media type."""
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
"""Matches any signature. The number of the matching group is the number of the signature, from 1."""
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x7f]")
_DECLARED: Final = re.compile(rb"\s*<\?xml\s[^>]{0,200}?\bencoding\s*=\s*[\"']([A-Za-z][\w.:-]{0,39})[\"']")
_DECODED_BYTES: Final = 16 * 1024
"""Bytes at the beginning that must be text in the declared encoding."""
_PREFIX: Final = 4096
"""Bytes at the beginning that are examined to recognise a text that begins like a binary format."""


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
    """Returns the encoding that an XML document declares, if it is not a Unicode encoding and decodes the beginning.

    None for any other data.
    """
    declared = _DECLARED.match(head)
    name = "" if declared is None else declared[1].decode()
    try:
        unicode = codecs.lookup(name).name.startswith("utf")
        text = head[:_DECODED_BYTES].decode(name, "replace")
    except (LookupError, ValueError, AssertionError):  # an unknown codec, or one that is no charset
        return None
    return None if unicode or "\0" in text or text.count("\ufffd") * 50 > len(text) else name


def is_text(head: bytes) -> bool:
    """Returns whether bytes are UTF-8 without control characters of binary data. They may end inside a character."""
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
