"""Counting and cutting in tokens, through a tokenizer that is handed in."""

from typing import Protocol

import numpy as np
import numpy.typing as npt


class Tokenizer(Protocol):
    """One encoding. Every method takes ordinary text: `<|endoftext|>` inside it is text like any other.

    Implementations never raise for any str, cut runs that the encoder cannot take, and are safe to call from
    several threads at once.
    """

    @property
    def name(self) -> str:
        """The encoding's public name, for example `o200k_base`."""
        ...

    def count(self, text: str) -> int:
        """How many tokens `text` is, exactly."""
        ...

    def encode(self, text: str) -> list[int]:
        """The token numbers. For bounded slices only: a list takes 36 bytes a token."""
        ...

    def decode(self, tokens: list[int]) -> bytes:
        """The bytes that these tokens stand for; a cut may fall inside a UTF-8 sequence."""
        ...

    def ends(self, text: str) -> npt.NDArray[np.int64]:
        """Where each token of `text` ends, in bytes of its UTF-8. For bounded slices only, as `encode`."""
        ...
