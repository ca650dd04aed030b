"""Every request of the client as a value: what to send, how to read the answer, whether it may be sent twice. Pure.

Both clients send what is made here; neither knows a path. Nothing is checked that the service checks: its words are
better, and they are passed on. What HTTP or JSON cannot carry at all is a `ServiceError` at once.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Literal, TypedDict, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec
from msgspec import UNSET, Struct, UnsetType

from coatcheck.client import results, wire
from coatcheck.client.errors import WRONG, ServiceError
from coatcheck.client.results import Members

T = TypeVar("T")

Json = Any
"""Whatever is JSON."""

Content = str | bytes | Sequence[Any] | Mapping[str, Any]
"""Text, bytes, parts as a provider writes them, or a provider's whole tool result."""
Ttl = int | str | None
"""Seconds, text such as `12h`, or None for ever."""
AS_JSON: Final = 4 * 1024**2
"""Characters up to which text is sent as JSON; longer text is sent as it is."""
LONGEST_TITLE: Final = 1_000
"""Characters of a title. Titles come from pages, and a page must not fail a put: the service cuts those it finds
itself there, and refuses longer ones that it is told."""


class DeclaredFields(TypedDict, total=False):
    """What may be said of a payload; the OpenAPI document has every field's meaning and bounds."""

    media_type: str | None
    tool_name: str | None
    tool_call_id: str | None
    command: str | None
    session: str | None
    url: str | None
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
    """One request."""

    method: str
    path: str
    answer: type[T]
    params: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    around: wire.Around = (b"", b"")
    """What stands before and after a payload that is streamed."""
    again: bool = True
    """Whether it may be sent again when nobody knows what became of it."""


def put(content: Content, said: DeclaredFields, key: str) -> ClientRequest[results.Receipt]:
    """Text and parts as JSON, bytes and long text as they are."""
    if isinstance(content, bytes):
        return raw(content, said, key)
    if isinstance(content, str) and len(content) > AS_JSON:
        return raw(wire.mended(content).encode(), said, key)
    return _post("/v1/artifacts", {"content": content, **_fields(_titled(said))}, results.Receipt, key=key)


def raw(content: bytes | None, said: DeclaredFields, key: str) -> ClientRequest[results.Receipt]:
    """The payload as the body; None where it is streamed. What is too long for a URL goes as a form around it."""
    said = _titled(said)
    media_type = said.get("media_type")
    kind = () if media_type is None else (wire.field_value("media_type", media_type),)
    params = _params(said, but=("media_type",))
    if len(urlencode(params)) > wire.LONGEST_QUERY:
        return _form(content, (*(("media_type", one) for one in kind), *params), key)
    return ClientRequest(
        method="POST",
        path="/v1/artifacts/raw",
        answer=results.Receipt,
        params=params,
        headers=(*(("content-type", one) for one in kind), _keyed(key)),
        body=content,
    )


def _form(content: bytes | None, params: tuple[tuple[str, str], ...], key: str) -> ClientRequest[results.Receipt]:
    kind, around = wire.form(params)
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


def _titled(said: DeclaredFields) -> DeclaredFields:
    """What is said, with a title that the service takes."""
    title = said.get("title")
    return said if title is None or len(title) <= LONGEST_TITLE else {**said, "title": title[:LONGEST_TITLE]}


def describe(artifact_id: str) -> ClientRequest[results.Described]:
    """Metadata and card."""
    return _get(artifact_id, "", results.Described)


def card(artifact_id: str, tokens: int | None, query: str | None, tools: str | None) -> ClientRequest[results.CardText]:
    """The card at another budget, for a question, or without the tool."""
    return _get(artifact_id, "/card", results.CardText, tokens=tokens, query=query, tools=tools)


def read(artifact_id: str, asked: Mapping[str, Any]) -> ClientRequest[results.Read]:
    """A range."""
    return _get(artifact_id, "/read", results.Read, **asked)


def search(artifact_id: str, asked: Mapping[str, Any]) -> ClientRequest[results.Found]:
    """Lines that match."""
    return _get(artifact_id, "/search", results.Found, **asked)


def windows(artifact_id: str, asked: Mapping[str, Any]) -> ClientRequest[results.Passages]:
    """Passages that answer."""
    return _get(artifact_id, "/windows", results.Passages, **asked)


def values(artifact_id: str, asked: Mapping[str, Any]) -> ClientRequest[results.Values]:
    """Values by path."""
    return _get(artifact_id, "/json", results.Values, **asked)


def outline(artifact_id: str, asked: Mapping[str, Any]) -> ClientRequest[results.Outline]:
    """What is where."""
    return _get(artifact_id, "/outline", results.Outline, **asked)


def listing(asked: Mapping[str, Any]) -> ClientRequest[results.Listing]:
    """A page of artifacts."""
    return ClientRequest(method="GET", path="/v1/artifacts", answer=results.Listing, params=_params(asked))


