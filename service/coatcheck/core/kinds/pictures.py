"""Pictures by their headers: width and height, colours, transparency, frames, orientation. No pixel is decoded.

Reads a bounded sample and trusts no length in it: what a header claims is repeated as a claim of the header, what is
cut off is left out.
"""

import re
import struct
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import Sample

MOST_PIXELS: Final = 1 << 31
"""A side as long as this is no picture's."""


class Picture(Struct, frozen=True):
    """What a header says. Sides are 0 where it does not."""

    width: int = 0
    height: int = 0
    notes: tuple[str, ...] = ()


def look(media_type: str, sample: Sample) -> Picture:
    """What the header of a picture of this type says."""
    reader = _READERS.get(media_type)
    return reader(sample.head) if reader is not None else Picture()


_PNG_COLOURS: Final = {0: "grey", 2: "RGB", 3: "palette", 4: "grey with alpha", 6: "RGBA"}


def _png(head: bytes) -> Picture:
    if len(head) < 26:  # noqa: PLR2004 - up to the colour type
        return Picture(*struct.unpack_from(">II", head, 16)) if len(head) >= 24 else Picture()  # noqa: PLR2004
    width, height, depth, colour = struct.unpack_from(">IIBB", head, 16)
    notes = [f"{depth}-bit {_PNG_COLOURS[colour]}"] if colour in _PNG_COLOURS else []
    at = 33
    for _ in range(64):
        if at + 12 > len(head) or head[at + 4 : at + 8] == b"IDAT":
            break
        size = int.from_bytes(head[at : at + 4], "big")
        if head[at + 4 : at + 8] == b"acTL":
            notes.append(f"animated, {int.from_bytes(head[at + 8 : at + 12], 'big')} frames")
        if head[at + 4 : at + 8] == b"tRNS":
            notes.append("transparent parts")
        at += 12 + size
    return Picture(width, height, tuple(notes))


def _gif(head: bytes) -> Picture:
    if len(head) < 13:  # noqa: PLR2004 - the screen descriptor
        return Picture()
    width, height, flags = struct.unpack_from("<HHB", head, 6)
    frames, ended = _gif_frames(head, 13 + (3 << ((flags & 7) + 1) if flags & 0x80 else 0))
    notes = () if frames < 2 else (f"animated, {'' if ended else 'at least '}{frames} frames",)  # noqa: PLR2004
    return Picture(width, height, notes)


def _gif_frames(head: bytes, at: int) -> tuple[int, bool]:
    """Frames whose beginning is in the sample, and whether the file ended there."""
    frames = 0
    while at < len(head):
        block = head[at]
        if block == 0x3B:  # noqa: PLR2004 - the trailer
            return frames, True
        if block == 0x2C and at + 10 <= len(head):  # noqa: PLR2004 - an image
            frames += 1
            flags = head[at + 9]
            at += 11 + (3 << ((flags & 7) + 1) if flags & 0x80 else 0)
        elif block == 0x21:  # noqa: PLR2004 - an extension
            at += 2
        else:
            break
        while at < len(head) and head[at]:
            at += 1 + head[at]
        at += 1
    return frames, False


