"""Reads an artifact's raw bytes. They are stored in frames, and a read decompresses only the frames of its range.

Each frame has a checksum, which every read verifies, so the returned bytes are those of the payload. A read that fails
is repeated once, without caches, before the failure is reported: a single bad answer of a store does not mean that the
blob is damaged. Whether the caller may read the artifact was decided before, by `Find`. A read holds only its own range
in memory, and may end within a character.
"""

import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import Final, Protocol

from msgspec.structs import replace

from coatcheck.core.artifact import Blob
from coatcheck.core.caches import BoundedCache
from coatcheck.core.encoding.frames import FrameIndex
from coatcheck.core.encoding.seekable import decode_frames
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.artifacts import FoundView
from coatcheck.ports.blobs import BlobStore
from coatcheck.ports.catalog import FoundArtifact, InlineBytes
from coatcheck.runtime.circuit_breaker import REFUSALS
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.blob_routing import not_opened, store_of

log = logging.getLogger(__name__)

BLOCK_BYTES = 1024 * 1024
"""Bytes of one block of a stream: eight frames, which are read from the store together."""
INDEX_CACHE_BYTES = 16 * 1024 * 1024
"""Size of the cache of parsed indexes. An index takes 24 bytes per frame, so this is enough for some 80 GB of
content."""
FRAME_CACHE_BYTES = 8 * 1024 * 1024
"""Size of the cache of decoded frames. Half of this size, which is 32 frames, always holds the frames that were used
last. So a reader who goes from page to page causes each frame to be decompressed once."""
_INLINE_DECODE = 64 * 1024
"""Maximum bytes of content that are decoded on the event loop (about 50 us): a hand-over to a thread takes as long."""
_FEW_FRAMES = 4
"""Maximum frames of a read whose frames are cached. Longer reads are streams, which would only displace other
frames."""

UNREADABLE: Final = REFUSALS | {Code.INTEGRITY}
"""Codes of the errors with which stored content cannot be read, now or ever. Where content is only looked up to save
work or to compare it, none of them is a reason to refuse a payload."""

Damaged = Callable[[str, str, str], None]
"""A callback for a blob whose bytes are missing or damaged. Its arguments are the namespace, the blob's ID and a
description of the damage. It must not block or raise."""


class OpenContent:
    """Opens the content of artifacts that were found. All readers share one instance.

    The instance has caches, whose entries never become wrong: a blob's ID is used once, and its bytes never change.
    """

    def __init__(self, inline: InlineBytes, blobs: BlobStore, pool: Executor, damaged: Damaged | None = None) -> None:
        """`damaged` is called for each blob whose bytes turn out to be missing or damaged; None: nobody is notified."""
        self._damaged = damaged or _ignore
        self._inline = inline
        self._blobs = blobs
        self._pool = pool
        self._indexes: BoundedCache[str, FrameIndex] = BoundedCache("frame_indexes", INDEX_CACHE_BYTES)
        self._frames: BoundedCache[tuple[str, int], bytes] = BoundedCache("frames", FRAME_CACHE_BYTES)

    def through(self, blobs: BlobStore) -> "OpenContent":
        """Returns an opener that reads through `blobs`, another wrapper of the same store, and has its own caches."""
        return OpenContent(self._inline, blobs, self._pool, self._damaged)

    def __call__(self, entry: FoundArtifact) -> "Content":
        """Opens the content of an artifact that was found `with_bytes`.

        Raises:
            CoatcheckError: `integrity` if the artifact's inline bytes are missing or its index is damaged;
                `storage_unavailable` if the artifact's bytes are in a store for which the service is not configured.
        """
        return self._open(entry.artifact.namespace, entry.artifact.blob, entry.inline)

    async def of_view(self, namespace: str, view: FoundView) -> "Content":
        """Opens the content of a view that has bytes of its own.

        Raises:
            CoatcheckError: as `__call__` does.
        """
        assert view.blob is not None  # noqa: S101 - otherwise the view is the payload, which is opened by calling
        if view.inline is None:
            return await self.of_blob(namespace, view.blob)
        return self._open(namespace, view.blob, view.inline)

    async def of_blob(self, namespace: str, blob: Blob) -> "Content":
        """Opens the content of a blob, for checks that do not start from an artifact.

        Raises:
            CoatcheckError: as `__call__` does.
        """
        inline = await self._inline.inline_bytes(namespace, blob.id) if blob.placement == "inline" else None
        return self._open(namespace, blob, inline)

    async def find_stored_size(self, namespace: str, blob: Blob) -> int | None:
        """Returns the size of a blob as its store has it, in stored bytes; None if the store does not have the blob."""
        if blob.placement != "inline":
            return await self._store(blob).size(namespace, blob.id)
        inline = await self._inline.inline_bytes(namespace, blob.id)
        return None if inline is None else len(inline)

    def _open(self, namespace: str, blob: Blob, inline: bytes | None) -> "Content":
        watch = _Watch(self._damaged, namespace, blob.id)
        with watch:
            index, source = self._source(namespace, blob, inline)
        return Content(blob, index, source, self._frames, self._pool, watch)

    def _source(self, namespace: str, blob: Blob, inline: bytes | None) -> "tuple[FrameIndex, _Source]":
        index = self._indexes.get(blob.id)
        if index is None:
            index = FrameIndex.unpack(blob.index)
            # Nearly every payload is a single frame. Its index is unpacked as quickly as it is looked up in the cache.
            if index.count > 1:
                self._indexes.put(blob.id, index)
        # A row that lacks its inline bytes is damaged, and is reported like a missing file.
        if blob.placement == "inline":
            if inline is None or len(inline) != index.stored_size:
                raise _missing()
            return index, _Inline(inline)
        return index, _Stored(self._store(blob), namespace, blob.id)

    def _store(self, blob: Blob) -> BlobStore:
        store = store_of(self._blobs, blob.placement)
        if store is None:
            raise not_opened(self._blobs, blob.placement)
        return store


