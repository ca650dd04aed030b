"""A tokenizer that counts a text once however often it is asked: blocks are counted while they shrink, and in the end.

For the length of one search; it remembers what it counted and never forgets. Not for several threads at once.
"""

from typing import final

import numpy as np
import numpy.typing as npt

from coatcheck.core.tokens import Tokenizer


@final
class CachingTokenizer:
    """A Tokenizer over another one."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._counts: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The encoding's public name."""
        return self._tokenizer.name

    def count(self, text: str) -> int:
        """How many tokens `text` is."""
        known = self._counts.get(text)
        if known is None:
            known = self._counts[text] = self._tokenizer.count(text)
        return known

    def encode(self, text: str) -> list[int]:
        """The token numbers."""
        return self._tokenizer.encode(text)

    def decode(self, tokens: list[int]) -> bytes:
        """The bytes that these tokens stand for."""
        return self._tokenizer.decode(tokens)

    def ends(self, text: str) -> npt.NDArray[np.int64]:
        """Where each token of the text ends, in bytes."""
        return self._tokenizer.ends(text)
