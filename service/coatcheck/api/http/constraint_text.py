"""Describes what a request's field accepts: "a whole number from 1 to 200", "one of raw, text", "true or false".

The text comes from the model that refused the value, so it always states the bounds in force. Null, which leaves a
field out, is not mentioned. The values that were sent are not examined.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, cast

import msgspec.inspect as types

_STEP: Final = re.compile(r"[^.\[\]]+|\[[^\]]*\]")
_NAMED: Final = 40
"""Number of values that a sentence lists."""
_SIMPLE: Final[dict[type[types.Type], str]] = {
    types.FloatType: "a number",
    types.BoolType: "true or false",
    types.DateTimeType: "a time such as 2026-07-30T12:00:00Z",
    types.DictType: "an object",
    types.StructType: "an object",
}


def constraint_text(model: object, path: str) -> str | None:
    """Returns what the field at a path such as `labels[0]` accepts (at the empty path, what the model accepts).

    None if unknown.
    """
    models = [_type_of(model)]
    for step in _STEP.findall(path):
        models = [inner for outer in models for inner in _inside(outer, step)]
    words = [_word(one) for each in models for one in _alternatives(each) if not isinstance(one, types.NoneType)]
    type_names = list(dict.fromkeys(word for word in words if word is not None))
    if not type_names or None in words:
        return None
    return type_names[0] if len(type_names) == 1 else f"{', '.join(type_names[:-1])} or {type_names[-1]}"


@cache
def _type_of(model: Any) -> types.Type:  # noqa: ANN401 - any type
    return types.type_info(model)


def _alternatives(outer: types.Type) -> Iterator[types.Type]:
    """Returns a type without its metadata, or all types of a union."""
    if isinstance(outer, types.Metadata):
        inner = outer.type
        bounds = cast("dict[str, Any]", outer.extra_json_schema or {})  # pyright: ignore[reportUnknownMemberType]
        if isinstance(inner, types.IntType) and inner.ge is None and inner.le is None:
            yield types.IntType(ge=bounds.get("minimum"), le=bounds.get("maximum"))
        else:
            yield from _alternatives(inner)
    elif isinstance(outer, types.UnionType):
        for each in outer.types:
            yield from _alternatives(each)
    else:
        yield outer


def _inside(outer: types.Type, step: str) -> Iterator[types.Type]:
    for each in _alternatives(outer):
        if isinstance(each, types.StructType):
            yield from (field.type for field in each.fields if field.encode_name == step)
        elif isinstance(each, types.ListType | types.VarTupleType) and step.startswith("["):
            yield each.item_type
        elif isinstance(each, types.DictType):
            yield each.value_type


def _word(one: types.Type) -> str | None:
    if isinstance(one, types.IntType):
        return f"a whole number{_range(one.ge, one.le)}"
    if isinstance(one, types.StrType):
        matching = f" that matches {one.pattern}" if one.pattern else ""
        return f"text{_length(one.min_length, one.max_length, 'character')}{matching}"
    if isinstance(one, types.ListType | types.VarTupleType):
        return f"a list{_length(one.min_length, one.max_length, 'item')}"
    if isinstance(one, types.EnumType):
        return _one_of([str(member.value) for member in one.cls])
    if isinstance(one, types.LiteralType):
        return _one_of([str(value) for value in one.values])
    return _SIMPLE.get(type(one))


def _one_of(values: list[str]) -> str | None:
    if len(values) > _NAMED:
        return None
    return f"one of {', '.join(values)}" if len(values) > 1 else values[0]


def _range(least: int | None, most: int | None) -> str:
    if least is not None and most is not None:
        return f" from {least:,} to {most:,}"
    if least is not None:
        return f" of at least {least:,}"
    return f" of at most {most:,}" if most is not None else ""


def _length(least: int | None, most: int | None, noun: str) -> str:
    if least and most is not None:
        return f" of {least:,} to {most:,} {noun}s"
    if most is not None:
        return f" of at most {most:,} {noun}s"
    return f" of at least {least:,} {noun}{'' if least == 1 else 's'}" if least else ""
