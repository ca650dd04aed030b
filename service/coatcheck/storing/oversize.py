"""Enforces the payload limit on a stream: refuses larger ones, or keeps their two ends if requested."""

from collections.abc import AsyncIterator

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.storing.upload_session import BLOCK

KEPT_TAIL = 8 * 1024**2
"""Bytes of the end that are kept of an oversized payload, if both ends are to be kept."""


class OversizeGuard:
    """Enforces the payload limit on a stream; if requested, keeps both ends and counts what was dropped between."""

    def __init__(self, limit: int, *, keep_ends: bool) -> None:
        self._limit = limit
        self._keep = keep_ends
        self._tail = min(KEPT_TAIL, limit // 2)
        self._head = limit - self._tail
        self._edge = bytearray()
        """The last bytes of the head, at most _SPLIT: a character may be cut there."""
        self._ring = bytearray()
        """The latest bytes beyond the head; what is too old is dropped from its front."""
        self._seen = 0
        self.dropped = 0
        self.dropped_at = 0

    async def within(self, source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yields the stream's bytes, at most the limit."""
        # Bytes that are certainly kept leave at once; the last three of the head wait, as they may be half a character.
        sure = max(0, self._head - _SPLIT)
        async for chunk in source:
            room = max(0, sure - self._seen)
            self._seen += len(chunk)
            if self._seen > self._limit and not self._keep:
                raise too_large(self._limit)
            if room:
                yield chunk[:room]
            if len(chunk) > room:
                self._hold(chunk[room:])
        if self._seen > self._limit:
            self._cut()
        yield bytes(self._edge + self._ring)

    def _hold(self, data: bytes) -> None:
        room = min(_SPLIT, self._head) - len(self._edge)
        self._edge += data[:room]
        self._ring += data[room:]
        # The front is cut only once it has doubled, so that each byte is moved a bounded number of times.
        if len(self._ring) > 2 * self._tail + BLOCK:
            del self._ring[: len(self._ring) - self._tail]

    def _cut(self) -> None:
        """Drops the middle, including partial characters on either side."""
        for back in range(1, len(self._edge) + 1):
            lead = self._edge[-back]
            if lead & 0xC0 != 0x80:  # noqa: PLR2004 - the first byte of a UTF-8 sequence, which says how many follow
                whole = 1 + (lead >= 0xC2) + (lead >= 0xE0) + (lead >= 0xF0)  # noqa: PLR2004 - RFC 3629, section 3
                del self._edge[len(self._edge) - back if back < whole else len(self._edge) :]
                break
        del self._ring[: len(self._ring) - self._tail]
        start = 0
        while start < min(_SPLIT, len(self._ring)) and self._ring[start] & 0xC0 == 0x80:  # noqa: PLR2004 - UTF-8
            start += 1
        del self._ring[:start]
        self.dropped_at = self._head - min(_SPLIT, self._head) + len(self._edge)
        self.dropped = self._seen - self.dropped_at - len(self._ring)


_SPLIT = 3
"""Maximum bytes of a UTF-8 character on one side of a cut through it."""


def too_large(limit: int, kind: str | None = None) -> CoatcheckError:
    """Returns the error for a payload over the limit; `kind`: its detected kind, if its two ends were requested."""
    advice = "Send less, or ask for its two ends with oversize=keep_ends."
    if kind is not None:
        advice = f"It turned out to be of kind {kind}, which may be no larger: declare kind={kind}, or send less."
    return CoatcheckError(
        Code.PAYLOAD_TOO_LARGE,
        f"The payload is larger than {limit:,} bytes. {advice}",
        limit=limit,
    )
