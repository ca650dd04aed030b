"""RFC 9535 over values in memory, lazily, node by node, with a count of steps that a caller's budget stops.

Recursion follows the path, which is bounded, and never the document. It parses nothing and reads no clock: `Effort`
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


class OutOfEffortError(Exception):
    """The budget of steps or time is spent."""


class Effort:
    """How much work an evaluation may be, and what it makes once. `spend` is called for each node that is looked at."""

    def __init__(self, over: Callable[[], bool], every: int = 512) -> None:
        """Make a budget that asks `over` whether it is spent, once in `every` steps."""
        self._over = over
        self._every = every
        self._left = every
        self.conditions: dict[int, tuple[Expression, Condition]] = {}
        """Filters' expressions as functions, by identity; the expressions are held, so that none takes another's."""

    def spend(self, steps: int = 1) -> None:
        """Note steps.

        Raises:
            OutOfEffortError: when the budget is spent.
        """
        self._left -= steps
        if self._left <= 0:
            self._left = self._every
            if self._over():
                raise OutOfEffortError


class Nothing:
    """The result of a comparable that has no value. Equal to itself alone."""


NOTHING: Final = Nothing()


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
    """The same from segment `at` on, which may lead to several nodes."""
    segment, rest = segments[at], segments[at + 1 :]
    for visited in _descendants(node, effort) if segment.descendant else (node,):
        for selector in segment.selectors:
            for found in _select(visited, selector, root, effort):
                if rest:
                    yield from evaluate(rest, found, root, effort)
                else:
                    yield found


def leading(segments: tuple[Segment, ...]) -> Callable[[object], Node | None] | None:
    """A function that follows segments which lead to one node at most; None for any others.

    For many values it is far cheaper than `evaluate`. It counts no effort: its work is bounded by the path.
    """
    if not all(segment.singular for segment in segments):
        return None
    selectors = tuple(segment.selectors[0] for segment in segments)
    first = selectors[0] if selectors else None
    if len(selectors) == 1 and isinstance(first, Name):
        return _member(first)

    def follow(value: object) -> Node | None:
        node: Node | None = (None, value)
        for selector in selectors:
            node = _child(node, selector)
            if node is None:
                return None
        return node

    return follow


def _member(step: Name) -> Callable[[object], Node | None]:
    name, location = step.name, (None, step.name)

    def follow(value: object) -> Node | None:
        if not isinstance(value, dict):
            return _child((None, value), step)
        found = cast("dict[str, object]", value).get(name, NOTHING)
        return None if found is NOTHING else (location, found)

    return follow


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
            holds = condition(selector.expression, effort)
            for child in _children(node):
                effort.spend()
                if holds(child[1], root, effort):
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

# A filter is asked of every record, so it is made into functions once: telling its parts apart would take more time
# than they do.
Condition = Callable[[object, object, Effort], bool]
"""Whether an expression holds for a value, in a document with this root."""
_Reading = Callable[[object, object, Effort], object]
"""What a comparable is for a value, in a document with this root; NOTHING where it has no value."""


def condition(expression: Expression, effort: Effort) -> Condition:
    """The function of a filter's expression; made once for an evaluation, for a filter may stand in another one."""
    made = effort.conditions.get(id(expression))
    if made is None:
        made = effort.conditions[id(expression)] = expression, _condition(expression)
    return made[1]


def _condition(expression: Expression) -> Condition:
    match expression:
        case Compare():
            return _comparison(expression)
        case Test():
            of = expression.of
            if isinstance(of, FunctionCall):
                called = _reading(of)
                return lambda current, root, effort: called(current, root, effort) is True
            return lambda current, root, effort: next(iter(_nodes(of, current, root, effort)), None) is not None
        case Not():
            inner = _condition(expression.of)
            return lambda current, root, effort: not inner(current, root, effort)
        case All():
            every = [_condition(e) for e in expression.of]
            return lambda current, root, effort: all(holds(current, root, effort) for holds in every)
        case Some():
            some = [_condition(e) for e in expression.of]
            return lambda current, root, effort: any(holds(current, root, effort) for holds in some)


