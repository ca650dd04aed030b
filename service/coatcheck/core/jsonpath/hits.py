"""What was found: values as compact text, with their paths, their bytes, and where a later page continues."""

import json
from typing import Final, Literal

import msgspec
from msgspec import Struct

from coatcheck.core.jsonpath.evaluate import is_object
from coatcheck.core.jsonpath.location import Step

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
