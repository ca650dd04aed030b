"""Errors as RFC 9457 problem details: ONE table from code to status, title and advice, and how a problem is rendered.

`docs/errors.md` is this table; a test compares them. Refuses to tell a caller anything of an internal error but that
there was one; the log has it whole, under the request's ID.
"""

from typing import Final

import msgspec
from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import hide

MEDIA_TYPE: Final = "application/problem+json"


class StatusRow(Struct, frozen=True):
    """What a code means over HTTP."""

    status: int
    title: str
    advice: str
    """What the caller should do next."""
    retry_after: int | None = None
    """Seconds after which the same request may succeed."""


TABLE: Final[dict[Code, StatusRow]] = {
    Code.INVALID_REQUEST: StatusRow(400, "Invalid request", "Correct the field that `detail` names."),
    Code.HEADER_TOO_LARGE: StatusRow(
        431, "Header section too large", "Send at most 64 KiB and 256 fields before the body."
    ),
    Code.HEADER_TIMEOUT: StatusRow(
        408, "Header section too slow", "Send the request line and all fields in 10 seconds."
    ),
    Code.INVALID_JSON: StatusRow(400, "Invalid JSON", "Correct the JSON at the byte that `position` names."),
    Code.INVALID_CONTENT: StatusRow(
        400,
        "Invalid content",
        'Give `content` as text, as {"base64": …}, or as a tool result in a provider\'s shape. A raw body must not be '
        "empty, unless `allow_empty=true` says so.",
    ),
    Code.INVALID_ARTIFACT_ID: StatusRow(400, "Invalid artifact ID", "Copy the ID from the card again."),
    Code.INVALID_CURSOR: StatusRow(400, "Invalid cursor", "Start again without a cursor."),
    Code.INVALID_PATTERN: StatusRow(400, "Invalid pattern", "Correct the regular expression (RE2), or use `literal`."),
    Code.INVALID_DIGEST: StatusRow(400, "Invalid digest field", "Write `sha-256=:<base64>:` (RFC 9530)."),
    Code.INVALID_IDEMPOTENCY_KEY: StatusRow(
        400, "Invalid idempotency key", "Send 1 to 200 printable ASCII characters, for example a UUID."
    ),
    Code.DIGEST_MISMATCH: StatusRow(400, "Digest mismatch", "The body was changed on its way; send it again."),
    Code.CORRUPT_ENCODING: StatusRow(400, "Corrupt content coding", "Compress and send the body again."),
    Code.UNSUPPORTED_ENCODING: StatusRow(415, "Unsupported content coding", "Use gzip, zstd or none."),
    Code.UNSUPPORTED_MEDIA_TYPE: StatusRow(
        415, "Unsupported media type", "Send the Content-Type that the route documents."
    ),
    Code.DECOMPRESSION_LIMIT: StatusRow(413, "Decompression limit", "Send the body without Content-Encoding."),
    Code.PAYLOAD_TOO_LARGE: StatusRow(413, "Payload too large", "Send less, or ask for `oversize=keep_ends`."),
    Code.BODY_TOO_LARGE: StatusRow(413, "Body too large", "Send large payloads to /v1/artifacts/raw or as multipart."),
    Code.TRUNCATED_BODY: StatusRow(400, "Truncated body", "Send the whole body again."),
    Code.IDEMPOTENCY_KEY_REUSED: StatusRow(
        422, "Idempotency key reused", "Use a new key for a request that differs from the first."
    ),
    Code.ARTIFACT_NOT_FOUND: StatusRow(
        404, "Artifact not found", "No artifact has this ID. Check the ID; if it is right, run the tool again."
    ),
    Code.ARTIFACT_GONE: StatusRow(410, "Artifact gone", "Run the tool again if its output is still needed."),
    Code.COMPARED_NOT_FOUND: StatusRow(
        422, "Nothing to compare with", "Leave out `compare_to`, or name an artifact that exists, or `previous`."
    ),
    Code.SECTION_NOT_FOUND: StatusRow(404, "Section not found", "Use a section that the card or the outline names."),
    Code.VIEW_NOT_AVAILABLE: StatusRow(422, "View not available", "Read the view `raw`."),
    Code.OFFSET_PAST_END: StatusRow(422, "Offset past the end", "Use an offset within the size that `detail` names."),
    Code.NOT_TEXT: StatusRow(422, "Not text", "Fetch the bytes from /v1/artifacts/{id}/content."),
    Code.INVALID_PATH: StatusRow(
        400, "Invalid path", "Correct the path at the character that `position` names: JSONPath, or a JSON Pointer."
    ),
    Code.NOT_JSON: StatusRow(422, "Not JSON", "Read it by lines, or search it with a pattern."),
    Code.JSON_TOO_LARGE: StatusRow(
        422, "JSON too large for this path", "Go further down by names and indices, or take records one by one."
    ),
    Code.RANGE_NOT_SATISFIABLE: StatusRow(416, "Range not satisfiable", "Ask for a range within the size."),
    Code.PRECONDITION_FAILED: StatusRow(412, "Precondition failed", "Fetch the current ETag and try again."),
    Code.COUNT_PENDING: StatusRow(503, "Count pending", "Retry the same call.", retry_after=1),
    Code.UPLOAD_FENCED: StatusRow(503, "Upload given up", "Retry the same call.", retry_after=1),
    Code.OVERLOADED: StatusRow(503, "Overloaded", "Retry the same call after the time in Retry-After.", retry_after=2),
    Code.RATE_LIMITED: StatusRow(
        429,
        "Rate limited",
        "Retry the same call after the time in Retry-After, or ask the administrator for more.",
        retry_after=60,
    ),
    Code.STORAGE_FULL: StatusRow(507, "Storage full", "Ask the administrator to free space; nothing was stored."),
    Code.QUOTA_EXCEEDED: StatusRow(
        507, "Namespace full", "Delete what is no longer needed, or ask the administrator for a larger quota."
    ),
    Code.SECRET_REFUSED: StatusRow(422, "Secret refused", "Take the secret out, then send the payload again."),
    Code.HELD: StatusRow(423, "Held", "It stays until the hold is released; `holds` names what holds it."),
    Code.HOLD_NOT_FOUND: StatusRow(404, "No such hold", "Check the hold's ID; it may have been released."),
    Code.POLICY_NOT_FOUND: StatusRow(404, "No such policy", "See /v1/admin/policies for the scopes that have one."),
    Code.NAMESPACE_DELETING: StatusRow(
        409, "Namespace is being deleted", "Use another namespace, or wait until it is empty."
    ),
    Code.PLAN_CHANGED: StatusRow(409, "Plan changed", "Make a new plan, review it, and apply that one."),
    Code.CONFIRMATION_NEEDED: StatusRow(
        409, "Confirmation needed", "If that much is meant to go, apply with confirm=true."
    ),
    Code.RUN_NOT_FOUND: StatusRow(404, "No such run", "See /v1/admin/retention/runs for those there are."),
    Code.STORAGE_UNAVAILABLE: StatusRow(503, "Storage unavailable", "Retry the same call.", retry_after=5),
    Code.INTEGRITY: StatusRow(500, "Stored bytes are damaged", "Run the tool again, and tell the administrator."),
    Code.SCHEMA_OUTDATED: StatusRow(
        503, "Database schema outdated", "The administrator must run the migrations.", retry_after=30
    ),
    Code.FORBIDDEN_HOST: StatusRow(
        403,
        "Forbidden host or origin",
        "Call the service by a host name that it answers to, not from another site.",
    ),
    Code.UNAUTHENTICATED: StatusRow(
        401, "Key required", "Present a valid key: `Authorization: Bearer ck_live_…`, or `X-Api-Key`."
    ),
    Code.FORBIDDEN: StatusRow(
        403, "Not allowed", "Use a key that may do this; `scope` names what it would have to have."
    ),
    Code.KEY_NOT_FOUND: StatusRow(
        404, "Key not found", "List the keys; a key's ID stands between its first two underscores."
    ),
    Code.NAMESPACE_NOT_FOUND: StatusRow(404, "Namespace not found", "List the namespaces, or make this one first."),
    Code.ROUTE_NOT_FOUND: StatusRow(404, "No such route", "See /v1/openapi.json for the routes."),
    Code.METHOD_NOT_ALLOWED: StatusRow(405, "Method not allowed", "Use a method that the Allow field names."),
    Code.INTERNAL: StatusRow(500, "Internal error", "Report the request ID to the administrator."),
}

