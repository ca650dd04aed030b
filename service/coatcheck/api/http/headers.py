"""Header fields of an ASGI request, read straight from the scope.

Field lines with the same name are joined by commas.
"""

from typing import cast

from litestar.types import Scope


def field(scope: Scope, name: bytes) -> str | None:
    """Returns a field's value, or None if it is absent; `name` is in lower case."""
    field_value: str | None = None
    for key, value in scope["headers"]:
        if key == name:
            text = value.decode("latin-1")
            field_value = text if field_value is None else f"{field_value}, {text}"
    return field_value


def media_type(scope: Scope) -> str | None:
    """Returns the media type of the request's content, in lower case and without parameters."""
    value = field(scope, b"content-type")
    return None if value is None else value.partition(";")[0].strip().lower()


def raw_path(scope: Scope) -> bytes:
    """Returns the path as it was sent, still percent-encoded; empty if the server does not provide it."""
    asgi = cast("dict[str, object]", scope)
    raw = asgi.get("raw_path")
    return raw if isinstance(raw, bytes) else b""


def prefers_text(accept: str | None) -> bool:
    """Returns whether `text/plain` is preferred to `application/json` (RFC 9110 section 12.5.1)."""
    return choose_media_type(accept, ("application/json", "text/plain")) == "text/plain"


def choose_media_type(accept: str | None, offered: tuple[str, ...]) -> str:
    """Returns the offered media type that the client prefers (RFC 9110 section 12.5.1).

    On a tie, or without any, the first.
    """
    if accept is None:
        return offered[0]
    return max(offered, key=lambda name: _quality(accept, *name.split("/")))


def takes_gzip(accept_encoding: str | None) -> bool:
    """Returns whether an answer may be compressed with gzip (RFC 9110 section 12.5.3)."""
    if accept_encoding is None:
        return False
    codings = {name: _weight(parameters) for name, parameters in _items(accept_encoding)}
    return codings.get("gzip", codings.get("*", 0.0)) > 0


def _items(value: str) -> list[tuple[str, list[str]]]:
    """Returns the members of a list field in lower case, each with its parameters."""
    items = [[part.strip().lower() for part in item.split(";")] for item in value.split(",")]
    return [(name, parameters) for name, *parameters in items]


def _quality(accept: str, main: str, sub: str) -> float:
    """Returns the weight of a media type, from the most specific range that matches it."""
    best, quality = -1, 0.0
    for name, parameters in _items(accept):
        rank = {f"{main}/{sub}": 2, f"{main}/*": 1, "*/*": 0}.get(name, -1)
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
