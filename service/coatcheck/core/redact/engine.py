"""Expressions of ours on bytes, through RE2: linear in the text, and with as little as possible for each match.

A letter is a byte: the rules are about ASCII, and bytes that are no UTF-8 are looked through like any others.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from coatcheck.core.text.re2_binding import LATIN1, UNANCHORED, re2_compiled

Spans = list[tuple[int, int]]
"""Of a match and of its groups; (-1, -1) for a group that has no part in it."""
_MEMORY: Final = 16 * 1024 * 1024
"""Bytes of automata that one expression may use; with less, RE2 goes on many times more slowly."""


class Expression:
    """A compiled expression. Safe to use from several threads at once."""

    def __init__(self, source: str, *, groups: bool = True) -> None:
        """Compile it; without `groups` only where it matches is told, which is faster.

        Raises:
            ValueError: RE2 does not take it, with its reason.
        """
        made = re2_compiled(source.encode("latin-1"), _MEMORY, never_capture=not groups, encoding=LATIN1)
        if not made.ok():
            raise ValueError(bytes(made.error()).decode("utf-8", "replace"))
        self._match = cast("Callable[[Any, bytes, int, int], Spans]", made.Match)

    def search(self, data: bytes, start: int = 0, end: int | None = None) -> Spans | None:
        """The leftmost match in `data[start:end]`, as positions in `data`; its beginning sees what lies before it."""
        spans = self._match(UNANCHORED, data, start, len(data) if end is None else end)
        return None if spans[0][0] < 0 else spans

    def each(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Every match, one behind the other."""
        at, size = 0, len(data)
        while at <= size:
            begin, end = self._match(UNANCHORED, data, at, size)[0]
            if begin < 0:
                return
            yield begin, end
            at = end if end > begin else end + 1
