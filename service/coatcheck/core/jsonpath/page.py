"""Fills a page of values: keeps them while there is room, counts further ones, and says what must be said of them.

A value is kept as compact text, with its path, its bytes, and where a later page continues. A cursor names that place.
It is bound to one artifact and one query; URL-safe and checked but not secret: it grants nothing, and the server keeps
no state for it.
"""

import json
from collections.abc import Callable
from typing import Final, Literal

import msgspec
from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath.filters import is_object
from coatcheck.core.jsonpath.query import Effort, Location, QueryPlan, Step, normalize_path, steps
from coatcheck.core.jsonpath.structure import ODD, BrokenError, TooDeepError, decode, span_of
from coatcheck.core.opaque import read_cursor, write_cursor

Kind = Literal["object", "array", "string", "number", "boolean", "null"]
State = Literal["sound", "broken", "cut"]
"""Whether what is written is a JSON value as far as it was checked, is not JSON, or ends before the value does."""
Span = tuple[int, int]
"""Bytes in the document."""

_ENCODE: Final = msgspec.json.Encoder().encode
_LOOSE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_KINDS: Final[dict[int, Kind]] = {
    **dict.fromkeys(b"-0123456789NI", "number"),
    **dict.fromkeys(b"tf", "boolean"),
    ord("{"): "object",
    ord("["): "array",
    ord('"'): "string",
    ord("n"): "null",
}
_TYPES: Final[dict[type, Kind]] = {
    type(None): "null",
    bool: "boolean",
    str: "string",
    dict: "object",
    list: "array",
}
_MISSING: Final = object()


class Resume(Struct, frozen=True, gc=False, tag="p", array_like=True):
    """Where a page begins; the content of a cursor."""

    byte: int = 0
    """The child to begin at; 0: the first."""
    index: int = 0
    """Its index."""
    skip: int = 0
    """Number of that child's values (or the document's, if it is evaluated as a whole) on earlier pages."""
    seen: int = 0
    """Number of values on all earlier pages."""


class ValueHit(Struct, frozen=True, gc=False):
    """One value. The garbage collector ignores it: it is in no cycle, and a page has a thousand."""

    path: list[Step]
    """Its steps from the root."""
    kind: Kind
    text: str
    """Compact JSON, cut to what is kept."""
    whole: bool
    """Whether nothing of it was cut."""
    resume: Resume
    """A page that begins with it."""
    span: Span | None
    """Its bytes in the document, if known."""
    cells: tuple[str, ...] | None = None
    """For an object, if fields are requested: the text of each, empty if it is missing."""
    state: State = "sound"


class ValuePage(Struct, frozen=True, kw_only=True):
    """The result of one call."""

    hits: list[ValueHit]
    total: int
    exact: bool
    """Whether `total` is the number of all values, not only of those that were found in time."""
    stopped: Literal["end", "limit", "deadline"]
    next: Resume | None
    """Where the next page begins if all hits are shown."""
    notices: list[str]
    partial: bool
    """Whether a part of the document could not be read."""
    message: str | None = None
    """Why there is nothing."""


def kind_of(first: int) -> Kind | None:
    """Returns the kind of value that begins with this byte; None if none does."""
    return _KINDS.get(first)


def kind_of_value(value: object) -> Kind:
    """Returns the kind of a decoded value."""
    return _TYPES.get(type(value), "number")


def compact(value: object, *, odd: bool = False) -> str:
    """Returns a value as JSON on one line, as short as possible.

    If it is odd, NaN, Infinity and half surrogates stay, and the text may not be strict JSON.
    """
    try:
        return _LOOSE(value) if odd else _ENCODE(value).decode()
    except RecursionError:
        return "[…]" if isinstance(value, list) else "{…}"
    except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):  # integers of more than 64 bits
        return compact(value, odd=True)


def cut(value: object, keep: int, *, odd: bool = False) -> tuple[str, bool]:
    """Returns a value's compact text up to `keep` characters, and whether that is all of it."""
    if isinstance(value, str) and len(value) > keep:
        return compact(value[:keep], odd=odd)[:-1], False
    text = compact(value, odd=odd)
    return text[:keep], len(text) <= keep


