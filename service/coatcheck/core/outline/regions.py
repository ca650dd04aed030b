"""Finds comments and strings that span lines in source: a line that begins inside one defines nothing.

It uses a few lexical facts per language, and no parser: only lines that may open such a region are read token by token,
from a place that is certainly code. A region that is never closed extends to the end. Linear in the bytes.
"""

import re
from typing import Final, final

from msgspec import Struct

from coatcheck.core.text.scan import BlockPattern

_LINE: Final = 4_000
"""Maximum bytes of a line that can open a region."""
_BLANKS: Final = 200
"""Maximum blanks before the last line of a here-document."""
_STRING: Final = r""""[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'?"""
_DOUBLE: Final = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'
_CHARACTER: Final = r"'(?:\\.[^'\n]{0,8}|[^'\\\n])'"
_HASH: Final = r"#[^\n]*+"
_SLASHES: Final = r"//[^\n]*+"


class _Region(Struct, frozen=True):
    """One kind of region."""

    opener: str
    """A pattern for both RE2 and `re`; what its group captures replaces `{}` in the closer."""
    closer: str
    """Plain text."""
    escapes: bool = False
    """Whether a backslash cancels the closer."""
    alone: bool = False
    """Whether the closer is a line of its own, after the opener's line."""


def _here(mark: str) -> _Region:
    return _Region(rf"""{mark}[ ]?["']?([A-Za-z_]\w*)["']?""", "{}", alone=True)


_C_COMMENT: Final = _Region(r"/\*", "*/")
_TRIPLE: Final = _Region('"""', '"""', escapes=True)
_SINGLE: Final = _Region("'''", "'''", escapes=True)
_LANGUAGES: Final[dict[str, tuple[str, tuple[_Region, ...]]]] = {
    "python": (rf"{_HASH}|{_STRING}", (_TRIPLE, _SINGLE)),
    "script": (rf"{_SLASHES}|{_STRING}", (_C_COMMENT, _Region("`", "`", escapes=True))),
    "go": (rf"{_SLASHES}|{_DOUBLE}|{_CHARACTER}", (_C_COMMENT, _Region("`", "`"))),
    "rust": (rf"{_SLASHES}|{_DOUBLE}|{_CHARACTER}", (_C_COMMENT, _Region(r'\bb?r(#{0,9})"', '"{}'))),
    "curly": (rf"{_SLASHES}|{_DOUBLE}|{_CHARACTER}", (_C_COMMENT, _TRIPLE, _Region('@"', '"'))),
    **dict.fromkeys(
        ("c", "header"),
        (rf"{_SLASHES}|{_DOUBLE}|{_CHARACTER}", (_C_COMMENT, _Region(r'R"([^()\\\s"]{0,16})\(', '){}"'))),
    ),
    "interface": (rf"{_HASH}|{_SLASHES}|{_STRING}", (_C_COMMENT, _TRIPLE)),
    "ruby": (rf"{_HASH}|{_STRING}", (_Region(r"^=begin\b", "\n=end"), _here("<<[-~]"))),
    "php": (rf"{_HASH}|{_SLASHES}|{_STRING}", (_C_COMMENT, _here("<<<"))),
    "shell": (r"(?<![^\s;(])#[^\n]*+", (_here(r"(?:^|[^<])<<-?"),)),
    "sql": (r"--[^\n]*+|'[^'\n]*+(?:''[^'\n]*+)*+'?", (_C_COMMENT, _Region(r"(\$\w{0,40}\$)", "{}"))),
    "lua": (rf"--(?!\[=*\[)[^\n]*+|{_STRING}", (_Region(r"(?:--)?\[(=*)\[", "]{}]"),)),
    "perl": (rf"{_HASH}|{_STRING}", (_Region(r"^=[abd-z]\w*", "\n=cut"), _here("<<~?"))),
    "elixir": (rf"{_HASH}|{_DOUBLE}", (_TRIPLE, _SINGLE)),
    "settings": (rf"{_HASH}|{_STRING}", (_TRIPLE, _SINGLE)),
    "any": ("(?!)", (_TRIPLE, _SINGLE, _Region(r"^[ \t]*/\*", "*/"))),
}
"""By language: a pattern of tokens that hide an opener on the same line, and the kinds of regions."""


