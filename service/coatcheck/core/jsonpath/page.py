"""Fills a page of values: keeps values while the page has room, counts the rest, and collects notices about both.

A value is kept as compact text, with its path, its range of bytes, and the position from which a page can begin with
it. A cursor encodes such a position. A cursor is bound to one artifact and one query. It is URL-safe and checked, but
not secret: it grants nothing, and the server keeps no state for it.
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
"""State of a value's text: valid JSON as far as it was checked, not JSON, or cut off before the value ends."""
Span = tuple[int, int]
"""A range of bytes in the document: the first, and the one after the last."""

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
    """The position at which a page begins; the content of a cursor."""

    byte: int = 0
    """Offset of the child to begin with; 0: the first child."""
    index: int = 0
    """Index of that child."""
    skip: int = 0
    """Number of values that earlier pages showed of that child, or of the document if it is evaluated as a whole."""
    seen: int = 0
    """Number of values on all earlier pages."""


class ValueHit(Struct, frozen=True, gc=False):
    """One value of a page.

    It is in no cycle of references, so the garbage collector need not track such values, of which a page may have
    thousands.
    """

    path: list[Step]
    """The steps from the root to the value."""
    kind: Kind
    text: str
    """Compact JSON, cut to the characters that a page keeps."""
    whole: bool
    """Whether `text` is the complete value."""
    resume: Resume
    """The position of a page that begins with this value."""
    span: Span | None
    """The value's range of bytes in the document; None if unknown."""
    cells: tuple[str, ...] | None = None
    """The text of each requested field of an object, empty if the object lacks the field. None if no fields are
    requested, or the value is no object."""
    state: State = "sound"


class ValuePage(Struct, frozen=True, kw_only=True):
    """The result of one call: a page of values."""

    hits: list[ValueHit]
    total: int
    exact: bool
    """Whether `total` counts all values, not only those that were found in time."""
    stopped: Literal["end", "limit", "deadline"]
    """Why the page ends: there are no more values, the page is full, or its time is up."""
    next: Resume | None
    """The position of the next page if all hits are shown; None if there is no next page."""
    notices: list[str]
    partial: bool
    """Whether a part of the document could not be read."""
    message: str | None = None
    """Why the page has no values; None if it has any, or there is no reason to give."""


def kind_of(first: int) -> Kind | None:
    """Returns the kind of the JSON values that begin with this byte; None if no value begins with it."""
    return _KINDS.get(first)


def kind_of_value(value: object) -> Kind:
    """Returns the kind of a decoded value."""
    return _TYPES.get(type(value), "number")


def compact(value: object, *, odd: bool = False) -> str:
    """Returns a value as JSON on one line, as short as possible.

    If `odd`, the value may contain NaN, Infinity and unpaired surrogates. They are written as they are, so that the
    text may not be strict JSON.
    """
    try:
        return _LOOSE(value) if odd else _ENCODE(value).decode()
    except RecursionError:
        return "[…]" if isinstance(value, list) else "{…}"
    except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):  # an unpaired surrogate, or over 64 bits
        return compact(value, odd=True)


def cut(value: object, keep: int, *, odd: bool = False) -> tuple[str, bool]:
    """Returns the first `keep` characters of a value's compact text, and whether they are the complete text.

    If the value is a string of more than `keep` characters, escapes are not counted, so that the text may be longer.
    """
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
    """Returns a member by its name, or by a path of names joined with dots; _MISSING if there is none."""
    if field in value:
        return value[field]
    at: object = value
    for name in field.split("."):
        at = at.get(name, _MISSING) if is_object(at) else _MISSING
    return at


