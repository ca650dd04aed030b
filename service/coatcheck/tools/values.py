r"""Reads single values of a tool call: numbers in text, positions, IDs inside other text, patterns.

Models send "3" or 3.0 for 3, "line 12", "null", or an ID in brackets. A value that can only have one meaning is
accepted with that meaning. For a value that cannot be read, these functions return None, and the caller reports it.
They never raise an exception.

Models also copy a line of an answer into `pattern`. As a regular expression, `[main] done (3 ms)` means something else
than the text, and may even match elsewhere. Other patterns are in the syntax of grep (`a\|b`) or JavaScript (`/a/i`),
which RE2 accepts with another meaning. This module only rewrites such patterns. The caller decides which of the
rewritten patterns to try, and reports which one it used.
"""

import math
import re
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from coatcheck.core.grep.matcher import PATTERN_CHARS
from coatcheck.core.views.window import NUMBER_LIMIT

_NOTHING: Final = frozenset({"", "null", "none", "nil", "undefined", "n/a", "default"})
"""Words that models write for an argument that is not given."""
_PLACEHOLDER: Final = frozenset({"…", "...", "<…>", "<...>"})
"""Placeholders that a card prints where the model must put its own text."""
_UNIT_WORDS: Final = r"(?:lines?|rows?|match(?:es)?|hits?|results?|values?|items?)"
"""Words that models write after a number for the things that it counts."""
_NUMBER: Final = re.compile(
    rf"([-+]?)([0-9][0-9,_ ]{{0,40}})(?:\.[0-9]{{0,20}})?(?:\s*{_UNIT_WORDS})?",
    re.IGNORECASE,
)
"""Matches a number, which may be followed by a unit: `10 lines`."""
_POSITION: Final = re.compile(
    r"(?:lines?|l|#)?\s*(-?[0-9][0-9,_]{0,40})(?:\.0*)?(?:\s*\+\s*([0-9][0-9,_]{0,40}))?"
    r"(?:\s*(?:-|\u2013|\.\.|to|:|,)\s*l?([0-9][0-9,_]{0,40}))?",
    re.IGNORECASE,
)
"""Matches `12`, `line 12`, `L12`, `12+4000` (4000 bytes into line 12), and ranges such as `12-40`."""
_ID: Final = re.compile(r"art[_ -]?((?:[0-9] ?){17}[0-9])(?![0-9])(?:#([A-Za-z0-9_.-]{1,64}))?", re.IGNORECASE)
"""Matches an artifact ID anywhere in a text, also with blanks between its digits, and captures a section after it."""
_DIGITS: Final = re.compile(r"(?<![0-9])([0-9]{18})(?![0-9])(?:#([A-Za-z0-9_.-]{1,64}))?")
"""Matches the 18 digits of an ID whose prefix the model has left out."""
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Matches a half of a surrogate pair, which UTF-8 cannot represent."""
_MAX_DIGITS: Final = 16
"""Maximum digits of a number: as many as 2^53 has, the largest integer that every JSON reader reads exactly. A longer
number exceeds every limit."""
_SCANNED_CHARS: Final = 4_000
"""Maximum characters of a text that are searched for an ID."""
_ID_MEMBERS: Final = ("artifact_id", "id", "artifact", "key", "uri")
"""Names of the member in which an object that stands for an artifact has the ID."""


class ReadStart(Struct, frozen=True):
    """The position at which to start reading."""

    line: int
    """Number of the line, counted from 1; a negative number counts from the end."""
    inside: int = 0
    """Offset in bytes inside that line."""
    last: int | None = None
    """Last line of the range; None: the call gave no range."""

    def __str__(self) -> str:
        start = f"{self.line}+{self.inside}" if self.inside else str(self.line)
        return start if self.last is None else f"{start}-{self.last}"


class Named(Struct, frozen=True):
    """A reference to an artifact as a call gave it. Nothing in it has been checked."""

    text: str
    section: str | None = None
    others: bool = False
    """Whether the call named further artifacts in the same argument."""


def text(value: object, *, joint: str = "|") -> str | None:
    """Returns a text, a number as text, or the first 50 texts of a list, joined by `joint`; otherwise None.

    A blank text also gives None. Each half of a surrogate pair becomes U+FFFD.
    """
    if isinstance(value, list | tuple):
        return text(joint.join(texts(cast("object", value))[:50]))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    whole = _LONE_SURROGATE.sub("\ufffd", value) if isinstance(value, str) else _number_text(value)
    return whole if whole.strip() else None


def texts(value: object) -> list[str]:
    """Returns the texts in a list that are not empty; an empty list for a value that is not a list."""
    if not isinstance(value, list | tuple):
        return []
    several: list[Any] = [v for v in value if isinstance(v, str) and v]  # pyright: ignore[reportUnknownVariableType]
    return several


def is_placeholder(value: object) -> bool:
    """Returns whether a value is the placeholder that a card prints where the model must put its own text."""
    return isinstance(value, str) and value.strip() in _PLACEHOLDER


def is_none_word(value: object) -> bool:
    """Returns whether a value is a word that models write for an argument that is not given."""
    return isinstance(value, str) and value.strip().lower() in _NOTHING


def is_nothing(value: object) -> bool:
    """Returns whether a value counts as absent: None, "null", or an empty text, list or object."""
    return value is None or value in ([], {}) or (isinstance(value, str) and value.strip().lower() in {"", "null"})


def integer(value: object) -> int | None:
    """Returns the whole number that a value stands for; None if it stands for none.

    A number beyond NUMBER_LIMIT, which exceeds any payload, becomes NUMBER_LIMIT.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return max(-NUMBER_LIMIT, min(value, NUMBER_LIMIT))
    if isinstance(value, float):
        return int(max(-NUMBER_LIMIT, min(value, NUMBER_LIMIT))) if math.isfinite(value) else None
    if isinstance(value, str) and not is_none_word(value):
        match = _NUMBER.fullmatch(value.strip())
        if match is not None:
            return -_digits(match[2]) if match[1] == "-" else _digits(match[2])
    return None


