r"""Reads one value of a call as it was meant: numbers from text, positions, IDs inside other text, patterns.

Models send "3" for 3, 3.0, "line 12", "null", an ID in brackets. What can only mean one thing is accepted as that; what
cannot be read is None, which the caller reports. Nothing here raises, whatever it is given.

A model copies a line of an answer into `pattern`. As a regular expression, `[main] done (3 ms)` means something else,
and may even match elsewhere. And models write the syntax of grep (`a\|b`) and JavaScript (`/a/i`), which RE2 accepts
with another meaning. This module only writes such patterns; the caller decides which to try, and reports which it was.
"""

import math
import re
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from coatcheck.core.grep.matcher import PATTERN_CHARS
from coatcheck.core.views.window import NUMBER_LIMIT

_NOTHING: Final = frozenset({"", "null", "none", "nil", "undefined", "n/a", "default"})
"""What models write for "not given"."""
_PLACEHOLDER: Final = frozenset({"…", "...", "<…>", "<...>"})
"""What a card shows where the reader's own text belongs."""
_COUNTED: Final = r"(?:lines?|rows?|match(?:es)?|hits?|results?|values?|items?)"
"""What a number may count, in the model's own words."""
_NUMBER: Final = re.compile(
    rf"([-+]?)([0-9][0-9,_ ]{{0,40}})(?:\.[0-9]{{0,20}})?(?:\s*{_COUNTED})?",
    re.IGNORECASE,
)
"""Also with the word for what is counted after it: `10 lines`."""
_POSITION: Final = re.compile(
    r"(?:lines?|l|#)?\s*(-?[0-9][0-9,_]{0,40})(?:\.0*)?(?:\s*\+\s*([0-9][0-9,_]{0,40}))?"
    r"(?:\s*(?:-|\u2013|\.\.|to|:|,)\s*l?([0-9][0-9,_]{0,40}))?",
    re.IGNORECASE,
)
"""`12`, `line 12`, `L12`, `12+4000` (bytes into the line), and ranges such as `12-40`."""
_ID: Final = re.compile(r"art[_ -]?((?:[0-9] ?){17}[0-9])(?![0-9])(?:#([A-Za-z0-9_.-]{1,64}))?", re.IGNORECASE)
"""An artifact ID anywhere in a text, also with blanks between its digits, and a section after it."""
_DIGITS: Final = re.compile(r"(?<![0-9])([0-9]{18})(?![0-9])(?:#([A-Za-z0-9_.-]{1,64}))?")
"""The 18 digits alone, where a model has left out the prefix."""
_LONE: Final = re.compile("[\ud800-\udfff]")
"""Halves of surrogate pairs, which no UTF-8 text can have."""
_MAX_DIGITS: Final = 16
"""Digits of the largest number that is exact in every JSON reader, 2^53. A longer one is beyond every limit."""
_SCANNED_CHARS: Final = 4_000
"""Characters of a text that are searched for an ID."""
_ID_MEMBERS: Final = ("artifact_id", "id", "artifact", "key", "uri")
"""Where an object that stands for an artifact has its ID."""


class ReadStart(Struct, frozen=True):
    """Where to start reading."""

    line: int
    """Counted from 1; negative from the end."""
    inside: int = 0
    """Bytes into that line."""
    last: int | None = None
    """The last line, if a range was given."""

    def __str__(self) -> str:
        return f"{self.line}+{self.inside}" if self.inside else str(self.line)


class Named(Struct, frozen=True):
    """An artifact as it was named in a call: not checked."""

    text: str
    section: str | None = None
    others: bool = False
    """Whether more than one was named."""


def text(value: object, *, joint: str = "|") -> str | None:
    """Returns any text that is not blank.

    Halves of surrogate pairs become U+FFFD; a list becomes one text, with `joint`.
    """
    if isinstance(value, list | tuple):
        return text(joint.join(texts(cast("object", value))[:50]))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    whole = _LONE.sub("\ufffd", value) if isinstance(value, str) else _number_text(value)
    return whole if whole.strip() else None


def texts(value: object) -> list[str]:
    """Returns the texts of a list; none for anything else."""
    if not isinstance(value, list | tuple):
        return []
    several: list[Any] = [v for v in value if isinstance(v, str) and v]  # pyright: ignore[reportUnknownVariableType]
    return several


def is_placeholder(value: object) -> bool:
    """Returns whether a value is the ellipsis that a card shows where the reader's own text belongs."""
    return isinstance(value, str) and value.strip() in _PLACEHOLDER


def is_none_word(value: object) -> bool:
    """Returns whether a text is what models write for "not given"."""
    return isinstance(value, str) and value.strip().lower() in _NOTHING


