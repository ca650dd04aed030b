"""The parts of the OpenAPI document that no type of the code stands for: headers, request bodies, the problem.

Values, and the one function that puts the request schemas among those made from types.
"""

from typing import Any, Final

from coatcheck.core.errors import Code

Node = dict[str, Any]
Value = str | int | list[str]
_REF: Final = "#/components/schemas/"


def _header(description: str, **schema: Value) -> Node:
    return {"description": description, "schema": {"type": "string", **schema}}


def _parameter(name: str, description: str, **schema: Value) -> Node:
    return {"name": name, "in": "header", "required": False, **_header(description, **schema)}


PARAMETERS: Final[dict[str, Node]] = {
    "artifact_id": {
        "name": "artifact_id",
        "in": "path",
        "required": True,
        "description": "The artifact's ID, as its card gives it. To look something up or to read, also the citation of "
        "a section, `art_…#r3`, whose `#` is written `%23` in a path.",
        "schema": {"type": "string", "pattern": "^art_[0-9]{18}(#.+)?$", "examples": ["art_482913077564201876"]},
    },
    "session": {
        "name": "session",
        "in": "path",
        "required": True,
        "description": "The session's name, percent-encoded (a slash as %2F or as it is).",
        "schema": {"type": "string", "minLength": 1, "maxLength": 256, "examples": ["run-42"]},
    },
    "key_id": {
        "name": "key_id",
        "in": "path",
        "required": True,
        "description": "The key's ID: what stands between its prefix and its secret.",
        "schema": {"type": "string", "pattern": "^[0-9A-Za-z]{11}$", "examples": ["4GbYz8LqkW1"]},
    },
    "namespace": {
        "name": "namespace",
        "in": "path",
        "required": True,
        "description": "The namespace's name.",
        "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$", "examples": ["team-a"]},
    },
    "hold_id": {
        "name": "hold_id",
        "in": "path",
        "required": True,
        "description": "The hold's ID, as placing it answered.",
        "schema": {"type": "string", "pattern": "^hold_[0-9a-f]{16}$"},
    },
    "run_id": {
        "name": "run_id",
        "in": "path",
        "required": True,
        "description": "The run's ID, as applying a plan answered.",
        "schema": {"type": "string", "minLength": 1},
    },
    "name": {
        "name": "name",
        "in": "path",
        "required": True,
        "description": "The job's name.",
        "schema": {"type": "string", "examples": ["expire"]},
    },
    "X-Request-ID": _parameter(
        "X-Request-ID",
        "Names the request in the answer and in the log. One that is not of this form is replaced.",
        pattern="^[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}$",
    ),
    "Idempotency-Key": _parameter(
        "Idempotency-Key",
        "A repeated request with the same key answers what the first one answered, for 24 hours; a different request "
        "with the same key is refused. In quotes or without.",
        minLength=1,
        maxLength=200,
        examples=["8e03978e-40d5-43e8-bc93-6894a57f9324"],
    ),
    "Content-Encoding": _parameter(
        "Content-Encoding",
        "How the body is compressed. Frames of zstd may have windows of up to 8 MiB (RFC 9659).",
        enum=["gzip", "zstd", "identity"],
    ),
    "Content-Digest": _parameter(
        "Content-Digest",
        "sha-256 or sha-512 of the body as sent (RFC 9530); other algorithms are ignored. Nothing is stored when it "
        "differs.",
        examples=["sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"],
    ),
    "Repr-Digest": _parameter(
        "Repr-Digest",
        "As Content-Digest; the digest of the body without its content coding is accepted as well.",
        examples=["sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"],
    ),
    "Range": _parameter("Range", "Ranges of bytes (RFC 9110 section 14).", examples=["bytes=0-1023", "bytes=-500"]),
    "If-Range": _parameter("If-Range", "Ranges only if this is still the ETag or the date."),
    "If-Match": _parameter("If-Match", "Only if the ETag is one of these."),
    "If-None-Match": _parameter("If-None-Match", "Only if the ETag is none of these."),
    "If-Modified-Since": _parameter("If-Modified-Since", "Only if it is newer."),
    "If-Unmodified-Since": _parameter("If-Unmodified-Since", "Only if it is not newer."),
}

SECURITY: Final[dict[str, Node]] = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "ck_live_<key id>_<secret>",
        "description": (
            "A key. Its scopes (`ingest`, `read`, `delete`, `admin`) are named where a route needs one. Not needed "
            "while no key was ever made and the service listens on loopback."
        ),
    },
    "keyHeader": {"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "The same key."},
}

RESPONSE_HEADERS: Final[dict[str, Node]] = {
    "WWW-Authenticate": _header("`Bearer`, and the scope that is missing.", examples=['Bearer realm="coatcheck"']),
    "X-Request-ID": _header("Names the request in the log."),
    "Location": _header("Where the artifact is.", examples=["/v1/artifacts/art_482913077564201876"]),
    "Retry-After": {"description": "Seconds until the same request may succeed.", "schema": {"type": "integer"}},
    "RateLimit": _header(
        "On every answer to a caller that has limits: what is left of each, and the seconds until there is more.",
        examples=['"requests";r=55;t=1'],
    ),
    "RateLimit-Policy": _header("Those limits, in a minute.", examples=['"requests";q=60;w=60']),
    "ETag": _header("Strong; the SHA-256 of the bytes."),
    "Accept-Ranges": _header("`bytes`.", const="bytes"),
    "Content-Range": _header("Which bytes these are.", examples=["bytes 0-1023/4096"]),
    "Repr-Digest": _header("The SHA-256 of all the bytes (RFC 9530)."),
}

