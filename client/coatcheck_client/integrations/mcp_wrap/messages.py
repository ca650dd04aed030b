"""JSON-RPC messages as objects with undecoded members: members that nobody examines pass byte for byte."""

import json
from typing import Any, TypeAlias, cast

import msgspec

Members: TypeAlias = dict[str, msgspec.Raw]


def members(data: bytes | msgspec.Raw) -> Members | None:
    """Returns the members of a JSON object; None for anything else, such as a batch, or a line that is not JSON."""
    try:
        return msgspec.json.decode(data, type=Members)
    except msgspec.ValidationError:
        return None
    except (ValueError, RecursionError):  # no JSON, not UTF-8, or half of a surrogate pair
        return _tolerant(bytes(data))


def _tolerant(data: bytes) -> Members | None:
    """Like `members`, but accepts halves of surrogate pairs, which JSON may contain and msgspec refuses."""
    try:
        parsed: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    return {str(name): encoded(value) for name, value in cast("dict[str, object]", parsed).items()}


def value(raw: msgspec.Raw | None) -> Any:  # noqa: ANN401 - JSON
    """Returns a member's value; None if it is missing."""
    return None if raw is None else json.loads(bytes(raw))


def number(raw: msgspec.Raw | None) -> str | int | float | None:
    """Returns the ID of a request, a string or a number; None for any other value."""
    found: object = value(raw)
    return found if isinstance(found, str | int | float) else None


def encoded(value: object) -> msgspec.Raw:
    """Returns a value as a JSON-encoded member."""
    return msgspec.Raw(json.dumps(value, separators=(",", ":")).encode())


def encoded_raw(value: Members | list[Members]) -> msgspec.Raw:
    """Returns an object with undecoded members, or a list of such objects, as one member."""
    return msgspec.Raw(msgspec.json.encode(value))


def line(message: Members) -> bytes:
    """Returns a message as the bytes to send, without a line end."""
    return msgspec.json.encode(message)
