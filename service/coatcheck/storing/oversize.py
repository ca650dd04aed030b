"""Enforces the payload limit on a stream: refuses a payload over the limit, or keeps its two ends if requested."""

from collections.abc import AsyncIterator

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.storing.upload_session import BLOCK

KEPT_TAIL = 8 * 1024**2
"""Maximum bytes that are kept of the end of a payload over the limit, if its two ends are kept."""


class OversizeGuard:
    """Enforces the payload limit on a stream. If the two ends are kept, counts the bytes dropped between them."""

    def __init__(self, limit: int, *, keep_ends: bool) -> None:
        self._limit = limit
        self._keep = keep_ends
        self._tail = min(KEPT_TAIL, limit // 2)
        self._head = limit - self._tail
        self._head_edge = bytearray()
        """The last bytes of the head, at most _SPLIT. They wait, because the head may end within a character."""
        self._tail_bytes = bytearray()
        """The latest bytes after the head. Bytes that are too far from the end are dropped from the front."""
        self._seen = 0
        """Number of bytes received so far."""
        self.dropped = 0
        """Number of bytes that were dropped between the two ends."""
        self.dropped_at = 0
        """Offset at which the bytes were dropped, from the beginning of the payload."""

    async def within(self, source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yields the bytes of a stream that are kept, which are at most the limit.

        Raises:
            CoatcheckError: `payload_too_large` if the payload exceeds the limit, and its two ends are not kept.
        """
        # Bytes that are certainly kept are yielded at once. The last _SPLIT bytes of the head wait, because they may be
        # part of a character that is cut.
        certain_bytes = max(0, self._head - _SPLIT)
        async for chunk in source:
            room = max(0, certain_bytes - self._seen)
            self._seen += len(chunk)
            if self._seen > self._limit and not self._keep:
                raise too_large(self._limit)
            if room:
                yield chunk[:room]
            if len(chunk) > room:
                self._hold(chunk[room:])
        if self._seen > self._limit:
            self._cut()
        yield bytes(self._head_edge + self._tail_bytes)

    def _hold(self, data: bytes) -> None:
        room = min(_SPLIT, self._head) - len(self._head_edge)
        self._head_edge += data[:room]
        self._tail_bytes += data[room:]
        # The front is dropped only when there are twice as many bytes as needed, so that each byte is moved only a
        # bounded number of times.
        if len(self._tail_bytes) > 2 * self._tail + BLOCK:
            del self._tail_bytes[: len(self._tail_bytes) - self._tail]

    def _cut(self) -> None:
        """Drops the bytes between the two ends, and the parts of characters that are cut on either side."""
        for back in range(1, len(self._head_edge) + 1):
            lead = self._head_edge[-back]
            if lead & 0xC0 != 0x80:  # noqa: PLR2004 - the first byte of a UTF-8 sequence, which says how many follow
                whole = 1 + (lead >= 0xC2) + (lead >= 0xE0) + (lead >= 0xF0)  # noqa: PLR2004 - RFC 3629, section 3
                del self._head_edge[len(self._head_edge) - back if back < whole else len(self._head_edge) :]
                break
        del self._tail_bytes[: len(self._tail_bytes) - self._tail]
        start = 0
        while start < min(_SPLIT, len(self._tail_bytes)) and self._tail_bytes[start] & 0xC0 == 0x80:  # noqa: PLR2004 - UTF-8
            start += 1
        del self._tail_bytes[:start]
        self.dropped_at = self._head - min(_SPLIT, self._head) + len(self._head_edge)
        self.dropped = self._seen - self.dropped_at - len(self._tail_bytes)


_SPLIT = 3
"""Maximum bytes of a UTF-8 character that can be on one side of a cut through the character."""


def too_large(limit: int, kind: str | None = None) -> CoatcheckError:
    """Returns the error for a payload over the limit.

    `kind` is the detected kind whose policy sets the limit, if the two ends of the payload were requested; None: the
    advice is to request the two ends.
    """
    advice = "Send less, or ask for its two ends with oversize=keep_ends."
    if kind is not None:
        advice = f"It turned out to be of kind {kind}, which may be no larger: declare kind={kind}, or send less."
    return CoatcheckError(
        Code.PAYLOAD_TOO_LARGE,
        f"The payload is larger than {limit:,} bytes. {advice}",
        limit=limit,
    )
