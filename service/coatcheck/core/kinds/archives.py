"""What archives hold: names and sizes from their own directories, within a bounded sample. Nothing is unpacked.

A compressed stream is opened as far as its first quarter of a MiB, to say what is in it. Sizes are claims.
"""

import bz2
import lzma
import struct
import zlib
from collections import Counter
from typing import Any, Final, cast

import zstandard
from msgspec import Struct

from coatcheck.core.artifact import Sample

MOST_ENTRIES: Final = 300
"""Entries that are listed."""
_WALKED: Final = 20_000
"""Entries that are counted."""
_NAME: Final = 160
INSIDE: Final = 256 * 1024
"""Bytes of a compressed stream that are opened, whatever it would become."""
_MEMORY: Final = 80 << 20
"""What a stream may need to be opened: a little more than the highest preset of xz does."""
_FAULTS: Final = (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, MemoryError, zstandard.ZstdError)


class Entry(Struct, frozen=True):
    """One thing in an archive."""

    name: str
    size: int


class Listing(Struct, frozen=True, kw_only=True):
    """The entries that could be read, in the order given."""

    entries: tuple[Entry, ...] = ()
    total: int = 0
    """How many there are, as far as is known."""
    known: int = 0
    """How many were read."""
    exact: bool = True
    """Whether `total` is all there are."""
    unpacked: int = 0
    """Bytes of those read."""


def lines(listing: Listing) -> tuple[str, ...]:
    """Facts for a reader: how many and how large, what stands at the top, then names with sizes."""
    if not listing.total:
        return ()
    about = "" if listing.exact else "at least "
    size = f", {sized(listing.unpacked)} unpacked" if listing.known == listing.total and listing.exact else ""
    facts = [f"{about}{listing.total} {'entry' if listing.total == 1 else 'entries'}{size}"]
    tops = Counter(entry.name.partition("/")[0] + "/" * ("/" in entry.name) for entry in listing.entries)
    if 1 < len(tops) < len(listing.entries) // 2:
        named = ", ".join(f"{name} {count}" if count > 1 else name for name, count in tops.most_common(30))
        scope = "" if len(listing.entries) == listing.total else f" (of the first {len(listing.entries)})"
        facts.append(f"At the top{scope}: {named}{', …' if len(tops) > 30 else ''}")  # noqa: PLR2004
    files = [entry for entry in listing.entries if not entry.name.endswith("/")]
    if not files:
        return tuple(facts)
    part = "" if len(listing.entries) == listing.total else f" among the first {len(listing.entries)} entries"
    return (*facts, f"Files{part}: {'; '.join(f'{entry.name} {sized(entry.size)}' for entry in files)}")


def sized(size: int) -> str:
    """`812 B`, `14 kB`, `3.2 MB`."""
    if size < 1000:  # noqa: PLR2004 - as units go
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.5:  # noqa: PLR2004
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"  # noqa: PLR2004
    return f"{value / 1000:.1f} TB"


# ---------------------------------------------------------------------------------------------------- zip

_END: Final = b"PK\x05\x06"
_CENTRAL: Final = b"PK\x01\x02"
_LOCAL: Final = b"PK\x03\x04"
_END_SIZE: Final = 22
_CENTRAL_SIZE: Final = 46
_LOCAL_SIZE: Final = 30