def truth(value: object) -> bool:
    """Returns whether a value stands for true."""
    if isinstance(value, str):
        return value.strip().lower() in {"true", "yes", "1", "on", "i"}
    return bool(value)


def position(value: object) -> ReadStart | None:
    """Returns the position that a value stands for; None if it stands for none.

    The value is a line, an offset inside a line (`12+4000`), or a range of lines (`201-400`, or a list of two numbers).
    """
    if isinstance(value, list | tuple):
        numbers = [integer(v) for v in value[:2]]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        first = numbers[0] if numbers else None
        return None if first is None else ReadStart(first, 0, numbers[1] if len(numbers) > 1 else None)
    if isinstance(value, str) and (match := _POSITION.fullmatch(value.strip())) is not None:
        first = _digits(match[1].lstrip("-")) * (-1 if match[1].startswith("-") else 1)
        inside = _digits(match[2]) if match[2] and first > 0 else 0
        return ReadStart(first, inside, _digits(match[3]) if match[3] else None)
    number = integer(value)
    return None if number is None else ReadStart(number)


def find_reference(value: object, *, lists: int = 2) -> Named | None:
    """Returns the artifact that a value names, with the section of a citation (`art_…#r3`); None if it names none.

    Args:
        value: the argument. Lists and objects with an ID are searched, too.
        lists: maximum nesting of lists and objects.
    """
    if isinstance(value, dict):
        members: dict[object, object] = value  # pyright: ignore[reportUnknownVariableType]
        member = next((members[name] for name in _ID_MEMBERS if name in members), None)
        return find_reference(member, lists=lists - 1) if lists else None
    if isinstance(value, list | tuple):
        inner: list[object] = [*value[:50]] if lists else []  # pyright: ignore[reportUnknownArgumentType]
        references = [each for each in (find_reference(item, lists=lists - 1) for item in inner) if each is not None]
        return (
            msgspec.structs.replace(references[0], others=len({n.text for n in references}) > 1) if references else None
        )
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18:
        return Named(f"art_{value:018d}")
    if not isinstance(value, str):
        return None
    short = value[:_SCANNED_CHARS]
    # Try the full form first: 18 digits alone may also be a time stamp or an ID of another system.
    for pattern in (_ID, _DIGITS):
        ids = pattern.findall(short)
        if ids:
            digits = [number.replace(" ", "") for number, _ in ids]
            return Named(f"art_{digits[0]}", ids[0][1] or None, others=len(set(digits)) > 1)
    return None


def _digits(number: str) -> int:
    digits = re.sub("[,_ ]", "", number).lstrip("0") or "0"
    return int(digits) if len(digits) <= _MAX_DIGITS else NUMBER_LIMIT


