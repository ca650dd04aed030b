"""Text views of ZIP archives, tar archives, Debian packages and compressed files: a list of files, then their texts.

Runs in a worker process, as payloads may be hostile. Files of an archive are streamed within limits, for each file and
in total. If a file is not text, the view shows a description of its first bytes instead. Nothing is written to a file,
no name is used as a path, no link is followed, and an archive inside another archive is not opened.
"""

import bz2
import gzip
import io
import lzma
import re
import tarfile
import time
import zipfile
from collections.abc import Callable, Sequence
from email import message_from_string
from itertools import islice
from typing import IO, Any, Final, Self, cast, final

from msgspec import Struct
from typing_extensions import Buffer, override

from coatcheck.adapters.extract.wire import ViewWriter
from coatcheck.core.artifact import PayloadSample
from coatcheck.core.encoding.frames import zstd
from coatcheck.core.extract.blocks import one_line
from coatcheck.core.media import describe, identify
from coatcheck.core.media.archives import ArchiveEntry, describe_archive, format_size, is_plausible, zip_format
from coatcheck.core.media.documents import DEB, TAR
from coatcheck.core.parts.charset import decode
from coatcheck.core.views.view import MAX_SECTIONS, ExtractedText

MEMBER_BYTES: Final = 1024 * 1024
"""Maximum bytes that a view shows of one file of an archive."""
SHOWN_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes that a view shows of all files together."""
_HEAD_BYTES: Final = 4096
"""First bytes of a file, by which its format is recognised."""
_DESCRIBED_BYTES: Final = 256 * 1024
"""Maximum further bytes that are read of a file that is not text, to describe it."""
_NO_TEXT: Final = re.compile(rb"[\x00-\x08\x0e-\x1a]")
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")


class ArchiveMember(Struct, frozen=True):
    """A file of an archive, as the archive's view shows it."""

    entry: ArchiveEntry
    note: str = ""
    """The format of a file that is not text, or the reason why the file is not shown; empty if the text is shown."""
    text: str | None = None
    """The text that the view shows, perhaps only its beginning; None: no text is shown."""


