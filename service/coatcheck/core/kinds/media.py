"""Images and other binaries: format, dimensions, contents, digest. Never their bytes.

Every claim of a header is bounded before it is shown, and a header that makes no sense gives a format without details.
"""

import html
import re
import struct
from typing import Final

from coatcheck.core.artifact import Facts, Kind, Said, Sample
from coatcheck.core.kinds import archives, pictures, programs, sounds
from coatcheck.core.kinds.cutter import Description, Plan
from coatcheck.core.kinds.magic import Format, identify

_FAULTS: Final = (struct.error, IndexError, ValueError, OverflowError, ZeroDivisionError)
"""What reading a broken header may raise. Each gives a format without details."""
_STREAMS: Final = frozenset({"application/gzip", "application/x-bzip2", "application/x-xz", "application/zstd"})


class MediaCutter:
    """Anything that is not text."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """The format by its first bytes and what its header says; the caller's media type where those say nothing."""
        found = identify(sample.head)
        if found is None:
            return _unknown(sample, said)
        try:
            return _described(found, sample)
        except _FAULTS:
            return Description(media_type=found.media_type, shape=(f"Format: {found.name}",))

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """Nothing verbatim; all the room for what is known."""
        del sample, facts
        return Plan(shape=1.0, ends=False, hints=0.0)


def drawing(sample: Sample, kind: Kind) -> str | None:
    """A line for a picture that is text: SVG."""
    if kind is not Kind.CODE_OR_FILE or b"<svg" not in sample.head[:8_192]:
        return None
    picture = pictures.svg(sample.head)
    return None if picture is None else f"Format: SVG image{_sides(picture)}"


def _unknown(sample: Sample, said: Said) -> Description:
    media_type = said.media_type or "application/octet-stream"
    picture = pictures.svg(sample.head) if b"<svg" in sample.head[:8_192] else None
    if picture is not None:
        return Description(media_type="image/svg+xml", shape=(f"Format: SVG image{_sides(picture)}",))
    return Description(media_type=media_type, shape=("Format: unknown binary data",))


def _described(found: Format, sample: Sample) -> Description:  # noqa: PLR0911 - one for each sort
    if found.image:
        picture = pictures.look(found.media_type, sample)
        facts = ", ".join((f"Format: {found.name}{_sides(picture)}", *picture.notes))
        return Description(media_type=found.media_type, shape=(facts,))
    if found.media_type == "application/zip":
        return _zip(found, sample)
    if found.media_type in _STREAMS:
        return _stream(found, sample)
    if found.media_type == "application/x-tar":
        return _archive(found, archives.tar_listing(sample.head, whole=sample.whole))
    if found.media_type in {"application/x-archive", "application/vnd.debian.binary-package"}:
        return _archive(found, archives.ar_listing(sample.head))
    facts = programs.look(found.media_type, sample) or sounds.look(found.media_type, sample)
    title = programs.pdf_title(sample) if found.media_type == "application/pdf" else None
    if found.media_type.startswith(("audio/", "video/")):
        return Description(media_type=found.media_type, shape=(", ".join((f"Format: {found.name}", *facts)),))
    first = ", ".join((f"Format: {found.name}", *facts[:1]))
    return Description(media_type=found.media_type, shape=(first, *facts[1:]), title=title)


def _sides(picture: pictures.Picture) -> str:
    """`, 640 x 480 pixels`; nothing where the header says nothing that a picture can be."""
    if not 0 < picture.width < pictures.MOST_PIXELS or not 0 < picture.height < pictures.MOST_PIXELS:
        return ""
    return f", {picture.width} x {picture.height} pixels"


def _archive(found: Format, listing: archives.Listing) -> Description:
    first, *more = archives.lines(listing) or ("",)
    return Description(media_type=found.media_type, shape=(f"Format: {found.name}{': ' * bool(first)}{first}", *more))


def _zip(found: Format, sample: Sample) -> Description:
    listing = archives.zip_listing(sample)
    kind = archives.zip_kind(listing)
    if kind is None:
        return _archive(found, listing)
    media_type, name = kind
    if not media_type.startswith(_OFFICE):
        return _archive(Format(media_type, f"{name} (ZIP)"), listing)
    title = _TITLE.search(archives.zip_member(sample, "docProps/core.xml"))
    sheets = [_plain(sheet) for sheet in _SHEET.findall(archives.zip_member(sample, "xl/workbook.xml"))][:_SHEETS]
    facts = (f"Sheets: {', '.join(sheets)}",) if sheets else ()
    shape = (f"Format: {name}", *facts) if facts else archives.lines(listing)
    if not facts:
        shape = (f"Format: {name} (ZIP){': ' * bool(shape)}{shape[0] if shape else ''}", *shape[1:])
    return Description(media_type=media_type, shape=shape, title=_plain(title.group(1)) or None if title else None)


_OFFICE: Final = "application/vnd.openxmlformats-"
_SHEET: Final = re.compile(rb'<sheet\b[^>]{0,300}?\bname="([^"]{1,200})"')
_SHEETS: Final = 200
_TITLE: Final = re.compile(rb"<dc:title[^>]{0,100}>([^<]{1,1000})<")


def _plain(text: bytes) -> str:
    return " ".join(html.unescape(text.decode("utf-8", "replace")).split())[:300]


def _stream(found: Format, sample: Sample) -> Description:
    """What is compressed: a tar's list, another format's name, or text."""
    begin = archives.inside(found.media_type, sample.head)
    name = archives.gzip_name(sample.head) if found.media_type == "application/gzip" else None
    first = f"Format: {found.name}{f' of {name}' if name else ''}"
    inner = identify(begin)
    if inner is not None and inner.media_type == "application/x-tar":
        listing = archives.tar_listing(begin, whole=False)
        return _archive(Format(found.media_type, f"tar archive ({found.name.removesuffix(' data')})"), listing)
    if inner is not None:
        return Description(media_type=found.media_type, shape=(f"{first}, in it: {inner.name}",))
    if begin and not begin.count(0):
        return Description(media_type=found.media_type, shape=(f"{first}, in it: text",))
    return Description(media_type=found.media_type, shape=(first,))
