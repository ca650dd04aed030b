"""JSON values by their shape, for bodies whose types nobody checked."""

from typing import Any, cast

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.long_text import LongText, Text, is_text

Value = Any
Object = dict[str, Any]


def as_object(value: Value) -> Object:
    """A JSON object, or an empty one for anything else."""
    return cast("Object", value) if isinstance(value, dict) else {}


def as_list(value: Value) -> list[Value]:
    """A JSON array, or an empty one for anything else."""
    return cast("list[Value]", value) if isinstance(value, list) else []


def as_text(value: Value) -> str | None:
    """A string that says something; None for anything else."""
    return str(value) if is_text(value) and value else None


def kind_of(block: Object) -> str | None:
    """The `type` of a part or an item; None when it has none, and empty when that is no string."""
    kind = block.get("type")
    return kind if kind is None or isinstance(kind, str) else ""


def is_utf8(text: Text) -> bool:
    """Whether a text can be bytes: JSON can spell halves of surrogate pairs, which no encoding has."""
    try:
        _ = isinstance(text, LongText) or text.isascii() or text.encode()
    except UnicodeEncodeError:
        return False
    return True


def too_deep() -> CoatcheckError:
    """The refusal of a body whose nesting is more than the interpreter's stack takes."""
    return CoatcheckError(Code.INVALID_CONTENT, "The body is nested too deeply.")
