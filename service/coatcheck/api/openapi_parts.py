"""The hand-written parts of the OpenAPI document: header fields, path parameters, security schemes and the problem."""

from typing import Any, Final

from coatcheck.core.errors import Code
from coatcheck.core.ids import EXAMPLE_ID

Node = dict[str, Any]
Value = str | int | list[str]
"""The value of a keyword in a schema of text."""


def _header(description: str, **schema: Value) -> Node:
    return {"description": description, "schema": {"type": "string", **schema}}


def _path_parameter(name: str, description: str, **schema: Value) -> Node:
    return {"name": name, "in": "path", "required": True, **_header(description, **schema)}


def _parameter(name: str, description: str, **schema: Value) -> Node:
    return {"name": name, "in": "header", "required": False, **_header(description, **schema)}


PARAMETERS: Final[dict[str, Node]] = {
    "artifact_id": _path_parameter(
        "artifact_id",
        "The artifact's ID, as on its card. For looking up and reading, also the citation of a "
        "section, `art_…#r1`, whose `#` is written `%23` in a path.",
        pattern="^art_[0-9]{18}(#.+)?$",
        examples=[EXAMPLE_ID],
    ),
    "session": _path_parameter(
        "session",
        "The session's name, percent-encoded (a slash as %2F or as it is).",
        minLength=1,
        maxLength=256,
        examples=["run-42"],
    ),
    "key_id": _path_parameter(
        "key_id",
        "The key's ID: the part between its prefix and its secret.",
        pattern="^[0-9A-Za-z]{11}$",
        examples=["4GbYz8LqkW1"],
    ),
    "namespace": _path_parameter(
        "namespace", "The namespace's name.", pattern="^[a-z0-9][a-z0-9_-]{0,62}$", examples=["team-a"]
    ),
    "hold_id": _path_parameter(
        "hold_id",
        "The hold's ID, as returned when it was placed.",
        pattern="^hold_[0-9a-f]{16}$",
        examples=["hold_00ff12ab34cd56ef"],
    ),
    "run_id": _path_parameter(
        "run_id",
        "The run's ID, as returned when its plan was applied.",
        minLength=1,
        examples=["run_00ff12ab34cd56ef00ff12ab34cd56ef"],
    ),
    "name": _path_parameter("name", "The job's name.", examples=["expire"]),
    "code": _path_parameter("code", "The error code.", enum=sorted(Code), examples=["held"]),
    "asset": _path_parameter("asset", "The file's name.", examples=["swagger-ui.css"]),
    "X-Request-ID": _parameter(
        "X-Request-ID",
        "Identifies the request in the answer and in the log. An ID that does not have 1 to 128 letters, digits and "
        "`._:/+=@-`, beginning with a letter or digit, is replaced.",
    ),
    "Idempotency-Key": _parameter(
        "Idempotency-Key",
        "For 24 hours, a repeated request with the same key gets the answer of the first one; a "
        "different request with the same key is refused. A new UUID serves well. With or without quotes.",
        minLength=1,
        maxLength=200,
    ),
    "Content-Encoding": _parameter(
        "Content-Encoding",
        "How the body is compressed; empty or `identity`: not at all. Frames of zstd may have windows of up to 8 MiB "
        "(RFC 9659).",
        enum=["gzip", "zstd", "identity", ""],
    ),
    "Content-Digest": _parameter(
        "Content-Digest",
        "sha-256 or sha-512 of the body as sent (RFC 9530); other algorithms are ignored. If it "
        "differs, nothing is stored. `sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:` is the digest of an "
        "empty body.",
    ),
    "Repr-Digest": _parameter(
        "Repr-Digest",
        "Like Content-Digest; the digest of the decoded body is accepted as well.",
    ),
    "Range": _parameter("Range", "Ranges of bytes (RFC 9110 section 14).", examples=["bytes=0-1023", "bytes=-500"]),
    "If-Range": _parameter("If-Range", "Ranges, only if this ETag or date is still current."),
    "If-Match": _parameter("If-Match", "Only if the current ETag is one of these."),
    "If-None-Match": _parameter("If-None-Match", "Only if the current ETag is none of these."),
    "If-Modified-Since": _parameter("If-Modified-Since", "Only if the content is newer than this date."),
    "If-Unmodified-Since": _parameter("If-Unmodified-Since", "Only if the content is not newer than this date."),
}
"""Path and header parameters by name; routes refer to them."""

SECURITY: Final[dict[str, Node]] = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "ck_live_<key id>_<secret>",
        "description": (
            "A key. Each route names the scope that it needs in `x-scope` (`ingest`, `read`, `delete` or `admin`). "
            "No key is needed while none has ever been created and the service listens on loopback."
        ),
    },
    "keyHeader": {"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "The same key."},
}
"""The two ways to present a key; either one suffices."""

RESPONSE_HEADERS: Final[dict[str, Node]] = {
    "WWW-Authenticate": _header("`Bearer`, and the scope that is missing.", examples=['Bearer realm="coatcheck"']),
    "X-Request-ID": _header("Identifies the request in the log."),
    "Coatcheck-Version": _header("The release of the service.", examples=["0.11.0"]),
    "Location": _header("The artifact's address.", examples=[f"/v1/artifacts/{EXAMPLE_ID}"]),
    "Retry-After": {"description": "Seconds until the same request may succeed.", "schema": {"type": "integer"}},
    "RateLimit": _header(
        "On every answer to a caller with limits: what is left of each, and the seconds until there is more.",
        examples=['"requests";r=55;t=1'],
    ),
    "RateLimit-Policy": _header("The caller's limits per minute.", examples=['"requests";q=60;w=60']),
    "ETag": _header("Strong; the SHA-256 of the bytes."),
    "Accept-Ranges": _header("`bytes`.", const="bytes"),
    "Content-Range": _header("The range of these bytes.", examples=["bytes 0-1023/4096"]),
    "Repr-Digest": _header("The SHA-256 of all the bytes (RFC 9530)."),
}
"""Header fields of answers by name, to which operations refer."""

PROBLEM: Final[Node] = {
    "description": "Problem details (RFC 9457). Some codes have further members, such as `field` or `position`.",
    "type": "object",
    "properties": {
        "type": {"type": "string", "format": "uri-reference", "description": "`/errors/` and the code."},
        "title": {"type": "string", "description": "The same for every occurrence of a code."},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"type": "string", "enum": [str(code) for code in Code], "description": "Permanent."},
        "detail": {"type": "string", "description": "What happened and what to do next."},
        "request_id": {"type": "string", "description": "Identifies the request in the log."},
    },
    "required": ["type", "title", "status", "code", "detail"],
}
"""Schema of every error. It allows further members, because some codes have them."""
