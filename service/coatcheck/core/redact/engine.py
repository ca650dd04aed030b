"""Expressions of ours on bytes, through RE2: linear in the text, and with as little as possible for each match.

RE2's public wrapper makes several objects for every match; the binding below it is used, as in `core/grep/patterns.py`.
A letter is a byte: the rules are about ASCII, and bytes that are no UTF-8 are looked through like any others.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import re2

Spans = list[tuple[int, int]]
"""Of a match and of its groups; (-1, -1) for a group that has no part in it."""
_MEMORY: Final = 16 * 1024 * 1024
"""Bytes of automata that one expression may use; with less, RE2 goes on many times more slowly."""
_ANCHOR: Final = cast("Any", re2)._re2.RE2.Anchor.UNANCHORED  # noqa: SLF001 - see above


class Expression:
    """A compiled expression. Safe to use from several threads at once."""

    def __init__(self, source: str, *, groups: bool = True) -> None:
        """Compile it; without `groups` only where it matches is told, which is faster.

        Raises:
            ValueError: RE2 does not take it, with its reason.
        """
        options = cast("Any", re2).Options()
        options.log_errors = False
        options.never_capture = not groups
        options.max_mem = _MEMORY
        options.encoding = cast("Any", re2).Options.Encoding.LATIN1
        made = cast("Any", re2)._re2.RE2(source.encode("latin-1"), options)  # noqa: SLF001 - see above
        if not made.ok():
            raise ValueError(bytes(made.error()).decode("utf-8", "replace"))
        self._match = cast("Callable[[Any, bytes, int, int], Spans]", made.Match)

    def search(self, data: bytes, start: int = 0, end: int | None = None) -> Spans | None:
        """The leftmost match in `data[start:end]`, as positions in `data`; its beginning sees what lies before it."""
        spans = self._match(_ANCHOR, data, start, len(data) if end is None else end)
        return None if spans[0][0] < 0 else spans

    def each(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Every match, one behind the other."""
        at, size = 0, len(data)
        while at <= size:
            begin, end = self._match(_ANCHOR, data, at, size)[0]
            if begin < 0:
                return
            yield begin, end
            at = end if end > begin else end + 1
