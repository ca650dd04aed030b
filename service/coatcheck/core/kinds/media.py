"""Describes images and other binaries by their headers, never by their contents."""

from coatcheck.core.kinds.description import Description, PayloadProbe
from coatcheck.core.media import describe


def describe_media(payload: PayloadProbe) -> Description:
    """Returns the format, by the first bytes, with what its header says; or else the declared media type."""
    media = describe(payload.sample, payload.declared.media_type)
    first, *more = media.lines
    return Description(media_type=media.media_type, facts=(f"Format: {first}", *more), title=media.title)
