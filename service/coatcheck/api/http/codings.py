"""Decodes the content codings of a request body, gzip and zstd, in bounded steps, and verifies its digests.

A step never produces more bytes than its caller requests. A limit on the decoded size therefore stops a decompression
bomb within one step. A stream may consist of several gzip members or zstd frames. It is refused if other data follows
them, if it ends early, or if it has many members or frames that contain almost nothing: decoding these costs work, but
produces no output for which a limit could stop it.

Content-Digest and Repr-Digest (RFC 9530) are compared at the body's end. Both cover the content as sent, including its
content coding. A Repr-Digest is also accepted if it is the digest of the decoded bytes, because clients differ in what
they consider the representation. Only sha-256 and sha-512 are verified; other algorithms are ignored, as the RFC asks.
A field that is not a dictionary of byte sequences is refused.
"""

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Callable
from hmac import compare_digest
from typing import Final

from coatcheck.core.encoding.frames import zstd
from coatcheck.core.errors import CoatcheckError, Code

STEP_BYTES: Final = 1024 * 1024
"""Maximum bytes requested from one decoding step."""
_INPUT_STEP_BYTES: Final = 16 * 1024
"""Maximum bytes passed to a library at once. The library copies the bytes that remain after the end of a member, so
the cost of that copy must not grow with the input."""
_FREE_MEMBERS: Final = 1000
"""Number of members or frames that any stream may have, however little it contains."""
_BYTES_PER_MEMBER: Final = 64
"""Bytes of output that allow a stream one more member or frame."""
_SKIPPABLE: Final = range(0x50, 0x60)
"""First bytes of skippable frames (RFC 8878, section 3.1.2)."""


class GzipMember:
    """Decodes one member of a gzip stream (RFC 1952)."""

    content = True
    """Whether the member can contain data. Every gzip member can; only zstd has skippable frames."""

    def __init__(self) -> None:
        # 31 means that gzip's header and trailer are required, and that windows may have up to 32 KiB.
        self._inflate = zlib.decompressobj(wbits=31)
        self._started = False
        """Whether zlib has accepted some input. If it refuses the first input, the error says that this is not gzip."""

    @property
    def has_ended(self) -> bool:
        """Whether the member has been decoded completely."""
        return self._inflate.eof

    def take(self, data: memoryview, most: int) -> tuple[bytes, int]:
        """Returns up to `most` decoded bytes, and how many bytes of `data` were consumed.

        The count is negative if the member's end lies in input that an earlier call consumed.

        Raises:
            CoatcheckError: `corrupt_encoding`.
        """
        try:
            piece = self._inflate.decompress(data, most)
        except zlib.error as e:
            raise _corrupt("gzip", "a damaged member" if self._started else "bytes that are not a member") from e
        self._started = self._started or bool(data)
        # zlib has two attributes for unused input: one for input after the member's end, one for input that it did not
        # need for the requested output.
        rest = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
        return piece, len(data) - len(rest)


class ZstdFrame:
    """Decodes one frame of a zstd stream (RFC 8878), without dictionaries.

    `max_window` is a power of two, in bytes. The library may allocate that much memory at once.
    """

    def __init__(self, max_window: int) -> None:
        self._max_window = max_window
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: max_window.bit_length() - 1}
        # A frame's header tells the library how large a window to allocate before it produces a byte.
        self._decompressor = zstd.ZstdDecompressor(options=options)
        self._first: int | None = None
        """First byte of the frame, by which a skippable frame is recognised; None: there was no input yet."""

    @property
    def has_ended(self) -> bool:
        """Whether the frame has been decoded completely."""
        return self._decompressor.eof

    @property
    def content(self) -> bool:
        """Whether the frame can contain data, which a skippable frame cannot."""
        return self._first not in _SKIPPABLE

    def take(self, data: memoryview, most: int) -> tuple[bytes, int]:
        """See GzipMember; also raises `decompression_limit`."""
        # The library keeps input that it has not decoded yet. If it got more input, its queue would grow without bound.
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


Member = GzipMember | ZstdFrame


class Decoder:
    """Decodes one coded stream: a sequence of gzip members or zstd frames."""

    def __init__(self, coding: str, members: str, begin: Callable[[], Member]) -> None:
        """Creates a decoder of a stream.

        Args:
            coding: name of the coding, for errors.
            members: the coding's word for its members, for errors.
            begin: creates a decoder for one member.
        """
        self._coding = coding
        self._members = members
        self._begin = begin
        self._member = begin()
        self._input = memoryview(b"")
        self._at = 0
        """Position in the input up to which it has been decoded."""
        self._has_content = False
        """Whether an earlier member could contain data."""
        self._allowed = _FREE_MEMBERS
        """Number of further members that the stream may have."""
        self._uncounted = 0
        """Bytes of output that have not allowed a further member yet, fewer than _BYTES_PER_MEMBER."""

    @property
    def pending(self) -> int:
        """Bytes that were fed but not decoded yet, not counting bytes that a library keeps."""
        return len(self._input) - self._at

    def feed(self, data: bytes) -> None:
        """Adds the next coded bytes; call this only after `step` has returned no bytes."""
        self._input = memoryview(bytes(self._input[self._at :]) + data if self.pending else data)
        self._at = 0

    def step(self, most: int) -> bytes:
        """Returns up to `most` decoded bytes; no bytes if more input is needed.

        Raises:
            CoatcheckError: `corrupt_encoding`, `decompression_limit`.
        """
        pieces: list[bytes] = []
        room = most
        while room > 0:
            # Begin the next member only if there is input for it: the member that has ended may be the last one.
            if self._member.has_ended:
                if not self.pending:
                    break
                self._next_member()
            piece, input_size = self._member.take(self._input[self._at : self._at + _INPUT_STEP_BYTES], room)
            self._at += input_size
            if piece:
                pieces.append(piece)
                room -= len(piece)
                self._count_output(len(piece))
            # A step without output may still make progress: it may decode a header or a skippable frame.
            elif not self.pending:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def finish(self) -> None:
        """Checks, at the end of the input, that the stream is complete.

        Raises:
            CoatcheckError: `corrupt_encoding` if the stream is incomplete.
        """
        # A stream that consists of skippable frames only is refused, like a stream that ends inside a frame.
        if not self._member.has_ended or not (self._has_content or self._member.content):
            raise _corrupt(self._coding, "it ends in the middle")

    def _next_member(self) -> None:
        self._has_content = self._has_content or self._member.content
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
        more, self._uncounted = divmod(self._uncounted + size, _BYTES_PER_MEMBER)
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


