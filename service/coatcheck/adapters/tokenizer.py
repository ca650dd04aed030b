"""Tokenizers from vocabularies shipped in the package: tiktoken's tokens from a faster encoder, without downloads.

`load_tokenizer` checks the vocabulary's SHA-256 before use and builds each encoding once per process. It never uses the
network, a cache folder or the environment, and refuses names without a vocabulary.

The shipped encodings: their tokens' numbers, verified by digest, and how text is split before it is encoded.

The patterns are tiktoken's own, with plain quantifiers instead of possessive ones: what follows each cannot match what
it took. The encoder recognises both patterns by their text and has special code for them; another spelling would be
slow.
"""

import base64
import gzip
import hashlib
import re
import threading
from importlib import resources
from itertools import pairwise
from typing import Final, final

import numpy as np
import numpy.typing as npt
import splintr
import tiktoken
from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.tokens import Tokenizer


class Vocabulary(Struct, frozen=True):
    """An encoding as tiktoken defines it: the digest of its rank file, and its pre-tokenizer's pattern."""

    sha256: str
    pattern: str


_O200K: Final = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
)
_CL100K: Final = (
    r"'(?i:[sdmt]|ll|ve|re)",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s+$",
    r"\s*[\r\n]",
    r"\s+(?!\S)",
    r"\s",
)


VOCABULARIES: Final = {
    "o200k_base": Vocabulary("446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d", "|".join(_O200K)),
    "cl100k_base": Vocabulary("223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7", "|".join(_CL100K)),
}


def rank_file(name: str) -> bytes:
    """Returns the tokens of an encoding in VOCABULARIES, in tiktoken's form: one line each, in base64, with its number.

    Raises:
        CoatcheckError: `integrity` if the shipped file does not match its digest.
    """
    gzip_bytes = resources.files("coatcheck.vocab").joinpath(f"{name}.tiktoken.gz").read_bytes()
    data = gzip.decompress(gzip_bytes)
    if hashlib.sha256(data).hexdigest() != VOCABULARIES[name].sha256:
        raise CoatcheckError(
            Code.INTEGRITY,
            f"The vocabulary of {name} in this installation is not the expected one; install the package again.",
        )
    return data


