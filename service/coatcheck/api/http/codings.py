"""Decodes the content codings of a request body, gzip and zstd, in bounded steps.

A step produces no more than its caller requests, whatever the input, so a limit on the decoded size stops a bomb within
one step. Members and frames may follow one another; any other data after them is refused, as is a stream that ends
early, or one of many members or frames that contain almost nothing: these cost work but produce no output that a limit
could stop.
"""

import zlib
from collections.abc import Callable
from typing import Final, Protocol

from coatcheck.core.encoding.compression import zstd
from coatcheck.core.errors import CoatcheckError, Code

STEP: Final = 1024 * 1024
"""Upper bound of the bytes requested from one decoding step."""
_SLICE: Final = 16 * 1024
"""Bytes passed to a library at once: it copies what remains after the end of a member, and that must not grow with the
input."""
_FREE: Final = 1000
"""Members or frames that any stream may have, whatever it contains ..."""
_EACH: Final = 64
"""... and output bytes that entitle it to one more."""
_SKIPPABLE: Final = range(0x50, 0x60)
"""First bytes of skippable frames (RFC 8878, section 3.1.2)."""


class Member(Protocol):
    """One gzip member or zstd frame."""

    @property
    def has_ended(self) -> bool:
        """Whether the member has been decoded completely."""
        ...

    @property
    def content(self) -> bool:
        """Whether this is a kind of member that can hold content."""
        ...

    def take(self, data: memoryview, most: int) -> tuple[bytes, int]:
        """Returns up to `most` decoded bytes, and how many bytes of `data` were consumed.

        The count is negative if the member ended within input that an earlier call had taken.

        Raises:
            CoatcheckError: `corrupt_encoding`, `decompression_limit`.
        """
        ...


class GzipMember:
    """Decodes one member of a gzip stream (RFC 1952)."""

    content = True

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._started = False

    @property
    def has_ended(self) -> bool:
        """See Member."""
        return self._inflate.eof

    def take(self, data: memoryview, most: int) -> tuple[bytes, int]:
        """See Member."""
        try:
            piece = self._inflate.decompress(data, most)
        except zlib.error as e:
            raise _corrupt("gzip", "a damaged member" if self._started else "bytes that are not a member") from e
        self._started = self._started or bool(data)
        rest = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
        return piece, len(data) - len(rest)


class ZstdFrame:
    """Decodes one frame of a zstd stream (RFC 8878), without dictionaries.

    `max_window`, in bytes, is a power of two; that much memory is allocated at once.
    """

    def __init__(self, max_window: int) -> None:
        self._max_window = max_window
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: max_window.bit_length() - 1}
        self._decompressor = zstd.ZstdDecompressor(options=options)
        self._first: int | None = None

    @property
    def has_ended(self) -> bool:
        """See Member."""
        return self._decompressor.eof

    @property
    def content(self) -> bool:
        """See Member."""
        return self._first not in _SKIPPABLE

    def take(self, data: memoryview, most: int) -> tuple[bytes, int]:
        """See Member."""
        chunk = data if self._decompressor.needs_input else data[:0]
        piece = self._decompress(chunk, most)
        if self._first is None and chunk:
            self._first = chunk[0]
        return piece, len(chunk) - len(self._decompressor.unused_data)

    def _decompress(self, data: memoryview, most: int) -> bytes:
        try:
            return self._decompressor.decompress(data, most)
        except zstd.ZstdError as e:
            if "too much memory" not in str(e):  # how libzstd reports a window over the limit
                raise _corrupt("zstd", "a damaged frame" if self._first else "bytes that are not a frame") from e
            raise CoatcheckError(
                Code.DECOMPRESSION_LIMIT,
                f"The zstd frame needs a window over {self._max_window:,} bytes; no larger one is accepted "
                "(RFC 9659). Compress without --long or --ultra.",
                limit=self._max_window,
            ) from e


class Decoder:
    """Decodes one coded stream, of any number of members that hold something."""

    def __init__(self, coding: str, members: str, begin: Callable[[], Member]) -> None:
        """Creates a decoder; `members` is what the coding calls them, `begin` creates a decoder for one of them."""
        self._coding = coding
        self._members = members
        self._begin = begin
        self._member = begin()
        self._input = memoryview(b"")
        self._at = 0
        self._content = False
        self._allowed = _FREE
        self._rest = 0

    @property
    def pending(self) -> int:
        """Bytes that were fed but not decoded yet, apart from a few inside a library."""
        return len(self._input) - self._at

    def feed(self, data: bytes) -> None:
        """Takes the next coded bytes; call it only after `step` has returned nothing."""
        self._input = memoryview(bytes(self._input[self._at :]) + data if self.pending else data)
        self._at = 0

    def step(self, most: int) -> bytes:
        """Returns up to `most` decoded bytes; none if more input is needed.

        Raises:
            CoatcheckError: `corrupt_encoding`, `decompression_limit`.
        """
        pieces: list[bytes] = []
        room = most
        while room > 0:
            if self._member.has_ended:
                if not self.pending:
                    break
                self._next_member()
            piece, input_size = self._member.take(self._input[self._at : self._at + _SLICE], room)
            self._at += input_size
            if piece:
                pieces.append(piece)
                room -= len(piece)
                self._count_output(len(piece))
            elif not self.pending:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def finish(self) -> None:
        """Ends the input.

        Raises:
            CoatcheckError: `corrupt_encoding` if the stream is incomplete.
        """
        if not self._member.has_ended or not (self._content or self._member.content):
            raise _corrupt(self._coding, "it ends in the middle")

    def _next_member(self) -> None:
        self._content = self._content or self._member.content
        self._member = self._begin()
        self._allowed -= 1
        if self._allowed < 0:
            raise CoatcheckError(
                Code.DECOMPRESSION_LIMIT,
                f"The {self._coding} stream has too many {self._members} for the data in them. Compress the body in "
                "one piece, or send it without Content-Encoding.",
                coding=self._coding,
            )

    def _count_output(self, size: int) -> None:
        more, self._rest = divmod(self._rest + size, _EACH)
        self._allowed += more


def gzip_decoder() -> Decoder:
    """Returns a decoder of gzip streams."""
    return Decoder("gzip", "members", GzipMember)


def zstd_decoder(max_window: int) -> Decoder:
    """Returns a decoder of zstd streams with windows of up to `max_window` bytes, a power of two."""
    return Decoder("zstd", "frames", lambda: ZstdFrame(max_window))


def _corrupt(coding: str, what: str) -> CoatcheckError:
    return CoatcheckError(
        Code.CORRUPT_ENCODING,
        f"The body is not valid {coding}: {what}. Nothing was stored; check Content-Encoding and send it again.",
        coding=coding,
    )
