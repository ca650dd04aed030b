"""Renders errors as RFC 9457 problem details, and describes the values that a field accepts.

A caller learns nothing about an internal error except that it happened. The log has the details under the request ID.

`constraint_text` describes the values that a field accepts: "a whole number from 1 to 200", "one of raw, text", "true
or false". The text is derived from the model that refused the value, so it always states the bounds in force. It does
not mention null, which means that a field is left out. The value that was sent is not examined.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, cast

import msgspec
import msgspec.inspect as types
from msgspec import Struct

from coatcheck.api.http.error_table import TABLE
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import hide

MEDIA_TYPE: Final = "application/problem+json"


CONSTANT: Final = frozenset({Code.ARTIFACT_NOT_FOUND})
"""Codes whose answer must always be identical, so that it does not reveal whether an artifact never existed, is in
another namespace or was forgotten. Such an answer has the same detail every time and no request ID."""


class Problem(Struct, frozen=True):
    """The answer to a request that failed."""

    status: int
    headers: list[tuple[str, str]]
    """Header fields with names in lower case, without Content-Length, which the sender adds."""
    body: bytes
    """A JSON document; for the administrator's page, an HTML page."""


def members(error: CoatcheckError, request_id: str | None) -> dict[str, object]:
    """Returns the members of an error's problem object, in the order of the document.

    `request_id` is None if the object is a part of an answer that has the request ID elsewhere.
    """
    row = TABLE[error.code]
    constant = error.code in CONSTANT
    # A detail may quote a part of the request, which may contain a key. `hide` replaces the key.
    object_: dict[str, object] = {
        "type": f"/errors/{error.code}",
        "title": row.title,
        "status": row.status,
        "code": str(error.code),
        "detail": row.advice if constant else hide(error.detail),
    }
    if not constant:
        if request_id is not None:
            object_["request_id"] = request_id
        extra = {name: hide(value) if isinstance(value, str) else value for name, value in error.extra.items()}
        # Extra members never replace the standard ones.
        object_ |= {name: value for name, value in extra.items() if name not in object_}
    return object_


def render(error: CoatcheckError, request_id: str | None) -> Problem:
    """Returns the problem details of an expected failure."""
    row = TABLE[error.code]
    headers = [("content-type", MEDIA_TYPE), ("cache-control", "no-store")]
    # A time that the error itself has computed takes precedence over the time in the table.
    retry_after = error.extra.get("retry_after", row.retry_after)
    if retry_after is not None:
        headers.append(("retry-after", str(retry_after)))
    if error.code is Code.UNSUPPORTED_ENCODING:
        headers.append(("accept-encoding", "gzip, zstd"))
    if error.code is Code.TRUNCATED_BODY:
        headers.append(("connection", "close"))  # the rest of the body may still arrive, and is not a new request
    if error.code in {Code.UNAUTHENTICATED, Code.FORBIDDEN}:
        headers.append(("www-authenticate", _challenge(error)))
    return Problem(row.status, headers, msgspec.json.encode(members(error, request_id)))


def _challenge(error: CoatcheckError) -> str:
    """Returns the value of WWW-Authenticate: the key that is needed (RFC 9110 section 11.6.1, RFC 6750 section 3)."""
    scope = error.extra.get("scope")
    needed = "" if scope is None else f', error="insufficient_scope", scope="{scope}"'
    return f'Bearer realm="coatcheck"{needed}'


def internal() -> CoatcheckError:
    """Returns the error that a caller gets for an unexpected exception."""
    return CoatcheckError(
        Code.INTERNAL, "Something went wrong in the service; it was logged under the request ID. Retrying may not help."
    )


_STEP: Final = re.compile(r"[^.\[\]]+|\[[^\]]*\]")
"""Matches a step of a path in a message of msgspec's: a member's name, or an index in brackets."""
_NAMED_VALUES: Final = 40
"""Maximum number of allowed values that a sentence lists."""
_UNBOUNDED: Final[dict[type[types.Type], str]] = {
    types.FloatType: "a number",
    types.BoolType: "true or false",
    types.DateTimeType: "a time such as 2026-07-30T12:00:00Z",
    types.DictType: "an object",
    types.StructType: "an object",
}
"""By type, the words for values of a type without bounds."""


def constraint_text(model: object, path: str) -> str | None:
    """Returns, in words, the values that the field at a path such as `labels[0]` accepts; None if that is unknown.

    The empty path stands for the model itself.
    """
    models = [_type_of(model)]
    for step in _STEP.findall(path):
        models = [inner for outer in models for inner in _types_at(outer, step)]
    # If one alternative cannot be described, describe none of them: a list of only some would mislead.
    words = [_describe(one) for each in models for one in _alternatives(each) if not isinstance(one, types.NoneType)]
    type_names = list(dict.fromkeys(word for word in words if word is not None))
    if not type_names or None in words:
        return None
    return type_names[0] if len(type_names) == 1 else f"{', '.join(type_names[:-1])} or {type_names[-1]}"


@cache
def _type_of(model: Any) -> types.Type:  # noqa: ANN401 - any type
    return types.type_info(model)


def _alternatives(outer: types.Type) -> Iterator[types.Type]:
    """Yields a type without its metadata; for a union, each of its types."""
    if isinstance(outer, types.Metadata):
        inner = outer.type
        bounds = cast("dict[str, Any]", outer.extra_json_schema or {})  # pyright: ignore[reportUnknownMemberType]
        # Some bounds are only in the schema, because other code enforces them (`parameters.seconds`).
        if isinstance(inner, types.IntType) and inner.ge is None and inner.le is None:
            yield types.IntType(ge=bounds.get("minimum"), le=bounds.get("maximum"))
        else:
            yield from _alternatives(inner)
    elif isinstance(outer, types.UnionType):
        for each in outer.types:
            yield from _alternatives(each)
    else:
        yield outer


def _types_at(outer: types.Type, step: str) -> Iterator[types.Type]:
    for each in _alternatives(outer):
        if isinstance(each, types.StructType):
            yield from (field.type for field in each.fields if field.encode_name == step)
        elif isinstance(each, types.ListType | types.VarTupleType) and step.startswith("["):
            yield each.item_type
        elif isinstance(each, types.DictType):
            yield each.value_type


def _describe(one: types.Type) -> str | None:
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
    return _UNBOUNDED.get(type(one))


def _one_of(values: list[str]) -> str | None:
    if len(values) > _NAMED_VALUES:
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