def ranks_of(name: str) -> dict[bytes, int]:
    """Returns the number of each token of an encoding in VOCABULARIES. Raises what `rank_file` raises."""
    pairs = (line.split() for line in rank_file(name).splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


_ALIASES: Final = {"o200k_harmony": "o200k_base"}
"""Encodings that differ only in special tokens, which are never used here, so their counts are equal."""

_MAX_BLANK_CHARS: Final = 100_000
"""Maximum characters of whitespace passed to an encoder in one run: merging longer ones takes more than proportional
time, and tiktoken's regex engine overflows its stack near a million (its issues 15 and 245)."""

_LONG_BLANK: Final = re.compile(rf"\s{{{_MAX_BLANK_CHARS}}}(?=\s)")

_NUMBER: Final = np.dtype("<u4")
_NO_WORD: Final = "qzxjkvqw"
"""A word that is not a token: the first text that is merged takes 0.2 s more, while the encoder builds its tables."""

_LONG_S: Final = "'\u017f"
"""An old form of `'s`, which tiktoken's patterns treat like the ending `'s`, since they ignore case. The faster encoder
does not."""

_UNSHARED_CHARS: Final = 16_000
"""Characters that are encoded without letting other threads run: 0.2 ms of ordinary text, 2 ms of one endless word.
Releasing the interpreter for less costs more than it gains."""

_lock = threading.Lock()
_loaded: dict[str, Tokenizer] = {}


def load_tokenizer(name: str = "o200k_base") -> Tokenizer:
    """Returns the tokenizer of an encoding, loaded on first use (about 0.5 s and 60 MB) and shared by all threads.

    Args:
        name: `o200k_base`, `cl100k_base` or `o200k_harmony` (whose counts equal those of `o200k_base`).

    Raises:
        CoatcheckError: `invalid_request` for a name without a vocabulary; `integrity` if a shipped vocabulary does not
            match its digest.
    """
    encoding = _ALIASES.get(name, name)
    if encoding not in VOCABULARIES:
        names = ", ".join(sorted([*VOCABULARIES, *_ALIASES]))
        raise CoatcheckError(Code.INVALID_REQUEST, f"There is no encoding named {name[:40]!a}. Use one of: {names}.")
    with _lock:
        tokenizer = _loaded.get(encoding)
        if tokenizer is None:
            tokenizer = _loaded[encoding] = ExactTokenizer(encoding)
    return tokenizer


@final
class OnDemandTokenizer:
    """An encoding that is loaded when first needed: an idle service saves half a second and 60 MB."""

    def __init__(self, name: str = "o200k_base") -> None:
        """Raises `integrity` if the shipped vocabulary does not match its digest."""
        rank_file(name)
        self._name = name
        self._loading: Tokenizer | None = None

    @property
    def name(self) -> str:
        """The encoding's public name."""
        return self._name

    @property
    def is_loaded(self) -> bool:
        """Whether the next call returns without loading first."""
        return self._loading is not None

    def count(self, text: str) -> int:
        """Returns the number of tokens of `text`."""
        return self._load().count(text)

    def encode(self, text: str) -> list[int]:
        """Returns the token numbers of `text`."""
        return self._load().encode(text)

    def decode(self, tokens: list[int]) -> bytes:
        """Returns the bytes of these tokens."""
        return self._load().decode(tokens)

    def ends(self, text: str) -> npt.NDArray[np.int64]:
        """Returns where each token of `text` ends, in bytes of its UTF-8."""
        return self._load().ends(text)

    def _load(self) -> Tokenizer:
        if self._loading is None:
            self._loading = load_tokenizer(self._name)
        return self._loading


@final
class ExactTokenizer:
    """One encoding, with tiktoken's tokens for any text. `<|endoftext|>` in it is ordinary text."""

    def __init__(self, name: str) -> None:
        self._name = name
        data = rank_file(name)
        self._encoder = splintr.Tokenizer.from_bytes(data, VOCABULARIES[name].pattern)
        self._encoder.encode_flat(_NO_WORD)
        self._lengths = _lengths(data)
        self._reference: tiktoken.Encoding | None = None

    @property
    def name(self) -> str:
        """The encoding's public name."""
        return self._name

    def count(self, text: str) -> int:
        """Returns the number of tokens of `text`."""
        return sum(len(part) // _NUMBER.itemsize for part in self._encode(text))

    def encode(self, text: str) -> list[int]:
        """Returns the token numbers of `text`, whatever it contains.

        Lone surrogates are encoded as U+FFFD. A run of more than 100,000 whitespace characters is encoded in parts,
        which may add a token.
        """
        return np.frombuffer(b"".join(self._encode(text)), _NUMBER).tolist()

    def decode(self, tokens: list[int]) -> bytes:
        """Returns the bytes of these tokens; a cut may fall inside a UTF-8 sequence."""
        return self._encoder.decode_bytes(tokens)

    def ends(self, text: str) -> npt.NDArray[np.int64]:
        """Returns where each token of `text` ends, in bytes of its UTF-8; a lone surrogate counts as U+FFFD."""
        tokens = np.frombuffer(b"".join(self._encode(text)), _NUMBER)
        return self._lengths.take(tokens).cumsum(dtype=np.int64)

    def _encode(self, text: str) -> list[bytes]:
        """Returns the tokens' numbers, in as many parts as the text needs."""
        if not text.isascii():
            text = _without_surrogates(text)
        if len(text) <= _MAX_BLANK_CHARS or not _LONG_BLANK.search(text):
            return [self._part(text)]
        ends = [*(match.end() for match in _LONG_BLANK.finditer(text)), len(text)]
        return [self._part(text[start:end]) for start, end in pairwise([0, *ends])]

    def _part(self, text: str) -> bytes:
        if _LONG_S in text:
            return np.array(self._tiktoken().encode_ordinary(text), _NUMBER).tobytes()
        if len(text) <= _UNSHARED_CHARS:
            return self._encoder.encode_flat(text)
        return self._encoder.encode_batch_flat([text])[0]

    def _tiktoken(self) -> tiktoken.Encoding:
        """Returns the encoder that defines the tokens; it is as large as the other, but hardly ever needed."""
        with _lock:
            if self._reference is None:
                pattern = VOCABULARIES[self._name].pattern
                ranks = ranks_of(self._name)
                self._reference = tiktoken.Encoding(
                    self._name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
                )
            return self._reference


def _lengths(data: bytes) -> npt.NDArray[np.uint16]:
    """Returns how many bytes each token has, by its number."""
    words = data.split()
    numbers = np.array(words[1::2]).astype(np.uint32)
    lengths = np.zeros(int(numbers.max()) + 1, np.uint16)
    lengths[numbers] = [len(token) // 4 * 3 - token.count(b"=") for token in words[::2]]
    return lengths


def _without_surrogates(text: str) -> str:
    """Returns a text as tiktoken accepts it: surrogate pairs joined, lone ones replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
