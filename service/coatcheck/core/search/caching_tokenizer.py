"""A tokenizer that counts each text only once: blocks are counted while they shrink, and again at the end.

For the length of one search, as it never forgets. Not thread-safe.
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
        """Returns the number of tokens of `text`."""
        token_count = self._counts.get(text)
        if token_count is None:
            token_count = self._counts[text] = self._tokenizer.count(text)
        return token_count

    def encode(self, text: str) -> list[int]:
        """Returns the token numbers of `text`."""
        return self._tokenizer.encode(text)

    def decode(self, tokens: list[int]) -> bytes:
        """Returns the bytes of these tokens."""
        return self._tokenizer.decode(tokens)

    def ends(self, text: str) -> npt.NDArray[np.int64]:
        """Returns where each token of `text` ends, in bytes."""
        return self._tokenizer.ends(text)
