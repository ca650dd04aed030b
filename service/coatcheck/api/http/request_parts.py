"""Reads the parts of a request that all routes use: header fields, caller, idempotency key and query string.

Header fields come straight from the ASGI scope; lines with the same name are joined by commas. A query string is
converted to typed values. Unknown and repeated names in it are errors, because a misspelt filter must not list
everything.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Final, TypeVar, cast, get_args, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from litestar.types import Scope

from coatcheck.api.http.json_body import refusal_of
from coatcheck.core import ids
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code


def field(scope: Scope, name: bytes) -> str | None:
    """Returns the value of a header field; None if it is absent. `name` must be in lower case."""
    field_value: str | None = None
    for key, value in scope["headers"]:
        if key == name:
            # latin-1 has a character for every byte, so no field can fail to decode.
            text = value.decode("latin-1")
            field_value = text if field_value is None else f"{field_value}, {text}"
    return field_value


def media_type(scope: Scope) -> str | None:
    """Returns the media type of the request's body, in lower case and without parameters; None if there is none."""
    value = field(scope, b"content-type")
    return None if value is None else value.partition(";")[0].strip().lower()


def raw_path(scope: Scope) -> bytes:
    """Returns the path as it was sent, still percent-encoded; empty if the server does not provide it."""
    asgi = cast("dict[str, object]", scope)
    raw = asgi.get("raw_path")
    return raw if isinstance(raw, bytes) else b""


def prefers_text(accept: str | None) -> bool:
    """Returns whether an Accept field prefers `text/plain` to `application/json` (RFC 9110 section 12.5.1)."""
    return choose_media_type(accept, ("application/json", "text/plain")) == "text/plain"


def choose_media_type(accept: str | None, offered: tuple[str, ...]) -> str:
    """Returns the offered media type that an Accept field prefers (RFC 9110 section 12.5.1).

    Returns the first one if several are equally preferred, if none is acceptable, or if there is no Accept field.
    """
    if accept is None:
        return offered[0]
    return max(offered, key=lambda name: _quality(accept, *name.split("/")))


def takes_gzip(accept_encoding: str | None) -> bool:
    """Returns whether an Accept-Encoding field allows an answer compressed with gzip (RFC 9110 section 12.5.3)."""
    if accept_encoding is None:
        return False
    codings = {name: _weight(parameters) for name, parameters in _items(accept_encoding)}
    return codings.get("gzip", codings.get("*", 0.0)) > 0


def _items(value: str) -> list[tuple[str, list[str]]]:
    """Returns the members of a list field in lower case, each with its parameters."""
    items = [[part.strip().lower() for part in item.split(";")] for item in value.split(",")]
    return [(name, parameters) for name, *parameters in items]


def _quality(accept: str, main: str, sub: str) -> float:
    """Returns the weight that an Accept field gives to a media type; 0 if it does not accept the type."""
    best, quality = -1, 0.0
    for name, parameters in _items(accept):
        rank = {f"{main}/{sub}": 2, f"{main}/*": 1, "*/*": 0}.get(name, -1)
        # The most specific range decides, even if a wider one has a higher weight.
        if rank > best:
            best, quality = rank, _weight(parameters)
    return quality


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0


KEY_LENGTH: Final = 200
"""Maximum characters of an Idempotency-Key: chosen, not measured; a UUID has 36."""
_KEY = re.compile(r"[\x20-\x7e]+", re.ASCII)
_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
"""Matches a string of structured fields, with its two escapes (RFC 8941 section 3.3.3)."""


def caller(scope: Scope) -> Caller:
    """Returns the caller that `access.let_in` has recorded. `let_in` has checked only the scope of its key."""
    scope_caller: Caller = scope["state"]["caller"]
    return scope_caller


def resolve_citation(artifact_id: str, section: str | None = None) -> tuple[int, str | None]:
    """Returns an artifact's number and its section, from an ID or a citation such as `art_…#r3`.

    `section` is the section that the query string names. The returned section is None if neither the ID nor the query
    string names one.

    Raises:
        CoatcheckError: `invalid_artifact_id`; `invalid_request` if the two name different sections.
    """
    number, cited_section = ids.parse_citation(artifact_id)
    if cited_section is not None and section is not None and cited_section != section:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            "The ID cites one section and `section` names another. Name only one.",
            parameter="section",
        )
    return number, cited_section or section


