"""Callers' search patterns: RE2 on bytes, linear in the text for every pattern.

Compiled patterns are cached in small numbers; `core/text/scan.py` is for our own. A call cannot be interrupted, so each
pattern knows its maximum time per byte.
"""

import re
from collections.abc import Callable
from typing import Any

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.re2_binding import UNANCHORED, re2_compiled

PATTERN_LIMIT = 1_000
"""Maximum characters of a pattern."""
MEMORY_LIMIT = 8 * 1024 * 1024
"""Bytes that one compiled pattern may use for its automata; without them, RE2 is slower."""
_STEP_SECONDS = 5e-9
"""Seconds per instruction of a program and byte without those automata; 2.9 to 4.7 ns were measured."""
LEAST_PIECE = 8 * 1024
"""Bytes that must be searchable at once within WORST_SECONDS."""
WORST_SECONDS = 2.0
"""Maximum time of one call, which whoever cuts the bytes for it must respect."""

_Match = Callable[[Any, bytes, int, int], list[tuple[int, int]]]
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
"""The only thing in RE2 that matches LF in spite of `never_nl`."""
_ELSEWHERE = re.compile(r"invalid (?:perl operator|named capture)|invalid escape sequence: \\[0-9k]")
"""Reasons that mean look-around, a backreference or the like."""
_LINE_FEED = re.compile(r"(?<!\\)(?:\\\\)*\\(?:n|x0[aA]|x\{0*[aA]\}|012)")
_NEGATED = re.compile(r"\[\^\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_DOLLAR = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\$", re.DOTALL)
"""Matches a `$` that is a line's end, or what could hide one: quoted text, an escape, a class."""
_LINE_END = r"(?:\r*$)"
_SHOWN = 80
"""Maximum characters of a pattern's part that a refusal repeats."""


class Pattern:
    """A compiled pattern. Thread-safe.

    Attributes:
        byte_seconds: maximum seconds of `find` per byte; a thousandth of it is usual.
    """

    def __init__(self, match: _Match, byte_seconds: float = 0.0) -> None:
        self.byte_seconds = byte_seconds
        self._match = match

    def find(self, data: bytes, start: int, end: int) -> tuple[int, int] | None:
        """Returns the leftmost match in `data[start:end]`, as positions in `data`; anchors see what is around it."""
        span = self._match(UNANCHORED, data, start, end)[0]
        return None if span[0] < 0 else span


def compile_pattern(pattern: str, *, literal: bool, ignore_case: bool) -> Pattern:
    """Compiles a pattern whose matches stay within a line; `^` and `$` are a line's ends, also before CR LF.

    Raises:
        CoatcheckError: `invalid_pattern` with RE2's reason, and what to write instead, if known.
    """
    if not pattern or len(pattern) > PATTERN_LIMIT:
        raise _invalid(f"A pattern must have 1 to {PATTERN_LIMIT:,} characters.")
    if "\n" in pattern:
        raise _invalid("A match stays within one line: search for the text of one line.")
    if not literal and _ANY_BYTE.search(pattern):
        raise _invalid("\\C is not supported: it could match half a character or a line's end. Use `.` instead.")
    ended = _DOLLAR.sub(lambda match: _LINE_END if match[0] == "$" else match[0], pattern)
    compiled = _compile_pattern(pattern if literal else ended, literal=literal, ignore_case=ignore_case)
    if not compiled.ok():
        compiled = _compile_pattern(
            pattern, literal=literal, ignore_case=ignore_case
        )  # a refusal quotes what was written
    if not compiled.ok():
        raise _refusal_of(bytes(compiled.error()))
    byte_seconds = max(1, int(compiled.ProgramSize())) * _STEP_SECONDS
    if byte_seconds * LEAST_PIECE > WORST_SECONDS:
        raise _invalid(
            "The pattern is too large to be searched within the time limit: "
            "use smaller repeat counts, or fewer repeated Unicode classes such as \\p{L}."
        )
    return Pattern(compiled.Match, byte_seconds)


def _compile_pattern(pattern: str, *, literal: bool, ignore_case: bool) -> Any:  # noqa: ANN401 - RE2's own type
    try:
        source = (pattern if literal else f"(?m){pattern}").encode()
    except UnicodeEncodeError:
        raise _invalid("The pattern has a lone surrogate, which no text contains.") from None
    return re2_compiled(
        source, MEMORY_LIMIT, never_nl=True, never_capture=True, literal=literal, case_sensitive=not ignore_case
    )


def wants_line_feed(pattern: str) -> bool:
    """Returns whether an expression needs a line's end, which a search line by line never matches."""
    return _LINE_FEED.search(_NEGATED.sub("", pattern)) is not None


def _refusal_of(reason: bytes) -> CoatcheckError:
    """Returns the refusal; RE2 names the part of the pattern where it stopped after a colon."""
    message = reason.decode("utf-8", "replace").replace("(?m)", "", 1)
    what, colon, part = message.partition(": ")
    quote = "".join(c if c.isprintable() else "\ufffd" for c in part[:_SHOWN]) + ("…" if len(part) > _SHOWN else "")
    inside = " in" if what.startswith(("missing", "unexpected")) else ""
    where = f'{inside} "{quote}"' if colon else ""
    return _invalid(f"The pattern is not valid: {what}{where}.{_hint(message, quote)}")


def _hint(message: str, part: str) -> str:
    """Returns what to write instead."""
    if _ELSEWHERE.match(message):
        return " Look-around and backreferences do not exist here (RE2 syntax): match more, and pick from the lines."
    if message.startswith("no argument for repetition"):
        return f" Write .{part[:1]} for any characters, or \\{part[:1]} for the sign itself."
    if message.startswith("bad repetition"):
        return " One repeat is enough; put a backslash before each sign that is meant as it is."
    if "too large" in message:
        return " Use smaller repeat counts."
    if message.startswith("invalid repetition size"):
        return " Use smaller repeat counts, at most 1,000 in all, and the lower one first."
    return " To search for the text as it is, use literal=true."


def _invalid(detail: str) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_PATTERN, detail)
