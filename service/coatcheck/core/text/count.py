"""Counts the tokens of payloads of any size, and writes numbers for use in sentences.

Tokens are counted between safe cuts, estimated from a sample, or counted with an index of checkpoints. Only one piece
is encoded at a time, and no piece is longer than its bound, whatever the payload. Bytes that are not UTF-8 count as the
replacement characters that a reader would see.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from coatcheck.core.text.excerpt import align, first_safe, last_safe
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.window import decode
from coatcheck_client.contract.answers import TokenCount

PIECE_BYTES = 64 * 1024
"""Maximum bytes encoded at once, so that the encoder occupies a thread for about 1 ms."""

UNCUT_BYTES = 16 * 1024
"""Maximum bytes encoded at once if there is no safe cut. The time for one word of n bytes grows with n log n; at this
length it is 0.1 ms per KB."""

EXACT_BYTES = 256 * 1024
"""Maximum bytes of a payload that is counted exactly when it is stored: at most 4 ms for ordinary text."""

SAMPLE_PIECE = 768
"""Bytes of each piece of the sample from which the tokens of a larger payload are estimated."""
SAMPLE_PIECES = 128
"""Maximum pieces that are kept; with one more, every second piece is dropped."""
ENCODED_PIECES = 64
"""Maximum pieces that are encoded. Of a larger payload, 64 to 128 evenly spread pieces are kept, and 64 of them are
encoded: 48 KB, about 1 ms. Many short pieces represent a payload better than few long ones with the same total."""


def _ends(data: bytes, *, final: bool) -> Iterator[tuple[int, bool]]:
    """Yields the end of each piece, and whether it is a safe cut. Unless `final`, the last piece is left for later."""
    start = 0
    while len(data) - start > PIECE_BYTES + 4:
        safe_end = last_safe(data, start, start + PIECE_BYTES)
        if safe_end is None:
            yield from _force_cuts(data, start, align(data, start + PIECE_BYTES))
            start = align(data, start + PIECE_BYTES)
        else:
            yield safe_end, True
            start = safe_end
    if final and start < len(data):
        if len(data) - start > UNCUT_BYTES and last_safe(data, start, len(data) - 4) is None:
            yield from _force_cuts(data, start, len(data))
        else:
            yield len(data), True


def _force_cuts(data: bytes, start: int, end: int) -> Iterator[tuple[int, bool]]:
    while end - start > UNCUT_BYTES:
        start = align(data, start + UNCUT_BYTES)
        yield start, False
    yield end, False


def count_pieces(data: bytes, tokenizer: Tokenizer) -> TokenCount:
    """Returns the number of tokens in a payload. Exact unless it has more than 16 KB without a safe cut.

    Such stretches (one enormous word, a wall of blanks) are counted in parts; each part may add an error of one token.
    """
    count = 0
    exact = True
    start = 0
    for end, safe in _ends(data, final=True):
        count += tokenizer.count(decode(data[start:end]))
        exact = exact and safe
        start = end
    return TokenCount(count, exact, tokenizer.name)


class TokenMeter:
    """Counts the tokens of a streamed payload: exactly up to EXACT_BYTES, beyond that by a spread sample.

    The sample depends on the bytes alone, however they are split among calls. Its pieces of 768 bytes are at multiples
    of a stride, which doubles whenever there are more than 128 pieces. Memory stays under 256 KB + 96 KB.
    """

    def __init__(self, tokenizer: Tokenizer, exact: int = EXACT_BYTES) -> None:
        """Creates a meter that counts exactly up to `exact` bytes."""
        self._tokenizer = tokenizer
        self._exact = exact
        self._size = 0
        self._whole: bytearray | None = bytearray()
        self._stride = SAMPLE_PIECE * 2
        self._sample: list[bytearray] = []

    def feed(self, data: bytes) -> None:
        """Takes the next bytes. Copies the bytes that it keeps, and never encodes."""
        if self._whole is not None:
            if self._size + len(data) <= self._exact:
                self._whole += data
            else:
                prefix, self._whole, self._size = bytes(self._whole), None, 0
                self._take(prefix)
                self._size = len(prefix)
        if self._whole is None:
            self._take(data)
        self._size += len(data)

    def _take(self, data: bytes) -> None:
        at, end = self._size, self._size + len(data)
        while at < end:
            number, into = divmod(at, self._stride)
            if into >= SAMPLE_PIECE:
                at += self._stride - into
                continue
            if number == len(self._sample):
                self._sample.append(bytearray())
                if len(self._sample) > SAMPLE_PIECES:
                    self._sample = self._sample[::2]  # the new, still empty piece has an even index and stays
                    self._stride *= 2
                    continue
            high = min(at - into + SAMPLE_PIECE, end)
            self._sample[number] += data[at - self._size : high - self._size]
            at = high

    def finish(self) -> TokenCount:
        """Returns the number of tokens. For an estimate, at most 64 pieces of 768 bytes are encoded."""
        if self._whole is not None:
            return count_pieces(bytes(self._whole), self._tokenizer)
        piece_count = len(self._sample)
        number = min(piece_count, ENCODED_PIECES)
        size = tokens = 0
        for at in range(number):
            trimmed = _trim(bytes(self._sample[at * piece_count // number]))
            size += len(trimmed)
            tokens += self._tokenizer.count(decode(trimmed))
        return TokenCount(round(tokens * self._size / max(size, 1)), exact=False, encoding=self._tokenizer.name)


def _trim(piece: bytes) -> bytes:
    """Returns the piece between its first and its last safe cut, so that its ends do not split words."""
    start = first_safe(piece, 0, len(piece) // 2) or 0
    end = last_safe(piece, len(piece) // 2, len(piece) - 4)
    return piece[start : end if end is not None and end > start else len(piece)]


class Checkpoint(Struct, frozen=True):
    """How many tokens precede a byte. A checkpoint is a safe cut if there is any, and reads of tokens start there."""

    byte: int
    tokens: int


class TokenIndexer:
    """Counts the tokens of content blocks in order, and returns a checkpoint about every 64 KB.

    Reads by token position start at these checkpoints. Resumable: give a new indexer the last checkpoint, and feed it
    the content from that byte on. Holds at most one piece and the block being fed.
    """

    def __init__(self, tokenizer: Tokenizer, resume: Checkpoint | None = None) -> None:
        self._tokenizer = tokenizer
        self._at = resume or Checkpoint(0, 0)
        self._pending = bytearray()
        self._exact = True

    @property
    def exact(self) -> bool:
        """Whether every checkpoint so far is a safe cut."""
        return self._exact

    def feed(self, block: bytes) -> list[Checkpoint]:
        """Takes the next block of content, and returns the new checkpoints."""
        self._pending += block
        return self._advance(final=False)

    def finish(self) -> TokenCount:
        """Counts the rest. Returns the number of tokens from the payload's start."""
        self._advance(final=True)
        return TokenCount(self._at.tokens, self._exact, self._tokenizer.name)

    def _advance(self, *, final: bool) -> list[Checkpoint]:
        data = bytes(self._pending)
        checkpoints: list[Checkpoint] = []
        start = 0
        for end, safe in _ends(data, final=final):
            tokens = self._at.tokens + self._tokenizer.count(decode(data[start:end]))
            self._at = Checkpoint(self._at.byte + end - start, tokens)
            self._exact = self._exact and safe
            checkpoints.append(self._at)
            start = end
        del self._pending[:start]
        return checkpoints


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    """Returns `1 line` or `2,000 lines`. Give `nouns` if the plural is not formed with an s."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def format_count(number: int, noun: str) -> str:
    """Returns `1 file`, `2000 files` or `2 indexes`: without a comma, which would cost a card a token."""
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('x') else 's'}"


def first_of(items: Sequence[str], most: int, noun: str = "more", *, separator: str = "; ") -> str:
    """Returns the first `most` items, and how many more there are, as in `a; b; … 4 more`."""
    return separator.join([*items[:most], *([f"… {len(items) - most} {noun}"] if len(items) > most else [])])


_STEPS: Final = ((1_000_000, "M"), (1_000, "k"))
_TEN: Final = 100
"""Number of tenths from which the decimal is omitted."""


def short_number(number: int) -> str:
    """Returns a count in at most three digits, rounded half up: 940, 9.5k, 184k, 1.2M.

    A count of 1,000 million or more has more digits.
    """
    for unit, letter in _STEPS:
        if number >= unit - unit // 2_000:
            tenths = (20 * number + unit) // (2 * unit)
            return f"{tenths / 10:.1f}{letter}" if tenths < _TEN else f"{(2 * number + unit) // (2 * unit):,}{letter}"
    return str(number)
