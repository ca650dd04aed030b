"""What the content route serves: the payload, its text view, or a section of either, as bytes that never change.

Each has its own strong entity tag. Status and sending are decided elsewhere.
"""

import hashlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final

from msgspec import Struct

from coatcheck.api.content.dispositions import content_disposition, content_type
from coatcheck.core.artifact import Artifact
from coatcheck.core.views.window import Extent
from coatcheck.reading.view import ViewReading
from coatcheck.storing.content import Content

SENT_BYTES: Final = 256 * 1024
"""Bytes that are sent at once: a whole frame, and all that a client which stops reading holds twice."""
_TEXT: Final = "text/plain; charset=utf-8"


class Representation(Struct, frozen=True, kw_only=True):
    """Bytes to serve, counted from 0."""

    etag: str
    """The strong entity tag, including its quotes."""
    digest: bytes
    """SHA-256 of all bytes, or a substitute for a section, whose bytes are never hashed."""
    whole: bool
    """Whether `digest` is the SHA-256 of all bytes."""
    kind: str
    disposition: str
    last_modified: datetime
    """To the second, in UTC."""
    content: Content
    extent: Extent
    """The range of the content that these bytes are."""

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.extent.end - self.extent.start

    def blocks(self, start: int, end: int) -> AsyncIterator[bytes]:
        """Yields the bytes from `start` to before `end` in blocks."""
        return self.content.blocks(self.extent.start + start, self.extent.start + end, SENT_BYTES)


def payload(artifact: Artifact, content: Content) -> Representation:
    """Returns the exact payload, with its SHA-256 in hexadecimal as the tag."""
    return Representation(
        etag=f'"{artifact.measure.sha256.hex()}"',
        digest=artifact.measure.sha256,
        whole=True,
        kind=content_type(artifact),
        disposition=content_disposition(artifact),
        last_modified=artifact.created_at.replace(microsecond=0),
        content=content,
        extent=Extent(0, content.size),
    )


def representation(reading: ViewReading) -> Representation:
    """Returns what is read; the tag of a text view is its SHA-256, that of a section also has its range."""
    artifact, content, extent = reading.artifact, reading.content, reading.extent
    own = content.blob.id != artifact.blob.id
    digest = content.blob.sha256 if own else artifact.measure.sha256
    if reading.section is not None:
        place = extent.start.to_bytes(8, "big") + extent.end.to_bytes(8, "big")
        digest = hashlib.sha256(b"section\0" + digest + place).digest()
    suffix = (f"-{reading.section.name}" if reading.section else "") + (".txt" if own else "")
    return Representation(
        etag=f'"{digest.hex()}"',
        digest=digest,
        whole=reading.section is None,
        kind=_TEXT if own else content_type(artifact),
        disposition=content_disposition(artifact, suffix=suffix),
        last_modified=artifact.created_at.replace(microsecond=0),
        content=content,
        extent=extent,
    )
