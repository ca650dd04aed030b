"""The text view of an archive: a list of its files, then the text of each text file, under its name.

Text is limited per file and in total; a file that is not text is described by its header.
"""

import re
from collections.abc import Callable, Sequence
from typing import IO, Final, final

from msgspec import Struct

from coatcheck.adapters.extract.view_writer import ViewWriter
from coatcheck.core.artifact import PayloadSample
from coatcheck.core.extract.sections import one_line
from coatcheck.core.media import describe, identify
from coatcheck.core.media.archives import ArchiveEntry
from coatcheck.core.parts.charset import decode
from coatcheck.core.views.view import MAX_SECTIONS, ExtractedText

MEMBER_BYTES: Final = 1024 * 1024
"""Bytes shown of one file of many."""
SHOWN_BYTES: Final = 8 * 1024 * 1024
"""Bytes shown of all files together."""
_HEAD: Final = 4096
_DESCRIBED: Final = 256 * 1024
_NO_TEXT: Final = re.compile(rb"[\x00-\x08\x0e-\x1a]")
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")


class ArchiveMember(Struct, frozen=True):
    """A file of an archive as its view shows it."""

    entry: ArchiveEntry
    note: str = ""
    """What it is if it is not text, or why it is not shown."""
    text: str | None = None


@final
class MemberReader:
    """Reads files of one archive until SHOWN_BYTES or the time is used up."""

    def __init__(self, writer: ViewWriter, each: int = MEMBER_BYTES) -> None:
        """`each` is the maximum number of bytes shown of one file."""
        self._writer = writer
        self._each = each
        self._left = SHOWN_BYTES

    def read(self, entry: ArchiveEntry, open_source: Callable[[], IO[bytes]]) -> ArchiveMember:
        """Returns a file with its text or a description; `open_source` opens it, and may raise anything."""
        if self._left <= 0 or self._writer.late:
            self._writer.partial = True
            return ArchiveMember(entry)
        try:
            return self._read(entry, open_source())
        except Exception:  # noqa: BLE001 - whatever an archive does to its reader; its other files may be whole
            self._writer.partial = True
            return ArchiveMember(entry, "" if self._writer.late else "cannot be read")

    def _read(self, entry: ArchiveEntry, source: IO[bytes]) -> ArchiveMember:
        head = source.read(_HEAD)
        signature = identify(head)
        if signature is not None or (_NO_TEXT.search(head) and not head.startswith(_UTF_16)):
            data = head + source.read(_DESCRIBED)
            whole = not source.read(1)
            name = signature.name if signature is not None else "binary data"
            return ArchiveMember(
                entry, describe(PayloadSample(data, b"", len(data)), None).lines[0] if signature and whole else name
            )
        most = min(self._each, self._left)
        data = head + source.read(max(0, most + 1 - len(head)))
        text = decode(data[:most], None).encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
        self._left -= min(len(data), most)
        if len(data) <= most:
            return ArchiveMember(entry, text=text)
        self._writer.partial = True
        return ArchiveMember(entry, text=f"{text}\n[cut: this was the beginning, {most} bytes]")


def write_archive_view(
    writer: ViewWriter, summary: Sequence[str], members: Sequence[ArchiveMember], extractor: str
) -> ExtractedText | None:
    """Returns the view of an archive: the summary, the list, the files that were read.

    Args:
        writer: an empty writer.
        summary: the first lines.
        members: all known files.
        extractor: the name of the extractor.
    """
    for line in (*summary, "", "Bytes\tName"):
        writer.put(line)
    for each in members:
        writer.put("\t".join((str(each.entry.size), one_line(each.entry.name), *((each.note,) if each.note else ()))))
    section_members = [each for each in members if each.text is not None or each.note]
    if len(section_members) > MAX_SECTIONS:
        section_members = [each for each in section_members if each.text is not None]
    for each in section_members:
        writer.put("")
        writer.begin(each.entry.name)
        text = f"[{one_line(each.note)}: not shown]" if each.text is None else each.text
        if not writer.put(f"## {one_line(each.entry.name)}") or not writer.put(text):
            break
    return writer.finish(extractor)
