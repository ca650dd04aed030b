"""Extraction of text views."""

from typing import Protocol

from coatcheck.core.artifact import Kind
from coatcheck.core.views.view import ExtractedText


class Extractor(Protocol):
    """Makes text views, outside this process and within limits of time and memory."""

    async def extract(
        self, kind: Kind, media_type: str | None, url: str | None, payload: bytes
    ) -> ExtractedText | None:
        """Returns the text view of a payload; None if its kind has only the raw one, or nothing could be extracted.

        Returns within a few seconds whatever the payload: if the extractor fails, a simpler one is tried, and if that
        fails too, there is no text view. Deterministic except for payloads near the limits.

        Raises:
            CoatcheckError: `overloaded` if it cannot be decided now whether there is a view; only for documents and for
                payloads of more than 2 MiB.
        """
        ...
