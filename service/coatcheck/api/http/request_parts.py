"""What every route asks of a request: who calls, with which key, in which media type."""

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
    """The caller, as `access.let_in` found it. Beyond the scope, use cases decide what it may do."""
    found: Caller = scope["state"]["caller"]
    return found


def cited(artifact_id: str, section: str | None = None) -> tuple[int, str | None]:
    """The artifact and the section that a path and its query name: `art_…#r3` is a citation of a section.

    Raises:
        CoatcheckError: `invalid_artifact_id`; `invalid_request` when two sections are named.
    """
    number, named = ids.parse_citation(artifact_id)
    if named is not None and section is not None and named != section:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            "The ID cites one section and `section` names another: name only one.",
            parameter="section",
        )
    return number, named or section


def idempotency_key(scope: Scope) -> str | None:
    """The Idempotency-Key: a structured-field string as the IETF draft has it, or, as most clients send it, bare.

    Raises:
        CoatcheckError: `invalid_idempotency_key` unless there is one, of 1 to 200 printable ASCII characters.
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
    """Refuse a body that is not said to be JSON: a form of another site can say text/plain, but not this.

    Raises:
        CoatcheckError: `unsupported_media_type`.
    """
    kind = media_type(scope)
    if kind not in {"application/json", *others}:
        accepted = ", ".join(("application/json", *others))
        raise CoatcheckError(
            Code.UNSUPPORTED_MEDIA_TYPE,
            f"Content-Type must be {accepted}. To post a payload as it is, use /v1/artifacts/raw.",
            accepted=accepted,
        )
