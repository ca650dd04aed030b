"""What the reference server has, as the conformance suite wants it: results, schemas, prompts, resources."""

from typing import Any, Final

from scenario import PICTURE

_SOUND: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
_IMAGE: Final = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
_OPTIONS: Final = ["option1", "option2", "option3"]
_STATUS: Final = ["active", "inactive", "pending"]


def text(said: str, *, failed: bool = False) -> dict[str, Any]:
    """A result of one text."""
    return {"content": [{"type": "text", "text": said}], **({"isError": True} if failed else {})}


def form(message: str, fields: dict[str, Any]) -> dict[str, Any]:
    """A request for a form to be filled in."""
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def _embedded(uri: str, kind: str, said: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}


def _sampling(prompt: str) -> dict[str, Any]:
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 100}}


RESULTS: Final[dict[str, dict[str, Any]]] = {
    "test_simple_text": text("This is a simple text response for testing."),
    "test_image_content": {"content": [_IMAGE]},
    "test_audio_content": {"content": [{"type": "audio", "data": _SOUND, "mimeType": "audio/wav"}]},
    "test_embedded_resource": {
        "content": [_embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
    },
    "test_multiple_content_types": {
        "content": [
            {"type": "text", "text": "Multiple content types test:"},
            _IMAGE,
            _embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
        ]
    },
    "test_error_handling": text("This tool intentionally returns an error for testing", failed=True),
}
"""Results of tools that always say the same."""

_TITLED: Final = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]

SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "test_elicitation": {"username": {"type": "string"}, "email": {"type": "string"}},
    "defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": _STATUS, "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "enums": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {"type": "string", "enum": _OPTIONS, "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
    "input of json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
}
"""Fields of forms, and inputs of tools that take more than any object."""

_NAME: Final = form("What is your name?", {"name": {"type": "string"}})
_COLOUR: Final = form("What is your favourite colour?", {"color": {"type": "string"}})
_OK: Final = form("Please confirm.", {"ok": {"type": "boolean"}})
_ROOTS: Final = {"method": "roots/list", "params": {}}

ASKING: Final[dict[str, list[dict[str, Any]]]] = {
    "test_input_required_result_elicitation": [{"user_name": _NAME}],
    "test_input_required_result_sampling": [{"capital_question": _sampling("What is the capital of France?")}],
    "test_input_required_result_list_roots": [{"client_roots": _ROOTS}],
    "test_input_required_result_request_state": [{"confirm": _OK}],
    "test_input_required_result_tampered_state": [{"confirm": _OK}],
    "test_input_required_result_multiple_inputs": [
        {"user_name": _NAME, "greeting": _sampling("Generate a greeting"), "client_roots": _ROOTS}
    ],
    "test_input_required_result_capabilities": [{"user_name": _NAME, "capital_question": _sampling("Which capital?")}],
    "test_input_required_result_multi_round": [{"step1": _NAME}, {"step2": _COLOUR}],
    "test_input_required_result_prompt": [{"user_context": form("Which context?", {"context": {"type": "string"}})}],
}
"""What calls of tools, and of a prompt, need before they are answered, round by round."""

PROMPTS: Final[dict[str, tuple[str, ...]]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}
"""Prompts, with their arguments."""

RESOURCES: Final[dict[str, dict[str, Any]]] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PICTURE},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched."},
}
TEMPLATE: Final = "test://template/"