def cells_of(value: object, fields: tuple[str, ...], keep: int, *, odd: bool = False) -> tuple[str, ...] | None:
    """Returns the fields of an object as text; None for anything but an object."""
    if not is_object(value):
        return None
    out: list[str] = []
    for field in fields:
        field_value = _field(value, field)
        text, whole = ("", True) if field_value is _MISSING else cut(field_value, keep, odd=odd)
        out.append(text if whole else f"{text}…")
    return tuple(out)


def _field(value: dict[str, object], field: str) -> object:
    """Returns a member by its name, or by names joined with dots."""
    if field in value:
        return value[field]
    at: object = value
    for name in field.split("."):
        at = at.get(name, _MISSING) if is_object(at) else _MISSING
    return at


PATIENCE_SECONDS: Final = 1.0
"""Seconds after which a page ends, with a cursor from which the next one continues (decision 0017)."""
COUNT_ON_SECONDS: Final = 0.3
"""Seconds for which values are counted after a page is full, for `total`."""
VALUE_CHARS: Final = 4_000
"""Characters kept of a value if there are others."""
FIRST_VALUE_CHARS: Final = 30_000
"""Characters kept of the first value of a page, which may be the only one."""
_LOCATE_BYTES: Final = 32 * 1024 * 1024
"""Bytes that are read again to determine where values are."""
_SMALL_BYTES: Final = 4 * 1024
"""Bytes that are read again in any case."""
_ROW_CHARS: Final = 8
"""Characters that a row costs in addition to its value."""
_STUCK: Final = (
    "One step of this path takes more work than one call may, so the answer is incomplete. Use a narrower path: fewer "
    "`..`, no filter inside a filter, or an index in place of *."
)


class PageRequest(Struct, frozen=True, kw_only=True):
    """The request for a page."""

    plan: QueryPlan
    size: int
    limit: int
    chars: int
    """Characters of values that are certainly enough."""
    fields: tuple[str, ...] = ()
    resume: Resume | None = None
    patience: float = PATIENCE_SECONDS


