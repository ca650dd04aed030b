"""Parses paths as callers write them: RFC 9535 queries to the letter, and RFC 6901 pointers (`/items/0/id`).

The parser checks that a query is well-typed, so that its evaluation cannot fail. It refuses paths that are much longer
or more deeply nested than people and models write them, because recursion follows the nesting.
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NoReturn

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath.filters import FUNCTIONS, Operand, call, comparison, constant, path
from coatcheck.core.jsonpath.query import (
    Filter,
    FilterSelector,
    IndexSelector,
    Name,
    Query,
    Segment,
    Selector,
    Slice,
    Wildcard,
)

PATH_CHARS: Final = 4_096
"""Maximum characters of a path."""
MAX_DEPTH: Final = 32
"""Maximum nesting of filters, parentheses and function calls."""
MAX_SEGMENTS: Final = 256
"""Maximum segments of one query."""
MAX_INTEGER: Final = 2**53 - 1
"""Largest integer in a path, and with a minus sign the smallest: every JSON implementation represents them exactly (RFC
9535 section 2.1)."""

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_SHORTHAND: Final = re.compile(r"\*|[A-Za-z_\u0080-\ud7ff\ue000-\U0010ffff][0-9A-Za-z_\u0080-\ud7ff\ue000-\U0010ffff]*")
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")
_NUMBER: Final = re.compile(r"(?:-?0|-?[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_FUNCTION: Final = re.compile(r"([a-z][a-z0-9_]*)\(")
_OPERATOR: Final = re.compile(r"==|!=|<=|>=|<|>")
_WORD: Final = re.compile(r"(true|false|null)(?![0-9A-Za-z_(])")
_HEX: Final = re.compile(r"u([0-9A-Fa-f]{4})")
_POINTER_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,15}")
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "/": "/", "\\": "\\"}
_WORDS: Final = {"true": True, "false": False, "null": None}
_HIGH: Final = range(0xD800, 0xDC00)
_LOW: Final = range(0xDC00, 0xE000)


def parse_path(text: str) -> Query:
    """Returns a path as a query.

    Raises:
        CoatcheckError: `invalid_path`; the message says what is wrong, and at which character.
    """
    if not text or len(text) > PATH_CHARS:
        raise CoatcheckError(Code.INVALID_PATH, f"A path must have 1 to {PATH_CHARS:,} characters.")
    if text.startswith("/"):
        return _pointer(text)
    if not text.startswith("$"):
        raise CoatcheckError(
            Code.INVALID_PATH,
            "A path begins with $ (JSONPath, for example $.items[0].id) or with / (JSON Pointer, /items/0/id). "
            "The whole document is $.",
        )
    return _Parser(text).whole()


def _pointer(text: str) -> Query:
    tokens = text[1:].split("/")
    if len(tokens) > MAX_SEGMENTS:
        raise CoatcheckError(Code.INVALID_PATH, f"A path must have at most {MAX_SEGMENTS} steps.")
    if re.search(r"~(?![01])", text):
        raise CoatcheckError(Code.INVALID_PATH, "In a JSON Pointer ~ is written ~0 and / is written ~1.")
    names = (
        Name(t.replace("~1", "/").replace("~0", "~"), int(t) if _POINTER_INDEX.fullmatch(t) else None) for t in tokens
    )
    return Query(tuple(Segment((name,)) for name in names))


class _Parser:
    """A recursive-descent parser of one path. Each method parses the part for which it is named, from `_at` on."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1
        self._depth = 0
        self._looks_at_root = False

    def whole(self) -> Query:
        segments = self._segments()
        if self._at != len(self._text):
            self._fail("expected a segment: .name, ..name or [...]")
        return Query(segments, self._looks_at_root)

    def _segments(self) -> tuple[Segment, ...]:
        out: list[Segment] = []
        while True:
            before = self._at
            descendant = self._take("..")
            if descendant and self._peek() != "[":
                selectors: tuple[Selector, ...] = (self._short(),)
            elif self._take("["):
                selectors = self._parse_brackets()
            elif self._take("."):
                selectors = (self._short(),)
            else:
                self._at = before  # blanks at the end are no part of the path
                return tuple(out)
            out.append(Segment(selectors, descendant))
            if len(out) > MAX_SEGMENTS:
                self._fail(f"a path must have at most {MAX_SEGMENTS} segments")

    def _short(self) -> Selector:
        match = self._match(_SHORTHAND)
        if match is None:
            self._fail("expected a name (letters, digits, _; any other name is written ['...']) or *")
        return Wildcard() if match[0] == "*" else Name(match[0])

    def _parse_brackets(self) -> tuple[Selector, ...]:
        out = [self._selector()]
        while not self._take("]"):
            if not self._take(","):
                self._fail("expected , or ]")
            out.append(self._selector())
        return tuple(out)

    def _selector(self) -> Selector:
        if self._take("*"):
            return Wildcard()
        if self._take("?"):
            with self._deeper():
                return FilterSelector(self._or())
        name = self._string()
        if name is not None:
            return Name(name)
        start = self._integer()
        if self._take(":"):
            stop = self._integer()
            return Slice(start, stop, self._integer() if self._take(":") else None)
        if start is None:
            self._fail("expected a quoted name, an index, a slice, * or ?")
        return IndexSelector(start)

    def _integer(self) -> int | None:
        match = self._token(_INTEGER)
        if match is None:
            return None
        text = match[0]
        if len(text) > len(str(MAX_INTEGER)) + 1 or abs(int(text)) > MAX_INTEGER:
            self._fail("an index must be within ±(2^53 - 1)")
        return int(text)

    def _or(self) -> Filter:
        parts = [self._and()]
        while self._take("||"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else lambda v, root, effort: any(part(v, root, effort) for part in parts)

    def _and(self) -> Filter:
        parts = [self._basic()]
        while self._take("&&"):
            parts.append(self._basic())
        return parts[0] if len(parts) == 1 else lambda v, root, effort: all(part(v, root, effort) for part in parts)

    def _basic(self) -> Filter:
        negated = self._take("!")
        if self._take("("):
            with self._deeper():
                holds = self._or()
            if not self._take(")"):
                self._fail("expected )")
        else:
            operand = self._operand()
            operator = None if negated else self._token(_OPERATOR)
            if operator is not None:
                self._check_comparable(operand)
                other_operand = self._operand()
                self._check_comparable(other_operand)
                return comparison(operand.value, operator[0], other_operand.value)
            if operand.holds is None:
                self._fail(operand.refusal)
            holds = operand.holds
        return (lambda v, root, effort: not holds(v, root, effort)) if negated else holds

    def _check_comparable(self, operand: Operand) -> None:
        if not operand.comparable:
            self._fail(operand.refusal)

    def _operand(self) -> Operand:
        if self._take("@"):
            return path(self._segments(), absolute=False)
        if self._take("$"):
            self._looks_at_root = True
            return path(self._segments(), absolute=True)
        text = self._string()
        if text is not None:
            return constant(text)
        word = self._match(_WORD)
        if word is not None:
            return constant(_WORDS[word[1]])
        function = self._match(_FUNCTION)
        if function is not None:
            return self._call(function[1])
        number = self._match(_NUMBER)
        if number is None:
            self._fail("expected @, $, a constant, a function or (")
        return constant(float(number[0]) if number[1] or number[2] else _int(number[0]))

    def _call(self, name: str) -> Operand:
        kinds = FUNCTIONS.get(name)
        if kinds is None:
            self._fail(f"there is no function {name}(); there are {', '.join(FUNCTIONS)}")
        arguments: list[Operand] = []
        with self._deeper():
            while not self._take(")"):
                if arguments and not self._take(","):
                    self._fail("expected , or )")
                arguments.append(self._operand())
        if len(arguments) != len(kinds):
            self._fail(f"{name}() takes {len(kinds)} argument{'s' if len(kinds) > 1 else ''}")
        for argument, kind in zip(arguments, kinds, strict=True):
            if kind == "V":
                self._check_comparable(argument)
            elif argument.nodes is None:
                self._fail(f"the argument of {name}() must be a path")
        return call(name, arguments)

    def _string(self) -> str | None:
        quote = next((q for q in ("'", '"') if self._take(q)), None)
        if quote is None:
            return None
        out: list[str] = []
        while (c := self._peek()) != quote:
            self._at += 1
            if c == "\\":
                c = self._escape(quote)
            elif c < " " or "\ud800" <= c <= "\udfff":
                self._at -= 1
                self._fail("a control character in a quoted text must be escaped" if c else "a quoted text has no end")
            out.append(c)
        self._at += 1
        return "".join(out)

    def _escape(self, quote: str) -> str:
        c = self._peek()
        if c == quote or c in _ESCAPES:
            self._at += 1
            return _ESCAPES.get(c, c)
        unit = self._hex()
        if unit in _HIGH and self._peek() == "\\":
            self._at += 1
            low = self._hex()
            if low in _LOW:
                return chr(0x10000 + ((unit - _HIGH.start) << 10) + (low - _LOW.start))
        if unit in _HIGH or unit in _LOW:
            self._fail("half of a surrogate pair is no character")
        return chr(unit)

    def _hex(self) -> int:
        match = self._match(_HEX)
        if match is None:
            self._fail("unknown escape; write \\\\ for a backslash")
        return int(match[1], 16)

    def _take(self, word: str) -> bool:
        """Skips blanks, and then `word` if it follows; returns whether it followed."""
        self._match(_BLANK)
        is_next = self._text.startswith(word, self._at)
        self._at += len(word) if is_next else 0
        return is_next

    def _token(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self._match(_BLANK)
        return self._match(pattern)

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        self._at = self._at if match is None else match.end()
        return match

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    @contextmanager
    def _deeper(self) -> Generator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"filters, parentheses and functions must be nested at most {MAX_DEPTH} deep")
        yield
        self._depth -= 1

    def _fail(self, why: str) -> NoReturn:
        raise CoatcheckError(
            Code.INVALID_PATH,
            f"The path is not valid at character {self._at}: {why}. Names with other characters are quoted, for "
            "example $['my key'][0]; a filter is $.items[?@.status == 'failed'].",
            position=self._at,
        )


def _int(text: str) -> int | float:
    """Returns an integer constant. A very long integer becomes the nearest double, as in most JSON readers."""
    return int(text) if len(text) <= 400 else float(text)  # noqa: PLR2004 - beyond 308 digits there are only infinities
