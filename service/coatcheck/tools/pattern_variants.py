"""What a model's pattern can mean: copied text, and text whose colours and overwritten beginnings it never saw.

A model copies a line of an answer into `pattern`. As a regular expression, `[main] done (3 ms)` means something else,
and may even match elsewhere. And what a model copies was shown without the terminal's colour codes, which are between
the words of the payload, and without what carriage returns overwrote at a line's beginning. This module only writes
such patterns; the caller decides which to try, and reports which it was.
"""

import re
from typing import Final

from coatcheck.core.grep.patterns import PATTERN_LIMIT

_META: Final = re.compile(r"[][(){}*+?|^$]")
_NO_EXPRESSION: Final = re.compile(r"^\||\|\s*$|\|\||\s\|\s")
"""An empty alternative, or one in spaces: nobody writes that in an expression, but tables and logs contain it."""
_QUOTED: Final = re.compile(r"[][(){}*+?|^$\\.]")
_COLOUR: Final = "\x1b\\[[\\d;]*[mK]"
"""Matches what sets a colour, or clears the rest of a line, as compilers do after each colour."""
_GAP: Final = f"({_COLOUR})*"
_SEEN_AS: Final = {"\\b": f"(?:\\b|{_COLOUR})", "^": "(?:^|\r)"}
"""What a word and a line begin with in the payload."""
_ATOM: Final = re.compile(
    r"\\[pP]\{[^}]*\}|\\x\{[^}]*\}|\\x[0-9A-Fa-f]{2}|\\.|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]"
    r"|\(\?P?<\w+>|\(\?[a-zA-Z-]*[:)]|.",
    re.DOTALL,
)
_REPEAT: Final = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})[?]?")


def is_copied(pattern: str) -> bool:
    """Returns whether a pattern makes sense only as copied text; then plain text is tried first."""
    return "\\" not in pattern and _NO_EXPRESSION.search(pattern) is not None


def or_plain(pattern: str) -> str:
    """Returns the pattern and the same as plain text in one expression.

    The pattern itself if there is no difference.
    """
    if "\\" in pattern or _META.search(pattern) is None:
        return pattern
    return _bounded(f"(?:{quoted(pattern)})|(?:{pattern})", pattern)


def through_colours(pattern: str, *, literal: bool) -> str | None:
    """Returns the pattern, or plain text, with colour codes wherever words begin and end, and frames where lines do.

    None if that makes no difference.

    Of plain text that is too long for a pattern, the beginning counts.
    """
    plain = _gapped(quoted(pattern), PATTERN_LIMIT)
    whole = plain
    if not literal:
        whole = _gapped(pattern)
        if "\\" not in pattern and _META.search(pattern) is not None:
            whole = _bounded(f"(?:{plain})|(?:{whole})", plain)
    return whole if _GAP in whole and len(whole) <= PATTERN_LIMIT else None


def quoted(text: str) -> str:
    """Returns an expression for the exact text."""
    return _QUOTED.sub(r"\\\g<0>", text)


def _bounded(wished: str, otherwise: str) -> str:
    return wished if len(wished) <= PATTERN_LIMIT else otherwise


def _gapped(pattern: str, limit: int | None = None) -> str:
    """Returns a pattern with gaps except between letters of one word, up to a number of characters."""
    out: list[str] = []
    at, word, size = 0, False, 0
    while at < len(pattern):
        atom = _ATOM.match(pattern, at)
        assert atom is not None  # noqa: S101 - any character is an atom
        text = atom[0]
        repeat = _REPEAT.match(pattern, atom.end())
        at = repeat.end() if repeat else atom.end()
        is_word = text.isalnum() or text == "_"
        if out and not (word and is_word) and text not in {"|", ")"} and out[-1] not in {"", _GAP}:
            out.append(_GAP)
        out.append(_SEEN_AS.get(text) or text + (repeat[0] if repeat else ""))
        if text == "|" or (text[0] == "(" and text[-1] != ")"):
            out.append("")  # nothing precedes what follows
        word = is_word
        size += len(out[-1]) + (len(_GAP) if out[-2:-1] == [_GAP] else 0)
        if limit is not None and size > limit - len(_GAP) - len(_COLOUR):
            break
    return "".join(out)
