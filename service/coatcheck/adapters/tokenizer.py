"""Tokenizers from vocabularies shipped inside the package: tiktoken's encoder, never its downloads.

`load_tokenizer` checks the vocabulary's SHA-256 before use and builds each encoding once per process. It never looks
at the network, at a cache folder or at the environment, and refuses names it has no vocabulary for.
"""

import base64
import gzip
import hashlib
import re
import threading
from array import array
from importlib import resources
from typing import Final, final

import tiktoken
from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.tokens import Tokenizer


class _Vocabulary(Struct, frozen=True):
    """What makes an encoding: the digest of its rank file and its pre-tokenizer pattern, both as tiktoken has them."""

    sha256: str
    pattern: str


def _either(*patterns: str) -> str:
    return "|".join(patterns)


_VOCABULARIES: Final = {
    "o200k_base": _Vocabulary(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        _either(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        ),
    ),
    "cl100k_base": _Vocabulary(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
        r"|\s+(?!\S)|\s",
    ),
}

_ALIASES: Final = {"o200k_harmony": "o200k_base"}
"""Encodings that differ only in special tokens, which are never used here: their counts are the same."""

_BLANK_RUN: Final = 100_000
"""Characters of whitespace that the encoder is given in one run. Its regex engine overflows its stack near a million
(tiktoken issues 15 and 245); below 998,000 it was never seen to."""

_LONG_BLANK: Final = re.compile(rf"\s{{{_BLANK_RUN}}}(?=\s)")

_lock = threading.Lock()
_loaded: dict[str, Tokenizer] = {}


def load_tokenizer(name: str = "o200k_base") -> Tokenizer:
    """The tokenizer of an encoding, loaded on first use (about 0.2 s and 80 MB) and shared by all threads after.

    Args:
        name: `o200k_base`, `cl100k_base` or `o200k_harmony` (whose counts are those of `o200k_base`).

    Raises:
        CoatcheckError: `invalid_request` for a name without a vocabulary; `integrity` when a shipped vocabulary is
            not the one that was pinned.
    """
    known = _ALIASES.get(name, name)
    if known not in _VOCABULARIES:
        names = ", ".join(sorted([*_VOCABULARIES, *_ALIASES]))
        raise CoatcheckError(Code.INVALID_REQUEST, f"There is no encoding named {name[:40]!a}. Use one of: {names}.")
    with _lock:
        found = _loaded.get(known)
        if found is None:
            found = _loaded[known] = TiktokenTokenizer(known, _VOCABULARIES[known])
    return found


@final
class TiktokenTokenizer:
    """One encoding through tiktoken. Text is only text: `<|endoftext|>` in it is no command."""

    def __init__(self, name: str, vocabulary: _Vocabulary) -> None:
        self._name = name
        ranks = _ranks(name, vocabulary.sha256)
        self._encoding = tiktoken.Encoding(name, pat_str=vocabulary.pattern, mergeable_ranks=ranks, special_tokens={})
        lengths = array("H", bytes(2 * (max(ranks.values()) + 1)))
        for token, rank in ranks.items():
            lengths[rank] = len(token)
        self._length = lengths.__getitem__

    @property
    def name(self) -> str:
        """The encoding's public name."""
        return self._name

    def count(self, text: str) -> int:
        """How many tokens `text` is."""
        return len(self.encode(text))

    def encode(self, text: str) -> list[int]:
        """The token numbers of `text`, whatever is in it.

        Lone surrogates are encoded as U+FFFD. A run of more than 100,000 whitespace characters is encoded in parts,
        which may cost a token more than the encoder would have used, had it survived.
        """
        if len(text) > _BLANK_RUN and _LONG_BLANK.search(text):
            tokens: list[int] = []
            start = 0
            for match in _LONG_BLANK.finditer(text):
                tokens += self._ordinary(text[start : match.end()])
                start = match.end()
            return tokens + self._ordinary(text[start:])
        return self._ordinary(text)

    def decode(self, tokens: list[int]) -> bytes:
        """The bytes that these tokens stand for; a cut may fall inside a UTF-8 sequence."""
        return self._encoding.decode_bytes(tokens)

    def lengths(self, tokens: list[int]) -> list[int]:
        """How many bytes each of these tokens stands for."""
        return list(map(self._length, tokens))

    def _ordinary(self, text: str) -> list[int]:
        try:
            return self._encoding.encode_ordinary(text)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as failure:
            # The encoder's Rust panics derive from BaseException; the encoder itself stays usable after one.
            if type(failure).__name__ != "PanicException" or len(text) < _SMALL:
                raise
        half = len(text) // 2
        return self._ordinary(text[:half]) + self._ordinary(text[half:])


_SMALL: Final = 1_000
"""A panic on a text this short is no stack overflow, and halving would not help: it is a bug and is raised."""


def _ranks(name: str, sha256: str) -> dict[bytes, int]:
    packed = resources.files("coatcheck.vocab").joinpath(f"{name}.tiktoken.gz").read_bytes()
    data = gzip.decompress(packed)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise CoatcheckError(
            Code.INTEGRITY,
            f"The vocabulary of {name} in this installation is not the expected one; install the package again.",
        )
    pairs = (line.split() for line in data.splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}
