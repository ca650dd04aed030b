"""The contents of archives: a summary of a list of members, and the list of the members of a ZIP.

A ZIP has a directory, which is read if the sample contains all of it. Sizes are those that the archive states.
"""

import struct
from collections import Counter
from collections.abc import Sequence
from posixpath import commonprefix
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import PayloadSample
from coatcheck.core.media.headers import BinaryFormat
from coatcheck.core.text.count import first_of, format_count

_LISTED: Final = 300
"""Maximum names in a description."""
_LARGEST_FILES: Final = 5
"""Number of the largest files that are listed separately."""
_WALKED: Final = 20_000
"""Maximum members of a ZIP; the directory of a larger one is not read."""
_NAME_CHARS: Final = 160
"""Maximum characters of a member's name."""
_MAX_FOLDERS: Final = 4
"""Folders that are named beside their files."""


class ArchiveEntry(Struct, frozen=True):
    """A member of an archive: a file, or a folder, whose name ends with `/`."""

    name: str
    size: int
    """Size in bytes after unpacking."""
    packed_size: int = 0
    """Size in bytes in the archive; 0 if unknown."""


def describe_archive(
    name: str, entries: Sequence[ArchiveEntry], exact: bool = True, names: int = _LISTED
) -> tuple[str, ...]:
    """Returns lines with the number of an archive's files, their total size as stated, and the names of the first.

    Args:
        name: name of the archive's format.
        entries: the known members.
        exact: whether these are all members.
        names: maximum number of files that are listed by name.
    """
    files = [entry for entry in entries if not entry.name.endswith("/")]
    size = f", {format_size(sum(entry.size for entry in files))} unpacked" if exact else ""
    lines = [f"{name}: {'' if exact else 'at least '}{format_count(len(files), 'file')}{size} (sizes as stated)"]
    if exact and len(files) > _LARGEST_FILES:
        lines += _folders(files)
        lines.append(f"Largest: {_list_entries(sorted(files, key=lambda entry: -entry.size)[:_LARGEST_FILES])}")
    if files and names:
        lines.append(f"{'Files' if exact and len(files) <= names else 'First files'}: {_list_entries(files[:names])}")
    return tuple(lines)


def _folders(files: Sequence[ArchiveEntry]) -> list[str]:
    """Returns a line with the outermost folders that divide the files, most files first; no line if none do."""
    names = [entry.name for entry in files]
    start = commonprefix(names).rfind("/") + 1
    file_counts = Counter(name[: name.index("/", start) + 1] for name in names if "/" in name[start:])
    folders = [f"{_clip_name(folder)} {format_count(count, 'file')}" for folder, count in file_counts.most_common()]
    return [f"Folders: {first_of(folders, _MAX_FOLDERS)}"] if folders else []


def _list_entries(entries: Sequence[ArchiveEntry]) -> str:
    return "; ".join(f"{_clip_name(entry.name)} {format_size(entry.size)}" for entry in entries)


def _clip_name(name: str) -> str:
    return f"{name[:_NAME_CHARS]}{'…' * (len(name) > _NAME_CHARS)}"


def format_size(size: int) -> str:
    """Returns a number of bytes as text, such as `812 B`, `14 kB` or `3.2 MB`."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value >= 999.5:  # noqa: PLR2004 - it would be shown as 1000
            value, unit = value / 1000, larger
    return f"{value:.{int(unit != 'B' and value < 9.95)}f} {unit}"  # noqa: PLR2004


def zip_entries(sample: PayloadSample) -> tuple[ArchiveEntry, ...] | None:
    """Returns the members of a ZIP by its central directory; None if the sample lacks a part of it, or it is broken."""
    tail = sample.tail or sample.head
    end = tail.rfind(b"PK\5\6")
    if end < 0 or end + 22 + int.from_bytes(tail[end + 20 : end + 22], "little") != len(tail):
        return None
    total, size = struct.unpack_from("<HI", tail, end + 10)
    at = end - size
    entries: list[ArchiveEntry] = []
    while 0 <= at <= end - 46 and tail[at : at + 4] == b"PK\1\2" and len(entries) < _WALKED:
        flags, packed_size, plain, name_size, more, comment = struct.unpack_from("<8xH10xIIHHH", tail, at)
        name = tail[at + 46 : at + 46 + name_size]
        entries.append(ArchiveEntry(name.decode("utf-8" if flags & 0x800 else "cp437", "replace"), plain, packed_size))
        at += 46 + name_size + more + comment
    is_complete = at == end and len(entries) == total and is_plausible(entries, sample.size)
    return tuple(entries) if is_complete else None


def is_plausible(entries: Sequence[ArchiveEntry], size: int) -> bool:
    """Returns whether a ZIP of `size` bytes can have these members: Deflate packs at most 1,032 bytes into one byte."""
    packed_size = sum(entry.packed_size for entry in entries)
    return packed_size <= size and all(entry.size <= 1032 * entry.packed_size for entry in entries)


_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_OFFICE_PARTS: Final = {
    "word/document.xml": BinaryFormat(f"{_OFFICE}.wordprocessingml.document", "Word document"),
    "xl/workbook.xml": BinaryFormat(f"{_OFFICE}.spreadsheetml.sheet", "Excel workbook"),
    "ppt/presentation.xml": BinaryFormat(f"{_OFFICE}.presentationml.presentation", "PowerPoint presentation"),
}


def zip_format(entries: Sequence[ArchiveEntry]) -> BinaryFormat | None:
    """Returns the format of a ZIP by its members; None for a plain archive."""
    names = {entry.name for entry in entries}
    if "[Content_Types].xml" in names:
        return next((office_format for part, office_format in _OFFICE_PARTS.items() if part in names), None)
    if "META-INF/container.xml" in names:
        return BinaryFormat("application/epub+zip", "EPUB book")
    if "META-INF/MANIFEST.MF" in names:
        return BinaryFormat("application/java-archive", "Java archive")
    wheel = any(name.endswith(".dist-info/WHEEL") and name.count("/") == 1 for name in names)
    return BinaryFormat("application/zip", "Python wheel") if wheel else None
