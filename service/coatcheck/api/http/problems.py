"""Errors as RFC 9457 problem details.

A caller learns nothing about an internal error except that it happened; the log has the details under the request ID.
"""

from typing import Final

import msgspec
from msgspec import Struct

from coatcheck.api.http.error_table import TABLE
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import hide

MEDIA_TYPE: Final = "application/problem+json"


CONSTANT: Final = frozenset({Code.ARTIFACT_NOT_FOUND})
"""Codes whose answer must be identical whether an artifact never existed, is in another namespace or was forgotten:
neither detail nor request ID."""


class Problem(Struct, frozen=True):
    """An error answer."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def members(error: CoatcheckError, request_id: str | None) -> dict[str, object]:
    """Returns the members of the problem object, in the order in which they are written."""
    row = TABLE[error.code]
    constant = error.code in CONSTANT
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
        object_ |= {name: value for name, value in extra.items() if name not in object_}
    return object_


def render(error: CoatcheckError, request_id: str | None) -> Problem:
    """Returns the problem details of an expected failure."""
    row = TABLE[error.code]
    headers = [("content-type", MEDIA_TYPE), ("cache-control", "no-store")]
    retry_after = error.extra.get("retry_after", row.retry_after)
    if retry_after is not None:
        headers.append(("retry-after", str(retry_after)))
    if error.code is Code.UNSUPPORTED_ENCODING:
        headers.append(("accept-encoding", "gzip, zstd"))
    if error.code is Code.TRUNCATED_BODY:
        headers.append(("connection", "close"))  # if the rest of the body arrives, it is not a request
    if error.code in {Code.UNAUTHENTICATED, Code.FORBIDDEN}:
        headers.append(("www-authenticate", _challenge(error)))
    return Problem(row.status, headers, msgspec.json.encode(members(error, request_id)))


def _challenge(error: CoatcheckError) -> str:
    """Returns which key would be accepted (RFC 9110 section 11.6.1, RFC 6750 section 3)."""
    scope = error.extra.get("scope")
    needed = "" if scope is None else f', error="insufficient_scope", scope="{scope}"'
    return f'Bearer realm="coatcheck"{needed}'


def internal() -> CoatcheckError:
    """Returns the error that a caller sees when a bug occurs."""
    return CoatcheckError(
        Code.INTERNAL, "Something went wrong in the service; it was logged under the request ID. Retrying may not help."
    )
