"""Evaluates RFC 9535 paths and filters over values in memory: lazily, node by node, with a count of steps.

`parse.py` combines these functions. Recursion follows the path, whose depth is bounded, and never the document. Strings
are compared and measured in Unicode scalar values. Booleans do not count as numbers.

The patterns of `match` and `search` are I-Regexps (RFC 9485). They are translated to RE2, which runs in linear time.
The translation is not recursive, because a pattern may come from the document. A pattern that is not an I-Regexp
matches nothing, as RFC 9535 requires; a pattern that is too large for RE2 matches nothing either. `^` and `$` are
anchors, as in the compliance suite of RFC 9535.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeGuard, cast

from msgspec import Struct

from coatcheck.core.caches import remember
from coatcheck.core.jsonpath.query import (
    Effort,
    Filter,
    FilterSelector,
    IndexSelector,
    Location,
    Name,
    Segment,
    Selector,
    Slice,
    Wildcard,
)
from coatcheck.core.text.scan import PATTERN_BYTES, RE2, UNANCHORED, re2_compiled

Node = tuple[Location, object]
NOTHING: Final = object()
"""Stands for the missing value of an operand, such as a path that leads nowhere. It equals only itself."""


def evaluate(segments: tuple[Segment, ...], node: Node, root: object, effort: Effort) -> Iterable[Node]:
    """Returns the nodes to which the segments lead from a node, in the order of RFC 9535, evaluated lazily.

    Raises:
        OutOfEffortError: the limit of effort is reached; raised at the call or while iterating.
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
    """Yields the nodes to which the segments from number `at` on lead from a node."""
    segment, rest = segments[at], segments[at + 1 :]
    # Depth first and lazily, in the order of RFC 9535: when a page is full, nothing more is evaluated.
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
    """Returns the member or element that a name or an index selects; None if it does not exist."""
    location, value = node
    if is_object(value):
        if not isinstance(selector, Name) or selector.name not in value:
            return None
        return (location, selector.name), value[selector.name]
    index = cast("Name | IndexSelector", selector).index if is_array(value) else None
    if index is None:
        return None
    elements = cast("list[object]", value)
    index += len(elements) if index < 0 else 0
    return ((location, index), elements[index]) if 0 <= index < len(elements) else None


def _children(node: Node) -> Iterator[Node]:
    location, value = node
    if is_object(value):
        for name, member in value.items():
            yield (location, name), member
    elif is_array(value):
        for index, element in enumerate(value):
            yield (location, index), element


def _descendants(node: Node, effort: Effort) -> Iterator[Node]:
    """Yields the node and all its descendants, parents first, in document order. Uses a stack, not recursion."""
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
            # Children that are not selected cost effort, too: a filter that never holds must end in time.
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


PATTERN_CHARS: Final = 1_000
"""Maximum characters of a pattern; a longer one matches nothing."""
_RE2_BYTES: Final = 4 * 1024 * 1024
"""Maximum bytes of memory of a compiled pattern: half of what the pattern of a grep may use. Chosen, not measured."""
_MAX_INSTRUCTIONS: Final = 20_000
"""Maximum instructions of a compiled pattern; a larger pattern matches nothing."""

_CATEGORY = r"\\[pP]\{(?:L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|Z[lps]?|S[ckmo]?|C[cfno]?)\}"
_SINGLE = r"\\[()*+\-.?\[\\\]^nrt{|}]"
_ATOM: Final = re.compile(
    rf"(?P<category>{_CATEGORY})|(?P<single>{_SINGLE})|(?P<any>\.)|(?P<open>\()|(?P<close>\))|(?P<or>\|)"
    r"|(?P<class>\[)|(?P<quantifier>[*+?]|\{[0-9]+(?:,[0-9]*)?\})|(?P<plain>[^()*+.?\[\\\]{|}\ud800-\udfff])"
)
_CLASS: Final = re.compile(
    rf"\[\^?-?(?:{_CATEGORY}|(?:{_SINGLE}|[^\-\[\\\]\ud800-\udfff])(?:-(?:{_SINGLE}|[^\-\[\\\]\ud800-\udfff]))?)*-?\]"
)

Matcher = Callable[[str], bool]