class Content:
    """The bytes of one blob. It is cheap to create, so each request creates its own instance.

    Attributes:
        blob: the blob that is read.
        index: the positions of the blob's frames.
        frames_read: number of frames that this instance has decompressed, without those that were in the cache.
        store_reads: number of reads from the store that this instance has made.
    """

    def __init__(
        self,
        blob: Blob,
        index: FrameIndex,
        source: "_Source",
        cache: BoundedCache[tuple[str, int], bytes],
        pool: Executor,
        watch: "_Watch",
    ) -> None:
        self._watch = watch
        self._id = blob.id
        self._mask: ContentMask | None = None
        self.blob = blob
        self.index = index
        self.frames_read = 0
        self.store_reads = 0
        self._source = source
        self._cache = cache
        self._pool = pool

    @property
    def size(self) -> int:
        """Number of bytes of content, before compression."""
        return self.index.size

    def apply_mask(self, mask: "ContentMask") -> "Content":
        """Returns this content as a mask shows it, with secrets hidden. Its blob has another ID, for caches."""
        twin = Content(self.blob, self.index, self._source, self._cache, self._pool, self._watch)
        twin._mask = mask
        # Callers cache what they read by the blob's ID. Without a suffix, their caches would mix masked text with plain
        # text.
        twin.blob = replace(self.blob, id=self.blob.id + mask.suffix)
        return twin

    async def read(self, start: int, end: int) -> bytes:
        """Returns the bytes from `start` to before `end`, clipped to the content, with secrets replaced by a mask."""
        if self._mask is None:
            return await self.plain(start, end)
        start, end = max(0, start), min(end, self.size)
        return await self._mask.read(self, start, end) if start < end else b""

    async def plain(self, start: int, end: int) -> bytes:
        """Returns the original bytes from `start` to before `end`, clipped to the content, whatever a mask hides.

        It makes at most one read from the store, unless the read fails, and decompresses only the frames of the range.

        Raises:
            CoatcheckError: `integrity` if stored bytes are missing or damaged; `storage_unavailable`.
        """
        start, end = max(0, start), min(end, self.size)
        if start >= end:
            return b""
        # All frames but the last have the same width, so a division finds the frame of a byte.
        width = self.index.frame_size
        first, last = start // width, (end - 1) // width + 1
        content = await self._frames(first, last)
        return content[start - first * width : end - first * width]

    async def blocks(self, start: int, end: int, block: int = BLOCK_BYTES) -> AsyncIterator[bytes]:
        """Yields the bytes that `read` returns, in pieces that end at multiples of `block` bytes.

        If `block` is a multiple of the frame size, no frame is decompressed twice. The memory used is a few blocks.
        """
        start, end = max(0, start), min(end, self.size)
        while start < end:
            # Pieces end at multiples of `block`, not at `start + block`. So after a start within a frame only the first
            # piece is short, and no later piece begins within a frame.
            stop = min(end, (start // block + 1) * block)
            yield await self.read(start, stop)
            start = stop

    async def _frames(self, first: int, last: int) -> bytes:
        # A long read neither takes frames from the cache nor puts frames into it.
        few = last - first <= _FEW_FRAMES
        cached_frames = [self._cache.get((self._id, f)) for f in range(first, last)] if few else [None] * (last - first)
        missing = [first + n for n, frame in enumerate(cached_frames) if frame is None]
        if not missing:
            return b"".join(frame for frame in cached_frames if frame is not None)
        # One read covers all frames from the first missing one to the last, even if some between them are cached: a
        # second round trip to the store costs more than decoding those again.
        low, high = missing[0], missing[-1] + 1
        fresh = await self._decode(low, high)
        if few:
            self._keep(low, high, fresh)
        before = [frame for frame in cached_frames[: low - first] if frame is not None]
        after = [frame for frame in cached_frames[high - first :] if frame is not None]
        return b"".join([*before, fresh, *after]) if before or after else fresh

    async def _decode(self, low: int, high: int) -> bytes:
        with self._watch:
            return await self._decode_range(low, high)

    async def _decode_range(self, low: int, high: int) -> bytes:
        try:
            return await self._attempt(low, high, fresh=False)
        except CoatcheckError as error:
            # A second read can only help with bytes from a store. Inline bytes came with the row and stay the same.
            if error.code is not Code.INTEGRITY or isinstance(self._source, _Inline):
                raise
            what = error.detail
        # `fresh` bypasses the store's own caches, which may have the bad copy. A second failure reaches `_Watch`, which
        # reports damage.
        content = await self._attempt(low, high, fresh=True)
        log.warning("blob %s was whole when it was read again; the first time: %s", self._id, what)
        return content

    async def _attempt(self, low: int, high: int, *, fresh: bool) -> bytes:
        start, end = self.index.locate_frames(low, high)
        stored_bytes = await self._source.read(start, end - start, fresh=fresh)
        self.store_reads += 1
        self.frames_read += high - low
        # The size after decompression decides, because decompression would hold up the event loop.
        if self.index.frame_length(low) * (high - low) <= _INLINE_DECODE:
            return decode_frames(stored_bytes, self.index, low, high)
        return await in_pool(self._pool, decode_frames, stored_bytes, self.index, low, high)

    def _keep(self, low: int, high: int, fresh: bytes) -> None:
        width = self.index.frame_size
        for f in range(low, high):
            frame = fresh[(f - low) * width : (f - low + 1) * width]
            self._cache.put((self._id, f), frame)


class _Watch:
    """A context manager that reports damage if its block raises `integrity`; the error passes on to the caller."""

    def __init__(self, damaged: "Damaged", namespace: str, blob_id: str) -> None:
        self._damaged = damaged
        self._namespace = namespace
        self._id = blob_id

    def __enter__(self) -> None:
        """Does nothing, so that one watch can serve many reads."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CoatcheckError) and error.code is Code.INTEGRITY:
            self._damaged(self._namespace, self._id, error.detail)


def _ignore(namespace: str, blob_id: str, why: str) -> None:
    """Does nothing, where nobody is to be notified of damage."""


class ContentMask(Protocol):
    """Hides parts of the content that is read."""

    @property
    def suffix(self) -> str:
        """A suffix for the blob's ID, so that caches keep masked content apart from original content."""
        ...

    async def read(self, content: Content, start: int, end: int) -> bytes:
        """Returns bytes that `content.plain` reads, with the hidden parts replaced by fillers of the same length."""
        ...


class _Source(Protocol):
    async def read(self, start: int, length: int, *, fresh: bool) -> bytes: ...


class _Inline:
    def __init__(self, stored_bytes: bytes) -> None:
        self._stored_bytes = stored_bytes

    async def read(self, start: int, length: int, *, fresh: bool) -> bytes:  # noqa: ARG002 - the bytes are in memory
        return self._stored_bytes[start : start + length]


class _Stored:
    def __init__(self, blobs: BlobStore, namespace: str, blob_id: str) -> None:
        self._blobs = blobs
        self._namespace = namespace
        self._id = blob_id

    async def read(self, start: int, length: int, *, fresh: bool) -> bytes:
        if not fresh:
            return await self._blobs.read(self._namespace, self._id, start, length)
        return await self._blobs.read(self._namespace, self._id, start, length, fresh=True)


def _missing() -> CoatcheckError:
    return CoatcheckError(
        Code.INTEGRITY,
        "The stored bytes of this artifact are missing. Run the tool again, or restore the payload from a backup.",
    )
