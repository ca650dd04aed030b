"""Paths as callers write them: RFC 9535 queries to the letter, and RFC 6901 pointers (`/items/0/id`).

Well-typedness is checked here, so that an evaluation cannot fail. It refuses what is longer or nested deeper than
any path that a person or a model writes, because its own recursion follows the nesting.
"""

import re
from typing import Final, NoReturn, cast

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath.query import (
    All,
    Comparable,
    Compare,
    Expression,
    FilterSelector,
    Function,
    FunctionCall,
    IndexSelector,
    Literal,
    Name,
    Not,
    Operator,
    Query,
    Segment,
    Selector,
    Slice,
    Some,
    Test,
    Wildcard,
)

PATH_LIMIT: Final = 4_096
"""Characters of a path."""
DEPTH_LIMIT: Final = 32
"""Filters, parentheses and function calls inside one another."""
SEGMENT_LIMIT: Final = 256
"""Segments of one query."""
INTEGER_LIMIT: Final = 2**53 - 1
"""RFC 9535 section 2.1: integers that every JSON implementation represents exactly."""

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_SHORTHAND: Final = re.compile(r"[A-Za-z_\u0080-\ud7ff\ue000-\U0010ffff][0-9A-Za-z_\u0080-\ud7ff\ue000-\U0010ffff]*")
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")
_NUMBER: Final = re.compile(r"(?:-?0|-?[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_FUNCTION: Final = re.compile(r"([a-z][a-z0-9_]*)\(")
_OPERATOR: Final = re.compile(r"==|!=|<=|>=|<|>")
_WORD: Final = re.compile(r"(true|false|null)(?![0-9A-Za-z_(])")
_PLAIN: Final = re.compile(r"[^\\'\"\x00-\x1f\ud800-\udfff]+")
_HEX: Final = re.compile(r"u([0-9A-Fa-f]{4})")
_POINTER_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,15}")
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "/": "/", "\\": "\\"}
_WORDS: Final = {"true": True, "false": False, "null": None}
_FUNCTIONS: Final = {"length": "V", "count": "N", "match": "VV", "search": "VV", "value": "N"}
"""What each argument must be: a value, or nodes."""
_LOGICAL: Final = frozenset({"match", "search"})
_HIGH: Final = range(0xD800, 0xDC00)
_LOW: Final = range(0xDC00, 0xE000)


def parse_path(path: str) -> Query:
    """A path as a query.

    Raises:
        CoatcheckError: `invalid_path`, saying where and what is wrong.
    """
    if not path or len(path) > PATH_LIMIT:
        raise _error(f"A path must have 1 to {PATH_LIMIT:,} characters.")
    if path.startswith("/"):
        return _pointer(path)
    if not path.startswith("$"):
        raise _error(
            "A path begins with $ (JSONPath, for example $.items[0].id) or with / (JSON Pointer, /items/0/id). "
            "The whole document is $."
        )
    return _Parser(path).whole()


def _pointer(path: str) -> Query:
    tokens = path[1:].split("/")
    if len(tokens) > SEGMENT_LIMIT:
        raise _error(f"A path must have at most {SEGMENT_LIMIT} steps.")
    segments: list[Segment] = []
    for token in tokens:
        if re.search(r"~(?![01])", token):
            raise _error("In a JSON Pointer ~ is written ~0 and / is written ~1.")
        name = token.replace("~1", "/").replace("~0", "~")
        index = int(token) if _POINTER_INDEX.fullmatch(token) else None
        segments.append(Segment((Name(name, index),)))
    return Query(tuple(segments))