def zip_listing(sample: Sample) -> Listing:
    """From the central directory if the tail holds it, else from the local headers of the head."""
    tail = sample.tail or sample.head
    end = tail.rfind(_END)
    if end < 0 or end + _END_SIZE > len(tail):
        return _zip_head(sample.head)
    total, size, start = struct.unpack_from("<HII", tail, end + 10)
    first = max(0, end - size)
    if size == 0xFFFFFFFF or total == 0xFFFF:  # noqa: PLR2004 - ZIP64 keeps them elsewhere
        wide = tail.rfind(b"PK\x06\x06", 0, end)
        if 0 <= wide <= len(tail) - 56:
            total, size, start = struct.unpack_from("<QQQ", tail, wide + 32)
            first = max(0, wide - size)
    del start
    at = first if tail[first : first + 4] == _CENTRAL else tail.find(_CENTRAL, 0, end)
    entries: list[Entry] = []
    known = unpacked = 0
    while 0 <= at <= end - _CENTRAL_SIZE and tail[at : at + 4] == _CENTRAL and known < _WALKED:
        plain, name_size, extra, comment = struct.unpack_from("<IHHH", tail, at + 24)
        known += 1
        unpacked += plain
        if len(entries) < MOST_ENTRIES:
            entries.append(Entry(_named(tail[at + _CENTRAL_SIZE : at + _CENTRAL_SIZE + name_size]), plain))
        at += _CENTRAL_SIZE + name_size + extra + comment
    if at == first:
        return _zip_head(sample.head)
    return Listing(entries=tuple(entries), total=max(total, known), known=known, unpacked=unpacked)


def _zip_head(head: bytes) -> Listing:
    """Local headers, as far as their sizes lead from one to the next."""
    entries: list[Entry] = []
    at = known = unpacked = 0
    while at + _LOCAL_SIZE <= len(head) and head[at : at + 4] == _LOCAL and known < _WALKED:
        flags = int.from_bytes(head[at + 6 : at + 8], "little")
        packed, plain, name_size, extra = struct.unpack_from("<IIHH", head, at + 18)
        name = _named(head[at + _LOCAL_SIZE : at + _LOCAL_SIZE + name_size])
        known += 1
        unpacked += plain
        if len(entries) < MOST_ENTRIES:
            entries.append(Entry(name, plain))
        at += _LOCAL_SIZE + name_size + extra + packed
        if flags & 8 and not packed:  # its size stands behind it
            at = head.find(_LOCAL, at)
            if at < 0:
                break
    return Listing(entries=tuple(entries), total=known, known=known, exact=False, unpacked=unpacked)


def zip_member(sample: Sample, name: str, most: int = 64 * 1024) -> bytes:
    """The beginning of a small member, stored or deflated; empty where it is not in the sample or cannot be opened."""
    data = sample.head
    wanted = name.encode()
    at = data.find(wanted)
    while at >= _LOCAL_SIZE:
        start = at - _LOCAL_SIZE
        if data[start : start + 4] == _LOCAL and int.from_bytes(data[start + 26 : start + 28], "little") == len(wanted):
            method = int.from_bytes(data[start + 8 : start + 10], "little")
            begin = at + len(wanted) + int.from_bytes(data[start + 28 : start + 30], "little")
            try:
                plain = zlib.decompressobj(-15).decompress(data[begin : begin + most], most) if method else b""
            except zlib.error:
                return b""
            return plain or data[begin : begin + int.from_bytes(data[start + 18 : start + 22], "little")][:most]
        at = data.find(wanted, at + 1)
    return b""


def zip_kind(listing: Listing) -> tuple[str, str] | None:
    """What a ZIP is by what is in it: the media type and the name of an office document, a book or a package."""
    names = {entry.name for entry in listing.entries}
    for marks, kind in _ZIP_KINDS:
        if any(mark in names or any(name.startswith(mark) for name in names if mark.endswith("/")) for mark in marks):
            return kind
    for ending, kind in _ZIP_ENDINGS:
        if any(name.endswith(ending) for name in names):
            return kind
    return None


_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_ZIP_KINDS: Final = (
    (("word/document.xml",), (f"{_OFFICE}.wordprocessingml.document", "Word document")),
    (("xl/workbook.xml", "xl/workbook.bin"), (f"{_OFFICE}.spreadsheetml.sheet", "Excel workbook")),
    (("ppt/presentation.xml",), (f"{_OFFICE}.presentationml.presentation", "PowerPoint presentation")),
    (("META-INF/container.xml",), ("application/epub+zip", "EPUB book")),
    (("AndroidManifest.xml",), ("application/vnd.android.package-archive", "Android package")),
    (("META-INF/MANIFEST.MF",), ("application/java-archive", "Java archive")),
    (("content.xml",), ("application/vnd.oasis.opendocument", "OpenDocument file")),
    (("doc.kml",), ("application/vnd.google-earth.kmz", "map in KMZ")),
)
_ZIP_ENDINGS: Final = (
    (".dist-info/WHEEL", ("application/zip", "Python wheel")),
    (".npy", ("application/zip", "NumPy arrays")),
)

