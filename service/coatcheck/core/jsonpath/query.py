"""A path as values: segments, selectors and filter expressions of RFC 9535, and what can be said of them.

It parses nothing (`parse.py`) and evaluates nothing (`evaluate.py`).
"""

from typing import Literal as Either
from typing import cast

from msgspec import Struct

Operator = Either["==", "!=", "<=", ">=", "<", ">"]
Function = Either["length", "count", "match", "search", "value"]


class Name(Struct, frozen=True):
    """A member by its name; with `index`, also the element at that index (a reference token of RFC 6901)."""

    name: str
    index: int | None = None


class Wildcard(Struct, frozen=True):
    """Every member or element."""


class IndexSelector(Struct, frozen=True):
    """An element; negative counts from the end."""

    index: int


class Slice(Struct, frozen=True):
    """Elements from `start` to before `stop`."""

    start: int | None
    stop: int | None
    step: int | None

    def of(self, length: int) -> range:
        """The indices in an array of this length, in order; none for step 0."""
        if self.step == 0:
            return range(0)
        return range(*slice(self.start, self.stop, self.step).indices(length))


class FilterSelector(Struct, frozen=True):
    """Members or elements for which an expression holds."""

    expression: "Expression"


Selector = Name | Wildcard | IndexSelector | Slice | FilterSelector


class Segment(Struct, frozen=True):
    """Selectors that apply to each node, or with `descendant` to each node and all below it."""

    selectors: tuple[Selector, ...]
    descendant: bool = False

    @property
    def singular(self) -> bool:
        """Whether it gives one node at most."""
        return not self.descendant and len(self.selectors) == 1 and isinstance(self.selectors[0], Name | IndexSelector)


class Query(Struct, frozen=True):
    """Segments from the root (`$`), or from the node that a filter looks at (`@`)."""

    segments: tuple[Segment, ...]
    absolute: bool = True

    @property
    def singular(self) -> bool:
        """Whether it gives one node at most, whatever the document."""
        return all(segment.singular for segment in self.segments)


class Literal(Struct, frozen=True):
    """A constant of a filter: text, number, true, false, null."""

    value: str | int | float | bool | None


class FunctionCall(Struct, frozen=True):
    """One of the five functions of RFC 9535."""

    name: Function
    arguments: tuple["Comparable", ...]


Comparable = Literal | Query | FunctionCall


class Compare(Struct, frozen=True):
    """Two values compared."""

    operator: Operator
    left: Comparable
    right: Comparable


class Test(Struct, frozen=True):
    """Whether a query finds anything, or a function says yes."""

    of: Query | FunctionCall


class Not(Struct, frozen=True):
    """True if the inner expression is false."""

    of: "Expression"


class All(Struct, frozen=True):
    """True if every inner expression is true."""

    of: tuple["Expression", ...]


class Some(Struct, frozen=True):
    """True if at least one inner expression is true."""

    of: tuple["Expression", ...]


Expression = Compare | Test | Not | All | Some


def looks_at_root(part: object) -> bool:
    """Whether a part of a query holds a query that begins at the whole document (`$`)."""
    if isinstance(part, tuple):
        return any(looks_at_root(each) for each in cast("tuple[object, ...]", part))
    if not isinstance(part, Struct):
        return False
    root = isinstance(part, Query) and part.absolute
    return root or any(looks_at_root(getattr(part, field)) for field in part.__struct_fields__)
