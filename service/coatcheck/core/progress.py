"""How long-running work reports progress."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""A function that is called with the number of items finished since its last call, and with their bytes. It is called
from one thread at a time."""


def untold(items: int, size: int) -> None:
    """Does nothing, for work whose progress nobody follows."""
    del items, size
