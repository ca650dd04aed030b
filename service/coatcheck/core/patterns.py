"""Patterns of a search: RE2 on bytes, linear in the text whatever the pattern.

The one module that touches re2. Its public wrapper keeps 128 compiled patterns of up to 8 MB and creates objects for
each match; so the binding below it is used directly, and callers keep their own small cache.
"""

import re
from collections.abc import Callable
from typing import Any, cast

import re2

from coatcheck.core.errors import CoatcheckError, Code

PATTERN_LIMIT = 1_000
"""Characters of a pattern."""
MEMORY_LIMIT = 8 * 1024 * 1024
"""Bytes that one compiled pattern may use for its automata; RE2 goes on more slowly without."""

_Match = Callable[[Any, bytes, int, int], list[tuple[int, int]]]
_ANCHOR = cast("Any", re2)._re2.RE2.Anchor.UNANCHORED  # noqa: SLF001 - see above
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
"""The only thing in RE2 that matches LF in spite of `never_nl`."""
_NOT_IN_RE2 = (b"invalid perl operator", b"invalid escape sequence", b"invalid named capture")


class Pattern:
    """A compiled pattern. Safe to use from several threads at once."""

    def __init__(self, match: _Match) -> None:
        self._match = match

    def find(self, data: bytes, start: int, end: int) -> tuple[int, int] | None:
        """The leftmost match in `data[start:end]`, as positions in `data`; anchors see what lies around."""
        found = self._match(_ANCHOR, data, start, end)[0]
        return None if found[0] < 0 else found


def compile_pattern(pattern: str, *, literal: bool, ignore_case: bool) -> Pattern:
    """Compile a pattern whose matches stay within a line; `^` and `$` are a line's ends.

    Raises:
        CoatcheckError: `invalid_pattern` with RE2's reason, and what to write instead where that is known.
    """
    if not pattern or len(pattern) > PATTERN_LIMIT:
        raise _invalid(f"A pattern must have 1 to {PATTERN_LIMIT:,} characters.")
    if "\n" in pattern:
        raise _invalid("A match stays within one line: search for one line of it.")
    if not literal and _ANY_BYTE.search(pattern):
        raise _invalid("\\C does not exist here: it could match half a character or a line's end. Use `.` instead.")
    options = cast("Any", re2).Options()
    options.log_errors = False
    options.never_nl = True
    options.never_capture = True
    options.max_mem = MEMORY_LIMIT
    options.literal = literal
    options.case_sensitive = not ignore_case
    try:
        source = (pattern if literal else f"(?m){pattern}").encode()
    except UnicodeEncodeError:
        raise _invalid("The pattern has a lone surrogate, which no text contains.") from None
    compiled = cast("Any", re2)._re2.RE2(source, options)  # noqa: SLF001 - see above
    if not compiled.ok():
        raise _refused(bytes(compiled.error()))
    return Pattern(compiled.Match)


def _refused(reason: bytes) -> CoatcheckError:
    shown = reason.decode("utf-8", "replace").replace("(?m)", "", 1)
    hint = " To search for the text as it is, use literal=true."
    if reason.startswith(_NOT_IN_RE2):
        hint = " Look-around and backreferences do not exist here (RE2 syntax): match more, and pick from the lines."
    elif b"too large" in reason or b"repetition" in reason:
        hint = " Use smaller repeat counts."
    return _invalid(f"The pattern is not valid: {shown}.{hint}")


def _invalid(detail: str) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_PATTERN, detail)