class _Parser:
    """Recursive descent over one path; each method takes what it is named for, from where the parser stands."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def whole(self) -> Query:
        self._at = 1
        query = Query(self._segments())
        if self._at != len(self._text):
            self._fail("expected a segment: .name, ..name or [...]")
        return query

    # ------------------------------------------------------------------------------------------------- segments

    def _segments(self) -> tuple[Segment, ...]:
        out: list[Segment] = []
        while True:
            before = self._at
            self._blank()
            segment = self._segment()
            if segment is None:
                self._at = before
                return tuple(out)
            out.append(segment)
            if len(out) > SEGMENT_LIMIT:
                self._fail(f"a path must have at most {SEGMENT_LIMIT} segments")

    def _segment(self) -> Segment | None:
        if self._take(".."):
            return Segment(self._bracketed() if self._peek() == "[" else (self._short(),), descendant=True)
        if self._take("."):
            return Segment((self._short(),))
        return Segment(self._bracketed()) if self._peek() == "[" else None

    def _short(self) -> Selector:
        if self._take("*"):
            return Wildcard()
        found = self._match(_SHORTHAND)
        if found is None:
            self._fail("expected a name (letters, digits, _; any other name is written ['...']) or *")
        return Name(found[0])

    def _bracketed(self) -> tuple[Selector, ...]:
        self._take("[")
        out: list[Selector] = []
        while True:
            self._blank()
            out.append(self._selector())
            self._blank()
            if self._take("]"):
                return tuple(out)
            if not self._take(","):
                self._fail("expected , or ]")

    def _selector(self) -> Selector:
        c = self._peek()
        if c in {"'", '"'}:
            return Name(self._string())
        if self._take("*"):
            return Wildcard()
        if self._take("?"):
            self._deeper()
            self._blank()
            expression = self._or()
            self._depth -= 1
            return FilterSelector(expression)
        start = self._integer()
        before = self._at
        self._blank()
        if self._take(":"):
            return self._slice(start)
        self._at = before
        if start is None:
            self._fail("expected a quoted name, an index, a slice, * or ?")
        return IndexSelector(start)

    def _slice(self, start: int | None) -> Slice:
        self._blank()
        stop = self._integer()
        if stop is not None:
            self._blank()
        step = None
        if self._take(":"):
            before = self._at
            self._blank()
            step = self._integer()
            if step is None:
                self._at = before
        return Slice(start, stop, step)

    def _integer(self) -> int | None:
        found = self._match(_INTEGER)
        if found is None:
            return None
        text = found[0]
        if len(text) > len(str(INTEGER_LIMIT)) + 1 or abs(int(text)) > INTEGER_LIMIT:
            self._fail("an index must be within ±(2^53 - 1)")
        return int(text)

    # ---------------------------------------------------------------------------------------------- expressions

    def _or(self) -> Expression:
        parts = [self._and()]
        while self._joined("||"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def _and(self) -> Expression:
        parts = [self._basic()]
        while self._joined("&&"):
            parts.append(self._basic())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _joined(self, word: str) -> bool:
        before = self._at
        self._blank()
        if not self._take(word):
            self._at = before
            return False
        self._blank()
        return True

    def _basic(self) -> Expression:
        negated = self._take("!")
        if negated:
            self._blank()
        if self._take("("):
            self._deeper()
            self._blank()
            inner = self._or()
            self._blank()
            if not self._take(")"):
                self._fail("expected )")
            self._depth -= 1
            return Not(inner) if negated else inner
        left = self._comparable()
        if negated:
            return Not(self._test(left))
        before = self._at
        self._blank()
        found = self._match(_OPERATOR)
        if found is None:
            self._at = before
            return self._test(left)
        operator = cast("Operator", found[0])
        self._check_value(left)
        self._blank()
        right = self._comparable()
        self._check_value(right)
        return Compare(operator, left, right)

    def _test(self, of: Comparable) -> Test:
        if isinstance(of, Literal):
            self._fail("a constant must be compared with something, for example @.status == 'failed'")
        if isinstance(of, FunctionCall) and of.name not in _LOGICAL:
            self._fail(f"the result of {of.name}() must be compared")
        return Test(of)

    def _check_value(self, of: Comparable) -> None:
        if isinstance(of, Query) and not of.singular:
            self._fail("only a path to a single value can be compared: no *, .., slices or filters in it")
        if isinstance(of, FunctionCall) and of.name in _LOGICAL:
            self._fail(f"the result of {of.name}() cannot be compared")

    def _comparable(self) -> Comparable:
        c = self._peek()
        if c in {"$", "@"}:
            self._at += 1
            return Query(self._segments(), absolute=c == "$")
        if c in {"'", '"'}:
            return Literal(self._string())
        word = self._match(_WORD)
        if word is not None:
            return Literal(_WORDS[word[1]])
        call = self._match(_FUNCTION)
        if call is not None:
            return self._call(call[1])
        number = self._match(_NUMBER)
        if number is None:
            self._fail("expected @, $, a constant, a function or (")
        if number[1] or number[2]:
            return Literal(float(number[0]))
        return Literal(_int(number[0]))

    def _call(self, name: str) -> FunctionCall:
        wanted = _FUNCTIONS.get(name)
        if wanted is None:
            self._fail(f"there is no function {name}(); there are {', '.join(_FUNCTIONS)}")
        self._deeper()
        arguments: list[Comparable] = []
        self._blank()
        while not self._take(")"):
            if arguments:
                if not self._take(","):
                    self._fail("expected , or )")
                self._blank()
            arguments.append(self._comparable())
            self._blank()
        self._depth -= 1
        if len(arguments) != len(wanted):
            self._fail(f"{name}() takes {len(wanted)} argument{'s' if len(wanted) > 1 else ''}")
        for argument, kind in zip(arguments, wanted, strict=True):
            if kind == "V":
                self._check_value(argument)
            elif not isinstance(argument, Query):
                self._fail(f"the argument of {name}() must be a path")
        return FunctionCall(cast("Function", name), tuple(arguments))

    # --------------------------------------------------------------------------------------------------- tokens

    def _string(self) -> str:
        quote = self._text[self._at]
        self._at += 1
        out: list[str] = []
        while True:
            plain = self._match(_PLAIN)
            if plain is not None:
                out.append(plain[0])
            c = self._peek()
            if c == quote:
                self._at += 1
                return "".join(out)
            if c == "\\":
                self._at += 1
                out.append(self._escape(quote))
            elif c and c in "'\"":
                self._at += 1
                out.append(c)
            else:
                self._fail("a control character in a quoted text must be escaped" if c else "a quoted text has no end")

    def _escape(self, quote: str) -> str:
        c = self._peek()
        if c == quote or c in _ESCAPES:
            self._at += 1
            return _ESCAPES.get(c, c)
        unit = self._hex()
        if unit in _HIGH and self._take("\\"):
            low = self._hex()
            if low in _LOW:
                return chr(0x10000 + ((unit - _HIGH.start) << 10) + (low - _LOW.start))
        if unit in _HIGH or unit in _LOW:
            self._fail("half of a surrogate pair is no character")
        return chr(unit)

    def _hex(self) -> int:
        found = self._match(_HEX)
        if found is None:
            self._fail("unknown escape; write \\\\ for a backslash")
        return int(found[1], 16)

    def _blank(self) -> None:
        self._match(_BLANK)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, word: str) -> bool:
        found = self._text.startswith(word, self._at)
        if found:
            self._at += len(word)
        return found

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            self._fail(f"filters, parentheses and functions must be nested at most {DEPTH_LIMIT} deep")

    def _fail(self, why: str) -> NoReturn:
        raise CoatcheckError(
            Code.INVALID_PATH,
            f"The path is not valid at character {self._at}: {why}. Names with other characters are quoted, for "
            "example $['my key'][0]; a filter is $.items[?@.status == 'failed'].",
            position=self._at,
        )


def _int(text: str) -> int | float:
    """An integer constant; a very long one as the nearest double, as JSON readers have it."""
    return int(text) if len(text) <= 400 else float(text)  # noqa: PLR2004 - beyond 308 digits there are only infinities


def _error(detail: str) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_PATH, detail)
