"""The table of errors over HTTP: for each code, the status, the meaning, and advice to the caller.

`docs/errors.md` and the pages at `/errors/{code}` are generated from this table. Codes never change; the sentences may.
"""

from typing import Final

from msgspec import Struct

from coatcheck.core.errors import Code


class StatusRow(Struct, frozen=True):
    """The row of a code: its status and the texts that explain it."""

    status: int
    title: str
    """A short name, the same for every occurrence of the code."""
    meaning: str
    """A sentence that says what happened."""
    advice: str
    """A sentence that says what the caller should do next."""
    retry_after: int | None = None
    """Seconds after which the same request may succeed; None: a retry does not help."""


TABLE: Final[dict[Code, StatusRow]] = {
    Code.INVALID_REQUEST: StatusRow(
        400,
        "Invalid request",
        "A parameter, a field of the body or a header field is missing, unknown or out of bounds.",
        "Fix the field named in the message.",
    ),
    Code.HEADER_TOO_LARGE: StatusRow(
        431,
        "Header section too large",
        "The header section is larger than any request to this service needs.",
        "Send at most 64 KiB and 256 header fields.",
    ),
    Code.HEADER_TIMEOUT: StatusRow(
        408,
        "Header section too slow",
        "The request line and header fields did not arrive in time, and the connection was closed.",
        "Send the request line and all header fields within 10 seconds.",
    ),
    Code.INVALID_JSON: StatusRow(
        400, "Invalid JSON", "The body is not JSON (RFC 8259).", "Correct the JSON at the byte that `position` names."
    ),
    Code.INVALID_CONTENT: StatusRow(
        400,
        "Invalid content",
        "The body was read, but contains no payload that could be stored.",
        'Give `content` as text, as {"base64": …}, or as a tool result in a provider\'s shape. A raw body must not be '
        "empty, unless `allow_empty=true` says so.",
    ),
    Code.UNKNOWN_FORMAT: StatusRow(
        400,
        "Unknown format",
        "The history is in no format of a model's request that is known here, or in two of them at once.",
        "Send the body as the provider gets it, or name its `format`. `pointer` names the message that does not fit.",
    ),
    Code.INVALID_ARTIFACT_ID: StatusRow(
        400,
        "Invalid artifact ID",
        "This is not an artifact ID: `art_`, 16 digits and 2 check digits.",
        "Copy the ID from the card again.",
    ),
    Code.INVALID_CURSOR: StatusRow(
        400,
        "Invalid cursor",
        "The cursor is damaged, or belongs to another artifact, list or query.",
        "Start again without a cursor.",
    ),
    Code.INVALID_PATTERN: StatusRow(
        400,
        "Invalid pattern",
        "The pattern is not a regular expression that runs in linear time (RE2: no backreferences, no lookaround).",
        "Correct the regular expression (RE2), or use `literal`.",
    ),
    Code.INVALID_DIGEST: StatusRow(
        400,
        "Invalid digest field",
        "A digest field does not have the form that RFC 9530 defines.",
        "Write `sha-256=:<base64>:` (RFC 9530).",
    ),
    Code.INVALID_IDEMPOTENCY_KEY: StatusRow(
        400,
        "Invalid idempotency key",
        "The field Idempotency-Key is empty, too long, or contains characters that are not allowed.",
        "Send 1 to 200 printable ASCII characters, for example a UUID.",
    ),
    Code.DIGEST_MISMATCH: StatusRow(
        400,
        "Digest mismatch",
        "The body's digest differs from the one in the header field. Nothing was stored.",
        "The body was changed in transit; send it again.",
    ),
    Code.CORRUPT_ENCODING: StatusRow(
        400,
        "Corrupt content coding",
        "The body could not be decompressed as Content-Encoding says. Nothing was stored.",
        "Compress and send the body again.",
    ),
    Code.UNSUPPORTED_ENCODING: StatusRow(
        415,
        "Unsupported content coding",
        "The body is compressed with a method that the service does not support.",
        "Use gzip, zstd or none.",
    ),
    Code.UNSUPPORTED_MEDIA_TYPE: StatusRow(
        415,
        "Unsupported media type",
        "The route does not accept bodies of this media type.",
        "Send the Content-Type that the route documents.",
    ),
    Code.DECOMPRESSION_LIMIT: StatusRow(
        413,
        "Decompression limit",
        "The decompressed body is larger than a payload may be, or decompressing it needs more memory than is allowed.",
        "Send the body without Content-Encoding.",
    ),
    Code.PAYLOAD_TOO_LARGE: StatusRow(
        413,
        "Payload too large",
        "The payload is larger than the service accepts, or than this caller may send in a minute.",
        "Send less, or use `oversize=keep_ends`.",
    ),
    Code.BODY_TOO_LARGE: StatusRow(
        413,
        "Body too large",
        "The body is larger than this route reads into memory.",
        "Send large payloads to /v1/artifacts/raw or as multipart.",
    ),
    Code.TRUNCATED_BODY: StatusRow(
        400,
        "Truncated body",
        "The body ended early, or stopped arriving. Nothing was stored.",
        "Send the whole body again.",
    ),
    Code.IDEMPOTENCY_KEY_REUSED: StatusRow(
        422,
        "Idempotency key reused",
        "This key was used within the last 24 hours with a different request.",
        "Use a new key for a request that differs from the first.",
    ),
    Code.ARTIFACT_NOT_FOUND: StatusRow(
        404,
        "Artifact not found",
        "This caller has no artifact with this ID. The answer does not reveal whether somebody else has.",
        "No artifact has this ID. Check the ID; if it is right, run the tool again.",
    ),
    Code.ARTIFACT_GONE: StatusRow(
        410,
        "Artifact gone",
        "The artifact was stored and has been removed: it expired, was deleted or evicted; `reason` says which.",
        "Run the tool again if its output is still needed.",
    ),
    Code.COMPARED_NOT_FOUND: StatusRow(
        422,
        "Nothing to compare with",
        "The artifact that `compare_to` names does not exist.",
        "Leave out `compare_to`, or name an artifact that exists, or `previous`.",
    ),
    Code.SECTION_NOT_FOUND: StatusRow(
        404,
        "Section not found",
        "The artifact has no section with this name.",
        "Use a section that the card or the outline names.",
    ),
    Code.VIEW_NOT_AVAILABLE: StatusRow(
        422,
        "View not available",
        "The artifact cannot be read this way; it has no text view, or there is no view of this name.",
        "Read the view `raw`.",
    ),
    Code.OFFSET_PAST_END: StatusRow(
        422,
        "Offset past the end",
        "The offset is after the end of the view or section.",
        "Use an offset within the size that `detail` names.",
    ),
    Code.NOT_TEXT: StatusRow(
        422,
        "Not text",
        "The payload is binary, so it has no lines, tokens or passages.",
        "Fetch the bytes from /v1/artifacts/{id}/content.",
    ),
    Code.INVALID_PATH: StatusRow(
        400,
        "Invalid path",
        "The path is neither JSONPath (RFC 9535) nor a JSON Pointer (RFC 6901).",
        "Correct the path at the character that `position` names: JSONPath, or a JSON Pointer.",
    ),
    Code.NOT_JSON: StatusRow(
        422,
        "Not JSON",
        "The artifact is not JSON, so no path leads into it.",
        "Read it by lines, or search it with a pattern.",
    ),
    Code.JSON_TOO_LARGE: StatusRow(
        422,
        "JSON too large for this path",
        "Following this path would need more memory or deeper nesting than one request may use.",
        "Use a path with more names and indices, or read records one by one.",
    ),
    Code.RANGE_NOT_SATISFIABLE: StatusRow(
        416,
        "Range not satisfiable",
        "No requested range of bytes is inside the content.",
        "Request a range within the size.",
    ),
    Code.PRECONDITION_FAILED: StatusRow(
        412,
        "Precondition failed",
        "A condition of the request (If-Match, If-Unmodified-Since) does not hold.",
        "Fetch the current ETag and try again.",
    ),
    Code.COUNT_PENDING: StatusRow(
        503,
        "Count pending",
        "The tokens of a large artifact are still being counted, and positions in tokens need that count.",
        "Retry the same call.",
        retry_after=1,
    ),
    Code.UPLOAD_FENCED: StatusRow(
        503,
        "Upload given up",
        "The upload made no progress for too long and was discarded. Nothing was stored.",
        "Retry the same call.",
        retry_after=1,
    ),
    Code.OVERLOADED: StatusRow(
        503,
        "Overloaded",
        "The service or its storage has too much to do at the moment.",
        "Retry the same call after the time in Retry-After.",
        retry_after=2,
    ),
    Code.RATE_LIMITED: StatusRow(
        429,
        "Rate limited",
        "This caller has used up its requests or bytes for the minute.",
        "Retry the same call after the time in Retry-After, or ask the administrator for more.",
        retry_after=60,
    ),
    Code.STORAGE_FULL: StatusRow(
        507,
        "Storage full",
        "The disk, database or object store behind the service is full.",
        "Ask the administrator to free space; nothing was stored.",
    ),
    Code.QUOTA_EXCEEDED: StatusRow(
        507,
        "Namespace full",
        "The namespace holds as much as its policy allows.",
        "Delete what is no longer needed, or ask the administrator for a larger quota.",
    ),
    Code.SECRET_REFUSED: StatusRow(
        422,
        "Secret refused",
        "The payload contains a secret, and the policy refuses such payloads. Nothing was stored.",
        "Remove the secret, then send the payload again.",
    ),
    Code.HELD: StatusRow(
        423,
        "Held",
        "A hold prevents this from being deleted, by anybody and through any route.",
        "Ask an administrator to release the hold that `holds` names.",
    ),
    Code.HOLD_NOT_FOUND: StatusRow(
        404, "No such hold", "There is no hold with this ID.", "Check the hold's ID; it may have been released."
    ),
    Code.POLICY_NOT_FOUND: StatusRow(
        404,
        "No such policy",
        "No policy is set for exactly this scope.",
        "See /v1/admin/policies for the scopes that have one.",
    ),
    Code.NAMESPACE_DELETING: StatusRow(
        409,
        "Namespace is being deleted",
        "Everything in this namespace is being deleted, so nothing can be stored in it.",
        "Use another namespace, or wait until it is empty.",
    ),
    Code.PLAN_CHANGED: StatusRow(
        409,
        "Plan changed",
        "The plan no longer exists, or too little of it is left. Nothing was removed.",
        "Make a new plan, review it, and apply that one.",
    ),
    Code.CONFIRMATION_NEEDED: StatusRow(
        409,
        "Confirmation needed",
        "The plan would remove a large share of what is stored. Nothing has been removed yet.",
        "If you want to remove that much, apply the plan with confirm=true.",
    ),
    Code.RUN_NOT_FOUND: StatusRow(
        404,
        "No such run",
        "There is no retention run with this ID.",
        "See /v1/admin/retention/runs for the existing runs.",
    ),
    Code.DELETIONS_PAUSED: StatusRow(
        409,
        "Deletions are paused",
        "Nothing is deleted by time: the clock has jumped by more than a day, an administrator paused deletions, or "
        "the catalogue is damaged.",
        "Correct the clock; if it is right, resume them with `coatcheck retention job deletions --resume`. Restore a "
        "damaged catalogue from a backup.",
    ),
    Code.STORAGE_UNAVAILABLE: StatusRow(
        503,
        "Storage unavailable",
        "The database or the object store does not answer, or the service is stopping.",
        "Retry the same call.",
        retry_after=5,
    ),
    Code.INTEGRITY: StatusRow(
        500,
        "Stored bytes are damaged",
        "The stored bytes are damaged: they are missing, or their checksum is wrong.",
        "Run the tool again, and tell the administrator.",
    ),
    Code.SCHEMA_OUTDATED: StatusRow(
        503,
        "Database schema outdated",
        "The database has the schema of another release.",
        "The administrator must run the migrations.",
        retry_after=30,
    ),
    Code.FORBIDDEN_HOST: StatusRow(
        403,
        "Forbidden host or origin",
        "The service answers only under certain host names, and does not answer other websites.",
        "Call the service by a host name that it answers to (the administrator adds names: COATCHECK_ALLOWED_HOSTS), "
        "not from another site; a proxy must pass the Host header on unchanged.",
    ),
    Code.UNAUTHENTICATED: StatusRow(
        401,
        "Key required",
        "The request has no key, or one that is unknown, expired or revoked.",
        "Present a valid key: `Authorization: Bearer ck_live_…`, or `X-Api-Key`.",
    ),
    Code.FORBIDDEN: StatusRow(
        403,
        "Not allowed",
        "The key is valid, but not for this route, namespace or session.",
        "Use a key that may do this; `scope` names the scope that it needs.",
    ),
    Code.KEY_NOT_FOUND: StatusRow(
        404,
        "Key not found",
        "The namespaces that your key administers have no key with this ID.",
        "List the keys; a key's ID is the part between `ck_live_` and the next `_`.",
    ),
    Code.NAMESPACE_NOT_FOUND: StatusRow(
        404,
        "Namespace not found",
        "There is no namespace with this name.",
        "List the namespaces, or create this one first.",
    ),
    Code.ROUTE_NOT_FOUND: StatusRow(
        404, "No such route", "No route of the service has this path.", "See /v1/openapi.json for the routes."
    ),
    Code.METHOD_NOT_ALLOWED: StatusRow(
        405,
        "Method not allowed",
        "The path exists, but does not take this method.",
        "Use a method that the Allow field names.",
    ),
    Code.INTERNAL: StatusRow(
        500,
        "Internal error",
        "A bug in the service. The log has the details under the request ID.",
        "Report the request ID to the administrator.",
    ),
}
