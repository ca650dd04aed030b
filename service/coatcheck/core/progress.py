"""How long-running work reports progress."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Is called with the number of further items that are done, and their bytes; from one thread at a time."""


def untold(items: int, size: int) -> None:
    """Does nothing, for work whose progress nobody follows."""
    del items, size
