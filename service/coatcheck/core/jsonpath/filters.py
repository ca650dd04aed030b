"""The expressions of RFC 9535 filters as functions: paths, constants, comparisons and the five functions.

Strings are compared and measured in Unicode scalar values; booleans are not numbers. `parse.py` combines these.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, TypeGuard

from msgspec import Struct

from coatcheck.core.jsonpath.effort import Effort
from coatcheck.core.jsonpath.evaluate import NOTHING, Node, evaluate, is_array, is_object, value_at
from coatcheck.core.jsonpath.iregexp import compile_iregexp
from coatcheck.core.jsonpath.query import Filter, Segment

Term = Callable[[object, object, Effort], object]
"""Returns the value of a term for a node, in a document with this root; NOTHING if it has no value."""

FUNCTIONS: Final = {"length": "V", "count": "N", "match": "VV", "search": "VV", "value": "N"}
"""What each argument of a function must be: a value, or nodes."""


class Operand(Struct, frozen=True):
    """A side of a comparison, or a filter by itself."""

    value: Term
    holds: Filter | None = None
    """Whether it holds by itself; None if it must be compared."""
    refusal: str = ""
    """Why it must be compared, or cannot be."""
    nodes: Callable[[object, object, Effort], Iterable[Node]] | None = None
    """All nodes that a path finds."""

    @property
    def comparable(self) -> bool:
        """Whether it has at most one value, which can be compared."""
        return self.holds is None or not self.refusal


def constant(value: object) -> Operand:
    """Returns a text, number, true, false or null as an operand."""
    refusal = "a constant must be compared with something, for example @.status == 'failed'"
    return Operand(lambda _value, _root, _effort: value, refusal=refusal)


def path(segments: tuple[Segment, ...], *, absolute: bool) -> Operand:
    """Returns a path from the root (`$`), or from the node that is filtered (`@`)."""

    def nodes(value: object, root: object, effort: Effort) -> Iterable[Node]:
        return evaluate(segments, (None, root if absolute else value), root, effort)

    def holds(value: object, root: object, effort: Effort) -> bool:
        return next(iter(nodes(value, root, effort)), None) is not None

    def single(value: object, root: object, _effort: Effort) -> object:
        result = root if absolute else value
        for segment in segments:
            result = value_at(result, segment.selectors[0])
        return result

    singular = all(segment.singular for segment in segments)
    refusal = "" if singular else "only a path to a single value can be compared: no *, .., slices or filters in it"
    return Operand(single, holds, refusal, nodes)


def call(name: str, arguments: list[Operand]) -> Operand:
    """Returns a call of a function with arguments of suitable types."""
    of, nodes, must_be_compared = arguments[0].value, arguments[0].nodes, f"the result of {name}() must be compared"
    if name == "length":
        return Operand(lambda v, root, effort: _length(of(v, root, effort)), refusal=must_be_compared)
    if nodes is not None and name == "count":
        return Operand(lambda v, root, effort: sum(1 for _ in nodes(v, root, effort)), refusal=must_be_compared)
    if nodes is not None and name == "value":
        return Operand(lambda v, root, effort: _only(nodes(v, root, effort)), refusal=must_be_compared)
    pattern, whole = arguments[1].value, name == "match"

    def matches(value: object, root: object, effort: Effort) -> bool:
        return _matches(of(value, root, effort), pattern(value, root, effort), effort, whole=whole)

    return Operand(matches, matches, f"the result of {name}() cannot be compared")


def comparison(first: Term, operator: str, second: Term) -> Filter:
    """Returns a comparison of two values: `==`, `!=`, `<`, `<=`, `>` or `>=`."""
    if operator in {">", ">="}:
        first, second = second, first
    equal, expected, less = operator in {"==", "!=", "<=", ">="}, operator != "!=", operator not in {"==", "!="}

    def holds(value: object, root: object, effort: Effort) -> bool:
        a, b = first(value, root, effort), second(value, root, effort)
        return (less and _less(a, b)) or (equal and same(a, b, effort) is expected)

    return holds


def _length(value: object) -> object:
    return len(value) if isinstance(value, str) or is_array(value) or is_object(value) else NOTHING


def _only(nodes: Iterable[Node]) -> object:
    first = list(islice(nodes, 2))
    return first[0][1] if len(first) == 1 else NOTHING


def _matches(value: object, pattern: object, effort: Effort, *, whole: bool) -> bool:
    if not isinstance(value, str) or not isinstance(pattern, str):
        return False
    matcher = compile_iregexp(pattern, whole=whole)
    effort.spend(1 + len(value) // 64)
    return matcher is not None and matcher(value)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _less(first: object, second: object) -> bool:
    if _is_number(first) and _is_number(second):
        return first < second
    return isinstance(first, str) and isinstance(second, str) and first < second


def same(first: object, second: object, effort: Effort) -> bool:
    """Returns whether two values are equal as JSON values; iterative, however deep they are."""
    if isinstance(first, str):
        return isinstance(second, str) and first == second
    pairs = [(first, second)]
    while pairs:
        a, b = pairs.pop()
        effort.spend()
        if is_array(a):
            if not is_array(b) or len(a) != len(b):
                return False
            pairs.extend(zip(a, b, strict=True))
        elif is_object(a):
            if not is_object(b) or a.keys() != b.keys():
                return False
            pairs.extend((value, b[name]) for name, value in a.items())
        elif _is_number(a):
            if not _is_number(b) or a != b:
                return False
        elif type(a) is not type(b) or a != b:
            return False
    return True
