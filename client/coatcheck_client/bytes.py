"""Sends payloads and downloads contents in pieces."""

import base64
import hashlib
import mimetypes
import os
import re
import shutil
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, final

from coatcheck_client.errors import CHANGED, UNEXPECTED, ServiceError
from coatcheck_client.fallback import Ends
from coatcheck_client.requests import DeclaredFields
from coatcheck_client.wire import Around, Pairs

_DIGEST: Final = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")
"""Matches the SHA-256 in a Repr-Digest field (RFC 9530)."""


async def framed(pieces: AsyncIterable[bytes], around: Around, size: int | None) -> AsyncGenerator[bytes]:
    """Yields a body: exactly the announced bytes of a payload, and the bytes before and after them.

    Args:
        pieces: the pieces of the payload.
        around: the bytes before and after the payload.
        size: the announced number of bytes; bytes by which a file has grown since are not sent. None: no number was
            announced.

    Raises:
        ServiceError: `payload_changed` if the payload has fewer bytes.
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
    """Passes pieces on, and remembers the two ends of the payload."""

    def __init__(self, pieces: AsyncIterator[bytes], budget: int) -> None:
        """`budget`: maximum bytes of each end to remember."""
        self._pieces = pieces
        self.ends = Ends(budget)
        self.failure: Exception | None = None
        """The error that the source raised; None: it raised none."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yields the pieces."""
        try:
            async for piece in self._pieces:
                self.ends.feed(piece)
                yield piece
        except Exception as e:
            self.failure = e
            raise

    async def drained(self) -> Ends:
        """Reads what was not passed on, and returns the ends of the whole payload.

        Raises:
            Exception: whatever the source raised.
        """
        if self.failure is not None:
            raise self.failure
        async for _ in self:
            pass
        return self.ends


def ends_of_file(path: Path, budget: int) -> Ends:
    """Returns the ends of a file, without reading the bytes between them."""
    ends = Ends(budget)
    with path.open("rb") as file:
        ends.feed(file.read(2 * budget))
        size = file.seek(0, 2)
        if size > ends.size:
            file.seek(max(size - budget, budget))
            ends.tail = file.read(budget)
            ends.size = size
    return ends


@final
class WholeFile:
    """A file that is written beside its target, and takes the target's place only if the `with` block ends well."""

    def __init__(self, target: Path) -> None:
        """Opens the file. A target that is no regular file, such as a device, is written itself.

        Raises:
            OSError: the file cannot be made.
        """
        self._target = target.resolve()
        exists = self._target.exists()
        self._path = (
            self._target
            if exists and not self._target.is_file()
            else self._target.with_name(f".coatcheck-{uuid.uuid4().hex}")
        )
        self._file = self._path.open("wb")
        if exists and self._path != self._target:
            shutil.copymode(self._target, self._path)
        self.write = self._file.write

    def __enter__(self) -> "WholeFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._file.close()
            if error is None and self._path != self._target:
                self._path.replace(self._target)
        finally:
            if self._path != self._target:
                self._path.unlink(missing_ok=True)


def declare_file(path: Path, declared: DeclaredFields) -> DeclaredFields:
    """Returns the declared metadata, with title and media type from the file's name if they are not declared."""
    known: DeclaredFields = {"title": path.name}
    media_type = guess_media_type(path.name)
    if media_type is not None:
        known["media_type"] = media_type
    return {**known, **declared}


def guess_media_type(name: str) -> str | None:
    """Returns the media type that a file's name suggests; None if it suggests none, or that the file is compressed."""
    media_type, compression = mimetypes.guess_type(name)
    return None if compression else media_type


def size_of(opened: BinaryIO) -> int | None:
    """Returns the size of an open file in bytes; None if it is empty, or is generated while it is read."""
    return os.fstat(opened.fileno()).st_size or None


class ContentDownload:
    """The download of a content, perhaps over several connections: how to continue it, and whether it is right."""

    def __init__(self) -> None:
        """Starts before the first byte."""
        self.done = 0
        self._etag: str | None = None
        self._digest: str | None = None
        self._sum = hashlib.sha256()

    def headers(self) -> Pairs:
        """Returns the header fields that request the rest if the content has not changed (RFC 9110 section 13.1.5)."""
        plain = (("accept-encoding", "identity"), ("accept", "*/*"))
        if self.done == 0 or not self._etag:
            return plain
        return (*plain, ("range", f"bytes={self.done}-"), ("if-range", self._etag))

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Checks the status of an answer, and takes its ETag and digest.

        Raises:
            ServiceError: `unexpected_answer` if it does not continue where the last answer broke off.
        """
        if self.done and status != 206:  # noqa: PLR2004 - partial content
            raise ServiceError(
                UNEXPECTED, "The content changed while it was being downloaded. Start again.", status=status
            )
        etag = headers.get("etag", "")
        self._etag = etag if etag.isascii() and etag.isprintable() else None  # only what a request can send back
        found = _DIGEST.search(headers.get("repr-digest", ""))
        self._digest = found[1] if found else None

    def feed(self, piece: bytes) -> None:
        """Counts the bytes that have arrived, and adds them to the digest."""
        self.done += len(piece)
        self._sum.update(piece)

    def finish(self) -> None:
        """Checks the digest of the whole content, if the service sent one.

        Raises:
            ServiceError: `digest_mismatch` if these are not the bytes that were stored.
        """
        if self._digest is not None and base64.b64encode(self._sum.digest()).decode() != self._digest:
            raise ServiceError("digest_mismatch", "The downloaded bytes do not match their digest. Download again.")
