"""Translates I-Regexps (RFC 9485), the patterns of `match` and `search`, to RE2 patterns, which run in linear time.

The translation is not recursive, because a pattern may come from the document. What is not an I-Regexp matches nothing,
as RFC 9535 requires, and neither does what RE2 finds too large. `^` and `$` are anchors, as in the compliance suite of
RFC 9535.
"""

import re
from collections.abc import Callable
from typing import Final

from coatcheck.core.caches import remember
from coatcheck.core.text.re2_binding import PATTERN_BYTES, RE2, UNANCHORED, re2_compiled

PATTERN_LIMIT: Final = 1_000
"""Maximum characters of a pattern; a longer one matches nothing."""
_MEMORY_LIMIT: Final = 4 * 1024 * 1024
_PROGRAM_LIMIT: Final = 20_000
"""Maximum instructions of a compiled pattern."""

_CATEGORY = r"\\[pP]\{(?:L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|Z[lps]?|S[ckmo]?|C[cfno]?)\}"
_SINGLE = r"\\[()*+\-.?\[\\\]^nrt{|}]"
_ATOM: Final = re.compile(
    rf"(?P<category>{_CATEGORY})|(?P<single>{_SINGLE})|(?P<any>\.)|(?P<open>\()|(?P<close>\))|(?P<or>\|)"
    r"|(?P<class>\[)|(?P<quantifier>[*+?]|\{[0-9]+(?:,[0-9]*)?\})|(?P<plain>[^()*+.?\[\\\]{|}\ud800-\udfff])"
)
_CLASS: Final = re.compile(
    rf"\[\^?-?(?:{_CATEGORY}|(?:{_SINGLE}|[^\-\[\\\]\ud800-\udfff])(?:-(?:{_SINGLE}|[^\-\[\\\]\ud800-\udfff]))?)*-?\]"
)

Matcher = Callable[[str], bool]


def translate(pattern: str) -> str | None:  # noqa: C901 - one case for each kind of atom
    """Returns the pattern in RE2's syntax; None if it is not an I-Regexp."""
    if len(pattern) > PATTERN_LIMIT:
        return None
    out: list[str] = []
    depth = at = 0
    repeatable = False
    while at < len(pattern):
        atom = _ATOM.match(pattern, at)
        if atom is None:
            return None
        at = atom.end()
        text, kind = atom[0], atom.lastgroup
        if kind == "quantifier":
            if not repeatable:
                return None
        elif kind == "class":
            whole = _CLASS.match(pattern, atom.start())
            if whole is None or whole[0] in {"[]", "[^]"}:
                return None
            text, at = whole[0], whole.end()  # RE2 reads such a class in the same way
        elif kind in {"open", "close"}:
            depth += 1 if kind == "open" else -1
            if depth < 0:
                return None
            text = "(?:" if kind == "open" else ")"
        elif kind == "any":
            text = "[^\\n\\r]"
        repeatable = kind not in {"quantifier", "open", "or"}
        out.append(text)
    return "".join(out) if depth == 0 else None


@remember("patterns", 16, PATTERN_BYTES)
def compile_iregexp(pattern: str, *, whole: bool) -> Matcher | None:
    """Returns what decides whether a text matches: as a whole (`match`), or in part (`search`).

    None: nothing matches.
    """
    translated = translate(pattern)
    if translated is None:
        return None
    program = re2_compiled(translated.encode(), _MEMORY_LIMIT, never_capture=True)
    if not program.ok() or int(program.ProgramSize()) > _PROGRAM_LIMIT:
        return None
    anchor = RE2.Anchor.ANCHOR_BOTH if whole else UNANCHORED

    def matches(text: str) -> bool:
        data = text.encode("utf-8", "replace")
        return program.Match(anchor, data, 0, len(data))[0][0] >= 0

    return matches
