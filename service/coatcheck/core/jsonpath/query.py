"""A path as values: the segments and selectors of RFC 9535, and a plan to evaluate them on a document of any size.

The path `$.items[?@.ok].id` is evaluated by a descent to `items`. Then, for each element, the filter is evaluated and
`id` is followed, so that only one element is in memory at a time. A path that cannot be evaluated child by child needs
the value at the end of the descent in memory.

The module also has what both halves of an evaluation share: a limit of time (`Effort`), locations with their normalized
paths (RFC 9535 section 2.7), and a cut of a long value that does not split a character (`part_of`).
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Struct

from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.window import decode, whole_chars
from coatcheck_client.contract.inert import inert

_STEPS_PER_CHECK: Final = 512
"""Steps between two checks of the time."""


class OutOfEffortError(Exception):
    """The allowed time is used up."""


class Effort:
    """A limit of the time that an evaluation may take. The evaluation calls `spend` for each node that it visits."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        """Starts the time, which ends `seconds` from now."""
        self._clock = clock
        self._until = clock() + seconds
        self._left = _STEPS_PER_CHECK

    def at_most(self, seconds: float) -> None:
        """Limits the remaining time to `seconds`."""
        self._until = min(self._until, self._clock() + seconds)

    def spend(self, steps: int = 1) -> None:
        """Counts steps.

        Raises:
            OutOfEffortError: the time is up. It is checked once every _STEPS_PER_CHECK steps.
        """
        self._left -= steps
        if self._left <= 0:
            self._left = _STEPS_PER_CHECK
            if self._clock() > self._until:
                raise OutOfEffortError


Filter = Callable[[object, object, Effort], bool]
"""Takes a value (`@`), the root of the document (`$`) and the effort; returns whether an expression holds."""


class Name(Struct, frozen=True):
    """Selects a member by its name. With `index`, also selects the element at that index (a token of RFC 6901)."""

    name: str
    index: int | None = None


class Wildcard(Struct, frozen=True):
    """Selects every member or element."""


class IndexSelector(Struct, frozen=True):
    """Selects an element by its index. Negative indices count from the end."""

    index: int


class Slice(Struct, frozen=True):
    """Selects the elements from `start` to before `stop`. None has the meaning of an omitted number in RFC 9535."""

    start: int | None
    stop: int | None
    step: int | None

    def of(self, length: int) -> range:
        """Returns the selected indices in an array of this length, in order; none for step 0."""
        if self.step == 0:
            return range(0)
        return range(*slice(self.start, self.stop, self.step).indices(length))


class FilterSelector(Struct, frozen=True):
    """Selects the members or elements for which an expression holds."""

    holds: Filter


Selector = Name | Wildcard | IndexSelector | Slice | FilterSelector


class Segment(Struct, frozen=True):
    """Selectors that apply to each node and, if `descendant`, to all its descendants as well."""

    selectors: tuple[Selector, ...]
    descendant: bool = False

    @property
    def singular(self) -> bool:
        """Whether the segment selects at most one node."""
        return not self.descendant and len(self.selectors) == 1 and isinstance(self.selectors[0], Name | IndexSelector)


class Query(Struct, frozen=True):
    """A parsed path."""

    segments: tuple[Segment, ...]
    looks_at_root: bool = False
    """Whether a filter in the path refers to the root of the document (`$`)."""


class QueryPlan(Struct, frozen=True):
    """A query, divided into three parts."""

    descent: tuple[Name | IndexSelector, ...]
    """Names and indices that lead to one value."""
    children: Wildcard | FilterSelector | Slice | None = None
    """Selects children of that value. None: `rest` is evaluated on the value itself."""
    rest: tuple[Segment, ...] = ()
    """The segments to evaluate on each child or, without `children`, on the value itself, which must be in memory then.
    If there are neither children nor segments, the value is the result."""
    spread: bool = False
    """Whether `rest` begins with `..name`, which can be evaluated separately for each element of an array."""

    @property
    def single(self) -> bool:
        """Whether the descent alone gives the result, so that it is at most one value."""
        return self.children is None and not self.rest


def plan_of(query: Query) -> QueryPlan:
    """Returns the plan by which a query needs the least memory."""
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


_ESCAPES: Final = (
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|\\|[^\\]{1,%d}[\x80-\xbf]{0,3}"
)
_ESCAPE_BYTES: Final = 12
"""Bytes of the longest escape. The end of the given bytes may cut one off."""
_SHARE_BYTES: Final = 64
"""Maximum bytes of plain text that form a piece, beside the rest of a character at their end. Cuts fall between
pieces."""


class TextPart(Struct, frozen=True):
    """The beginning of a value, as text."""

    text: str
    tokens: int
    """Tokens of `text`."""
    used: int
    """Number of bytes of the value that `text` represents."""


def part_of(raw: bytes, *, text: bool, ends: bool, chars: int, tokens: int, tokenizer: Tokenizer) -> TextPart:
    """Returns as much of the beginning of `raw` as both budgets allow, at least one character.

    Args:
        raw: bytes of a value; of a string, bytes from between its quotes.
        text: whether the value is a string.
        ends: whether the value ends at the end of `raw`; if not, the last character may be incomplete and is left out.
        chars: maximum characters.
        tokens: maximum tokens.
        tokenizer: counts tokens.
    """
    part = _part(raw, _SHARE_BYTES, text=text, ends=ends, chars=chars, tokens=tokens, tokenizer=tokenizer)
    if part.tokens > tokens:  # even the first piece exceeds the budget: cut between characters
        start = raw[: 4 * _SHARE_BYTES]
        ends = ends and len(start) == len(raw)
        part = _part(start, 1, text=text, ends=ends, chars=chars, tokens=tokens, tokenizer=tokenizer)
    return part


def _part(raw: bytes, share: int, *, text: bool, ends: bool, chars: int, tokens: int, tokenizer: Tokenizer) -> TextPart:
    if not ends and raw:
        raw = raw[: whole_chars(raw, len(raw) - 1) or len(raw)]
    pattern = (_ESCAPES if text else rb".{1,%d}[\x80-\xbf]{0,3}") % share
    pieces = [(m.end(), _character(m[0], text=text)) for m in re.finditer(pattern, raw, re.DOTALL)]
    while not ends and len(pieces) > 1 and len(raw) - pieces[-2][0] < _ESCAPE_BYTES:
        pieces.pop()
    keep, length = 0, 0
    while keep < len(pieces) and length + len(pieces[keep][1]) <= chars:
        length += len(pieces[keep][1])
        keep += 1
    keep = max(keep, 1)
    while True:
        excerpt = inert("".join(piece for _, piece in pieces[:keep]))
        used = tokenizer.count(excerpt)
        if (used <= tokens and len(excerpt) <= chars) or keep <= 1:
            break
        keep = max(1, min(keep - 1, keep * tokens // max(used, 1)))
    return TextPart(excerpt, used, pieces[keep - 1][0] if pieces else 0)


def _character(piece: bytes, *, text: bool) -> str:
    if not text or not piece.startswith(b"\\"):
        return decode(piece)
    try:
        return msgspec.json.decode(b'"' + piece + b'"', type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "\ufffd"


Step = str | int
Location = tuple["Location", Step] | None
"""The location of a node: its parent's location, and the step from the parent; None for the root. Nodes share their
parents' locations, so that each node costs one tuple."""

_ESCAPED: Final = re.compile(r"['\\\x00-\x1f]")
_SHORT: Final = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "'": "\\'", "\\": "\\\\"}


def steps(location: Location) -> list[Step]:
    """Returns the steps that lead from the root to a location."""
    out: list[Step] = []
    while location is not None:
        location, step = location
        out.append(step)
    out.reverse()
    return out


def normalize_path(path: Iterable[Step]) -> str:
    """Returns the normalized path of these steps."""
    return "$" + "".join(bracket_step(step) for step in path)


def bracket_step(step: Step) -> str:
    """Returns one step of a normalized path: `[3]` or `['name']`."""
    return f"[{step}]" if isinstance(step, int) else f"['{_ESCAPED.sub(_escape, step)}']"


def step(key: str) -> str:
    """Returns the step to a member as it is usually written: `.name`, or `['some name']`."""
    return f".{key}" if key.isascii() and key.isidentifier() else bracket_step(key)


def _escape(match: re.Match[str]) -> str:
    c = match[0]
    return _SHORT.get(c) or f"\\u{ord(c):04x}"
