"""Which binaries hold text that an extractor may read: PDF and workbooks. Says nothing of whether one is installed."""

from typing import Final

PDF: Final = "application/pdf"
_WORKBOOKS: Final = (
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.oasis.opendocument",
)


def is_workbook(media_type: str | None) -> bool:
    """Whether this is a media type of a spreadsheet; of an OpenDocument file it may be."""
    return media_type in _WORKBOOKS


def is_document(media_type: str | None) -> bool:
    """Whether there may be text in a binary of this media type."""
    return media_type == PDF or is_workbook(media_type)