_SOF: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a start of frame; the three left out are tables (ITU T.81 table B.1)."""
_COMPONENTS: Final = {1: "grey", 3: "colour", 4: "CMYK"}
_TURNS: Final = {
    2: "mirrored",
    3: "to be turned by 180 degrees",
    4: "mirrored, to be turned by 180 degrees",
    5: "mirrored, to be turned by 270 degrees",
    6: "to be turned by 90 degrees",
    7: "mirrored, to be turned by 90 degrees",
    8: "to be turned by 270 degrees",
}
"""EXIF 2.3, tag 0x0112: how a viewer turns it, clockwise."""


def _jpeg(head: bytes) -> Picture:
    notes: list[str] = []
    at = 2
    while at + 4 <= len(head) and head[at] == 0xFF:  # noqa: PLR2004 - every marker begins with it
        code = head[at + 1]
        if code == 0xFF:  # noqa: PLR2004 - padding
            at += 1
            continue
        if code in _SOF and at + 10 <= len(head):
            height, width, components = struct.unpack_from(">HHB", head, at + 5)
            said = [_COMPONENTS[components]] if components in _COMPONENTS else []
            return Picture(width, height, (*said, *(["progressive"] if code == 0xC2 else []), *notes))  # noqa: PLR2004
        if code == 0xE1 and head[at + 4 : at + 10] == b"Exif\0\0":  # noqa: PLR2004 - APP1
            turn = _orientation(head[at + 10 : at + 10 + 65_536])
            notes += [turn] if turn else []
        at += 2 + max(2, int.from_bytes(head[at + 2 : at + 4], "big"))
    return Picture(notes=tuple(notes))


def _orientation(exif: bytes) -> str | None:
    value = _tiff_tags(exif).get(0x0112)
    return _TURNS.get(value) if value is not None else None


def _tiff_tags(data: bytes) -> dict[int, int]:
    """Short and long values of the first directory of a TIFF."""
    order = {b"II": "<", b"MM": ">"}.get(data[:2])
    if order is None or len(data) < 8:  # noqa: PLR2004 - its header
        return {}
    at = struct.unpack_from(f"{order}I", data, 4)[0]
    if at + 2 > len(data):
        return {}
    found: dict[int, int] = {}
    for number in range(min(struct.unpack_from(f"{order}H", data, at)[0], 200)):
        entry = at + 2 + 12 * number
        if entry + 12 > len(data):
            break
        tag, kind, count = struct.unpack_from(f"{order}HHI", data, entry)
        if kind in {3, 4} and count == 1:
            found[tag] = struct.unpack_from(f"{order}{'H' if kind == 3 else 'I'}", data, entry + 8)[0]  # noqa: PLR2004
    return found


def _tiff(head: bytes) -> Picture:
    tags = _tiff_tags(head)
    turn = _TURNS.get(tags.get(0x0112, 1))
    return Picture(tags.get(0x0100, 0), tags.get(0x0101, 0), (turn,) if turn else ())


def _webp(head: bytes) -> Picture:
    chunk = head[12:16]
    if chunk == b"VP8X" and len(head) >= 30:  # noqa: PLR2004 - the header's length
        width, height = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27))
        notes = ["transparent parts"] if head[20] & 0x10 else []
        if head[20] & 0x02:
            notes.append("animated")
        return Picture(width, height, tuple(notes))
    if chunk == b"VP8 " and len(head) >= 30:  # noqa: PLR2004
        width, height = struct.unpack_from("<HH", head, 26)
        return Picture(width & 0x3FFF, height & 0x3FFF)
    if chunk == b"VP8L" and len(head) >= 25:  # noqa: PLR2004
        bits = int.from_bytes(head[21:25], "little")
        notes = ("transparent parts",) if bits >> 28 & 1 else ()
        return Picture((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, notes)
    return Picture()


def _bmp(head: bytes) -> Picture:
    if len(head) < 30:  # noqa: PLR2004 - up to the bits for each pixel
        return Picture()
    if int.from_bytes(head[14:18], "little") == 12:  # noqa: PLR2004 - the oldest header has short sides
        width, height, _, bits = struct.unpack_from("<HHHH", head, 18)
        return Picture(width, height, (f"{bits} bits a pixel",))
    width, height, _, bits = struct.unpack_from("<iiHH", head, 18)
    return Picture(abs(width), abs(height), (f"{bits} bits a pixel",))


def _icon(head: bytes) -> Picture:
    count = int.from_bytes(head[4:6], "little")
    sides = [(head[at] or 256, head[at + 1] or 256) for at in range(6, min(6 + 16 * count, len(head) - 1), 16)]
    if not sides:
        return Picture()
    largest = max(sides)
    return Picture(*largest, notes=(f"{count} sizes",) if count > 1 else ())


_BOXES: Final = frozenset({b"meta", b"iprp", b"ipco"})


def _heif(head: bytes) -> Picture:
    """The largest `ispe` of an AVIF or HEIC (ISO 23008-12): tiles have theirs too."""
    sides = [(0, 0)]
    waiting = [(0, len(head))]
    for _ in range(256):
        if not waiting:
            break
        at, end = waiting.pop()
        if at + 8 > end:
            continue
        size, name = int.from_bytes(head[at : at + 4], "big"), head[at + 4 : at + 8]
        if size < 8:  # noqa: PLR2004 - a box's header
            continue
        waiting.append((at + size, end))
        inside = at + 8 + 4 * (name == b"meta")
        if name in _BOXES:
            waiting.append((inside, min(at + size, end)))
        elif name == b"ispe" and inside + 12 <= len(head):
            sides.append(struct.unpack_from(">II", head, inside + 4))
    return Picture(*max(sides, key=lambda pair: pair[0] * pair[1]))


def _psd(head: bytes) -> Picture:
    if len(head) < 26:  # noqa: PLR2004 - its header
        return Picture()
    _, height, width, depth, _ = struct.unpack_from(">HIIHH", head, 12)
    return Picture(width, height, (f"{depth}-bit",))


_SVG: Final = re.compile(r"<svg\b([^>]{0,4000})")
_SIDE: Final = re.compile(r"""\b(width|height|viewBox)\s*=\s*["']([^"']{1,60})["']""")
_LENGTH: Final = re.compile(r"\s*(\d{1,6})(?:\.\d+)?(?:px)?\s*")


def svg(head: bytes) -> Picture | None:
    """The sides of a drawing in SVG, or None for any other text. By its view box where it has no sides of its own."""
    found = _SVG.search(head[:8_192].decode("utf-8", "replace"))
    if found is None:
        return None
    said = dict(_SIDE.findall(found.group(1)))
    box = said.get("viewBox", "").replace(",", " ").split()
    for width, height in ((said.get("width", ""), said.get("height", "")), box[2:4] if len(box) > 3 else ("", "")):  # noqa: PLR2004
        across, down = _LENGTH.fullmatch(width), _LENGTH.fullmatch(height)
        if across and down:
            return Picture(int(across.group(1)), int(down.group(1)))
    return Picture()


_READERS: Final = {
    "image/png": _png,
    "image/gif": _gif,
    "image/jpeg": _jpeg,
    "image/webp": _webp,
    "image/bmp": _bmp,
    "image/tiff": _tiff,
    "image/vnd.microsoft.icon": _icon,
    "image/avif": _heif,
    "image/heic": _heif,
    "image/vnd.adobe.photoshop": _psd,
}