def patch(
    artifact_id: str,
    ttl: Ttl | UnsetType,
    idle_ttl: Ttl | UnsetType,
    pin: bool | UnsetType,
    labels: Sequence[str] | UnsetType,
) -> ClientRequest[results.Artifact]:
    """Change what may change."""
    said = {"ttl": ttl, "idle_ttl": idle_ttl, "pin": pin, "labels": labels}
    fields = {name: value for name, value in said.items() if value is not UNSET}
    return _post(_at(artifact_id), fields, results.Artifact, method="PATCH")


def delete(artifact_id: str) -> ClientRequest[None]:
    """Delete one."""
    return ClientRequest(method="DELETE", path=_at(artifact_id), answer=type(None))


def delete_session(session: str) -> ClientRequest[Members]:
    """Delete all of a session."""
    return ClientRequest(method="DELETE", path=f"/v1/sessions/{_segment(session)}", answer=Members)


def tools(form: str, *, strict: bool, listing_too: bool) -> ClientRequest[Members]:
    """Declarations."""
    params = _params({"format": form, "strict": strict or None, "listing": listing_too or None})
    return ClientRequest(method="GET", path="/v1/tools", answer=Members, params=params)


def call(body: Json, form: str | None, max_tokens: int | None) -> ClientRequest[Json]:
    """A model's call, or several."""
    params = _params({"format": form, "max_tokens": max_tokens})
    return _post("/v1/tools/call", body, cast("type[Json]", Any), params=params)


def search_results(response: Json, asked: Mapping[str, Any], key: str) -> ClientRequest[results.SearchResults]:
    """A provider's response."""
    return _post("/v1/search-results", {"response": response, **_fields(asked)}, results.SearchResults, key=key)


def verify(quotes: Iterable[Mapping[str, Any]], citation: str | None) -> ClientRequest[Members]:
    """Quotations."""
    body = {"quotes": [dict(one) for one in quotes]} | ({} if citation is None else {"citation": citation})
    return _post("/v1/citations/verify", body, Members)


def compact(body: Json, asked: Mapping[str, Any]) -> ClientRequest[results.Compacted]:
    """A history."""
    return _post("/v1/context/compact", {"body": body, **_fields(asked)}, results.Compacted)


def measure(body: Json, asked: Mapping[str, Any]) -> ClientRequest[Members]:
    """How full a context is."""
    return _post("/v1/context/measure", {"body": body, **_fields(asked)}, Members)


def hook(event: Json, asked: Mapping[str, Any]) -> ClientRequest[Members]:
    """What Claude Code's hook hands over."""
    return _post("/v1/hooks/claude-code", event, Members, params=_params(asked))


def ready() -> ClientRequest[Members]:
    """Whether the service serves."""
    return ClientRequest(method="GET", path="/health/ready", answer=Members, again=False)


def content_path(artifact_id: str) -> str:
    """Where the bytes are."""
    return f"{_at(artifact_id)}/content"


def content_params(view: str | None, section: str | None) -> tuple[tuple[str, str], ...]:
    """Which bytes."""
    return _params({"view": view, "section": section})


_NULLABLE: Final = frozenset({"ttl", "idle_ttl"})
"""Where null says something."""


def _at(artifact_id: str | None) -> str:
    if not isinstance(artifact_id, str):  # of a receipt of what was not stored it is None
        raise ServiceError(WRONG, "There is no artifact ID: what is not stored (`receipt.stored`) cannot be read.")
    return f"/v1/artifacts/{_segment(artifact_id)}"


def _segment(text: str) -> str:
    return quote(wire.mended(text), safe="")


def _get(artifact_id: str, end: str, answer: type[T], **asked: Json) -> ClientRequest[T]:
    return ClientRequest(method="GET", path=f"{_at(artifact_id)}{end}", answer=answer, params=_params(asked))


def _post(
    path: str,
    body: Json,
    answer: type[T],
    *,
    key: str | None = None,
    params: tuple[tuple[str, str], ...] = (),
    method: str = "POST",
) -> ClientRequest[T]:
    headers = (("content-type", "application/json"), *((_keyed(key),) if key is not None else ()))
    return ClientRequest(method=method, path=path, answer=answer, params=params, headers=headers, body=encoded(body))


def encoded(value: Json) -> bytes:
    """A value as JSON. Halves of surrogate pairs, which JSON can hold and UTF-8 cannot, go as escapes.

    Raises:
        ServiceError: `invalid_request` for what is nested too deeply.
    """
    try:
        return _encoded(value)
    except RecursionError as e:
        raise ServiceError(WRONG, "The content or body that was given is nested too deeply to be sent as JSON.") from e


def _encoded(value: Json) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), default=_json).encode()


def _json(value: object) -> Json:
    return msgspec.to_builtins(value)


def _fields(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What is said: null where it says something, everything else that is not null."""
    return {name: value for name, value in asked.items() if value is not None or name in _NULLABLE}


def _params(asked: Mapping[str, Any], but: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    """Query parameters: a list is repeated, null is `forever` where it means that and left out elsewhere.

    Halves of surrogate pairs become U+FFFD, as the service makes of those in JSON.
    """
    found: list[tuple[str, str]] = []
    for name, value in asked.items():
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
