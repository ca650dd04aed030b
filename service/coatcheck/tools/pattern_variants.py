r"""What a model's pattern can mean: another program's syntax, or copied text.

A model copies a line of an answer into `pattern`. As a regular expression, `[main] done (3 ms)` means something else,
and may even match elsewhere. And models write the syntax of
grep (`a\|b`) and JavaScript (`/a/i`), which RE2 accepts with another meaning. This module only writes such patterns;
the caller decides which to try, and reports which it was.
"""

import re
from typing import Final

from coatcheck.core.grep.patterns import PATTERN_LIMIT

_META: Final = re.compile(r"[][(){}*+?|^$]")
_NO_EXPRESSION: Final = re.compile(r"^\||\|\s*$|\|\||\s\|\s")
"""An empty alternative, or one in spaces: nobody writes that in an expression, but tables and logs contain it."""
_QUOTED: Final = re.compile(r"[][(){}*+?|^$\\.]")
_ATOM: Final = re.compile(
    r"\\[pP]\{[^}]*\}|\\x\{[^}]*\}|\\x[0-9A-Fa-f]{2}|\\.|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]"
    r"|\(\?P?<\w+>|\(\?[a-zA-Z-]*[:)]|.",
    re.DOTALL,
)
_SWAPPED: Final = frozenset("|(){}+?")
"""Signs that basic regular expressions (POSIX.1-2024, 9.3, with GNU's additions) take for operators after a backslash,
and for themselves without one: the other way round than RE2."""
_BASIC: Final = re.compile(r"\\[|(){}+?<>]")
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
    return [(each, folds) for each in dict.fromkeys(spellings) if each != pattern and len(each) <= PATTERN_LIMIT]


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
    return wished if len(wished) <= PATTERN_LIMIT else otherwise