def translate(pattern: str) -> str | None:  # noqa: C901 - one case for each kind of atom
    """Returns the pattern in RE2's syntax; None if it is not an I-Regexp."""
    if len(pattern) > PATTERN_CHARS:
        return None
    out: list[str] = []
    depth = at = 0
    repeatable = False
    while at < len(pattern):
        # RE2 accepts more syntax than I-Regexps have, so everything but these atoms is refused.
        atom = _ATOM.match(pattern, at)
        if atom is None:
            return None
        at = atom.end()
        text, kind = atom[0], atom.lastgroup
        if kind == "quantifier":
            if not repeatable:
                return None
        elif kind == "class":
            whole = _CLASS.match(pattern, atom.start())
            if whole is None or whole[0] in {"[]", "[^]"}:
                return None
            text, at = whole[0], whole.end()  # in RE2, such a class has the same syntax and meaning
        elif kind in {"open", "close"}:
            depth += 1 if kind == "open" else -1
            if depth < 0:
                return None
            text = "(?:" if kind == "open" else ")"
        elif kind == "any":
            text = "[^\\n\\r]"
        repeatable = kind not in {"quantifier", "open", "or"}
        out.append(text)
    return "".join(out) if depth == 0 else None


@remember("patterns", 16, PATTERN_BYTES)
def compile_iregexp(pattern: str, *, whole: bool) -> Matcher | None:
    """Returns a function that decides whether a text matches: as a whole (`match`), or in part (`search`).

    None if the pattern matches nothing, because it is not an I-Regexp or is too large.
    """
    translated = translate(pattern)
    if translated is None:
        return None
    program = re2_compiled(translated.encode(), _RE2_BYTES, never_capture=True)
    if not program.ok() or int(program.ProgramSize()) > _MAX_INSTRUCTIONS:
        return None
    anchor = RE2.Anchor.ANCHOR_BOTH if whole else UNANCHORED

    def matches(text: str) -> bool:
        data = text.encode("utf-8", "replace")
        return program.Match(anchor, data, 0, len(data))[0][0] >= 0

    return matches


Term = Callable[[object, object, Effort], object]
"""Takes the value of a node, the root of the document, and the effort; returns the value of a term, or NOTHING."""

FUNCTIONS: Final = {"length": "V", "count": "N", "match": "VV", "search": "VV", "value": "N"}
"""The types of each function's arguments: `V` for a value, `N` for a list of nodes."""


class Operand(Struct, frozen=True):
    """A side of a comparison, or a filter by itself."""

    value: Term
    holds: Filter | None = None
    """Decides whether the operand holds as a filter by itself; None if the operand must be compared."""
    refusal: str = ""
    """The message for a path in which the operand must be compared but is not, or is compared but cannot be."""
    nodes: Callable[[object, object, Effort], Iterable[Node]] | None = None
    """Finds all nodes of a path; None if the operand is no path."""

    @property
    def comparable(self) -> bool:
        """Whether the operand has at most one value, so that it can be compared."""
        return self.holds is None or not self.refusal


def constant(value: object) -> Operand:
    """Returns an operand for a constant: a string, a number, true, false or null."""
    refusal = "a constant must be compared with something, for example @.status == 'failed'"
    return Operand(lambda _value, _root, _effort: value, refusal=refusal)


def path(segments: tuple[Segment, ...], *, absolute: bool) -> Operand:
    """Returns an operand for a path: from the root (`$`) if `absolute`, or else from the filtered node (`@`)."""

    def nodes(value: object, root: object, effort: Effort) -> Iterable[Node]:
        return evaluate(segments, (None, root if absolute else value), root, effort)

    def holds(value: object, root: object, effort: Effort) -> bool:
        return next(iter(nodes(value, root, effort)), None) is not None

    def single(value: object, root: object, effort: Effort) -> object:
        return next((found for _, found in nodes(value, root, effort)), NOTHING)

    singular = all(segment.singular for segment in segments)
    refusal = "" if singular else "only a path to a single value can be compared: no *, .., slices or filters in it"
    return Operand(single, holds, refusal, nodes)


def call(name: str, arguments: list[Operand]) -> Operand:
    """Returns an operand for the call of a function. The caller has checked the types of the arguments."""
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
    """Returns a filter that compares two values by `==`, `!=`, `<`, `<=`, `>` or `>=`."""
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
    """Returns whether two values are equal as JSON values."""
    if isinstance(first, str):
        return isinstance(second, str) and first == second
    # A stack takes the place of recursion, because the document's depth is not bounded.
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
