"""What was found: values as compact text, with their location, their bytes, and where a later page begins at them.

It renders single values only; `render.py` makes an answer of many.
"""

import json
from typing import Final, Literal

import msgspec
from msgspec import Struct

from coatcheck.core.jsonpath.decode import span_of
from coatcheck.core.jsonpath.evaluate import is_object
from coatcheck.core.jsonpath.location import Location, Step, steps

HOLD: Final = 4_000
"""Characters kept of a value while there are others."""
HOLD_ALONE: Final = 30_000
"""Characters kept of the first value of a page, which may be the only one."""

Kind = Literal["object", "array", "string", "number", "boolean", "null"]
State = Literal["sound", "broken", "cut"]
"""What is written is a JSON value as far as was looked at, is none, or ends before the value does."""

_ENCODE: Final = msgspec.json.Encoder().encode
_LOOSE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

_KINDS: Final[dict[int, Kind]] = {
    **dict.fromkeys(b"-0123456789NI", "number"),
    ord("{"): "object",
    ord("["): "array",
    ord('"'): "string",
    ord("t"): "boolean",
    ord("f"): "boolean",
    ord("n"): "null",
}


_TYPES: Final[dict[type, Kind]] = {
    type(None): "null",
    bool: "boolean",
    str: "string",
    dict: "object",
    list: "array",
}


class Resume(Struct, frozen=True, gc=False):
    """Where a page begins."""

    byte: int = 0
    """The child to begin at; 0: the first."""
    index: int = 0
    """Its index."""
    skip: int = 0
    """Values of that child (or of the document, where it is evaluated whole) that earlier pages had."""
    seen: int = 0
    """Values of all earlier pages."""


Span = tuple[int, int]
"""Bytes in the document."""


class ValueContainer(Struct, frozen=True, gc=False):
    """What a value was found in: a child, or the whole document."""

    path: list[Step]
    raw: bytes | None
    """As it is written; None: that is not known, or not kept."""
    at: int
    """Where `raw` begins in the document."""

    def span(self, location: Location) -> Span | None:
        """Where in the document a value in it is written, if that is known."""
        found = None if self.raw is None else span_of(self.raw, steps(location))
        return None if found is None else (found[0] + self.at, found[1] + self.at)


class ValueHit(Struct, frozen=True, gc=False):
    """One value. No garbage collector follows it: it is in no circle, and a page holds a thousand."""

    within: ValueContainer
    location: Location
    """Where it is from there."""
    kind: Kind
    text: str
    """Compact JSON, cut to what is kept."""
    whole: bool
    """Nothing of it was cut."""
    resume: Resume
    """A page that begins with it."""
    cells: tuple[str, ...] | None = None
    """Of an object, where fields are asked for: each one's text, empty where it is missing."""
    state: State = "sound"
    looked: Span | None = None
    """Its bytes in the document, where they were looked up; otherwise `within` says: few values are ever shown."""

    @property
    def path(self) -> list[Step]:
        """Its steps from the root."""
        return [*self.within.path, *steps(self.location)]

    @property
    def span(self) -> Span | None:
        """Its bytes in the document, where they are known."""
        return self.looked or self.within.span(self.location)


class ValuePage(Struct, frozen=True, kw_only=True):
    """What one call found."""

    hits: list[ValueHit]
    total: int
    exact: bool
    """`total` is all there are, not only those that were found in time."""
    stopped: Literal["end", "limit", "deadline"]
    next: Resume | None
    """Where the next page begins when all hits are shown."""
    notices: list[str]
    partial: bool
    """Something of the document could not be read."""
    message: str | None = None
    """Why there is nothing."""


class UndecodedValue:
    """A value that is nested too deeply to be decoded, as it is written.

    A plain class: whether a value is one is asked of every value, and of a Struct that takes four times as long.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw


def kind_of(first: int) -> Kind | None:
    """What begins with this byte; None for what begins no JSON value."""
    return _KINDS.get(first)


def kind_of_value(value: object) -> Kind:
    """The kind of a decoded value."""
    if isinstance(value, UndecodedValue):
        return kind_of(value.raw.lstrip()[0]) or "array"
    return _TYPES.get(type(value), "number")


def compact(value: object, *, odd: bool = False) -> str:
    """A value as JSON on one line, as short as JSON is.

    Where it is odd, NaN, Infinity and half surrogates stay what they are, and the text may be no strict JSON.
    """
    try:
        return _LOOSE(value) if odd else _strict(value)
    except RecursionError:
        return "[…]" if isinstance(value, list) else "{…}"


def _strict(value: object) -> str:
    try:
        return _ENCODE(value).decode()
    except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):  # integers of more than 64 bits
        return _LOOSE(value)


def cut(value: object, keep: int, *, odd: bool = False) -> tuple[str, bool]:
    """A value's compact text up to `keep` characters, and whether that is all."""
    if isinstance(value, str):
        if len(value) > keep:
            return compact(value[:keep], odd=odd)[:-1], False
    elif isinstance(value, UndecodedValue):
        return value.raw[: 4 * keep].decode("utf-8", "replace").strip()[:keep], False
    text = compact(value, odd=odd)
    return (text, True) if len(text) <= keep else (text[:keep], False)


def cells_of(value: object, fields: tuple[str, ...], keep: int, *, odd: bool = False) -> tuple[str, ...] | None:
    """The fields of an object as text; None for what is no object."""
    if not is_object(value):
        return None
    out: list[str] = []
    for field in fields:
        found = _field(value, field)
        text, whole = ("", True) if found is _MISSING else cut(found, keep, odd=odd)
        out.append(text if whole else f"{text}…")
    return tuple(out)


_MISSING: Final = object()


def _field(value: dict[str, object], field: str) -> object:
    """A member by its name, or by names joined with dots."""
    if field in value:
        return value[field]
    at: object = value
    for name in field.split("."):
        at = at.get(name, _MISSING) if is_object(at) else _MISSING
    return at
