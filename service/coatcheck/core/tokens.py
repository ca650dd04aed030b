"""The interface for counting and cutting in tokens."""

from typing import Protocol

import numpy as np
import numpy.typing as npt


class Tokenizer(Protocol):
    """One encoding. Every method accepts ordinary text: `<|endoftext|>` in it is text like any other.

    Implementations never raise for any str, cut runs that the encoder cannot process, and are thread-safe.
    """

    @property
    def name(self) -> str:
        """The encoding's public name, for example `o200k_base`."""
        ...

    def count(self, text: str) -> int:
        """Returns the exact number of tokens of `text`."""
        ...

    def encode(self, text: str) -> list[int]:
        """Returns the token numbers. Only for bounded slices: a list takes 36 bytes per token."""
        ...

    def decode(self, tokens: list[int]) -> bytes:
        """Returns the bytes of these tokens; a cut may fall inside a UTF-8 sequence."""
        ...

    def ends(self, text: str) -> npt.NDArray[np.int64]:
        """Returns where each token of `text` ends, in bytes of its UTF-8. Only for bounded slices, like `encode`."""
        ...
