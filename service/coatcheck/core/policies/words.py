"""A policy's values as people write them, on the command line and in a form. Decides nothing about policies."""

import re
from typing import Final

NO_LIMIT: Final = frozenset({"none", "null", "forever"})
"""How people say that there is no limit, or that something is kept for ever."""
SIZES: Final = frozenset({"max_bytes", "max_artifacts", "max_artifact_bytes"})
"""Fields whose numbers may have a unit."""
_UNITS: Final = {"": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4}


def size_of(text: str) -> int:
    """Returns a whole number, which a unit of bytes may follow: `10gib`.

    Raises:
        ValueError: it is neither; the message says what is.
    """
    match = re.fullmatch(r"([0-9]{1,18})([a-z]{0,3})", text.lower())
    if match is None or match[2] not in _UNITS:
        raise ValueError("give a whole number, for bytes with kib, mib, gib or tib, or none.")
    return int(match[1]) * _UNITS[match[2]]
