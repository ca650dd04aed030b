"""A request of the client as a value: what to send, how to decode the answer, whether it may be sent twice. Pure.

The client does not repeat the checks of the service, whose messages are better and are passed on. What HTTP or JSON
cannot represent raises a `ServiceError` at once.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, Literal, TypedDict, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from coatcheck_client import results, wire
from coatcheck_client.contract.searches import is_search, payload_text
from coatcheck_client.errors import WRONG, ServiceError
from coatcheck_client.payload import EncodedJson, Payload, as_json

T = TypeVar("T")

Json = Any
"""Any JSON value."""

Ttl = int | str | None
"""How long to keep something: seconds, text such as `12h`, or None for forever."""
AS_JSON: Final = 4 * 1024**2
"""Maximum characters of text that is sent inside JSON; longer text is itself the body of the request."""


class DeclaredFields(TypedDict, total=False):
    """What a caller may declare about a payload. The OpenAPI document has the meaning and bounds of every field."""

    media_type: str | None
    tool_name: str | None
    tool_call_id: str | None
    command: str | None
    session: str | None
    url: str | None
    status: int | None
    final_url: str | None
    content_type: str | None
    fetched_at: str | None
    title: str | None
    kind: str | None
    labels: Sequence[str]
    query: str | None
    ttl: Ttl
    idle_ttl: Ttl
    pin: bool
    card_tokens: int | None
    inline_tokens: int | None
    oversize: Literal["reject", "keep_ends"]
    compare_to: str | None
    tools: Literal["read_artifact", "none"]


class ClientRequest(Struct, Generic[T], frozen=True, kw_only=True):
    """A request to the service and the type of its answer."""

    method: str
    path: str
    answer: type[T]
    params: wire.Pairs = ()
    headers: wire.Pairs = ()
    body: bytes | None = None
    around: wire.Around = (b"", b"")
    """The bytes before and after a streamed payload in the body."""
    again: bool = True
    """Whether the request may be sent again if the outcome of an attempt is unknown."""


def put(payload: Payload, declared: DeclaredFields, key: str) -> ClientRequest[results.Receipt]:
    """Returns a put. Texts and other values are sent inside JSON; bytes and long texts are themselves the body."""
    if isinstance(payload, bytes):
        return raw(payload, declared, key)
    if isinstance(payload, str) and len(payload) > AS_JSON:
        return raw(wire.mended(payload).encode(), declared, key)
    content = encoded(payload) if isinstance(payload, str) else payload.data
    encoded_fields = encoded(members(declared))[1:]
    body = b"".join((b'{"content":', content, b"," if len(encoded_fields) > 1 else b"", encoded_fields))
    return ClientRequest(
        method="POST",
        path="/v1/artifacts",
        answer=results.Receipt,
        headers=(("content-type", "application/json"), _keyed(key)),
        body=body,
    )


def search_put(payload: Payload, declared: DeclaredFields, key: str) -> ClientRequest[results.SearchResults] | None:
    """Returns the request that posts a payload as a web search's response; None if the payload is not one."""
    value: Json = msgspec.json.decode(payload.data) if isinstance(payload, EncodedJson) else payload
    text = payload_text(value)
    if text is None or not is_search(text, declared.get("tool_name"), declared.get("kind")):
        return None
    fields = {name: declared.get(name) for name in _OF_SEARCHES if name in declared}
    response = cast("Json", value) if isinstance(value, dict) else text
    return post(
        "/v1/search-results", {"response": response, **members(fields)}, results.SearchResults, key=f"{key}-search"
    )


def raw(content: bytes | None, declared: DeclaredFields, key: str) -> ClientRequest[results.Receipt]:
    """Returns a put whose body is the payload itself; `content` is None if the payload is streamed.

    If the URL would be too long, the body is a form with the declared fields and the payload.
    """
    kind = wire.sendable_value(declared.get("media_type"))
    query = params(declared, but=("media_type",))
    if len(urlencode(query)) > wire.LONGEST_QUERY:
        return _form(content, (*((("media_type", kind),) if kind else ()), *query), key)
    return ClientRequest(
        method="POST",
        path="/v1/artifacts/raw",
        answer=results.Receipt,
        params=query if content else (*query, ("allow_empty", "true")),  # a streamed payload may turn out to be empty
        headers=(*((("content-type", kind),) if kind else ()), _keyed(key)),
        body=content,
    )


