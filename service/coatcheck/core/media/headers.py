"""Dimensions of images and arrays, duration of sound and video, as stated in headers. Nothing is decoded."""

import re
import struct
from collections.abc import Callable
from typing import Final

from coatcheck.core.artifact import PayloadSample

Facts = tuple[str, ...]
Sides = tuple[int, int]
HEADER_FAULTS: Final = (struct.error, IndexError, ValueError, OverflowError, ZeroDivisionError)
"""What reading a header raises that is cut off, or makes no sense."""
_MOST_PIXELS: Final = 1 << 31
_MOST_SECONDS: Final = 1_000 * 3_600


def sides(media_type: str | None, head: bytes) -> Sides | None:
    """Returns width and height in pixels from an image's header; None if it does not state them."""
    reader = _SIDES.get(media_type or "")
    try:
        width, height = (reader(head) if reader is not None else None) or (0, 0)
    except HEADER_FAULTS:
        return None
    return (width, height) if 0 < width < _MOST_PIXELS and 0 < height < _MOST_PIXELS else None


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
"""Markers of a start of frame; the three excluded ones are tables (ITU T.81 table B.1)."""


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
    if not 0 < seconds < _MOST_SECONDS:
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
