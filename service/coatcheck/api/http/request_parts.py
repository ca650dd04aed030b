"""What all routes read from a request: the caller, the idempotency key, the cited section, the media type."""

import re
from typing import Final

from litestar.types import Scope

from coatcheck.api.http.headers import field, media_type
from coatcheck.core import ids
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code

KEY_LENGTH: Final = 200
_KEY = re.compile(r"[\x20-\x7e]+", re.ASCII)
_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')


def caller(scope: Scope) -> Caller:
    """Returns the caller that `access.let_in` found. Use cases decide what it may do beyond its scope."""
    scope_caller: Caller = scope["state"]["caller"]
    return scope_caller


def resolve_citation(artifact_id: str, section: str | None = None) -> tuple[int, str | None]:
    """Returns the artifact and the section that a path and its query name; `art_…#r3` cites a section.

    Raises:
        CoatcheckError: `invalid_artifact_id`; `invalid_request` if two sections are named.
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
    """Returns the Idempotency-Key, either a structured-field string (the IETF draft) or, as most clients send it, bare.

    Raises:
        CoatcheckError: `invalid_idempotency_key` unless there is exactly one, of 1 to 200 printable ASCII characters.
    """
    value = field(scope, b"idempotency-key")
    if value is None:
        return None
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
    """Refuses a body that is not declared as JSON: forms of other sites can send text/plain, but not JSON.

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
