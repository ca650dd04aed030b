"""Encodes a payload as it arrives: hash, frames, counts, head and tail, in one pass over the bytes.

Pure: the encoder takes bytes, returns the bytes to store, and knows the payload's properties after its last byte.
Whatever the payload's size, the encoder holds at most its first HELD_WHOLE bytes, a frame, both ends of the sample, and
the sample of the token meter.
"""

import codecs
import hashlib

from coatcheck.core.artifact import SAMPLE_BYTES, LineFields, Measure, PayloadForm, PayloadSample
from coatcheck.core.encoding.frames import FrameIndex
from coatcheck.core.encoding.seekable import FrameEncoder
from coatcheck.core.parts.fields import find_fields
from coatcheck.core.parts.form import FormDecoder, find_form, open_payload
from coatcheck.core.survey import Survey, Surveyor
from coatcheck.core.text.count import TokenMeter
from coatcheck.core.tokens import Tokenizer
from coatcheck_client.contract.answers import TokenCount

HELD_WHOLE = 2 * 1024**2
"""Maximum bytes of a payload that the encoder holds as a whole."""


class PayloadEncoder:
    """Encodes one payload: call `feed` with its bytes, `end` with the last of them, `count`, and read the results."""

    def __init__(
        self, tokenizer: Tokenizer, *, stores: bool = True, surveys: bool | None = None, media_type: str | None = None
    ) -> None:
        """Begins a payload.

        Args:
            tokenizer: counts the payload's tokens.
            stores: whether the payload is encoded to be stored. Only measuring and sampling it costs about a third.
            surveys: whether a payload that is larger than its sample is surveyed; None: the same as `stores`.
            media_type: the declared media type, which may name a charset.
        """
        self._tokenizer = tokenizer
        self._stores = stores
        self._surveys = stores if surveys is None else surveys
        self._media_type = media_type
        self._form: PayloadForm | None = None
        self._fields: LineFields | None = None
        self._shown: PayloadEncoder | None = None
        self._decoder: FormDecoder | None = None
        self._sha = hashlib.sha256()
        self._encoder = FrameEncoder(stores=stores)
        self._meter = TokenMeter(tokenizer)
        self._head = bytearray()
        self._tail = bytearray()
        self._utf8: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")()
        self._ends_line = True
        self._tokens: TokenCount | None = None
        self._blocks: list[bytes] | None = []
        self._surveyor: Surveyor | None = None

    @property
    def size(self) -> int:
        """Number of bytes of the payload that were fed so far."""
        return self._encoder.size

    def feed(self, data: bytes) -> bytes:
        """Takes the next bytes of the payload; returns the bytes to store that became complete, possibly none."""
        if not data:
            return b""
        self._sha.update(data)
        self._survey(data)
        self._meter.feed(data)
        self._sample(data)
        self._hold(data)
        self._validate(data, final=False)
        self._ends_line = data[-1:] == b"\n"
        return self._encoder.feed(data)

    def end(self, last: bytes) -> bytes:
        """Takes the last bytes and ends the payload; returns the last bytes to store, including the seek table."""
        chunk = self.feed(last)
        self._validate(b"", final=True)
        return chunk + self._encoder.finish()

    def count(self) -> None:
        """Counts the payload's tokens. Call it after `end`.

        Counting costs about 15 ms per megabyte for a payload of up to EXACT_BYTES, and about 1 ms in all for a larger
        one.
        """
        self._tokens = self._meter.finish()

    def _survey(self, data: bytes) -> None:
        """Feeds the survey, once the payload is too large to be sampled whole."""
        if self._surveyor is None and self._shown is None:
            if not self._surveys or self._encoder.size + len(data) <= 2 * SAMPLE_BYTES:
                return
            head = bytes(self._head)
            start = (head + data)[: 2 * SAMPLE_BYTES]
            self._form = find_form(PayloadSample(start, b"", len(start) + 1), self._media_type)
            if self._form is None:
                self._fields = find_fields(start)
                self._surveyor = Surveyor(self._fields)
            else:
                self._shown = PayloadEncoder(self._tokenizer, stores=False, surveys=True)
                self._decoder = FormDecoder(self._form)
            self._survey(head)
        if self._surveyor is not None:
            self._surveyor.feed(data)
        elif self._shown is not None and self._decoder is not None:
            self._shown.feed(self._decoder.decode(data, is_last=False))

    def open(self, media_type: str | None) -> "tuple[PayloadForm, PayloadEncoder] | None":
        """Returns the payload's form, and an encoder that measured and sampled its text.

        Returns None if the payload's bytes are its text. An envelope is opened only if the payload is held as a whole.
        Call this after `end`.
        """
        if self._shown is not None and self._form is not None and self._decoder is not None:
            self._shown.end(self._decoder.decode(b"", is_last=True))
        else:
            payload = self.payload
            form = None if payload is None else find_form(PayloadSample(payload, b"", len(payload)), media_type)
            if form is None or payload is None:
                return None
            self._form, self._shown = form, PayloadEncoder(self._tokenizer, stores=False, surveys=True)
            self._shown.end(open_payload(form, payload))
        self._shown.count()
        return self._form, self._shown

    def fields(self) -> LineFields | None:
        """Returns the fields of the payload's lines; None if there are none. Call it after `end`."""
        return self._fields if self._surveyor is not None else find_fields(bytes(self._head))

    def survey(self) -> Survey | None:
        """Returns the survey; None if the sample is the whole payload, or nothing is surveyed."""
        return None if self._surveyor is None else self._surveyor.finish()

    def _validate(self, data: bytes, *, final: bool) -> None:
        if self._utf8 is None:
            return
        try:
            self._utf8.decode(data, final)
        except UnicodeDecodeError:
            self._utf8 = None

    def _hold(self, data: bytes) -> None:
        if self._blocks is not None:
            self._blocks.append(data)
            if self._encoder.size + len(data) > HELD_WHOLE:
                self._blocks = None

    @property
    def payload(self) -> bytes | None:
        """All bytes that were fed so far; None if they are more than HELD_WHOLE."""
        return None if self._blocks is None else b"".join(self._blocks)

    @property
    def text(self) -> bytes | None:
        """The text of the payload, once `open` was called; None if payload or text have more than HELD_WHOLE bytes."""
        return self.payload if self._shown is None else None if self.payload is None else self._shown.payload

    def _sample(self, data: bytes) -> None:
        room = 2 * SAMPLE_BYTES - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-SAMPLE_BYTES:]
            if len(self._tail) > 2 * SAMPLE_BYTES:
                del self._tail[:-SAMPLE_BYTES]

    @property
    def sha256(self) -> bytes:
        """SHA-256 of the bytes that were fed so far."""
        return self._sha.digest()

    @property
    def index(self) -> FrameIndex:
        """The index of the stored payload.

        Raises:
            ValueError: `end` was not called yet.
        """
        index = self._encoder.index
        if index is None:
            raise ValueError("the payload has not ended")
        return index

    @property
    def stored_size(self) -> int:
        """Number of stored bytes returned so far."""
        return self._encoder.stored_size

    def measure(self, *, dropped: int = 0, dropped_at: int = 0) -> Measure:
        """Returns the sizes and the digest of the payload. Call it after `end` and `count`.

        Args:
            dropped: number of bytes of the original that were not fed.
            dropped_at: offset at which these bytes are missing.

        Raises:
            ValueError: the tokens have not been counted.
        """
        if self._tokens is None:
            raise ValueError("the tokens have not been counted")
        return Measure(
            size=self._encoder.size,
            lines=self._encoder.newlines + (0 if self._ends_line else 1),
            chars=self._encoder.chars,
            tokens=self._tokens,
            sha256=self._sha.digest(),
            utf8=self._utf8 is not None,
            dropped=dropped,
            dropped_at=dropped_at,
        )

    def sample(self) -> PayloadSample:
        """Returns both ends of the payload, or all of a short payload: the same bytes as `sample_ranges` names."""
        if self.size <= 2 * SAMPLE_BYTES:
            return PayloadSample(bytes(self._head), b"", self.size)
        tail = self._tail
        if len(tail) < SAMPLE_BYTES:
            tail = self._head[len(tail) - SAMPLE_BYTES :] + tail
        return PayloadSample(bytes(self._head[:SAMPLE_BYTES]), bytes(tail[-SAMPLE_BYTES:]), self.size)


def sample_ranges(size: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns the two byte ranges from which the sample of a stored payload of this size is read."""
    if size <= 2 * SAMPLE_BYTES:
        return (0, size), (size, size)
    return (0, SAMPLE_BYTES), (size - SAMPLE_BYTES, size)