# ---------------------------------------------------------------------------------------------------- tar

_BLOCK: Final = 512


def tar_listing(data: bytes, *, whole: bool) -> Listing:
    """From the headers in a tar's beginning."""
    entries: list[Entry] = []
    at = known = unpacked = 0
    long_name = b""
    ended = False
    while at + _BLOCK <= len(data) and known < _WALKED:
        header = data[at : at + _BLOCK]
        if not header.strip(b"\0"):
            ended = True
            break
        if header[257:262] != b"ustar" and known == 0 and at == 0:
            break
        size = _octal(header[124:136])
        kind = header[156:157]
        if kind == b"L":
            long_name = data[at + _BLOCK : at + _BLOCK + min(size, 4096)].rstrip(b"\0")
        elif kind not in {b"x", b"g", b"K"}:
            name = long_name or _joined(header)
            long_name = b""
            known += 1
            unpacked += size
            if len(entries) < MOST_ENTRIES:
                entries.append(Entry(_named(name), size))
        at += _BLOCK + (size + _BLOCK - 1) // _BLOCK * _BLOCK
    exact = ended or (whole and at == len(data))
    return Listing(entries=tuple(entries), total=known, known=known, exact=exact, unpacked=unpacked)


def _joined(header: bytes) -> bytes:
    name = header[:100].split(b"\0")[0]
    prefix = header[345:500].split(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _octal(field: bytes) -> int:
    """A number as tar keeps it; in base 256 where its first bit is set."""
    if field[:1] >= b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b"\0 ")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else 0


def ar_listing(data: bytes) -> Listing:
    """From the headers of an `ar` archive, such as a Debian package or a static library."""
    entries: list[Entry] = []
    names = b""
    at = 8
    known = unpacked = 0
    while at + 60 <= len(data) and known < _WALKED:
        name, size = data[at : at + 16].strip(), data[at + 48 : at + 58].strip()
        if not size.isdigit():
            break
        if name == b"//":  # names that are too long for a header
            names = data[at + 60 : at + 60 + int(size)]
        elif name not in {b"/", b"/SYM64/"}:
            known += 1
            unpacked += int(size)
            if name[:1] == b"/" and name[1:].isdigit():
                name = names[int(name[1:]) :].split(b"\n", 1)[0]
            if len(entries) < MOST_ENTRIES:
                entries.append(Entry(_named(name.removesuffix(b"/")), int(size)))
        at += 60 + int(size) + int(size) % 2
    return Listing(entries=tuple(entries), total=known, known=known, exact=at >= len(data), unpacked=unpacked)


# ------------------------------------------------------------------------------------------------ streams


def inside(media_type: str, head: bytes) -> bytes:
    """The beginning of what a compressed stream holds, at most INSIDE bytes; empty where it cannot be opened."""
    try:
        if media_type == "application/gzip":
            return zlib.decompressobj(31).decompress(head, INSIDE)
        if media_type == "application/x-bzip2":
            return bz2.BZ2Decompressor().decompress(head, INSIDE)
        if media_type == "application/x-xz":
            return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY).decompress(head, INSIDE)
        if media_type == "application/zstd":
            reader = cast("Any", zstandard.ZstdDecompressor(max_window_size=_MEMORY)).stream_reader(head)
            return bytes(reader.read(INSIDE))
    except _FAULTS:
        pass
    return b""


def gzip_name(head: bytes) -> str | None:
    """The file name that a gzip header may keep."""
    if len(head) < 11 or not head[3] & 8 or head[3] & 4:  # noqa: PLR2004 - FNAME, and no FEXTRA before it
        return None
    return _named(head[10:300].split(b"\0")[0]) or None


def _named(name: bytes) -> str:
    text = name[:_NAME].decode("utf-8", "replace")
    return f"{text}…" if len(name) > _NAME else text
