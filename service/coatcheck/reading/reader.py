"""The base of every way of reading an artifact: opening a view, counting, worker threads, the time limit.

Holds no state and reads nothing by itself.
"""

import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import ClassVar, TypeVar

from msgspec import Struct

from coatcheck.core.reads.read_bounds import MAX_ARGUMENT_CHARS
from coatcheck.core.redact.answers import reveal_answer
from coatcheck.core.tokens import Tokenizer
from coatcheck.reading.view import OpenView, ViewReading
from coatcheck.runtime.pool import in_pool

A = TypeVar("A", bound=Struct)


class Reader:
    """What every way of reading shares: opening a view, hiding secrets, the deadline."""

    PATIENCE_SECONDS: ClassVar[float] = 2.0
    """Seconds that one call may work towards an answer before it stops where it is."""

    def __init__(
        self,
        open_view: OpenView,
        tokenizer: Tokenizer,
        pool: Executor,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience: float | None = None,
    ) -> None:
        """`clock` is monotonic, in seconds; `patience` replaces PATIENCE_SECONDS."""
        self._view = open_view
        self._tokenizer = tokenizer
        self._pool = pool
        self._clock = clock
        self._patience = self.PATIENCE_SECONDS if patience is None else patience

    async def prepare_answer(self, reading: ViewReading, answer: A, tokens: int) -> A:
        """Returns an answer ready to give, with markers in place of secrets that were hidden in what was read."""
        if reading.mask is None or reading.binary:
            return answer
        return await in_pool(
            self._pool, reveal_answer, answer, reading.mask, self._tokenizer, tokens, MAX_ARGUMENT_CHARS
        )
