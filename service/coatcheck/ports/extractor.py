"""Text views."""

from typing import Protocol

from coatcheck.core.artifact import Kind
from coatcheck.core.views.view import ExtractedText


class Extractor(Protocol):
    """Makes text views, apart from this process and within limits of time and memory."""

    async def extract(
        self, kind: Kind, media_type: str | None, url: str | None, payload: bytes
    ) -> ExtractedText | None:
        """The text view of a payload; None where the kind has none but the raw one, or nothing could be extracted.

        Answers within a few seconds whatever the payload is: what defeats the extractor is given to a simpler one, and
        what defeats that has no text view. Deterministic but for payloads near the limits.

        Raises:
            CoatcheckError: `overloaded` when it cannot be told now whether there is one; only for documents and for
                payloads of more than 2 MiB.
        """
        ...
