"""What was found: values as compact text, with their location, their bytes, and where a later page begins at them."""

import json
from typing import Final, Literal

import msgspec
from msgspec import Struct

from coatcheck.core.jsonpath.evaluate import is_object
from coatcheck.core.jsonpath.location import Step

Kind = Literal["object", "array", "string", "number", "boolean", "null"]
State = Literal["sound", "broken", "cut"]
"""What is written is a JSON value as far as was looked at, is none, or ends before the value does."""
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
    """Where a page begins; what a cursor holds."""

    byte: int = 0
    """The child to begin at; 0: the first."""
    index: int = 0
    """Its index."""
    skip: int = 0
    """Values of that child (or of the document, where it is evaluated whole) that earlier pages had."""
    seen: int = 0
    """Values of all earlier pages."""


class ValueHit(Struct, frozen=True, gc=False):
    """One value. No garbage collector follows it: it is in no circle, and a page holds a thousand."""

    path: list[Step]
    """Its steps from the root."""
    kind: Kind
    text: str
    """Compact JSON, cut to what is kept."""
    whole: bool
    """Nothing of it was cut."""
    resume: Resume
    """A page that begins with it."""
    span: Span | None
    """Its bytes in the document, where they are known."""
    cells: tuple[str, ...] | None = None
    """Of an object, where fields are asked for: each one's text, empty where it is missing."""
    state: State = "sound"


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


def kind_of(first: int) -> Kind | None:
    """What begins with this byte; None for what begins no JSON value."""
    return _KINDS.get(first)


def kind_of_value(value: object) -> Kind:
    """The kind of a decoded value."""
    return _TYPES.get(type(value), "number")


def compact(value: object, *, odd: bool = False) -> str:
    """A value as JSON on one line, as short as JSON is.

    Where it is odd, NaN, Infinity and half surrogates stay what they are, and the text may be no strict JSON.
    """
    try:
        return _LOOSE(value) if odd else _ENCODE(value).decode()
    except RecursionError:
        return "[…]" if isinstance(value, list) else "{…}"
    except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):  # integers of more than 64 bits
        return compact(value, odd=True)


def cut(value: object, keep: int, *, odd: bool = False) -> tuple[str, bool]:
    """A value's compact text up to `keep` characters, and whether that is all."""
    if isinstance(value, str) and len(value) > keep:
        return compact(value[:keep], odd=odd)[:-1], False
    text = compact(value, odd=odd)
    return text[:keep], len(text) <= keep


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


def _field(value: dict[str, object], field: str) -> object:
    """A member by its name, or by names joined with dots."""
    if field in value:
        return value[field]
    at: object = value
    for name in field.split("."):
        at = at.get(name, _MISSING) if is_object(at) else _MISSING
    return at
