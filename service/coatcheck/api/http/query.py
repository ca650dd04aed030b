"""Converts query strings to typed values.

Unknown and repeated names are errors: a misspelt filter must not list everything.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import TypeVar, get_args, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from litestar.types import Scope

from coatcheck.api.http.json_body import refusal_of
from coatcheck.core.errors import CoatcheckError, Code

T = TypeVar("T", bound=msgspec.Struct)
MAX_PAIRS = 100


class EmptyQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A route without query parameters."""


def read_query(scope: Scope, model: type[T]) -> T:
    """Returns a request's query string as a `model`.

    Raises:
        CoatcheckError: `invalid_request`, naming the parameter.
    """
    raw: bytes = scope["query_string"]
    if not raw:
        return from_pairs((), model, where="the query string")
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PAIRS)
    except UnicodeDecodeError as e:
        raise CoatcheckError(Code.INVALID_REQUEST, "The query string is not percent-encoded UTF-8.") from e
    except ValueError as e:
        raise CoatcheckError(Code.INVALID_REQUEST, f"At most {MAX_PAIRS} query parameters are accepted.") from e
    return from_pairs(pairs, model, where="the query string")


def from_pairs(pairs: Iterable[tuple[str, str]], model: type[T], *, where: str = "the form") -> T:
    """Returns names and texts as a `model`; only a name that stands for a list may repeat.

    Raises:
        CoatcheckError: `invalid_request`, naming the field.
    """
    values: dict[str, str] = {}
    several: dict[str, list[str]] = {}
    lists = _lists(model)
    for name, value in pairs:
        if name in lists:
            several.setdefault(name, []).append(value)
        elif name in values:
            raise CoatcheckError(Code.INVALID_REQUEST, f"'{name[:80]}' is given twice in {where}.", field=name[:80])
        else:
            values[name] = value
    try:
        converted = msgspec.convert({**values, **several}, model, strict=False)
    except msgspec.ValidationError as e:
        raise refusal_of(e, model, where=where) from e
    for name, text in values.items():
        if getattr(converted, name) is None:  # msgspec converts the word `null`, which would mean no filter at all
            word = msgspec.ValidationError(f"Expected a value, got the word `null` - at `$.{name}`")
            raise refusal_of(word, model, where=where)
        if isinstance(getattr(converted, name), datetime) and ":" not in text:
            word = msgspec.ValidationError(f"Expected a time as in RFC 3339, got a number - at `$.{name}`")
            raise refusal_of(word, model, where=where)
    return converted


@cache
def _lists(model: type[msgspec.Struct]) -> frozenset[str]:
    """Returns the fields of a model that hold lists: tuples, and those of any type whose schema says so."""
    hints = get_type_hints(model, include_extras=True)
    return frozenset(name for name, hint in hints.items() if _is_list(hint))


def _is_list(hint: object) -> bool:
    if isinstance(hint, msgspec.Meta):
        return (hint.extra_json_schema or {}).get("type") == "array"
    return getattr(hint, "__origin__", None) is tuple or any(
        _is_list(inner) for inner in (*get_args(hint), *getattr(hint, "__metadata__", ()))
    )
