"""A path as values: the segments and selectors of RFC 9535, and how to evaluate them on a document of any size.

`$.items[?@.ok].id` descends to `items`, and for each element evaluates the filter and follows `id`, so only one element
is in memory at a time. What cannot be done child by child needs the value at the end of the descent in memory.
"""

from collections.abc import Callable

from msgspec import Struct

from coatcheck.core.jsonpath.effort import Effort

Filter = Callable[[object, object, Effort], bool]
"""Returns whether an expression holds for a value (`@`), in a document with this root (`$`)."""


class Name(Struct, frozen=True):
    """A member by its name; with `index`, also the element at that index (a reference token of RFC 6901)."""

    name: str
    index: int | None = None


class Wildcard(Struct, frozen=True):
    """Every member or element."""


class IndexSelector(Struct, frozen=True):
    """An element; negative indices count from the end."""

    index: int


class Slice(Struct, frozen=True):
    """Elements from `start` to before `stop`."""

    start: int | None
    stop: int | None
    step: int | None

    def of(self, length: int) -> range:
        """Returns the indices in an array of this length, in order; none for step 0."""
        if self.step == 0:
            return range(0)
        return range(*slice(self.start, self.stop, self.step).indices(length))


class FilterSelector(Struct, frozen=True):
    """Members or elements for which an expression holds."""

    holds: Filter


Selector = Name | Wildcard | IndexSelector | Slice | FilterSelector


class Segment(Struct, frozen=True):
    """Selectors that apply to each node, or with `descendant` to each node and everything below it."""

    selectors: tuple[Selector, ...]
    descendant: bool = False

    @property
    def singular(self) -> bool:
        """Whether it gives at most one node."""
        return not self.descendant and len(self.selectors) == 1 and isinstance(self.selectors[0], Name | IndexSelector)


class Query(Struct, frozen=True):
    """A whole path."""

    segments: tuple[Segment, ...]
    looks_at_root: bool = False
    """Whether one of its filters uses the whole document (`$`)."""


class QueryPlan(Struct, frozen=True):
    """A query, divided into three parts."""

    descent: tuple[Name | IndexSelector, ...]
    """Steps to one value."""
    fan: Wildcard | FilterSelector | Slice | None = None
    """Selects its children; None with `rest` empty: the value itself."""
    rest: tuple[Segment, ...] = ()
    """What follows for each child; without `fan`, for the value itself, which must be in memory."""
    spread: bool = False
    """Whether `rest` begins with `..name`, which can be evaluated separately for each element of an array."""

    @property
    def single(self) -> bool:
        """Whether it gives at most one value, found by descent alone."""
        return self.fan is None and not self.rest


def plan_of(query: Query) -> QueryPlan:
    """Returns the plan that needs the least memory."""
    segments = query.segments
    if query.looks_at_root:
        return QueryPlan((), rest=segments)
    at = next((n for n, s in enumerate(segments) if not s.singular), len(segments))
    descent = tuple(s for g in segments[:at] for s in g.selectors if isinstance(s, Name | IndexSelector))
    if at == len(segments):
        return QueryPlan(descent)
    first = segments[at]
    if not first.descendant and len(first.selectors) == 1:
        selector = first.selectors[0]
        forward = isinstance(selector, Slice) and (selector.step is None or selector.step > 0)
        if isinstance(selector, Wildcard | FilterSelector) or (isinstance(selector, Slice) and forward):
            return QueryPlan(descent, selector, segments[at + 1 :])
    names = first.descendant and all(isinstance(s, Name) and s.index is None for s in first.selectors)
    return QueryPlan(descent, None, segments[at:], spread=names)
