"""The declarations against what the providers' schema compilers take: rules from their documents, written down here."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from google.genai import types as gemini

from coatcheck_client.contract.declare import declarations, input_schema
from coatcheck_client.contract.tools import TOOLS, Tool

OPENAI_TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}
OPENAI_KEYS = {"type", "properties", "required", "additionalProperties", "description", "anyOf", "enum", "items"}
"""Of the keywords of OpenAI's structured outputs, the ones that fine-tuned models take, too: no bounds, no pattern."""
OPENAI_PROPERTIES, OPENAI_DEPTH, OPENAI_CHARS = 5_000, 10, 120_000
GEMINI_KEYS = {
    "$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems",
    "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required",
    "propertyOrdering",
}  # fmt: skip
"""What `parametersJsonSchema` supports."""
ANTHROPIC_NOT = {"minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "pattern"}
"""What a strict tool of Anthropic's must not bound."""


def nodes(schema: dict[str, Any], depth: int = 1) -> Iterator[tuple[dict[str, Any], int]]:
    """Every subschema, and how deep it stands."""
    yield schema, depth
    for inner in schema.get("properties", {}).values():
        yield from nodes(inner, depth + 1)
    for inner in schema.get("anyOf", []):
        yield from nodes(inner, depth)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_strict_schema_keeps_openais_rules(tool: Tool) -> None:
    schema = input_schema(tool, strict=True)
    assert schema["type"] == "object"
    assert "anyOf" not in schema
    for node, depth in nodes(schema):
        assert set(node) <= OPENAI_KEYS
        assert depth <= OPENAI_DEPTH
        assert ("type" in node) != ("anyOf" in node)
        assert node.get("type", "null") in OPENAI_TYPES
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])
    assert len(schema["properties"]) <= OPENAI_PROPERTIES
    assert len(json.dumps(schema)) <= OPENAI_CHARS
    for parameter in tool.parameters:
        options = schema["properties"][parameter.name].get("anyOf", [schema["properties"][parameter.name]])
        assert ({"type": "null"} in options) is not parameter.required


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_strict_schema_keeps_anthropics_rules(tool: Tool) -> None:
    for node, _ in nodes(input_schema(tool, strict=True)):
        assert not set(node) & ANTHROPIC_NOT
        assert node.get("type") != "object" or node["additionalProperties"] is False


def test_gemini_is_told_nothing_that_it_does_not_know() -> None:
    (declared,) = declarations("gemini", listing=True)
    tool = gemini.Tool.model_validate(declared)
    assert tool.function_declarations is not None
    for function in tool.function_declarations:
        assert function.parameters is None
        for node, _ in nodes(function.parameters_json_schema):  # pyright: ignore[reportArgumentType] - any JSON
            assert set(node) <= GEMINI_KEYS


def test_geminis_older_schema_object_holds_the_same() -> None:
    """Hosts that still convert to the API's own Schema type lose nothing but what that type does not know."""
    for tool in TOOLS:
        schema = input_schema(tool, strict=False)
        converted = gemini.Schema.from_json_schema(json_schema=gemini.JSONSchema.model_validate(schema))
        assert converted.properties is not None
        assert list(converted.properties) == [p.name for p in tool.parameters]
        assert converted.required == schema["required"]


@pytest.mark.parametrize("strict", [False, True])
def test_arguments_that_a_strict_grammar_allows_are_ones_that_the_tool_takes(strict: bool) -> None:
    read = next(tool for tool in TOOLS if tool.name == "read_artifact")
    every = {p.name: (None if strict else 1) for p in read.parameters}
    least = {"artifact_id": "art_000000000000000098"}
    full = {**every, **least} if strict else least
    jsonschema.validate(full, input_schema(read, strict=strict))
    for offset in (1, -5, "12+4000"):
        jsonschema.validate({**full, "offset": offset}, input_schema(read, strict=strict))
    for wrong in ({"offset": 1.5}, {"limit": "5"}, {"more": 1}, {"artifact_id": None}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**full, **wrong}, input_schema(read, strict=strict))
