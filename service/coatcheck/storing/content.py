"""Reads an artifact's raw bytes through the frames that hold them: a range costs only the frames that it touches.

Everything that is read is verified (each frame has a checksum), so the bytes returned are those that were handed over.
A read that fails is repeated once, past all caches, before the failure is reported: one bad answer does not mean a
damaged blob. Access was decided before (`Find`). At most one range is held in memory, and no text is cut.
"""

import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import Protocol

from msgspec.structs import replace

from coatcheck.core.artifact import Blob
from coatcheck.core.caches import BoundedCache
from coatcheck.core.encoding.frames import FrameIndex
from coatcheck.core.encoding.seekable import decode_frames
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.artifacts import FoundView
from coatcheck.ports.blobs import BlobStore
from coatcheck.ports.catalog import FoundArtifact, InlineBytes
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.blob_routing import not_opened, store_of

log = logging.getLogger(__name__)

BLOCK_BYTES = 1024 * 1024
"""Size of a block of a stream: eight frames, read from the store at once."""
INDEX_CACHE_BYTES = 16 * 1024 * 1024
"""Size of the cache of parsed indexes, at 24 bytes per frame: enough for some 80 GB of content."""
FRAME_CACHE_BYTES = 8 * 1024 * 1024
"""Size of the cache of decoded frames, of which half is sure to be kept: 32 of them, so that reading page by page
decompresses each frame once."""
_INLINE_DECODE = 64 * 1024
"""Size up to which content is decoded on the event loop (about 50 us); handing it to a thread costs as much."""
_FEW_FRAMES = 4
"""Frames of a read up to which it is cached; streams would only displace the others."""

Damaged = Callable[[str, str, str], None]
"""Is called for a blob whose bytes are missing or damaged: namespace, ID, what was found. Must not block or raise."""


