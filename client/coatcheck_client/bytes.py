"""Payloads that are sent, and contents that are fetched, in pieces."""

import base64
import hashlib
import mimetypes
import os
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from coatcheck_client.errors import CHANGED, UNEXPECTED, ServiceError
from coatcheck_client.fallback import Ends
from coatcheck_client.requests import DeclaredFields
from coatcheck_client.wire import Around, Pairs

_DIGEST: Final = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")


async def framed(pieces: AsyncIterable[bytes], around: Around, size: int | None) -> AsyncGenerator[bytes]:
    """A body in pieces: what stands around a payload, and of the payload exactly the bytes that were announced.

    Args:
        pieces: of the payload.
        around: what stands before and after it.
        size: bytes that were announced. A file may have grown since; None where nothing was announced.

    Raises:
        ServiceError: `payload_changed` where there are fewer.
    """
    yield around[0]
    left = size
    async for piece in pieces:
        sent = piece[:left]
        yield sent
        if left is not None:
            left -= len(sent)
            if left == 0:
                break
    if left:
        raise ServiceError(CHANGED, f"The file became {left} bytes shorter while it was being sent.")
    yield around[1]


class RememberedPieces:
    """Pieces that are remembered, in part, while they pass."""

    def __init__(self, pieces: AsyncIterator[bytes], budget: int) -> None:
        """`budget`: bytes of each end to remember."""
        self._pieces = pieces
        self.ends = Ends(budget)
        self.failure: Exception | None = None
        """What the source raised."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Pass them on."""
        try:
            async for piece in self._pieces:
                self.ends.feed(piece)
                yield piece
        except Exception as e:
            self.failure = e
            raise

    async def drained(self) -> Ends:
        """The ends of the whole payload: what was not passed on is read now.

        Raises:
            Exception: what the source raised.
        """
        if self.failure is not None:
            raise self.failure
        async for _ in self:
            pass
        return self.ends


def ends_of_file(path: Path, budget: int) -> Ends:
    """The ends of a file, without reading what lies between."""
    ends = Ends(budget)
    with path.open("rb") as file:
        ends.feed(file.read(2 * budget))
        size = file.seek(0, 2)
        if size > ends.size:
            file.seek(max(size - budget, budget))
            ends.tail = file.read(budget)
            ends.size = size
    return ends


def said_of_file(path: Path, declared: DeclaredFields) -> DeclaredFields:
    """What the file's name says, where the caller said nothing."""
    known: DeclaredFields = {"title": path.name}
    media_type = mimetypes.guess_type(path.name)[0]
    if media_type is not None:
        known["media_type"] = media_type
    return {**known, **declared}


def size_of(opened: BinaryIO) -> int | None:
    """Bytes of an open file; None for one that is made up as it is read."""
    return os.fstat(opened.fileno()).st_size or None


class ContentDownload:
    """A content on its way in, perhaps over several connections: how to go on, and whether all of it is right."""

    def __init__(self) -> None:
        """Before the first byte."""
        self.done = 0
        self._etag: str | None = None
        self._digest: str | None = None
        self._sum = hashlib.sha256()

    def headers(self) -> Pairs:
        """What to ask with: the rest, if it is still the rest of the same bytes (RFC 9110 section 13.1.5)."""
        plain = (("accept-encoding", "identity"), ("accept", "*/*"))
        if self.done == 0 or not self._etag:
            return plain
        return (*plain, ("range", f"bytes={self.done}-"), ("if-range", self._etag))

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """An answer begins.

        Raises:
            ServiceError: `unexpected_answer` when it does not go on where the last one broke off.
        """
        if self.done and status != 206:  # noqa: PLR2004 - partial content
            raise ServiceError(
                UNEXPECTED, "The content changed while it was being downloaded. Start again.", status=status
            )
        etag = headers.get("etag", "")
        self._etag = etag if etag.isascii() and etag.isprintable() else None  # only what can be sent back
        found = _DIGEST.search(headers.get("repr-digest", ""))
        self._digest = found[1] if found else None

    def feed(self, piece: bytes) -> None:
        """Counts and digests bytes that have arrived."""
        self.done += len(piece)
        self._sum.update(piece)

    def finish(self) -> None:
        """All arrived.

        Raises:
            ServiceError: `digest_mismatch` when these are not the bytes that were stored.
        """
        if self._digest is not None and base64.b64encode(self._sum.digest()).decode() != self._digest:
            raise ServiceError("digest_mismatch", "The downloaded bytes do not match their digest. Download again.")
