"""Tokenizers from vocabularies that the package contains. A faster encoder produces the same tokens as tiktoken.

`load_tokenizer` checks the SHA-256 of a vocabulary before use and builds each encoding once per process. It never uses
the network, a cache folder or the environment, and refuses names without a vocabulary.

An encoding consists of the tokens with their numbers, and of the pattern by which text is split before it is encoded.
The patterns are tiktoken's own, except that their quantifiers are not possessive. That makes no difference: nothing
that a quantifier takes could be matched by the rest of its alternative. The encoder recognises both patterns by their
spelling, and has special code for them; with another spelling it would be slow.
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
    """An encoding as tiktoken defines it: the SHA-256 of its rank file, and the pattern by which text is split."""

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
    """Returns the rank file of an encoding in VOCABULARIES: each line has a token in base64 and its number.

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
    """Returns the number of each token of an encoding in VOCABULARIES. Raises the errors of `rank_file`."""
    pairs = (line.split() for line in rank_file(name).splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


_ALIASES: Final = {"o200k_harmony": "o200k_base"}
"""Encodings, each with the encoding that is used instead. The two differ only in special tokens, which are never used
here, so they give the same counts."""

_MAX_BLANK_CHARS: Final = 100_000
"""Maximum characters of consecutive whitespace that are passed to an encoder at once. Merging a longer run takes more
than proportional time, and tiktoken's regex engine overflows its stack near a million (its issues 15 and 245)."""

_LONG_BLANK: Final = re.compile(rf"\s{{{_MAX_BLANK_CHARS}}}(?=\s)")

_NUMBER: Final = np.dtype("<u4")
_NO_WORD: Final = "qzxjkvqw"
"""A word that is not a token, so that the encoder must merge. The first merge takes 0.2 s more, because the encoder
builds its tables; this word is encoded at once when an encoding is loaded."""

_LONG_S: Final = "'\u017f"
"""The ending `'s` with an old form of the letter. tiktoken's patterns ignore case, and so treat it like `'s`. The
faster encoder does not, so texts with this ending are encoded by tiktoken."""

_UNSHARED_CHARS: Final = 16_000
"""Maximum characters that are encoded without letting other threads run. They take 0.2 ms for ordinary text, and 2 ms
for a single endless word. For shorter texts, releasing the interpreter costs more than it gains."""

_lock = threading.Lock()
_loaded: dict[str, Tokenizer] = {}


def load_tokenizer(name: str = "o200k_base") -> Tokenizer:
    """Returns the tokenizer of an encoding, which all threads share. The first call loads it: about 0.5 s and 60 MB.

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
    """A tokenizer whose encoding is loaded when it is first needed, which saves an idle service 0.5 s and 60 MB."""

    def __init__(self, name: str = "o200k_base") -> None:
        """Loads nothing yet; raises `integrity` if the shipped vocabulary does not match its digest."""
        rank_file(name)
        self._name = name
        self._loading: Tokenizer | None = None

    @property
    def name(self) -> str:
        """The encoding's public name."""
        return self._name

    @property
    def is_loaded(self) -> bool:
        """Whether the encoding is loaded, so that the next call need not load it."""
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
        """Returns the end of each token of `text`, as an offset in bytes of the text's UTF-8."""
        return self._load().ends(text)

    def _load(self) -> Tokenizer:
        if self._loading is None:
            self._loading = load_tokenizer(self._name)
        return self._loading


@final
class ExactTokenizer:
    """A tokenizer of one encoding, with the same tokens as tiktoken for any text.

    Special tokens such as `<|endoftext|>` count as ordinary text.
    """

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
        """Returns the bytes of these tokens; the first and last token may contain only a part of a UTF-8 character."""
        return self._encoder.decode_bytes(tokens)

    def ends(self, text: str) -> npt.NDArray[np.int64]:
        """Returns the end of each token of `text`, as an offset in bytes of its UTF-8.

        A lone surrogate counts as U+FFFD.
        """
        tokens = np.frombuffer(b"".join(self._encode(text)), _NUMBER)
        return self._lengths.take(tokens).cumsum(dtype=np.int64)

    def _encode(self, text: str) -> list[bytes]:
        """Returns the packed numbers of a text's tokens, in several parts if the text has long runs of whitespace."""
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
        """Returns tiktoken's own encoder. It is large and rarely needed, so it is loaded on first use."""
        with _lock:
            if self._reference is None:
                pattern = VOCABULARIES[self._name].pattern
                ranks = ranks_of(self._name)
                self._reference = tiktoken.Encoding(
                    self._name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
                )
            return self._reference


def _lengths(data: bytes) -> npt.NDArray[np.uint16]:
    """Returns the length of each token in bytes, indexed by the token's number."""
    words = data.split()
    numbers = np.array(words[1::2]).astype(np.uint32)
    lengths = np.zeros(int(numbers.max()) + 1, np.uint16)
    lengths[numbers] = [len(token) // 4 * 3 - token.count(b"=") for token in words[::2]]
    return lengths


def _without_surrogates(text: str) -> str:
    """Returns a text in which surrogate pairs are joined and lone surrogates replaced, as tiktoken needs it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
