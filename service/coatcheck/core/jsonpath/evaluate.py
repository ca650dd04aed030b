"""RFC 9535 over values in memory, lazily, node by node, with a count of steps that a caller's budget stops.

Recursion follows the path, which is bounded, and never the document. It parses nothing, and `Effort`
is handed in. Strings are compared and measured in Unicode scalar values, booleans are no numbers.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeGuard, cast

from coatcheck.core.jsonpath.iregexp import compiled
from coatcheck.core.jsonpath.location import Location
from coatcheck.core.jsonpath.query import (
    All,
    Comparable,
    Compare,
    Expression,
    FilterSelector,
    FunctionCall,
    IndexSelector,
    Literal,
    Name,
    Not,
    Query,
    Segment,
    Selector,
    Slice,
    Some,
    Test,
    Wildcard,
)

Node = tuple[Location, object]
_STEPS: Final = 512
"""Steps between two looks at the clock."""


class OutOfEffortError(Exception):
    """The budget of steps or time is spent."""


class Effort:
    """How much time an evaluation may take: `spend` is called for each node that is looked at."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        """Begin now."""
        self._clock = clock
        self._until = clock() + seconds
        self._left = _STEPS

    def at_most(self, seconds: float) -> None:
        """Leave no more than that."""
        self._until = min(self._until, self._clock() + seconds)

    def spend(self, steps: int = 1) -> None:
        """Note steps.

        Raises:
            OutOfEffortError: when time is over, which is looked at once in a while.
        """
        self._left -= steps
        if self._left <= 0:
            self._left = _STEPS
            if self._clock() > self._until:
                raise OutOfEffortError


NOTHING: Final = object()
"""What a comparable is that has no value: equal to itself alone."""


def evaluate(segments: tuple[Segment, ...], node: Node, root: object, effort: Effort) -> Iterable[Node]:
    """The nodes that the segments lead to from a node, in the RFC's order.

    Raises:
        OutOfEffortError: here or while iterating, when the budget is spent.
    """
    for at, segment in enumerate(segments):
        if not segment.singular:
            return _spread(segments, at, node, root, effort)
        effort.spend()
        found = _child(node, segment.selectors[0])
        if found is None:
            return ()
        node = found
    return (node,)


def _spread(segments: tuple[Segment, ...], at: int, node: Node, root: object, effort: Effort) -> Iterator[Node]:
    """Yields the nodes that segments from `at` on lead to from a node."""
    segment, rest = segments[at], segments[at + 1 :]
    for visited in _descendants(node, effort) if segment.descendant else (node,):
        for selector in segment.selectors:
            for found in _select(visited, selector, root, effort):
                if rest:
                    yield from evaluate(rest, found, root, effort)
                else:
                    yield found


def is_array(value: object) -> TypeGuard[list[object]]:
    """Whether a value is a JSON array."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a value is a JSON object."""
    return isinstance(value, dict)


def _child(node: Node, selector: Selector) -> Node | None:
    location, value = node
    found = _value_at(value, selector)
    if found is NOTHING:
        return None
    if is_object(value):
        return (location, cast("Name", selector).name), found
    index = cast("Name | IndexSelector", selector).index or 0
    return (location, index if index >= 0 else index + len(cast("list[object]", value))), found


def _value_at(value: object, selector: Selector) -> object:
    """The value of a member or element; NOTHING where there is none."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return members.get(selector.name, NOTHING) if isinstance(selector, Name) else NOTHING
    index = cast("Name | IndexSelector", selector).index if isinstance(value, list) else None
    if index is None:
        return NOTHING
    elements = cast("list[object]", value)
    return elements[index] if -len(elements) <= index < len(elements) else NOTHING


def _children(node: Node) -> Iterator[Node]:
    location, value = node
    if is_object(value):
        for name, member in value.items():
            yield (location, name), member
    elif is_array(value):
        for index, element in enumerate(value):
            yield (location, index), element


def _descendants(node: Node, effort: Effort) -> Iterator[Node]:
    """The node and everything below it, parents first, in document order; a stack instead of recursion."""
    stack = [iter((node,))]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
            continue
        effort.spend()
        yield found
        if isinstance(found[1], dict | list):
            stack.append(_children(found))


def _select(node: Node, selector: Selector, root: object, effort: Effort) -> Iterator[Node]:
    match selector:
        case Wildcard():
            for child in _children(node):
                effort.spend()
                yield child
        case FilterSelector():
            for child in _children(node):
                effort.spend()
                if holds(selector.expression, child[1], root, effort):
                    yield child
        case Slice():
            location, value = node
            if is_array(value):
                for index in selector.of(len(value)):
                    effort.spend()
                    yield (location, index), value[index]
        case _:
            effort.spend()
            found = _child(node, selector)
            if found is not None:
                yield found


# -------------------------------------------------------------------------------------------------- expressions


def holds(expression: Expression, current: object, root: object, effort: Effort) -> bool:
    """Whether a filter's expression holds for a value, in a document with this root."""
    match expression:
        case Compare():
            return _compare(expression, current, root, effort)
        case Test():
            if isinstance(expression.of, FunctionCall):
                return _value(expression.of, current, root, effort) is True
            return next(iter(_nodes(expression.of, current, root, effort)), None) is not None
        case Not():
            return not holds(expression.of, current, root, effort)
        case All():
            return all(holds(e, current, root, effort) for e in expression.of)
        case Some():
            return any(holds(e, current, root, effort) for e in expression.of)


def _compare(of: Compare, current: object, root: object, effort: Effort) -> bool:
    left, right = _value(of.left, current, root, effort), _value(of.right, current, root, effort)
    if of.operator in {"==", "!="}:
        return same(left, right, effort) is (of.operator == "==")
    if of.operator in {">", ">="}:
        left, right = right, left
    return _less(left, right) or (of.operator in {"<=", ">="} and same(left, right, effort))


def _nodes(query: Query, current: object, root: object, effort: Effort) -> Iterable[Node]:
    return evaluate(query.segments, (None, root if query.absolute else current), root, effort)


def _value(of: Comparable, current: object, root: object, effort: Effort) -> object:
    """What a comparable is for a value; NOTHING where it has no value."""
    match of:
        case Query():  # of which RFC 9535 lets only singular ones be compared
            value = root if of.absolute else current
            for segment in of.segments:
                value = _value_at(value, segment.selectors[0])
            return value
        case Literal():
            return of.value
        case FunctionCall():
            return _call(of, current, root, effort)


def _call(call: FunctionCall, current: object, root: object, effort: Effort) -> object:
    if call.name in {"count", "value"}:
        found = _nodes(cast("Query", call.arguments[0]), current, root, effort)
        if call.name == "count":
            return sum(1 for _ in found)
        first = list(islice(found, 2))
        return first[0][1] if len(first) == 1 else NOTHING
    of, *pattern = (_value(argument, current, root, effort) for argument in call.arguments)
    if call.name == "length":
        return len(of) if isinstance(of, str) or is_array(of) or is_object(of) else NOTHING
    if not isinstance(of, str) or not isinstance(pattern[0], str):
        return False
    matcher = compiled(pattern[0], whole=call.name == "match")
    effort.spend(1 + len(of) // 64)
    return matcher is not None and matcher(of)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _less(left: object, right: object) -> bool:
    if _is_number(left) and _is_number(right):
        return left < right
    return isinstance(left, str) and isinstance(right, str) and left < right


def same(left: object, right: object, effort: Effort) -> bool:
    """Whether two values are equal as JSON values; iterative, however deep they are."""
    if isinstance(left, str):
        return isinstance(right, str) and left == right
    pairs = [(left, right)]
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
