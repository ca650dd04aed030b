"""What binary payloads are, by their headers: type, dimensions, duration, contents, title, pages.

Pure and bounded by the sample. A fact is stated only if the header proves it; values that are cut off or make no sense
are left out. Contents that must be unpacked or parsed are left to text views.
"""

from msgspec import Struct

from coatcheck.core.artifact import PayloadSample
from coatcheck.core.media import archives, documents
from coatcheck.core.media.documents import identify_written
from coatcheck.core.media.headers import HEADER_FAULTS, header_facts, identify, read_encoding
from coatcheck.core.text.count import format_count


class MediaFacts(Struct, frozen=True, kw_only=True):
    """Facts about a binary payload. Values are verbatim; make them inert before showing them."""

    media_type: str
    lines: tuple[str, ...]
    """Lines for a card, of which the first names the format and its main facts."""
    title: str | None = None


def describe(sample: PayloadSample, media_type: str | None) -> MediaFacts:
    """Returns facts about a binary payload. The declared `media_type` counts only if the bytes show no format."""
    binary_format = identify(sample.head)
    if binary_format is None and (encoding := read_encoding(sample.head)) is not None:
        return MediaFacts(media_type=documents.XML, lines=(f"XML in {encoding}",))
    if binary_format is None:
        return MediaFacts(media_type=media_type or "application/octet-stream", lines=("unknown binary data",))
    media_type, title = binary_format.media_type, None
    try:
        if sample.head[:2] == b"PK" and (entries := archives.zip_entries(sample)) is not None:
            special = archives.zip_format(entries) or binary_format
            media_type, lines = special.media_type, archives.describe_archive(special.name, entries)
            lines = (special.name,) if documents.is_office(media_type) else lines  # its files' names say nothing
        elif media_type == documents.PDF:
            pages, title = documents.pdf_pages(sample), documents.pdf_title(sample)
            lines = (f"{binary_format.name}, {format_count(pages, 'page')}" if pages else binary_format.name,)
        else:
            lines = (", ".join((binary_format.name, *header_facts(media_type, sample))),)
    except HEADER_FAULTS:
        lines = (binary_format.name,)
    return MediaFacts(media_type=media_type, lines=lines, title=title)


__all__ = ["MediaFacts", "describe", "identify", "identify_written", "read_encoding"]