def idempotency_key(scope: Scope) -> str | None:
    """Returns the request's Idempotency-Key; None if it has none.

    The key may be a structured-field string (as the IETF draft says), or without quotes, as most clients send it.

    Raises:
        CoatcheckError: `invalid_idempotency_key` if there are several, or if the key does not have 1 to 200 printable
            ASCII characters.
    """
    value = field(scope, b"idempotency-key")
    if value is None:
        return None
    # `field` joins two lines with a comma, and the joined text could be a valid key.
    if sum(name == b"idempotency-key" for name, _ in scope["headers"]) > 1:
        raise CoatcheckError(Code.INVALID_IDEMPOTENCY_KEY, "Idempotency-Key was sent more than once; send one.")
    if value.startswith('"'):
        quoted = _QUOTED.fullmatch(value)
        value = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else ""
    if len(value) <= KEY_LENGTH and _KEY.fullmatch(value):
        return value
    raise CoatcheckError(
        Code.INVALID_IDEMPOTENCY_KEY,
        f"Idempotency-Key must be 1 to {KEY_LENGTH} printable ASCII characters, with or without quotes.",
    )


def require_json(scope: Scope, *others: str) -> None:
    """Refuses a body that is not declared as JSON or as one of the media types in `others`.

    A form on another web site can make a browser send text/plain, but not JSON.

    Raises:
        CoatcheckError: `unsupported_media_type`.
    """
    kind = media_type(scope)
    if kind not in {"application/json", *others}:
        accepted = ", ".join(("application/json", *others))
        raise CoatcheckError(
            Code.UNSUPPORTED_MEDIA_TYPE,
            f"Content-Type must be {accepted}. To post a payload unchanged, use /v1/artifacts/raw.",
            accepted=accepted,
        )


def refuse_nul(path_values: Mapping[str, str]) -> None:
    """Refuses path parameters with U+0000, which is in no name or ID, and which PostgreSQL takes in no text.

    Raises:
        CoatcheckError: `invalid_request`, which names the parameter.
    """
    for name, value in path_values.items():
        if "\0" in value:
            raise CoatcheckError(Code.INVALID_REQUEST, f"'{name}' in the path contains U+0000.", field=name)


T = TypeVar("T", bound=msgspec.Struct)
MAX_PAIRS = 100
"""Maximum pairs of a query string: chosen, not measured; no route has a third as many parameters."""


class EmptyQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of a route that has none."""


def read_query(scope: Scope, model: type[T]) -> T:
    """Returns a request's query string as a `model`.

    Raises:
        CoatcheckError: `invalid_request`, which names the parameter.
    """
    raw: bytes = scope["query_string"]
    # Convert an empty query, too: the model may require a parameter.
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
    """Returns pairs of a name and a text as a `model`. Only the name of a list may repeat.

    `where` is the place of the pairs in words, for errors.

    Raises:
        CoatcheckError: `invalid_request`, which names the field.
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
        # Convert without `strict`, so that numbers, booleans and times are read from text.
        converted = msgspec.convert({**values, **several}, model, strict=False)
    except msgspec.ValidationError as e:
        raise refusal_of(e, model, where=where) from e
    for name, text in values.items():
        if getattr(converted, name) is None:  # msgspec takes the word `null` for None, which would mean no filter
            word = msgspec.ValidationError(f"Expected a value, got the word `null` - at `$.{name}`")
            raise refusal_of(word, model, where=where)
        given: object = getattr(converted, name)
        if isinstance(given, datetime) and (":" not in text or not _exists_in_utc(given)):
            word = msgspec.ValidationError(f"Expected a time as in RFC 3339, got another text - at `$.{name}`")
            raise refusal_of(word, model, where=where)
    return converted


def _exists_in_utc(moment: datetime) -> bool:
    """Returns whether a moment lies in the years 1 to 9999 of UTC; with its own offset it may be hours beyond them."""
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return False
    return True


@cache
def _lists(model: type[msgspec.Struct]) -> frozenset[str]:
    """Returns the names of a model's fields that are lists: tuples, and fields whose schema is an array."""
    hints = get_type_hints(model, include_extras=True)
    return frozenset(name for name, hint in hints.items() if _is_list(hint))


def _is_list(hint: object) -> bool:
    if isinstance(hint, msgspec.Meta):
        return (hint.extra_json_schema or {}).get("type") == "array"
    return getattr(hint, "__origin__", None) is tuple or any(
        _is_list(inner) for inner in (*get_args(hint), *getattr(hint, "__metadata__", ()))
    )
