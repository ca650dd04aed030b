"""Describes images, other binaries and documents by their headers, never by their contents."""

import re
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from typing import Final

from coatcheck.core.kinds.description import Description, PayloadProbe
from coatcheck.core.media import describe, identify_written
from coatcheck.core.media.documents import MAIL

_SUBJECT: Final = re.compile(rb"^Subject:([^\n]*(?:\n[ \t][^\n]*){0,20})", re.IGNORECASE | re.MULTILINE)
_HEAD: Final = 64 * 1024
_TITLE: Final = 300
"""Maximum characters of a title."""


def describe_media(payload: PayloadProbe) -> Description:
    """Returns the format, by the first bytes, with what its header says; or else the declared media type."""
    media = describe(payload.sample, payload.declared.media_type)
    first, *more = media.lines
    return Description(media_type=media.media_type, facts=(f"Format: {first}", *more), title=media.title)


def describe_written(payload: PayloadProbe) -> Description:
    """Returns the format of a document that is written as text, and the subject of a mail."""
    head = payload.sample.head[:_HEAD]
    binary_format = identify_written(head, payload.declared.media_type)
    if binary_format is None:
        return Description(media_type=payload.declared.media_type)
    subject = _SUBJECT.search(head) if binary_format.media_type == MAIL else None
    title = None if subject is None else _decode_title(" ".join(subject[1].decode("utf-8", "replace").split()))
    return Description(
        media_type=binary_format.media_type, facts=(f"Format: {binary_format.name}",), title=title or None
    )


def _decode_title(value: str) -> str:
    """Returns the text of a header (RFC 2047)."""
    try:
        return str(make_header(decode_header(value)))[:_TITLE]
    except (HeaderParseError, LookupError, ValueError):
        return value[:_TITLE]
