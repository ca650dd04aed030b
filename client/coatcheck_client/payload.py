"""Converts what a tool returned into what can be posted: text, bytes or JSON. Pure; refuses nothing, loses nothing.

Text and bytes, also of derived types, are taken as they are. Lists, mappings, sets and objects with fields
(dataclasses, msgspec's and pydantic's models) become JSON, in which the service recognises parts and the tool results
of every provider. A value that JSON cannot represent (because of not-a-number, keys that are not names or that JSON
writes alike, cycles or its depth) becomes text in the style of JSON. Every other object becomes the text that Python
shows for it.
"""

import base64
import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeAlias, cast

import msgspec

from coatcheck_client.contract.json_values import unique_members
from coatcheck_client.wire import mended


class EncodedJson(msgspec.Struct, frozen=True):
    """A value as JSON."""

    data: bytes


Payload: TypeAlias = str | bytes | EncodedJson

_CYCLE: Final = '"(the object itself)"'
"""Stands for a container inside itself."""


def payload_of(value: object) -> Payload:
    """Returns a value in the form in which it is posted."""
    try:
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(cast("bytes", value))
        members = _members(value)
        if members is None:
            return _text(value)
        return EncodedJson(as_json(value)) if members else "{}" if isinstance(members, dict) else "[]"
    except Exception:  # noqa: BLE001 - values run code of their own, and may fail with anything
        return _written(cast("object", value))


def as_json(value: object) -> bytes:
    """Returns a value as compact JSON.

    Raises:
        Exception: if JSON cannot represent it, or whatever the value's own code raises.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_json)
    json.loads(mended(text), object_pairs_hook=unique_members)
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can only contain as an escape
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_json).encode()


def _json(value: object) -> object:
    """Returns what represents an object that JSON does not know."""
    members = _members(value)
    return _leaf(value) if members is None else members


def _members(value: object) -> dict[Any, Any] | list[Any] | None:
    """Returns the members of a container, or the fields of an object, unchanged; None for anything else."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if isinstance(value, list | tuple):
        return list(cast("Iterable[Any]", value))
    if isinstance(value, AbstractSet):
        return sorted(cast("Iterable[Any]", value), key=_text)  # a set's own order differs between processes
    return _fields(value)


def _fields(value: object) -> dict[Any, Any] | None:
    """Returns the fields of an object; None if the object does not say which fields it has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)  # as in pydantic's models
    dumped: object = dump() if callable(dump) else None
    return cast("dict[Any, Any]", dumped) if isinstance(dumped, dict) else None


def _leaf(value: object) -> str:
    """Returns a value without members as text: bytes as the text that they encode, or else in Base64."""
    if not issubclass(type(value), bytes | bytearray | memoryview):
        return _text(value)
    try:
        return bytes(cast("bytes", value)).decode()
    except UnicodeDecodeError:
        return base64.b64encode(cast("bytes", value)).decode()


def _text(value: object) -> str:
    """Returns text as it is, and any other value as Python shows it; a number too long for that in hexadecimal."""
    if issubclass(type(value), str):
        return str.__str__(cast("str", value))
    shown: tuple[Callable[[Any], str], ...] = (str, repr, hex, object.__repr__)
    for show in shown:
        try:
            text = str.__str__(show(cast("Any", value)))
        except Exception:  # noqa: BLE001, S112 - tries the next function; the last one cannot fail
            continue
        if text:
            return text
    return ""


class _Mark:
    """Punctuation on the stack of `_written`. `closes`: the `id` of the container that ends here."""

    def __init__(self, text: str, closes: int | None = None) -> None:
        self.text = text
        self.closes = closes


def _written(value: object) -> str:
    """Returns a value of any depth in the style of JSON. What JSON cannot represent is written as Python shows it."""
    written: list[str] = []
    waiting: list[object] = [value]
    opened: set[int] = set()
    while waiting:
        one = waiting.pop()
        if type(one) is _Mark:
            written.append(one.text)
            opened.discard(one.closes or 0)
        elif id(one) in opened:
            written.append(_CYCLE)
        elif (parts := _parts(one)) is None:
            written.append(_word(one))
        else:
            opened.add(id(one))
            waiting += [_Mark("", closes=id(one)), *reversed(parts)]
    return "".join(written)


def _parts(value: object) -> list[Any] | None:
    """Returns the punctuation and members of a container, in order; None for a value without known members."""
    try:
        members = _members(value)
    except Exception:  # noqa: BLE001 - values run code of their own
        return None
    if members is None:
        return None
    parts: list[Any] = [_Mark("{" if isinstance(members, dict) else "[")]
    if isinstance(members, dict):
        for at, (key, member) in enumerate(members.items()):
            parts += [_Mark(f"{',' if at else ''}{json.dumps(_text(key))}:"), member]
        return [*parts, _Mark("}")]
    for at, member in enumerate(members):
        parts += [_Mark(","), member] if at else [member]
    return [*parts, _Mark("]")]


def _word(value: object) -> str:
    """Returns a value without members as it is written in JSON.

    `type` is used because `isinstance` may run the value's own code.
    """
    if value is None or value is True or value is False:
        return json.dumps(value)
    return _text(value) if issubclass(type(value), int | float) else json.dumps(_leaf(value), ensure_ascii=False)