PROBLEM: Final[Node] = {
    "description": "Problem details (RFC 9457). Some codes have further members, such as `field` or `position`.",
    "type": "object",
    "properties": {
        "type": {"type": "string", "format": "uri-reference", "description": "`/errors/` and the code."},
        "title": {"type": "string", "description": "The same for every occurrence of a code."},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"type": "string", "enum": [str(code) for code in Code], "description": "Permanent."},
        "detail": {"type": "string", "description": "What happened and what to do next."},
        "request_id": {"type": "string", "description": "Names the request in the log."},
    },
    "required": ["type", "title", "status", "code", "detail"],
}

_PART: Final[Node] = {
    "description": (
        "A part as OpenAI, Anthropic, Gemini, MCP or LangChain write it: text, image, audio, document, search result, "
        "resource."
    ),
    "anyOf": [{"type": "string"}, {"type": "object"}],
}
_CONTENT: Final[Node] = {
    "description": "The payload.",
    "anyOf": [
        {"type": "string", "description": "Text."},
        {
            "type": "object",
            "description": "Bytes.",
            "properties": {
                "base64": {"type": "string", "contentEncoding": "base64", "description": "Standard or URL-safe."}
            },
            "required": ["base64"],
            "additionalProperties": False,
        },
        {"type": "array", "description": "Parts.", "minItems": 1, "items": {"$ref": _REF + "Part"}},
        {
            "type": "object",
            "description": "A tool result as a provider writes it, with its parts in it.",
            "examples": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "exit code 1"}],
        },
    ],
}
_STORE_EXAMPLE: Final[Node] = {
    "content": "FAILED tests/test_import.py::test_checksum\n1 failed, 211 passed in 8.41s\n",
    "tool_name": "bash",
    "tool_call_id": "call_8f2a",
    "session": "run-42",
    "query": "why did the build fail",
}
_SEARCH_EXAMPLE: Final[Node] = {
    "response": {
        "results": [
            {"title": "Tides", "url": "https://example.org/tides", "content": "The Moon draws the sea twice a day."}
        ]
    },
    "query": "how do tides form",
    "session": "run-42",
}
_HISTORY: Final[Node] = {
    "model": "gpt-5.6",
    "messages": [
        {"role": "user", "content": "Why does the build fail?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_8f2a", "type": "function", "function": {"name": "make", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_8f2a", "content": "FAILED tests/test_import.py\n"},
    ],
}
_QUOTATION_EXAMPLE: Final[Node] = {
    "quote": "The Moon draws the sea twice a day.",
    "citation": "art_482913077564201876#r1",
}


def request_schemas(schemas: dict[str, Node]) -> dict[str, Node]:
    """The schemas with those of the request bodies, made from the types' fields."""
    store, patch, search = schemas.pop("StoreBody"), schemas.pop("PatchBody"), schemas.pop("SearchResultsBody")
    quotation, verify = schemas.pop("QuotationBody"), schemas.pop("VerifyBody")
    compact, measure = schemas.pop("CompactBody"), schemas.pop("MeasureBody")
    verify["properties"]["quotes"]["items"] = {"$ref": _REF + "Quotation"}
    said = {name: field for name, field in store["properties"].items() if name != "content"}
    form = {name: _unnull(field) for name, field in said.items()}
    file: Node = {"description": "The payload.", "type": "string", "contentMediaType": "application/octet-stream"}
    bodies: dict[str, Node] = {
        "Part": _PART,
        "Bytes": {"description": "The payload.", "contentMediaType": "application/octet-stream"},
        "StoreRequest": {
            "description": "A payload and what is said about it.",
            "type": "object",
            "properties": {"content": _CONTENT, **said},
            "required": ["content"],
            "additionalProperties": False,
            "examples": [_STORE_EXAMPLE],
        },
        "StoreForm": {
            "description": "The same as a form. The file may be named `content`, or anything if it has a file name.",
            "type": "object",
            "properties": {"oversize": form.pop("oversize"), "file": file, **form},
            "required": ["file"],
        },
        "BatchRequest": {
            "description": "Many payloads.",
            "type": "object",
            "properties": {
                "items": {
                    "description": "The bodies of single requests.",
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 100,
                    "items": {"$ref": _REF + "StoreRequest"},
                }
            },
            "required": ["items"],
            "additionalProperties": False,
            "examples": [{"items": [_STORE_EXAMPLE]}],
        },
        "PatchRequest": {**patch, "examples": [{"ttl": "7d", "pin": True}]},
        "SearchResultsRequest": {**search, "examples": [_SEARCH_EXAMPLE]},
        "CompactRequest": {**compact, "examples": [{"body": _HISTORY, "session": "run-42"}]},
        "MeasureRequest": {**measure, "examples": [{"body": _HISTORY, "window": {"model": 262144}}]},
        "Quotation": quotation,
        "VerifyRequest": {**verify, "examples": [{"quotes": [_QUOTATION_EXAMPLE]}]},
    }
    return {**schemas, **bodies}


def _unnull(field: Node) -> Node:
    """A field of a form cannot be null."""
    options = [option for option in field.get("anyOf", []) if option != {"type": "null"}]
    rest = {key: value for key, value in field.items() if key != "anyOf"}
    if len(options) == 1:
        return {**options[0], **rest}
    return {**rest, "anyOf": options} if options else field