def _form(content: bytes | None, fields: wire.Pairs, key: str) -> ClientRequest[results.Receipt]:
    kind, around = wire.form(fields)
    return ClientRequest(
        method="POST",
        path="/v1/artifacts",
        answer=results.Receipt,
        headers=(("content-type", kind), _keyed(key)),
        body=None if content is None else content.join(around),
        around=around,
    )


def _keyed(key: str) -> tuple[str, str]:
    return "idempotency-key", wire.field_value("idempotency_key", key)


_OF_SEARCHES: Final = ("query", "session", "tool_name", "tool_call_id", "url", "labels", "ttl", "idle_ttl", "pin")
"""Fields that may be declared about a web search's response."""
_NULLABLE: Final = frozenset({"ttl", "idle_ttl"})
"""Fields in which null has a meaning, so that null is sent."""


def at(artifact_id: object, end: str = "") -> str:
    """Returns the path of an artifact, or with `end` the path of something below it.

    Raises:
        ServiceError: `invalid_request` if `artifact_id` is empty, as in the receipt of a payload that was not stored.
    """
    if not isinstance(artifact_id, str) or not artifact_id:
        raise ServiceError(
            WRONG, "There is no artifact ID: a payload that was not stored (see `receipt.stored`) cannot be read."
        )
    return f"/v1/artifacts/{segment(artifact_id)}{end}"


def segment(text: str) -> str:
    """Returns a text as one segment of a path, with escapes."""
    return quote(wire.mended(text), safe="")


def get(path: str, answer: type[T], parameters: Mapping[str, Any] | None = None) -> ClientRequest[T]:
    """Returns a request that only reads."""
    return ClientRequest(method="GET", path=path, answer=answer, params=params(parameters or {}))


def delete(path: str, answer: type[T], parameters: Mapping[str, Any] | None = None) -> ClientRequest[T]:
    """Returns a request that deletes."""
    return ClientRequest(method="DELETE", path=path, answer=answer, params=params(parameters or {}))


def post(
    path: str,
    body: Json,
    answer: type[T],
    parameters: Mapping[str, Any] | None = None,
    *,
    key: str | None = None,
    method: str = "POST",
    again: bool = True,
) -> ClientRequest[T]:
    """Returns a request with a JSON body.

    Args:
        path: where to send it.
        body: any JSON value.
        answer: the type of the answer.
        parameters: query parameters.
        key: an idempotency key.
        method: POST, PATCH or PUT.
        again: whether the request may be sent again if the outcome of an attempt is unknown.

    Raises:
        ServiceError: `invalid_request` for a body that JSON cannot represent or that is nested too deeply, or for a key
            that no header field can contain.
    """
    headers = (("content-type", "application/json"), *((_keyed(key),) if key is not None else ()))
    return ClientRequest(
        method=method,
        path=path,
        answer=answer,
        params=params(parameters or {}),
        headers=headers,
        body=encoded(body),
        again=again,
    )


def encoded(value: Json) -> bytes:
    """Returns a value as JSON. Half of a surrogate pair, which JSON can contain but UTF-8 cannot, becomes an escape.

    Raises:
        ServiceError: `invalid_request` for a value that is nested too deeply, or that JSON cannot represent.
    """
    try:
        return as_json(value)
    except RecursionError as e:
        raise ServiceError(WRONG, "The given body is nested too deeply to be sent as JSON.") from e
    except (TypeError, ValueError) as e:
        raise ServiceError(WRONG, f"The given body cannot be sent as JSON: {e}.") from e


def members(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the members to send: those that are not null, and null where it has a meaning."""
    return {name: value for name, value in parameters.items() if value is not None or name in _NULLABLE}


def params(parameters: Mapping[str, Any], but: Sequence[str] = ()) -> wire.Pairs:
    """Returns query parameters, without those that `but` names. A list becomes several parameters of the same name.

    Null becomes `forever` where it means that; elsewhere, the parameter is left out. Half of a surrogate pair becomes
    U+FFFD, as the service does in JSON.
    """
    found: list[tuple[str, str]] = []
    for name, value in parameters.items():
        if name in but or (value is None and name not in _NULLABLE):
            continue
        if value is None:
            found.append((name, "forever"))
        elif isinstance(value, bool):
            found.append((name, "true" if value else "false"))
        elif isinstance(value, str | int | float):
            found.append((name, str(value)))
        else:
            found += [(name, str(one)) for one in value]
    return tuple((name, wire.mended(value)) for name, value in found)
