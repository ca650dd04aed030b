"""Accessors for JSON values of unchecked types."""

from typing import Any, cast

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.long_text import LongText, Text, is_text

Value = Any
Object = dict[str, Any]


def as_object(value: Value) -> Object:
    """Returns a JSON object; an empty one for anything else."""
    return cast("Object", value) if isinstance(value, dict) else {}


def as_list(value: Value) -> list[Value]:
    """Returns a JSON array; an empty one for anything else."""
    return cast("list[Value]", value) if isinstance(value, list) else []


def as_text(value: Value) -> str | None:
    """Returns a string that is not empty; None for anything else."""
    return str(value) if is_text(value) and value else None


def kind_of(block: Object) -> str | None:
    """Returns the `type` of a part or an item; None if it has none, and empty if that is not a string."""
    kind = block.get("type")
    return kind if kind is None or isinstance(kind, str) else ""


def is_utf8(text: Text) -> bool:
    """Returns whether a text can be encoded: JSON can contain halves of surrogate pairs, which no encoding has."""
    try:
        _ = isinstance(text, LongText) or text.isascii() or text.encode()
    except UnicodeEncodeError:
        return False
    return True


def too_deep() -> CoatcheckError:
    """Returns the refusal of a body nested more deeply than the interpreter's stack allows."""
    return CoatcheckError(Code.INVALID_CONTENT, "The body is nested too deeply.")