PATIENCE_SECONDS: Final = 1.0
"""Seconds after which a page ends, with a cursor from which the next page continues (decision 0017)."""
COUNT_ON_SECONDS: Final = 0.3
"""Seconds for which further values are counted after a page is full, so that `total` is often exact."""
VALUE_CHARS: Final = 4_000
"""Maximum characters that are kept of each value but the first."""
FIRST_VALUE_CHARS: Final = 30_000
"""Maximum characters that are kept of the first value of a page, which may be the only value."""
_LOCATE_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes of JSON text that a page decodes a second time to locate values. Small texts do not count."""
_SMALL_BYTES: Final = 4 * 1024
"""Maximum bytes of a small text, which is always decoded a second time to locate a value."""
_ROW_CHARS: Final = 8
"""Characters that a row is estimated to add to its value."""
_STUCK: Final = (
    "One step of this path takes more work than one call may, so the answer is incomplete. Use a narrower path: fewer "
    "`..`, no filter inside a filter, or an index in place of *."
)


class PageRequest(Struct, frozen=True, kw_only=True):
    """The request for a page."""

    plan: QueryPlan
    size: int
    """Size of the document in bytes."""
    limit: int
    """Maximum values of the page."""
    chars: int
    """Characters of values after which the page is full: more than any answer shows."""
    fields: tuple[str, ...] = ()
    resume: Resume | None = None
    """The position at which the page begins; None: at the first value."""
    patience: float = PATIENCE_SECONDS
    """Seconds after which the page ends."""


class PageBuilder:
    """A page under construction.

    Attributes:
        start: the position at which the page begins.
        found: number of values that were found for this page and all earlier pages.
        full_at: the position of the first value for which the page has no room; None if it has room for all so far.
        spent_at: the position at which the time was up; None if it is not up.
        broken: number of children that were left out because they are not JSON, or are nested too deeply.
        odd: whether a value contains something that strict JSON cannot represent.
        cut_short: whether the document, or the current line, ends before its JSON does.
        line: index of the current element if it is a line of its own; otherwise None.
        damaged: path of a requested value that is not valid JSON; None if there is none.
        lost: whether the walk ended early because it met invalid JSON.
    """

    def __init__(self, request: PageRequest, clock: Callable[[], float]) -> None:
        self._request = request
        self.effort = Effort(
            clock, request.patience
        )  # no reference to this builder: such a cycle would keep results in memory until a garbage collection
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
        """Maximum characters to keep of the next value."""
        return VALUE_CHARS if self.hits else FIRST_VALUE_CHARS

    def room(self, resume: Resume) -> bool:
        """Counts a value, and returns whether the page has room for it; if not, the next page begins with the value."""
        self.found += 1
        if len(self.hits) < self._request.limit and self._chars <= self._request.chars:
            return True
        # Further values are counted for a moment, so that most answers know the total.
        if self.full_at is None:
            self.full_at = resume
            self.effort.at_most(COUNT_ON_SECONDS)
        return False

    def put(
        self, value: object, path: list[Step], location: Location, raw: bytes | None, at: int, resume: Resume
    ) -> None:
        """Keeps a decoded value.

        Args:
            value: the value.
            path: the steps from the root to the child that contains the value.
            location: the steps from that child to the value.
            raw: the child's text; None if the value need not be located.
            at: offset of `raw` in the document.
            resume: the position of a page that begins with the value.
        """
        inner = steps(location)
        span = None
        # To locate a value, the text around it is decoded once more. That is bounded: positions are only a convenience.
        if raw is not None and (len(raw) <= _SMALL_BYTES or self._locating >= len(raw)):
            self._locating -= len(raw) if len(raw) > _SMALL_BYTES else 0
            span = span_of(raw, inner)
        span = None if span is None else (span[0] + at, span[1] + at)
        text, whole = cut(value, self.keep, odd=self.odd)
        path, cells = [*path, *inner], self._cells(value)
        self._append(ValueHit(path, kind_of_value(value), text, whole, resume, span, cells))

    def put_written(self, raw: bytes, path: list[Step], span: Span, resume: Resume, *, all_there: bool = True) -> None:
        """Keeps the beginning of a value as it is written, without decoding the whole value.

        This serves values that are too long or too deep to be decoded. `raw` is the complete value, or has at least
        four bytes for each character to keep. Invalid JSON is kept as it is written, is never `whole`, and is recorded
        in `damaged`.
        """
        keep = self.keep
        raw, decoded = raw[: 4 * keep], None
        kind = kind_of(raw[0]) or "number"
        state: State = "sound" if all_there else "cut"
        # A value that is short enough is decoded after all, so that it is compact and known to be JSON.
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
        """Returns the finished page."""
        only = self._request.plan.single and self.found > 0  # a path of names and indices leads to at most one value
        # If a page ends where it began, a caller would request the same page endlessly: it gets no cursor.
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
    """The position of a next page inside one value: its bytes from `byte` to before `end` were not shown yet."""

    byte: int
    end: int
    text: bool
    """Whether the value is a string. Of a string, the characters are shown without quotes and escapes."""
    partial: bool = False
    """Whether the value is incomplete or not JSON, which a notice said beside its first part."""


_DECODER: Final = msgspec.msgpack.Decoder(ValueCursor | Resume)

write = write_cursor


def read(text: str, artifact: int, question: str) -> Resume | ValueCursor:
    """Returns the position that `write` encoded.

    Raises:
        CoatcheckError: `invalid_cursor` for a text that is no cursor, and for a cursor of another artifact or question.
    """
    try:
        return read_cursor(text, _DECODER, artifact, question)
    except ValueError:
        raise CoatcheckError(
            Code.INVALID_CURSOR,
            "This cursor does not belong to this artifact and path, or the text was made anew since it was given. Use "
            "the `next` of the last answer unchanged, with the same path and fields, or leave it out.",
        ) from None
