"""Random bytes of the operating system, drawn in bulk: each draw lets another thread take the interpreter."""

import os
from collections import deque
from typing import Final, final

_AT_ONCE: Final = 256


@final
class RandomWords:
    """Words of `size` random bytes, each returned only once. Thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._words: deque[bytes] = deque()

    def __call__(self) -> bytes:
        """Returns the next word."""
        while True:
            try:
                return self._words.popleft()
            except IndexError:
                random_bytes = os.urandom(self._size * _AT_ONCE)
                self._words.extend(random_bytes[at : at + self._size] for at in range(0, len(random_bytes), self._size))