ALGORITHMS: Final = {"sha-256": ("sha256", 32), "sha-512": ("sha512", 64)}
"""By an algorithm's name in a digest field: its name in hashlib, and its digest's length in bytes."""

_MEMBER = re.compile(
    r"([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]*={0,2}):"
    r'((?:;[ ]*[a-z*][a-z0-9_.*-]*(?:=(?:[A-Za-z0-9:/!#$%&\'*+.^_`|~?-]+|"(?:[^"\\]|\\["\\])*"))?)*)'
)
"""Matches one member of a dictionary of byte sequences, with any parameters (RFC 8941 section 3.2)."""
_SEPARATOR = re.compile(r"[ \t]*,[ \t]*")


def parse_digests(name: str, value: str) -> dict[str, bytes]:
    """Returns the digests of the supported algorithms, by algorithm.

    Args:
        name: the field's name, for errors.
        value: the field's value; several field lines are joined by commas.

    Raises:
        CoatcheckError: `invalid_digest` if the field is malformed or a digest has the wrong length.
    """
    digests: dict[str, bytes] = {}
    at = 0
    text = value.strip(" \t")
    while text:
        member = _MEMBER.match(text, at)
        if member is None:
            raise _malformed_error(name)
        digest = _bytes(name, member[2])
        # A digest of another algorithm is ignored, but must be well-formed.
        if member[1] in ALGORITHMS:
            if len(digest) != ALGORITHMS[member[1]][1]:
                raise CoatcheckError(
                    Code.INVALID_DIGEST, f"{name}: a {member[1]} digest has {ALGORITHMS[member[1]][1]} bytes."
                )
            digests[member[1]] = digest
        at = member.end()
        if at == len(text):
            return digests
        # A comma must be followed by another member (RFC 8941 section 4.2.2).
        separator = _SEPARATOR.match(text, at)
        if separator is None or separator.end() == len(text):
            raise _malformed_error(name)
        at = separator.end()
    return digests


def _bytes(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise _malformed_error(name) from None


def _malformed_error(name: str) -> CoatcheckError:
    return CoatcheckError(
        Code.INVALID_DIGEST,
        f"{name} is malformed. Write it as sha-256=:<base64 of the digest>:, several separated by commas (RFC 9530).",
    )


class Digests:
    """The digests that a request announces for its body, and the running hashes with which to verify them."""

    def __init__(self, content: dict[str, bytes], representation: dict[str, bytes], *, coded: bool) -> None:
        self._content = content
        self._representation = representation
        # Both fields share one hash per algorithm. Without a coding, the decoded bytes are the bytes as sent, and need
        # no second hash.
        self._wire = {name: hashlib.new(ALGORITHMS[name][0]) for name in {*content, *representation}}
        self._plain = {name: hashlib.new(ALGORITHMS[name][0]) for name in representation} if coded else {}

    @property
    def hashes_wire(self) -> bool:
        """Whether the bytes as sent must be fed to `wire`."""
        return bool(self._wire)

    @property
    def hashes_plain(self) -> bool:
        """Whether the decoded bytes must be fed to `plain`."""
        return bool(self._plain)

    def wire(self, data: bytes) -> None:
        """Adds bytes as they were sent to the hashes."""
        for running in self._wire.values():
            running.update(data)

    def plain(self, data: bytes) -> None:
        """Adds decoded bytes to the hashes."""
        for running in self._plain.values():
            running.update(data)

    def verify(self) -> None:
        """Compares every announced digest; call this at the end of the body.

        Raises:
            CoatcheckError: `digest_mismatch`, which names the field and the algorithm.
        """
        for name, promised in self._content.items():
            if not compare_digest(self._wire[name].digest(), promised):
                raise _mismatch("Content-Digest", name)
        for name, promised in self._representation.items():
            plain = self._plain.get(name)
            same = compare_digest(self._wire[name].digest(), promised)
            if not same and not (plain is not None and compare_digest(plain.digest(), promised)):
                raise _mismatch("Repr-Digest", name)


def _mismatch(field: str, algorithm: str) -> CoatcheckError:
    return CoatcheckError(
        Code.DIGEST_MISMATCH,
        f"The body's {algorithm} differs from the one in {field}: it was changed in transit. "
        "Nothing was stored; send it again.",
        field=field,
        algorithm=algorithm,
    )
