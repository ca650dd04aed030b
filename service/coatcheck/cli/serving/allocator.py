"""Returns large blocks of memory to the system when they are freed.

The GNU C library does so at first, and stops for every block as large as what it saw freed, up to 32 MiB: after one
large request, the process keeps that memory, in pieces that the next one does not fit into.
"""

import ctypes
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Parameter of mallopt(3)."""
LARGE_BYTES: Final = 4 * 1024 * 1024
"""Blocks from this size on are allocated from the system; smaller ones are reused, which is faster."""
KEPT_BYTES: Final = 16 * 1024 * 1024
"""Free memory at the end of the heap that is kept."""


def return_large_blocks() -> bool:
    """Fixes the size of a large block; returns whether this C library can."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # macOS, musl: their allocators work differently
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGE_BYTES) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES))
