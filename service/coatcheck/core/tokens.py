"""The interface of tokenizers, which count the tokens of a text and find where each token ends."""

from typing import Protocol

import numpy as np
import numpy.typing as npt


class Tokenizer(Protocol):
    """A tokenizer of one encoding. Every method treats its input as ordinary text, even `<|endoftext|>`.

    Implementations never raise for any str, split runs of characters that are too long for the encoder, and are
    thread-safe.
    """

    @property
    def name(self) -> str:
        """The encoding's public name, for example `o200k_base`."""
        ...

    def count(self, text: str) -> int:
        """Returns the exact number of tokens of `text`."""
        ...

    def encode(self, text: str) -> list[int]:
        """Returns the token numbers of `text`. Use it only for bounded slices: a list takes 36 bytes per token."""
        ...

    def decode(self, tokens: list[int]) -> bytes:
        """Returns the bytes of these tokens, which may begin and end inside a UTF-8 sequence."""
        ...

    def ends(self, text: str) -> npt.NDArray[np.int64]:
        """Returns the offset at which each token of `text` ends, in UTF-8 bytes. Use it only for bounded slices."""
        ...
