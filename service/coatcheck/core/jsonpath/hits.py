"""What was found: values as compact text, with their location, their bytes, and where a later page begins at them.

It renders single values only; `render.py` makes an answer of many.
"""

import json
import math
from collections.abc import Callable
from typing import Final, Literal

import msgspec
from msgspec import Struct

from coatcheck.core.jsonpath.evaluate import is_object
from coatcheck.core.jsonpath.location import Step

HOLD: Final = 4_000
"""Characters kept of a value while there are others."""
HOLD_ALONE: Final = 30_000
"""Characters kept of the first value of a page, which may be the only one."""

Kind = Literal["object", "array", "string", "number", "boolean", "null"]

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


class Resume(Struct, frozen=True):
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
Where = Span | None | Callable[[], Span | None]
"""Bytes in the document, if known, or how to find out: many values are found that nobody is shown."""


class Hit(Struct, frozen=True):
    """One value."""

    path: list[Step]
    kind: Kind
    text: str
    """Compact JSON, cut to what is kept."""
    whole: bool
    """Nothing of it was cut."""
    where: Where
    resume: Resume
    """A page that begins with it."""
    cells: tuple[str, ...] | None = None
    """Of an object, where fields are asked for: each one's text, empty where it is missing."""

    @property
    def span(self) -> Span | None:
        """Its bytes in the document, where they are known."""
        return self.where() if callable(self.where) else self.where


class Page(Struct, frozen=True, kw_only=True):
    """What one call found."""

    hits: list[Hit]
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


class Unread(Struct, frozen=True):
    """A value that is nested too deeply to be decoded, as it is written."""

    raw: bytes


def kind_of(first: int) -> Kind | None:
    """What begins with this byte; None for what begins no JSON value."""
    return _KINDS.get(first)


def kind_of_value(value: object) -> Kind:
    """The kind of a decoded value."""
    if isinstance(value, Unread):
        return kind_of(value.raw.lstrip()[0]) or "array"
    return _TYPES.get(type(value), "number")


def compact(value: object) -> str:
    """A value as JSON on one line, as short as JSON is."""
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "[…]" if isinstance(value, list) else "{…}"


def cut(value: object, keep: int) -> tuple[str, bool]:
    """A value's compact text up to `keep` characters, and whether that is all."""
    if isinstance(value, Unread):
        text = value.raw[: 4 * keep].decode("utf-8", "replace").strip()
        return text[:keep], False
    if isinstance(value, str) and len(value) > keep:
        return compact(value[:keep])[:-1], False
    text = compact(value)
    return text[:keep], len(text) <= keep


def cells_of(value: object, fields: tuple[str, ...], keep: int) -> tuple[str, ...] | None:
    """The fields of an object as text; None for what is no object."""
    if not is_object(value):
        return None
    out: list[str] = []
    for field in fields:
        found = _field(value, field)
        text, whole = ("", True) if found is _MISSING else cut(found, keep)
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
