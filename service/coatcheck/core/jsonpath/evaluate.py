"""RFC 9535 over values in memory, lazily, node by node, with a count of steps that a caller's limit stops.

Recursion follows the path, which is bounded, never the document. `filters.py` evaluates filters.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeGuard, cast

from coatcheck.core.jsonpath.effort import Effort
from coatcheck.core.jsonpath.location import Location
from coatcheck.core.jsonpath.query import FilterSelector, IndexSelector, Name, Segment, Selector, Slice, Wildcard

Node = tuple[Location, object]
NOTHING: Final = object()
"""The value of a comparable without one: equal only to itself."""


def evaluate(segments: tuple[Segment, ...], node: Node, root: object, effort: Effort) -> Iterable[Node]:
    """Yields the nodes that the segments lead to from a node, in the RFC's order.

    Raises:
        OutOfEffortError: here or while iterating, when the limit is reached.
    """
    for at, segment in enumerate(segments):
        if not segment.singular:
            return _spread(segments, at, node, root, effort)
        effort.spend()
        child = _child(node, segment.selectors[0])
        if child is None:
            return ()
        node = child
    return (node,)


def _spread(segments: tuple[Segment, ...], at: int, node: Node, root: object, effort: Effort) -> Iterator[Node]:
    """Yields the nodes that segments from `at` on lead to from a node."""
    segment, rest = segments[at], segments[at + 1 :]
    for visited in _descendants(node, effort) if segment.descendant else (node,):
        for selector in segment.selectors:
            for child in _select(visited, selector, root, effort):
                if rest:
                    yield from evaluate(rest, child, root, effort)
                else:
                    yield child


def is_array(value: object) -> TypeGuard[list[object]]:
    """Returns whether a value is a JSON array."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Returns whether a value is a JSON object."""
    return isinstance(value, dict)


def _child(node: Node, selector: Selector) -> Node | None:
    location, value = node
    child_value = value_at(value, selector)
    if child_value is NOTHING:
        return None
    if is_object(value):
        return (location, cast("Name", selector).name), child_value
    index = cast("Name | IndexSelector", selector).index or 0
    return (location, index if index >= 0 else index + len(cast("list[object]", value))), child_value


def value_at(value: object, selector: Selector) -> object:
    """Returns the member or element that a name or an index selects; NOTHING if there is none."""
    if is_object(value):
        return value.get(selector.name, NOTHING) if isinstance(selector, Name) else NOTHING
    index = cast("Name | IndexSelector", selector).index if is_array(value) else None
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
    """Yields the node and everything below it, parents first, in document order; with a stack instead of recursion."""
    stack = [iter((node,))]
    while stack:
        current = next(stack[-1], None)
        if current is None:
            stack.pop()
            continue
        effort.spend()
        yield current
        if isinstance(current[1], dict | list):
            stack.append(_children(current))


def _select(node: Node, selector: Selector, root: object, effort: Effort) -> Iterator[Node]:
    match selector:
        case Wildcard():
            for child in _children(node):
                effort.spend()
                yield child
        case FilterSelector():
            for child in _children(node):
                effort.spend()
                if selector.holds(child[1], root, effort):
                    yield child
        case Slice():
            location, value = node
            if is_array(value):
                for index in selector.of(len(value)):
                    effort.spend()
                    yield (location, index), value[index]
        case _:
            effort.spend()
            single = _child(node, selector)
            if single is not None:
                yield single
