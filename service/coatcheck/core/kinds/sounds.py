"""Sound and video: how long it runs, by its headers, where that costs nothing. Nothing is decoded."""

import struct
from collections.abc import Callable
from typing import Final

from coatcheck.core.artifact import Sample

_LONGEST: Final = 1_000 * 3_600
"""Seconds; a header that claims more is not believed."""


def look(media_type: str, sample: Sample) -> tuple[str, ...]:
    """What the header says: rate, channels, duration."""
    reader = _READERS.get(media_type)
    return reader(sample) if reader is not None else ()


def _lasting(seconds: float) -> tuple[str, ...]:
    if not 0 < seconds < _LONGEST:
        return ()
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 - a minute
        return (f"{seconds:.1f} seconds",)
    hours, minutes = whole // 3600, whole // 60 % 60
    return (f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02} minutes",)


def _rated(rate: int, channels: int) -> tuple[str, ...]:
    ways = {1: "mono", 2: "stereo"}.get(channels, f"{channels} channels")
    return (f"{rate} Hz {ways}",) if 0 < rate < 1_000_000 and channels else ()  # noqa: PLR2004


def _wav(sample: Sample) -> tuple[str, ...]:
    head = sample.head
    at, rate, channels, each = 12, 0, 0, 0
    for _ in range(64):
        if at + 8 > len(head):
            break
        name, size = head[at : at + 4], int.from_bytes(head[at + 4 : at + 8], "little")
        if name == b"fmt " and at + 24 <= len(head):
            channels, rate, each = struct.unpack_from("<HII", head, at + 10)
        if name == b"data":
            size = min(size, sample.size)
            return (*_rated(rate, channels), *(_lasting(size / each) if each else ()))
        at += 8 + size + size % 2
    return _rated(rate, channels)


def _flac(sample: Sample) -> tuple[str, ...]:
    if len(sample.head) < 26:  # noqa: PLR2004 - up to the count of samples
        return ()
    bits = int.from_bytes(sample.head[18:26], "big")
    rate, channels, count = bits >> 44, (bits >> 41 & 7) + 1, bits & (1 << 36) - 1
    return (*_rated(rate, channels), *(_lasting(count / rate) if rate else ()))


_KBITS: Final = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0)
_KBITS_LOW: Final = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0)
_RATES: Final = (44_100, 48_000, 32_000, 0)


def _mp3(sample: Sample) -> tuple[str, ...]:
    """The first frame's rates; the duration as if all frames were like it, unless a header counts the frames."""
    head = sample.head
    at = 0
    if head[:3] == b"ID3" and len(head) >= 10:  # noqa: PLR2004 - its header
        at = 10 + (head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9])
    frame = head[at : at + 256]
    if len(frame) < 4 or frame[0] != 0xFF or frame[1] & 0xE6 != 0xE2:  # noqa: PLR2004 - sync bits and the layer
        return ()
    newest = frame[1] & 0x18 == 0x18  # noqa: PLR2004 - MPEG 1
    rate = _RATES[frame[2] >> 2 & 3] >> (0 if newest else 1 if frame[1] & 0x10 else 2)
    kbits = (_KBITS if newest else _KBITS_LOW)[frame[2] >> 4]
    channels = 1 if frame[3] >> 6 == 3 else 2  # noqa: PLR2004
    for mark in (b"Xing", b"Info"):
        place = frame.find(mark, 4, 48)
        if place > 0 and rate and frame[place + 7] & 1:
            count = int.from_bytes(frame[place + 8 : place + 12], "big")
            return (*_rated(rate, channels), *_lasting(count * (1152 if newest else 576) / rate))
    length = tuple(f"about {said}" for said in _lasting((sample.size - at) * 8 / (kbits * 1000))) if kbits else ()
    return (*_rated(rate, channels), *length)


def _ogg(sample: Sample) -> tuple[str, ...]:
    head, tail = sample.head, sample.tail or sample.head
    start = 28 if len(head) > 27 else 0  # noqa: PLR2004 - the first page's header with one segment
    rate = 0
    facts: tuple[str, ...] = ()
    if head[start : start + 7] == b"\x01vorbis" and len(head) >= start + 16:
        channels, rate = struct.unpack_from("<BI", head, start + 11)
        facts = ("Vorbis", *_rated(rate, channels))
    elif head[start : start + 8] == b"OpusHead" and len(head) > start + 9:
        rate = 48_000
        facts = ("Opus", *_rated(rate, head[start + 9]))
    last = tail.rfind(b"OggS")
    if rate and 0 <= last <= len(tail) - 14:
        return (*facts, *_lasting(int.from_bytes(tail[last + 6 : last + 14], "little", signed=True) / rate))
    return facts


def _mp4(sample: Sample) -> tuple[str, ...]:
    """The movie header (ISO 14496-12), wherever in the sample it is."""
    for part in (sample.head, sample.tail):
        at = part.find(b"mvhd")
        if at < 4 or at + 36 > len(part):  # noqa: PLR2004 - behind its own size
            continue
        wide = part[at + 4] == 1
        scale, length = struct.unpack_from(">IQ" if wide else ">II", part, at + (24 if wide else 16))
        return _lasting(length / scale) if scale else ()
    return ()


def _avi(sample: Sample) -> tuple[str, ...]:
    head = sample.head
    at = head.find(b"avih", 0, 512)
    if at < 0 or at + 48 > len(head):
        return ()
    each, frames = struct.unpack_from("<I12xI", head, at + 8)
    width, height = struct.unpack_from("<II", head, at + 40)
    return (f"{width} x {height} pixels", *_lasting(frames * each / 1e6))


_READERS: Final[dict[str, Callable[[Sample], tuple[str, ...]]]] = {
    "audio/wav": _wav,
    "audio/flac": _flac,
    "audio/mpeg": _mp3,
    "audio/ogg": _ogg,
    "audio/mp4": _mp4,
    "video/mp4": _mp4,
    "video/quicktime": _mp4,
    "video/vnd.avi": _avi,
}
