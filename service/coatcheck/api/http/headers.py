"""Header fields of an ASGI request, read straight from the scope. Field lines of one name are joined by a comma."""

from typing import cast

from litestar.types import Scope


def field(scope: Scope, name: bytes) -> str | None:
    """The value of a field (its name in lower case), or None when it is absent."""
    found: str | None = None
    for key, value in scope["headers"]:
        if key == name:
            text = value.decode("latin-1")
            found = text if found is None else f"{found}, {text}"
    return found


def media_type(scope: Scope) -> str | None:
    """The media type of the request's content, in lower case and without parameters."""
    value = field(scope, b"content-type")
    return None if value is None else value.partition(";")[0].strip().lower()


def raw_path(scope: Scope) -> bytes:
    """The path as it was sent, still percent-encoded; empty where the server does not tell."""
    asgi = cast("dict[str, object]", scope)
    raw = asgi.get("raw_path")
    return raw if isinstance(raw, bytes) else b""