CONSTANT: Final = frozenset({Code.ARTIFACT_NOT_FOUND})
"""Answers that must not differ between never existed, another namespace's and forgotten: no words, no request ID."""


class Problem(Struct, frozen=True):
    """An answer that is an error."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def members(error: CoatcheckError, request_id: str | None) -> dict[str, object]:
    """The members of the problem object, in the order in which they are written."""
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
    """The problem details of an expected failure."""
    row = TABLE[error.code]
    headers = [("content-type", MEDIA_TYPE), ("cache-control", "no-store")]
    retry_after = error.extra.get("retry_after", row.retry_after)
    if retry_after is not None:
        headers.append(("retry-after", str(retry_after)))
    if error.code is Code.UNSUPPORTED_ENCODING:
        headers.append(("accept-encoding", "gzip, zstd"))
    if error.code is Code.TRUNCATED_BODY:
        headers.append(("connection", "close"))  # the rest of the body, if it comes, is no request
    if error.code in {Code.UNAUTHENTICATED, Code.FORBIDDEN}:
        headers.append(("www-authenticate", _challenge(error)))
    return Problem(row.status, headers, msgspec.json.encode(members(error, request_id)))


def _challenge(error: CoatcheckError) -> str:
    """What a key would have to be (RFC 9110 section 11.6.1, RFC 6750 section 3)."""
    scope = error.extra.get("scope")
    needed = "" if scope is None else f', error="insufficient_scope", scope="{scope}"'
    return f'Bearer realm="coatcheck"{needed}'


def internal() -> CoatcheckError:
    """What a caller learns of a bug."""
    return CoatcheckError(
        Code.INTERNAL, "Something went wrong in the service; it was logged under the request ID. Retrying may not help."
    )