def _number_text(value: int | float) -> str:  # noqa: PYI041 - they are written differently
    if isinstance(value, int):
        return str(value) if abs(value) <= NUMBER_LIMIT else ""
    return str(int(value)) if math.isfinite(value) and value.is_integer() and abs(value) < NUMBER_LIMIT else str(value)


_OPERATORS: Final = re.compile(r"[][(){}*+?|^$]")
"""Matches an operator: without one, a regular expression matches its own text. A dot does not count."""
_TABLE_BARS: Final = re.compile(r"^\||\|\s*$|\|\||\s\|\s")
"""Matches a bar between spaces, or one that makes an empty alternative. Nobody writes such bars in a regular
expression, but tables and logs contain them."""
_SPECIAL: Final = re.compile(r"[][(){}*+?|^$\\.]")
"""Matches a character that stands for itself only after a backslash."""
_ATOM: Final = re.compile(
    r"\\[pP]\{[^}]*\}|\\x\{[^}]*\}|\\x[0-9A-Fa-f]{2}|\\.|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]"
    r"|\(\?P?<\w+>|\(\?[a-zA-Z-]*[:)]|.",
    re.DOTALL,
)
"""Matches a piece of a regular expression that must stay whole: an escape, a class, the opening of a group, or a single
character."""
_SWAPPED: Final = frozenset("|(){}+?")
"""Characters that basic regular expressions (POSIX.1-2024, 9.3, with GNU's additions) take for operators after a
backslash, and literally without one. RE2 does the opposite."""
_BASIC: Final = re.compile(r"\\[|(){}+?<>]")
"""Matches an escape that is an operator in basic regular expressions only."""
_DELIMITED: Final = re.compile(r"\s*/((?:[^/\\]|\\.)+)/([dgimsuvy]*)\s*", re.DOTALL)
"""Matches a regular expression literal of JavaScript, with its flags (ECMA-262, 22.2)."""


def is_copied(pattern: str) -> bool:
    """Returns whether a pattern was evidently copied from a text. The caller then searches for plain text first."""
    return "\\" not in pattern and _TABLE_BARS.search(pattern) is not None


def other_spellings(pattern: str) -> list[tuple[str, bool]]:
    r"""Returns RE2 patterns for a pattern in the syntax of JavaScript or grep, each with whether it ignores case.

    A pattern in grep's syntax gets two: in the first, only the escaped characters (`\|` and the like) are operators; in
    the second, RE2's own operators stay operators as well, for a mixture of both syntaxes. Returns an empty list for a
    pattern that is in neither syntax.
    """
    delimited = _DELIMITED.fullmatch(pattern)
    body = pattern if delimited is None else delimited[1].replace("\\/", "/")
    folds = delimited is not None and "i" in delimited[2]
    spellings = [] if delimited is None else [body]
    if _BASIC.search(body):
        spellings += [_read_as_basic(body, swap=True), _read_as_basic(body, swap=False)]
    return [(each, folds) for each in dict.fromkeys(spellings) if each != pattern and len(each) <= PATTERN_CHARS]


def _read_as_basic(pattern: str, *, swap: bool) -> str:
    """Returns a basic regular expression in RE2's syntax.

    If `swap` is true, operator characters without a backslash become literal; otherwise they stay operators.
    """
    out: list[str] = []
    for atom in _ATOM.finditer(pattern):
        text = atom[0]
        if len(text) == 2 and text[0] == "\\":  # noqa: PLR2004 - a backslash and a sign
            out.append(text[1] if text[1] in _SWAPPED else r"\b" if text[1] in "<>" else text)
        else:
            out.append("\\" + text if swap and text in _SWAPPED else text)
    return "".join(out)


def or_plain(pattern: str) -> str:
    """Returns an expression that matches a pattern or the pattern's own text.

    Returns the pattern itself if the two do not differ, if it has a backslash, or if the expression would be too long.
    """
    if "\\" in pattern or _OPERATORS.search(pattern) is None:
        return pattern
    return _choose_bounded(f"(?:{quote_text(pattern)})|(?:{pattern})", pattern)


def quote_text(text: str) -> str:
    """Returns an expression that matches exactly the given text."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def _choose_bounded(preferred: str, otherwise: str) -> str:
    return preferred if len(preferred) <= PATTERN_CHARS else otherwise