class _Lexicon(Struct, frozen=True):
    """The compiled expressions of one language."""

    regions: tuple[_Region, ...]
    openers: BlockPattern
    tokens: re.Pattern[bytes]


def _lexicon(language: str) -> _Lexicon | None:
    if language not in _LANGUAGES:
        return None
    if language not in _LEXICONS:
        hiding, regions = _LANGUAGES[language]
        groups = [f"(?P<region{number}>{region.opener})" for number, region in enumerate(regions)]
        tokens = re.compile("|".join([*groups, hiding]).encode(), re.MULTILINE)
        _LEXICONS[language] = _Lexicon(regions, BlockPattern("|".join(region.opener for region in regions)), tokens)
    return _LEXICONS[language]


_LEXICONS: dict[str, _Lexicon] = {}


class _Word(Struct, frozen=True):
    """The last line of a here-document."""

    text: bytes

    def end(self, data: bytes, at: int) -> int:
        """Returns the offset after the word on the next line that begins with it, after blanks; -1 if there is none."""
        while (start := data.find(self.text, at)) >= 0:
            at = start + len(self.text)
            before = data.rfind(b"\n", max(0, start - _BLANKS), start)
            after = data[at : at + 1]
            alone = (before >= 0 or start < _BLANKS) and not data[before + 1 : start].strip(b" \t")
            if alone and not (after.isalnum() or after == b"_"):
                return at
        return -1


@final
class Regions:
    """The regions of source that comes in blocks of whole lines."""

    def __init__(self, language: str) -> None:
        self._lexicon = _lexicon(language)
        self._open: re.Pattern[bytes] | _Word | bytes | None = None

    def of(self, data: bytes) -> list[tuple[int, int]]:
        """Returns where regions begin and end in the next block, in order."""
        out: list[tuple[int, int]] = []
        lexicon = self._lexicon
        if lexicon is None:
            return out
        at = self._close(data, 0, 0, out) if self._open is not None else 0
        while at < len(data) and (candidate := lexicon.openers.find(data, at)) is not None:
            start = max(at, data.rfind(b"\n", at, candidate[1]) + 1)
            end = data.find(b"\n", candidate[1])
            end = len(data) if end < 0 else end
            tokens = lexicon.tokens.finditer(data, start, end) if end - start <= _LINE else iter(())
            opener = next((token for token in tokens if token.lastgroup is not None), None)  # not hidden by anything
            at = end if opener is None else self._enter(data, lexicon, opener, end, out)
        return out

    def _enter(
        self, data: bytes, lexicon: _Lexicon, opener: re.Match[bytes], line_end: int, out: list[tuple[int, int]]
    ) -> int:
        name = opener.lastgroup or ""
        kind = lexicon.regions[int(name.removeprefix("region"))]
        captured = opener[opener.re.groupindex[name] + 1] if "{}" in kind.closer else b""
        closer = kind.closer.encode().replace(b"{}", captured)
        if kind.alone:
            self._open = _Word(closer)
            return self._close(data, line_end, min(line_end + 1, len(data)), out)
        first = re.escape(closer[:1])
        rest = rb"|" + first + rb"(?!" + re.escape(closer[1:]) + rb")" if closer[1:] else b""
        slash, escaped = (rb"\\", rb"|\\.") if kind.escapes else (b"", b"")
        # An atomic group: Python before 3.11.5 matches possessive groups of alternatives wrongly.
        inside = rb"(?>(?s:[^" + first + slash + rb"]++" + escaped + rest + rb")*)"
        self._open = re.compile(inside + re.escape(closer)) if kind.escapes else closer
        return self._close(data, opener.start(), opener.end(), out)

    def _close(self, data: bytes, start: int, at: int, out: list[tuple[int, int]]) -> int:
        """Returns where the open region ends, at the latest at the end of `data`, and records it from `start` on."""
        closer = self._open
        if isinstance(closer, re.Pattern):
            match = closer.match(data, at)
            end = -1 if match is None else match.end()
        elif isinstance(closer, _Word):
            end = closer.end(data, at)
        else:
            end = data.find(closer or b"", at)
            end = -1 if end < 0 else end + len(closer or b"")
        if end >= 0:
            self._open = None
        out.append((start, len(data) if end < 0 else end))
        return out[-1][1]