@final
class MemberReader:
    """Reads files of one archive until SHOWN_BYTES or the time is used up."""

    def __init__(self, writer: ViewWriter, each: int = MEMBER_BYTES) -> None:
        """Creates a reader that shows at most `each` bytes of one file."""
        self._writer = writer
        self._each = each
        self._left = SHOWN_BYTES

    def read(self, entry: ArchiveEntry, open_source: Callable[[], IO[bytes]]) -> ArchiveMember:
        """Returns a file with its text or a description; `open_source` opens the file, and may raise any exception."""
        if self._left <= 0 or self._writer.late:
            self._writer.partial = True
            return ArchiveMember(entry)
        try:
            return self._read(entry, open_source())
        except Exception:  # noqa: BLE001 - a hostile file may raise anything, and other files may be readable
            self._writer.partial = True
            return ArchiveMember(entry, "" if self._writer.late else "cannot be read")

    def _read(self, entry: ArchiveEntry, source: IO[bytes]) -> ArchiveMember:
        head = source.read(_HEAD_BYTES)
        signature = identify(head)
        if signature is not None or (_NO_TEXT.search(head) and not head.startswith(_UTF_16)):
            data = head + source.read(_DESCRIBED_BYTES)
            whole = not source.read(1)
            name = signature.name if signature is not None else "binary data"
            if signature is not None and whole:
                name = describe(PayloadSample(data, b"", len(data)), None).lines[0]
            return ArchiveMember(entry, name)
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
    """Returns the view of an archive: the summary, the list of all files, then a section for each file that was read.

    Args:
        writer: a writer that has written nothing yet.
        summary: the first lines of the view.
        members: all known files of the archive.
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


_EXTRACTOR: Final = "archive 1"
_MEMBERS: Final = 20_000
"""Maximum files of an archive. A tar archive with more has a partial view, a ZIP archive with more has none."""
_NAMED: Final = 20
"""Maximum files that the summary names."""
_HEADER_BYTES: Final = 1024 * 1024
"""Maximum bytes of an extended header of a tar archive, which is read into memory whole."""
_BLOCK_BYTES: Final = 64 * 1024
"""Bytes that are decompressed at once."""
_ENDS: Final = 8
"""Maximum reads past the end of a stream. A reader that makes more would loop forever, so it gets an error."""
_AR_MEMBERS: Final = 64
"""Maximum files of a Debian package, and of its control archive, that are searched; real packages have three."""
_AR: Final = re.compile(rb"([!-~ ]{16})[0-9 ]{12}[0-9 ]{6}[0-9 ]{6}[0-7 ]{8}([0-9]{1,10}) *`\n")
"""Matches the header of a file in an `ar` archive. The groups are the file's name and its size in bytes."""
STOPPABLE_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods of ZIP whose decompression can be stopped at any byte."""
_ENCRYPTED: Final = 1
"""Flag of an encrypted file of a ZIP archive (APPNOTE, section 4.4.4)."""
_NAME: Final = 8
"""Flag of a gzip header that contains a file name (RFC 1952)."""
_MORE: Final = 4
"""Flag of a gzip header that contains an extra field before the name (RFC 1952)."""
_EXTENDED: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def extract_zip(payload: bytes, until: float) -> ExtractedText | None:
    """Returns the text view of a ZIP archive; None if its directory is broken or too large.

    Args:
        payload: the whole archive.
        until: CPU time of this process, in seconds, at which to stop.
    """
    # The signature of a directory entry. Counting it bounds the entries before the library reads the whole directory.
    if payload.count(b"PK\1\2") > _MEMBERS:
        return None
    writer = ViewWriter(until)
    reader = MemberReader(writer)
    try:
        with zipfile.ZipFile(io.BytesIO(payload)) as archive:
            infos = archive.infolist()
            entries = [ArchiveEntry(info.filename, info.file_size, info.compress_size) for info in infos]
            pairs = [(info, entry) for info, entry in zip(infos, entries, strict=True) if not info.is_dir()]
            members = [_zip_member(archive, info, entry, reader) for info, entry in pairs]
    except Exception:  # noqa: BLE001 - a hostile archive may raise anything, and then has no view
        return None
    special = zip_format(entries) or identify(payload[:4096])
    name = special.name if special is not None else "ZIP archive"
    summary = describe_archive(name, entries, exact=is_plausible(entries, len(payload)), names=_NAMED)
    return write_archive_view(writer, summary, members, _EXTRACTOR)


def _zip_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, entry: ArchiveEntry, reader: MemberReader
) -> ArchiveMember:
    if info.flag_bits & _ENCRYPTED:
        return ArchiveMember(entry, "encrypted")
    if info.compress_type not in STOPPABLE_METHODS:
        return ArchiveMember(entry, "compressed by another method than deflate")
    return reader.read(entry, lambda: archive.open(info))


def _tar(source: IO[bytes], name: str, until: float, control: str = "") -> ExtractedText | None:
    """Returns the text view of a tar archive, which is read once from beginning to end; None if it has no member.

    `control` is the description of a Debian package, which the view shows as its first file; empty: no package.
    """
    writer = ViewWriter(until)
    reader = MemberReader(writer)
    header = _header_type()
    entries: list[ArchiveEntry] = []
    members = [ArchiveMember(ArchiveEntry("control", len(control.encode())), text=control)] if control else []
    try:
        with tarfile.open(
            fileobj=source, mode="r|", tarinfo=header, encoding="utf-8", errors="replace", bufsize=_BLOCK_BYTES
        ) as archive:
            for info in archive:
                entry = ArchiveEntry(f"{info.name}/" if info.isdir() else info.name, info.size if info.isreg() else 0)
                entries.append(entry)
                if not info.isdir():
                    members.append(_tar_member(archive, info, entry, reader))
                if len(entries) == _MEMBERS or writer.late:
                    break
    except Exception:  # noqa: BLE001 - a hostile archive may raise anything, and the files before that are whole
        writer.partial = True
    if not entries:
        return None
    # A tar archive that is cut off after a whole file reads like a complete one: only the end mark tells them apart.
    writer.partial = writer.partial or not header.ended
    summary = describe_archive(name, entries, exact=header.ended, names=_NAMED)
    return write_archive_view(writer, summary, members, _EXTRACTOR)


def _tar_member(
    archive: tarfile.TarFile, info: tarfile.TarInfo, entry: ArchiveEntry, reader: MemberReader
) -> ArchiveMember:
    if info.isreg():
        return reader.read(entry, lambda: cast("IO[bytes]", archive.extractfile(info)))
    return ArchiveMember(entry, f"link to {info.linkname}" if info.issym() or info.islnk() else "device")


class _Header(tarfile.TarInfo):
    """The header of a file in a tar archive. Its class records whether the end mark of the archive was read."""

    ended = False
    """Whether the end mark was read, by any header of the class."""


def _header_type() -> type[_Header]:
    """Returns a new class for the headers of one archive, so that archives do not share `ended`."""

    class Header(_Header):
        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
            try:
                info = super().frombuf(buf, encoding, errors)
            except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
                cls.ended = True
                raise
            if info.type in _EXTENDED and info.size > _HEADER_BYTES:
                raise tarfile.HeaderError("an extended header is too large")
            return info

    return Header


_STREAMS: Final[dict[str, tuple[str, Callable[[IO[bytes]], Any]]]] = {
    TAR: ("", lambda source: source),
    "application/gzip": ("gzip", gzip.open),
    "application/x-bzip2": ("bzip2", bz2.open),
    "application/x-xz": ("xz", lzma.open),
}


@final
class _Unpacked(io.RawIOBase):
    """The decompressed content of a file. The stream ends where the file is broken, or when time is up.

    Raises EOFError if its reader keeps reading past the end. Otherwise `tarfile` would read until it has as many bytes
    as a file's header states.
    """

    def __init__(self, source: Any, until: float) -> None:  # noqa: ANN401 - one of _STREAMS
        self._source = source
        self._until = until
        self._ends = 0
        self.size = 0
        self.broken = False

    @override
    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        data = b""
        try:
            self.broken = self.broken or time.process_time() > self._until
            data = b"" if self.broken else bytes(self._source.read1(memoryview(buffer).nbytes))
        except Exception:  # noqa: BLE001 - a hostile stream may raise anything, and the bytes before that are whole
            self.broken = True
        self._ends += not data
        if self._ends > _ENDS:
            raise EOFError
        memoryview(buffer)[: len(data)] = data
        self.size += len(data)
        return len(data)


def extract_stream(payload: bytes, media_type: str, until: float) -> ExtractedText | None:
    """Returns the text view of a tar archive, compressed or not, of a Debian package or of a compressed file.

    None: the file is broken from its beginning.

    Args:
        payload: the whole file.
        media_type: one of `core.media.documents.STREAMS`.
        until: CPU time of this process, in seconds, at which to stop.
    """
    if media_type == DEB:
        return _deb(payload, until)
    name, open_stream = _STREAMS[media_type]
    # The compressed content may be a tar archive or a single file. `peek` shows its first bytes without consuming them.
    raw = _Unpacked(open_stream(io.BytesIO(payload)), until)
    source = io.BufferedReader(raw, _BLOCK_BYTES)
    inner = identify(source.peek())
    if inner is not None and inner.media_type == TAR:
        return _tar(source, f"tar archive ({name})" if name else "tar archive", until)
    title = (_gzip_name(payload) if media_type == "application/gzip" else "") or "content"
    writer = ViewWriter(until)
    member = MemberReader(writer, SHOWN_BYTES).read(ArchiveEntry(title, 0), lambda: source)
    if raw.broken and not raw.size:
        return None
    whole = not source.read(1) and not raw.broken
    writer.partial = writer.partial or raw.broken
    writer.put(f"{name} data: {title}, {'' if whole else 'at least '}{format_size(raw.size)} unpacked")
    writer.put("")
    writer.begin(title)
    writer.put(f"## {one_line(title)}")
    writer.put(f"[{member.note or 'nothing'}: not shown]" if member.text is None else member.text)
    return writer.finish(_EXTRACTOR)


_PACKED: Final[dict[str, Callable[[IO[bytes]], Any]]] = {
    "": _STREAMS[TAR][1],
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": zstd.open,
}


def _deb(payload: bytes, until: float) -> ExtractedText | None:
    """Returns the text view of a Debian package, with its description and its files; None if the package is broken."""
    members: dict[str, IO[bytes]] = {}
    at = len(b"!<arch>\n")
    while len(members) < _AR_MEMBERS and (head := _AR.match(payload, at)) is not None:
        part, _, packing = head[1].decode().rstrip(" /").partition(".tar")
        open_stream, end = _PACKED.get(packing), head.end() + int(head[2])
        if open_stream is not None:
            raw = _Unpacked(open_stream(io.BytesIO(payload[head.end() : end])), until)
            members.setdefault(part, io.BufferedReader(raw, _BLOCK_BYTES))
        at = end + end % 2
    control = _control(members["control"]) if {"control", "data"} <= members.keys() else ""
    fields = message_from_string(control)
    name = " ".join(one_line(fields[field] or "?") for field in ("Package", "Version", "Architecture"))
    about = one_line((fields["Description"] or "").partition("\n")[0])
    return _tar(members["data"], f"Debian package {name} ({about})", until, control) if control else None


def _control(source: IO[bytes]) -> str:
    """Returns the text of the control file in a package's control archive; empty if it cannot be read."""
    try:
        with tarfile.open(fileobj=source, mode="r|", tarinfo=_header_type(), bufsize=_BLOCK_BYTES) as archive:
            for info in islice(archive, _AR_MEMBERS):
                if info.isreg() and info.name in {"control", "./control"}:
                    return cast("IO[bytes]", archive.extractfile(info)).read(_BLOCK_BYTES).decode("utf-8", "replace")
    except Exception:  # noqa: BLE001 - a hostile package may raise anything, and then has no view
        return ""
    return ""


def _gzip_name(payload: bytes) -> str:
    """Returns the file name in a gzip header (RFC 1952); empty if there is none."""
    flags = int.from_bytes(payload[3:4])  # no bytes, and so 0, in a header that is cut off
    plain = flags & (_NAME | _MORE) == _NAME
    return payload[10:512].partition(b"\0")[0].decode("latin-1") if plain else ""