def is_nothing(value: object) -> bool:
    """Returns whether a value stands for nothing."""
    return value is None or value in ([], {}) or (isinstance(value, str) and value.strip().lower() in {"", "null"})


def integer(value: object) -> int | None:
    """Returns a whole number, in any of the ways that models write one.

    One beyond any payload is the largest sane number.
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
    """Returns whether a switch is on."""
    if isinstance(value, str):
        return value.strip().lower() in {"true", "yes", "1", "on", "i"}
    return bool(value)


def position(value: object) -> ReadStart | None:
    """Returns a line, a place inside one (`12+4000`), or a range of lines (`201-400`, a list of two)."""
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
        value: what was written; lists are searched, and so are objects with an ID.
        lists: maximum nesting of lists.
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
    # The full form first: 18 digits alone may also be a time stamp or another system's ID.
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


_META: Final = re.compile(r"[][(){}*+?|^$]")
"""Signs that make an expression differ from the same text."""
_NO_EXPRESSION: Final = re.compile(r"^\||\|\s*$|\|\||\s\|\s")
"""An empty alternative, or one in spaces: nobody writes that in an expression, but tables and logs contain it."""
_QUOTED: Final = re.compile(r"[][(){}*+?|^$\\.]")
"""Signs that need a backslash to stand for themselves."""
_ATOM: Final = re.compile(
    r"\\[pP]\{[^}]*\}|\\x\{[^}]*\}|\\x[0-9A-Fa-f]{2}|\\.|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]"
    r"|\(\?P?<\w+>|\(\?[a-zA-Z-]*[:)]|.",
    re.DOTALL,
)
"""The pieces of an expression that may not be torn apart: escapes, classes, openings of groups, single signs."""
_SWAPPED: Final = frozenset("|(){}+?")
"""Signs that basic regular expressions (POSIX.1-2024, 9.3, with GNU's additions) take for operators after a backslash,
and for themselves without one: the other way round than RE2."""
_BASIC: Final = re.compile(r"\\[|(){}+?<>]")
"""Escapes that only basic regular expressions use as operators."""
_DELIMITED: Final = re.compile(r"\s*/((?:[^/\\]|\\.)+)/([dgimsuvy]*)\s*", re.DOTALL)
"""Matches a regular expression literal of JavaScript, with its flags (ECMA-262, 22.2)."""


def is_copied(pattern: str) -> bool:
    """Returns whether a pattern makes sense only as copied text; then plain text is tried first."""
    return "\\" not in pattern and _NO_EXPRESSION.search(pattern) is not None


def other_spellings(pattern: str) -> list[tuple[str, bool]]:
    r"""Returns what a pattern means in the syntax of JavaScript and of grep, and whether it ignores case there.

    In grep's, once with all signs as grep reads them, and once with `\|` and the like as operators beside RE2's own,
    for a mixture. Empty for a pattern that is in neither syntax.
    """
    delimited = _DELIMITED.fullmatch(pattern)
    body = pattern if delimited is None else delimited[1].replace("\\/", "/")
    folds = delimited is not None and "i" in delimited[2]
    spellings = [] if delimited is None else [body]
    if _BASIC.search(body):
        spellings += [_read_as_basic(body, swap=True), _read_as_basic(body, swap=False)]
    return [(each, folds) for each in dict.fromkeys(spellings) if each != pattern and len(each) <= PATTERN_CHARS]


def _read_as_basic(pattern: str, *, swap: bool) -> str:
    """Returns a basic regular expression in RE2's syntax; without `swap`, bare operators stay operators."""
    out: list[str] = []
    for atom in _ATOM.finditer(pattern):
        text = atom[0]
        if len(text) == 2 and text[0] == "\\":  # noqa: PLR2004 - a backslash and a sign
            out.append(text[1] if text[1] in _SWAPPED else r"\b" if text[1] in "<>" else text)
        else:
            out.append("\\" + text if swap and text in _SWAPPED else text)
    return "".join(out)


def or_plain(pattern: str) -> str:
    """Returns the pattern and the same as plain text in one expression.

    The pattern itself if there is no difference.
    """
    if "\\" in pattern or _META.search(pattern) is None:
        return pattern
    return _choose_bounded(f"(?:{quote_text(pattern)})|(?:{pattern})", pattern)


def quote_text(text: str) -> str:
    """Returns an expression for the exact text."""
    return _QUOTED.sub(r"\\\g<0>", text)


def _choose_bounded(wished: str, otherwise: str) -> str:
    return wished if len(wished) <= PATTERN_CHARS else otherwise
