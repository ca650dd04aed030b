"""Large blocks of memory go back to the system when they are freed.

The GNU C library does that at first, and stops for everything as large as what it saw freed, up to 32 MiB: after one
large request the process keeps what that took, in pieces that the next one does not fit into. A request that holds a
body, what it says and what is stored of X.
"""

import ctypes
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Parameters of mallopt(3)."""
LARGE_BYTES: Final = 4 * 1024 * 1024
"""Blocks from this size on are the system's own; smaller ones are used again, which is faster."""
KEPT_BYTES: Final = 16 * 1024 * 1024
"""Free memory at the end of the heap that is kept."""


def return_large_blocks() -> bool:
    """Fix the size of a large block; says whether this C library can."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # macOS, musl: their allocators have other ways
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGE_BYTES) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES))