class OpenContent:
    """Opens the content of found artifacts. Shared by all readers.

    It holds the caches, which need no invalidation: a blob's ID is used once and its bytes never change.
    """

    def __init__(self, inline: InlineBytes, blobs: BlobStore, pool: Executor, damaged: Damaged | None = None) -> None:
        """`damaged` is called for each blob whose bytes turn out missing or changed."""
        self._damaged = damaged or _ignore
        self._inline = inline
        self._blobs = blobs
        self._pool = pool
        self._indexes: BoundedCache[str, FrameIndex] = BoundedCache("frame_indexes", INDEX_CACHE_BYTES)
        self._frames: BoundedCache[tuple[str, int], bytes] = BoundedCache("frames", FRAME_CACHE_BYTES)

    def through(self, blobs: BlobStore) -> "OpenContent":
        """Returns an opener over another route to the same store, with its own caches."""
        return OpenContent(self._inline, blobs, self._pool, self._damaged)

    def __call__(self, entry: FoundArtifact) -> "Content":
        """Opens the content of an artifact that was found `with_bytes`.

        Raises:
            CoatcheckError: `integrity` when its inline bytes are missing or its index is damaged;
                `storage_unavailable` when the service was not given the place where its bytes are.
        """
        return self._open(entry.artifact.namespace, entry.artifact.blob, entry.inline)

    async def of_view(self, namespace: str, view: FoundView) -> "Content":
        """Opens the content of a view that has bytes of its own.

        Raises:
            CoatcheckError: as when calling.
        """
        assert view.blob is not None  # noqa: S101 - otherwise the view is the payload, which is opened by calling
        if view.inline is None:
            return await self.of_blob(namespace, view.blob)
        return self._open(namespace, view.blob, view.inline)

    async def of_blob(self, namespace: str, blob: Blob) -> "Content":
        """Opens the content of a blob, whoever points at it; for checks.

        Raises:
            CoatcheckError: as when calling.
        """
        inline = await self._inline.inline_bytes(namespace, blob.id) if blob.placement == "inline" else None
        return self._open(namespace, blob, inline)

    async def find_stored_size(self, namespace: str, blob: Blob) -> int | None:
        """Returns how many stored bytes of a blob exist, wherever they are; None if there are none."""
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
            # Nearly every payload is a single frame, whose index is unpacked as quickly as it is looked up.
            if index.count > 1:
                self._indexes.put(blob.id, index)
        # A row without its inline bytes is damage like a missing file, and is reported the same way.
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
    """One payload's bytes. Cheap to create; not kept longer than a request.

    Attributes:
        blob: what is read.
        index: where its frames are.
        frames_read: frames decompressed so far through this value (not those found in the cache).
        store_reads: reads from the store so far.
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
        """Bytes of content."""
        return self.index.size

    def apply_mask(self, mask: "ContentMask") -> "Content":
        """Returns this content with parts hidden by a mask. Its blob has its own name, for caches."""
        twin = Content(self.blob, self.index, self._source, self._cache, self._pool, self._watch)
        twin._mask = mask
        # Caches above this one go by the blob's ID: without a suffix they would mix masked text with plain.
        twin.blob = replace(self.blob, id=self.blob.id + mask.suffix)
        return twin

    async def read(self, start: int, end: int) -> bytes:
        """Returns the bytes from `start` to before `end`, clipped to the content, with what a mask hides replaced."""
        if self._mask is None:
            return await self.plain(start, end)
        start, end = max(0, start), min(end, self.size)
        return await self._mask.read(self, start, end) if start < end else b""

    async def plain(self, start: int, end: int) -> bytes:
        """Returns the stored bytes from `start` to before `end`, clipped to the content.

        Decompresses only the frames of the range, after at most one read from the store.

        Raises:
            CoatcheckError: `integrity` when stored bytes are missing or damaged; `storage_unavailable`.
        """
        start, end = max(0, start), min(end, self.size)
        if start >= end:
            return b""
        # All frames but the last have the same width, so arithmetic finds them without a search.
        width = self.index.frame_size
        first, last = start // width, (end - 1) // width + 1
        content = await self._frames(first, last)
        return content[start - first * width : end - first * width]

    async def blocks(self, start: int, end: int, block: int = BLOCK_BYTES) -> AsyncIterator[bytes]:
        """Yields the bytes that `read` returns, in pieces that end at multiples of `block`.

        With a multiple of the frame size, no frame is decompressed twice. Memory stays at a few blocks.
        """
        start, end = max(0, start), min(end, self.size)
        while start < end:
            # Pieces end at multiples of `block`, not at `start + block`: an odd start costs one short piece, not a
            # frame per piece.
            stop = min(end, (start // block + 1) * block)
            yield await self.read(start, stop)
            start = stop

    async def _frames(self, first: int, last: int) -> bytes:
        # A long read skips the cache on the way in and on the way out.
        few = last - first <= _FEW_FRAMES
        cached_frames = [self._cache.get((self._id, f)) for f in range(first, last)] if few else [None] * (last - first)
        missing = [first + n for n, frame in enumerate(cached_frames) if frame is None]
        if not missing:
            return b"".join(frame for frame in cached_frames if frame is not None)
        # One read covers everything from the first gap to the last, cached frames between them included: a second round
        # trip costs more than decoding them again.
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
            # Only bytes that a store returned can be better the second time; inline bytes came with the row.
            if error.code is not Code.INTEGRITY or isinstance(self._source, _Inline):
                raise
            what = error.detail
        # `fresh` bypasses the store's own caches, where the bad copy may be. A second failure goes to the watch as
        # damage.
        content = await self._attempt(low, high, fresh=True)
        log.warning("blob %s was whole when it was read again; the first time: %s", self._id, what)
        return content

    async def _attempt(self, low: int, high: int, *, fresh: bool) -> bytes:
        start, end = self.index.locate_frames(low, high)
        stored_bytes = await self._source.read(start, end - start, fresh=fresh)
        self.store_reads += 1
        self.frames_read += high - low
        # The size after decompression decides, as that is what would hold up the event loop.
        if self.index.frame_length(low) * (high - low) <= _INLINE_DECODE:
            return decode_frames(stored_bytes, self.index, low, high)
        return await in_pool(self._pool, decode_frames, stored_bytes, self.index, low, high)

    def _keep(self, low: int, high: int, fresh: bytes) -> None:
        width = self.index.frame_size
        for f in range(low, high):
            frame = fresh[(f - low) * width : (f - low + 1) * width]
            self._cache.put((self._id, f), frame)


class _Watch:
    """Reports damage found while reading, and lets the error pass."""

    def __init__(self, damaged: "Damaged", namespace: str, blob_id: str) -> None:
        self._damaged = damaged
        self._namespace = namespace
        self._id = blob_id

    def __enter__(self) -> None:
        """Does nothing: one watch serves many reads."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CoatcheckError) and error.code is Code.INTEGRITY:
            self._damaged(self._namespace, self._id, error.detail)


def _ignore(namespace: str, blob_id: str, why: str) -> None:
    """Does nothing, for readers without anybody to notify."""


class ContentMask(Protocol):
    """Hides parts of what is read."""

    @property
    def suffix(self) -> str:
        """Distinguishes cache names of masked content from those of stored content."""
        ...

    async def read(self, content: Content, start: int, end: int) -> bytes:
        """Returns the requested bytes with parts replaced by others of the same length; reads `content.plain`."""
        ...


class _Source(Protocol):
    async def read(self, start: int, length: int, *, fresh: bool) -> bytes: ...


class _Inline:
    def __init__(self, stored_bytes: bytes) -> None:
        self._stored_bytes = stored_bytes

    async def read(self, start: int, length: int, *, fresh: bool) -> bytes:  # noqa: ARG002 - they are here
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
