"""Hand-written schemas of payloads in request bodies. Values only."""

from typing import Any, Final

Node = dict[str, Any]
_REF: Final = "#/components/schemas/"

BYTES: Final[Node] = {"description": "The payload.", "contentMediaType": "application/octet-stream"}
PART: Final[Node] = {
    "description": (
        "A part as OpenAI, Anthropic, Gemini, MCP or LangChain write it: text, image, audio, document, search result, "
        "resource."
    ),
    "anyOf": [{"type": "string"}, {"type": "object"}],
}
CONTENT: Final[Node] = {
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
STORE_EXAMPLE: Final[Node] = {
    "content": "FAILED tests/test_import.py::test_checksum\n1 failed, 211 passed in 8.41s\n",
    "tool_name": "bash",
    "tool_call_id": "call_8f2a",
    "session": "run-42",
    "query": "why did the build fail",
}
