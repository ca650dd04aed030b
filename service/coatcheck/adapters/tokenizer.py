"""Tokenizers from vocabularies shipped inside the package: tiktoken's encoder, never its downloads.

`load_tokenizer` checks the vocabulary's SHA-256 before use and builds each encoding once per process. It never looks
at the network, at a cache folder or at the environment, and refuses names it has no vocabulary for.
"""

import re
import threading
from array import array
from typing import Final, final

import tiktoken

from coatcheck.adapters.blank_marks import MARK, marked
from coatcheck.adapters.vocabularies import VOCABULARIES, ranks_of
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.tokens import Tokenizer

_ALIASES: Final = {"o200k_harmony": "o200k_base"}
"""Encodings that differ only in special tokens, which are never used here: their counts are the same."""

_BLANK_RUN: Final = 100_000
"""Characters of whitespace that the encoder is given in one run: what merges them takes more than its share of time for
longer ones, and with look-ahead the regex engine overflows its stack near a million (tiktoken issues 15 and 245)."""

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
    if known not in VOCABULARIES:
        names = ", ".join(sorted([*VOCABULARIES, *_ALIASES]))
        raise CoatcheckError(Code.INVALID_REQUEST, f"There is no encoding named {name[:40]!a}. Use one of: {names}.")
    with _lock:
        found = _loaded.get(known)
        if found is None:
            found = _loaded[known] = TiktokenTokenizer(known)
    return found


@final
class TiktokenTokenizer:
    """One encoding through tiktoken. Text is only text: `<|endoftext|>` in it is no command."""

    def __init__(self, name: str) -> None:
        self._name = name
        ranks = ranks_of(name)
        self._mark = max(ranks.values()) + 1
        lengths = array("H", bytes(2 * self._mark))
        for token, rank in ranks.items():
            lengths[rank] = len(token)
        self._length = lengths.__getitem__
        ranks[MARK.encode()] = self._mark
        self._marked = _encoding(name, VOCABULARIES[name].marked, ranks)
        self._with_look_ahead: tiktoken.Encoding | None = None

    @property
    def name(self) -> str:
        """The encoding's public name."""
        return self._name

    def count(self, text: str) -> int:
        """How many tokens `text` is."""
        tokens, marks = self._encode(text)
        return len(tokens) - marks

    def encode(self, text: str) -> list[int]:
        """The token numbers of `text`, whatever is in it.

        Lone surrogates are encoded as U+FFFD. A run of more than 100,000 whitespace characters is encoded in parts,
        which may cost a token more than the encoder would have used, had it survived.
        """
        tokens, marks = self._encode(text)
        mark = self._mark
        return [token for token in tokens if token != mark] if marks else tokens

    def decode(self, tokens: list[int]) -> bytes:
        """The bytes that these tokens stand for; a cut may fall inside a UTF-8 sequence."""
        return self._marked.decode_bytes(tokens)

    def lengths(self, tokens: list[int]) -> list[int]:
        """How many bytes each of these tokens stands for."""
        return list(map(self._length, tokens))

    def _encode(self, text: str) -> tuple[list[int], int]:
        """The tokens, marks among them, and how many marks there are."""
        if len(text) <= _BLANK_RUN or not _LONG_BLANK.search(text):
            return self._ordinary(text)
        tokens: list[int] = []
        start = marks = 0
        for end in [*(match.end() for match in _LONG_BLANK.finditer(text)), len(text)]:
            more, number = self._ordinary(text[start:end])
            tokens += more
            marks += number
            start = end
        return tokens, marks

    def _ordinary(self, text: str) -> tuple[list[int], int]:
        if not text.isascii():
            text = _without_surrogates(text)
            if MARK in text:
                return self._look_ahead().encode_ordinary(text), 0
        text, marks = marked(text)
        return self._marked.encode_ordinary(text), marks

    def _look_ahead(self) -> tiktoken.Encoding:
        """The encoder for text that has the mark itself: hardly ever needed, and as large as the other."""
        with _lock:
            if self._with_look_ahead is None:
                pattern = VOCABULARIES[self._name].pattern
                self._with_look_ahead = _encoding(self._name, pattern, ranks_of(self._name))
            return self._with_look_ahead


def _encoding(name: str, pattern: str, ranks: dict[bytes, int]) -> tiktoken.Encoding:
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def _without_surrogates(text: str) -> str:
    """The same text as tiktoken takes it: pairs of surrogates joined, lone ones replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