def _nodes(query: Query, current: object, root: object, effort: Effort) -> Iterable[Node]:
    return evaluate(query.segments, (None, root if query.absolute else current), root, effort)


def _reading(of: Comparable) -> _Reading:
    match of:
        case Literal():
            value = of.value
            return lambda _current, _root, _effort: value
        case Query():  # of which RFC 9535 lets only singular ones be compared
            return _singular(of)
        case FunctionCall():
            return _call(of)


def _singular(query: Query) -> _Reading:
    steps = tuple(segment.selectors[0] for segment in query.segments)
    absolute = query.absolute

    def read(current: object, root: object, effort: Effort) -> object:
        value = root if absolute else current
        for step in steps:
            effort.spend()
            value = _value_at(value, step)
        return value

    if len(steps) != 1 or absolute or not isinstance(steps[0], Name):
        return read
    name = steps[0].name

    def member(current: object, root: object, effort: Effort) -> object:
        if isinstance(current, dict):  # for which who looks at `current` counts
            return cast("dict[str, object]", current).get(name, NOTHING)
        return read(current, root, effort)

    return member


def _call(call: FunctionCall) -> _Reading:
    if call.name in {"count", "value"}:
        query, counts = cast("Query", call.arguments[0]), call.name == "count"

        def nodes(current: object, root: object, effort: Effort) -> object:
            found = _nodes(query, current, root, effort)
            if counts:
                return sum(1 for _ in found)
            first = list(islice(found, 2))
            return first[0][1] if len(first) == 1 else NOTHING

        return nodes
    arguments = [_reading(a) for a in call.arguments]
    if call.name == "length":

        def length(current: object, root: object, effort: Effort) -> object:
            of = arguments[0](current, root, effort)
            return len(of) if isinstance(of, str) or is_array(of) or is_object(of) else NOTHING

        return length
    whole = call.name == "match"

    def matches(current: object, root: object, effort: Effort) -> object:
        text, pattern = (read(current, root, effort) for read in arguments)
        if not isinstance(text, str) or not isinstance(pattern, str):
            return False
        matcher = compiled(pattern, whole=whole)
        effort.spend(1 + len(text) // 64)
        return matcher is not None and matcher(text)

    return matches


def _comparison(of: Compare) -> Condition:
    left, right = _reading(of.left), _reading(of.right)
    match of.operator:
        case "==" if isinstance(of.right, Literal) and isinstance(of.right.value, str):
            return _is_text(of.left, of.right.value)
        case "==":
            return lambda current, root, effort: same(left(current, root, effort), right(current, root, effort), effort)
        case "!=":
            return lambda current, root, effort: (
                not same(left(current, root, effort), right(current, root, effort), effort)
            )
        case "<":
            return lambda current, root, effort: _less(left(current, root, effort), right(current, root, effort))
        case ">":
            return lambda current, root, effort: _less(right(current, root, effort), left(current, root, effort))
        case "<=" | ">=":
            turned = of.operator == ">="

            def at_most(current: object, root: object, effort: Effort) -> bool:
                a, b = left(current, root, effort), right(current, root, effort)
                return (_less(b, a) if turned else _less(a, b)) or same(a, b, effort)

            return at_most


def _is_text(of: Comparable, text: str) -> Condition:
    """Whether it is this text, which only a string equals."""
    name = _own_member(of)
    if name is None:
        read = _reading(of)
        return lambda current, root, effort: read(current, root, effort) == text

    def is_text(current: object, _root: object, _effort: Effort) -> bool:
        return isinstance(current, dict) and cast("dict[str, object]", current).get(name) == text

    return is_text


def _own_member(of: Comparable) -> str | None:
    """The name in `@.name`; None for anything else."""
    if isinstance(of, Query) and not of.absolute and len(of.segments) == 1:
        step = of.segments[0].selectors[0]
        return step.name if isinstance(step, Name) and step.index is None else None
    return None


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _less(left: object, right: object) -> bool:
    if _is_number(left) and _is_number(right):
        return left < right
    return isinstance(left, str) and isinstance(right, str) and left < right


def same(left: object, right: object, effort: Effort) -> bool:
    """Whether two values are equal as JSON values; iterative, however deep they are."""
    if isinstance(left, str):
        effort.spend()
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