class PageBuilder:
    """The results so far.

    Attributes:
        start: where this page begins.
        found: number of values on this and all earlier pages.
        full_at: the first value that the page has no room for.
        spent_at: where time was up.
        broken: number of children that are not JSON.
        odd: whether something was read that strict JSON cannot represent.
        cut_short: whether the document, or the present line, ends before its JSON does.
        line: the present element, if that is a line of its own.
        damaged: what is not JSON but was requested nevertheless.
        lost: whether the walk could not continue in what is not JSON.
    """

    def __init__(self, request: PageRequest, clock: Callable[[], float]) -> None:
        self._request = request
        self.effort = Effort(
            clock, request.patience
        )  # not a reference to this builder: results would wait for a collector
        self.start = request.resume or Resume()
        self.found = self.start.seen
        self.hits: list[ValueHit] = []
        self.full_at: Resume | None = None
        self.spent_at: Resume | None = None
        self.broken = 0
        self.odd = False
        self.cut_short = False
        self.line: int | None = None
        self.damaged: list[Step] | None = None
        self.lost = False
        self._chars = 0
        self._locating = _LOCATE_BYTES

    @property
    def keep(self) -> int:
        """Characters to keep of the next value."""
        return VALUE_CHARS if self.hits else FIRST_VALUE_CHARS

    def room(self, resume: Resume) -> bool:
        """Counts a value. Returns whether the page takes it too; if not, records where the next page begins."""
        self.found += 1
        if len(self.hits) < self._request.limit and self._chars <= self._request.chars:
            return True
        # Counting goes on for a moment, so that most answers know the total.
        if self.full_at is None:
            self.full_at = resume
            self.effort.at_most(COUNT_ON_SECONDS)
        return False

    def put(
        self, value: object, path: list[Step], location: Location, raw: bytes | None, at: int, resume: Resume
    ) -> None:
        """Keeps a value, which is at `location` in what is written as `raw` at `path`, from byte `at` on."""
        inner = steps(location)
        span = None
        # Locating a value means decoding around it once more: bounded, since positions are only a convenience.
        if raw is not None and (len(raw) <= _SMALL_BYTES or self._locating >= len(raw)):
            self._locating -= len(raw) if len(raw) > _SMALL_BYTES else 0
            span = span_of(raw, inner)
        span = None if span is None else (span[0] + at, span[1] + at)
        text, whole = cut(value, self.keep, odd=self.odd)
        path, cells = [*path, *inner], self._cells(value)
        self._append(ValueHit(path, kind_of_value(value), text, whole, resume, span, cells))

    def put_written(self, raw: bytes, path: list[Step], span: Span, resume: Resume, *, all_there: bool = True) -> None:
        """Keeps the beginning of a value that cannot, or need not, be decoded because it is too long or too deep.

        `raw` has at least four bytes per character to keep, or is complete. What is not JSON is kept as it is written,
        is never `whole`, and is recorded.
        """
        keep = self.keep
        raw, decoded = raw[: 4 * keep], None
        kind = kind_of(raw[0]) or "number"
        state: State = "sound" if all_there else "cut"
        # Short enough to be decoded after all: then it is compact, and known to be JSON.
        if all_there and len(raw) == span[1] - span[0]:
            try:
                decoded = decode(raw)
                self.odd |= decoded.odd
            except TooDeepError:
                decoded = None
            except BrokenError:
                state, self.damaged = "broken", path
        if decoded is None or kind == "number":  # a number's text is more precise than a double
            text = raw.decode("utf-8", "replace")
            text, whole = text[:keep], len(text) <= keep and decoded is not None
        else:
            text, whole = cut(decoded.value, keep, odd=self.odd)
        cells = None if decoded is None else self._cells(decoded.value)
        self._append(ValueHit(path, kind, text, whole, resume, span, cells, state))

    def _cells(self, value: object) -> tuple[str, ...] | None:
        fields = self._request.fields
        return cells_of(value, fields, self.keep, odd=self.odd) if fields else None

    def _append(self, hit: ValueHit) -> None:
        self._chars += sum(map(len, hit.cells)) if hit.cells is not None else min(len(hit.text), VALUE_CHARS)
        self._chars += _ROW_CHARS
        self.hits.append(hit)

    def page(self, message: str | None = None) -> ValuePage:
        """Returns the page."""
        only = self._request.plan.single and self.found > 0  # a path of names and indices leads to at most one value
        # A page that ends where it began would be requested again without end.
        stuck = False
        if self.full_at is None and self.spent_at is not None and not self.hits:
            stuck = (self.spent_at.byte, self.spent_at.skip) == (self.start.byte, self.start.skip)
        return ValuePage(
            hits=self.hits,
            total=self.found,
            exact=self.spent_at is None and (only or not (self.cut_short or self.lost)),
            stopped="limit" if self.full_at is not None else "deadline" if self.spent_at is not None else "end",
            next=None if stuck else self.full_at or self.spent_at,
            notices=[_STUCK, *self._list_notices()] if stuck else self._list_notices(),
            partial=self.cut_short or self.broken > 0 or self.damaged is not None or stuck,
            message=message,
        )

    def _list_notices(self) -> list[str]:
        out: list[str] = []
        if self.cut_short and self.line is None:
            out.append(
                f"The document is cut off: its {self._request.size:,} bytes end before its JSON does. What is whole "
                f"counts."
            )
        elif self.cut_short:
            out.append(f"$[{self.line}] is not valid JSON: its line ends before its JSON does. What is whole counts.")
        elif self.damaged is not None:
            where = normalize_path(self.damaged)[:300]
            out.append(f"{where} is not valid JSON; what is found in it is shown as it is written.")
        if self.broken:
            ending = "s" if self.broken > 1 else ""
            out.append(f"Left out as invalid JSON or nested too deeply: {self.broken:,} element{ending}.")
        if self.odd:
            out.append(ODD)
        return out


class ValueCursor(Struct, frozen=True, tag="i", array_like=True):
    """A next page inside one value: its bytes from `byte` to before `end`."""

    byte: int
    end: int
    text: bool
    """Whether the value is a string; then its characters are shown, without quotes and escapes."""
    partial: bool = False
    """Whether the value is not JSON, or incomplete; this was said with its first part."""


_DECODER: Final = msgspec.msgpack.Decoder(ValueCursor | Resume)

write = write_cursor


def read(text: str, artifact: int, question: str) -> Resume | ValueCursor:
    """Returns what `write` encoded.

    Raises:
        CoatcheckError: `invalid_cursor` for anything else, and for a cursor of another artifact or path.
    """
    try:
        return read_cursor(text, _DECODER, artifact, question)
    except ValueError:
        raise CoatcheckError(
            Code.INVALID_CURSOR,
            "This cursor does not belong to this artifact and path. Use the `next` of the last answer unchanged, "
            "with the same path and fields, or leave it out.",
        ) from None
