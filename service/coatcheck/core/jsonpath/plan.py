"""How a query is carried out on a document that is not loaded: descend to one place, then take child after child.

`$.items[?@.ok].id` descends to `items`, and for each element asks the filter and follows `id`; so only one element is
in memory at a time. What cannot be done child by child needs the value at the end of the descent in memory.
"""

from msgspec import Struct

from coatcheck.core.jsonpath.query import (
    FilterSelector,
    IndexSelector,
    Name,
    Query,
    Segment,
    Slice,
    Wildcard,
    looks_at_root,
)


class QueryPlan(Struct, frozen=True):
    """A query, cut in three."""

    descent: tuple[Name | IndexSelector, ...]
    """Steps to one value."""
    fan: Wildcard | FilterSelector | Slice | None = None
    """Which of its children; None with `rest` empty: the value itself."""
    rest: tuple[Segment, ...] = ()
    """What follows for each child; without a fan, for the value itself, which must be in memory."""
    spread: bool = False
    """`rest` begins with `..name`, which on an array is the same for each element by itself."""

    @property
    def single(self) -> bool:
        """Whether it gives one value at most, found by descent alone."""
        return self.fan is None and not self.rest


def plan_of(query: Query) -> QueryPlan:
    """The plan that needs the least in memory."""
    segments = query.segments
    at = next((n for n, s in enumerate(segments) if not s.singular), len(segments))
    if looks_at_root(segments[at:]):
        return QueryPlan((), rest=segments)
    descent = tuple(s for g in segments[:at] for s in g.selectors if isinstance(s, Name | IndexSelector))
    if at == len(segments):
        return QueryPlan(descent)
    first = segments[at]
    if not first.descendant and len(first.selectors) == 1:
        selector = first.selectors[0]
        if isinstance(selector, Wildcard | FilterSelector) or (isinstance(selector, Slice) and _forward(selector)):
            return QueryPlan(descent, selector, segments[at + 1 :])
    names = first.descendant and all(isinstance(s, Name) and s.index is None for s in first.selectors)
    return QueryPlan(descent, None, segments[at:], spread=names)


def _forward(selector: Slice) -> bool:
    return selector.step is None or selector.step > 0
