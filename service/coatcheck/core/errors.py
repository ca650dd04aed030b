"""The only exception that callers see. It has a message, and a code that never changes.

Any other exception is a bug: interfaces log it in full and answer with the code `internal`. Interfaces map codes to
statuses.
"""

from enum import StrEnum


class Code(StrEnum):
    """Permanent names of everything that can go wrong. A code is never renamed and never reused."""

    INVALID_REQUEST = "invalid_request"
    HEADER_TOO_LARGE = "header_too_large"
    HEADER_TIMEOUT = "header_timeout"
    INVALID_JSON = "invalid_json"
    INVALID_CONTENT = "invalid_content"
    UNKNOWN_FORMAT = "unknown_format"
    INVALID_ARTIFACT_ID = "invalid_artifact_id"
    INVALID_CURSOR = "invalid_cursor"
    INVALID_PATTERN = "invalid_pattern"
    INVALID_DIGEST = "invalid_digest"
    INVALID_IDEMPOTENCY_KEY = "invalid_idempotency_key"
    DIGEST_MISMATCH = "digest_mismatch"
    CORRUPT_ENCODING = "corrupt_encoding"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    DECOMPRESSION_LIMIT = "decompression_limit"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    BODY_TOO_LARGE = "body_too_large"
    TRUNCATED_BODY = "truncated_body"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    ARTIFACT_NOT_FOUND = "artifact_not_found"
    ARTIFACT_GONE = "artifact_gone"
    COMPARED_NOT_FOUND = "compared_not_found"
    SECTION_NOT_FOUND = "section_not_found"
    VIEW_NOT_AVAILABLE = "view_not_available"
    OFFSET_PAST_END = "offset_past_end"
    NOT_TEXT = "not_text"
    INVALID_PATH = "invalid_path"
    NOT_JSON = "not_json"
    JSON_TOO_LARGE = "json_too_large"
    RANGE_NOT_SATISFIABLE = "range_not_satisfiable"
    PRECONDITION_FAILED = "precondition_failed"
    COUNT_PENDING = "count_pending"
    UPLOAD_FENCED = "upload_fenced"
    OVERLOADED = "overloaded"
    RATE_LIMITED = "rate_limited"
    STORAGE_FULL = "storage_full"
    QUOTA_EXCEEDED = "quota_exceeded"
    HELD = "held"
    SECRET_REFUSED = "secret_refused"  # noqa: S105 - a code
    HOLD_NOT_FOUND = "hold_not_found"
    POLICY_NOT_FOUND = "policy_not_found"
    NAMESPACE_DELETING = "namespace_deleting"
    PLAN_CHANGED = "plan_changed"
    CONFIRMATION_NEEDED = "confirmation_needed"
    RUN_NOT_FOUND = "run_not_found"
    DELETIONS_PAUSED = "deletions_paused"
    STORAGE_UNAVAILABLE = "storage_unavailable"
    INTEGRITY = "integrity"
    SCHEMA_OUTDATED = "schema_outdated"
    FORBIDDEN_HOST = "forbidden_host"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    KEY_NOT_FOUND = "key_not_found"
    NAMESPACE_NOT_FOUND = "namespace_not_found"
    ROUTE_NOT_FOUND = "route_not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    INTERNAL = "internal"


class CoatcheckError(Exception):
    """An expected failure.

    Args:
        code: the permanent name of the failure.
        detail: one or two sentences for the caller, which say what happened and what to do next.
        extra: facts for programs, such as `size`, `reason` or `at`; JSON values only.
    """

    def __init__(self, code: Code, detail: str, **extra: str | float | bool | None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.extra = extra


def invalid_request(detail: str, **extra: str | float | bool | None) -> CoatcheckError:
    """Returns the error for a request that contradicts itself or its bounds; `extra` as in CoatcheckError."""
    return CoatcheckError(Code.INVALID_REQUEST, detail, **extra)
