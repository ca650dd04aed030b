"""Locations of values: normalized paths (RFC 9535 section 2.7), and the chains of steps that they are written from."""

import re
from collections.abc import Iterable
from typing import Final

Step = str | int
Location = tuple["Location", Step] | None
"""The parent's location and the step from it; None is the root. Parents are shared, so a node costs one tuple."""

_ESCAPED: Final = re.compile(r"['\\\x00-\x1f]")
_SHORT: Final = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "'": "\\'", "\\": "\\\\"}


def steps(location: Location) -> list[Step]:
    """Returns the steps from the root."""
    out: list[Step] = []
    while location is not None:
        location, step = location
        out.append(step)
    out.reverse()
    return out


def normalize_path(path: Iterable[Step]) -> str:
    """Returns the normalized path of these steps."""
    return "$" + "".join(bracket_step(step) for step in path)


def bracket_step(step: Step) -> str:
    """Returns one step of a normalized path: `[3]` or `['name']`."""
    return f"[{step}]" if isinstance(step, int) else f"['{_ESCAPED.sub(_escape, step)}']"


def step(key: str) -> str:
    """Returns the step to a member as it is usually written: `.name`, or `['some name']`."""
    return f".{key}" if key.isascii() and key.isidentifier() else bracket_step(key)


def _escape(match: re.Match[str]) -> str:
    c = match[0]
    return _SHORT.get(c) or f"\\u{ord(c):04x}"
