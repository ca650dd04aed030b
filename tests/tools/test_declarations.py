"""How the tools are declared, held against the providers' own types."""

import json
import re
from typing import Any, get_args

import anthropic.types
import jsonschema
import mcp_types
import openai.types.chat
import openai.types.responses
import pytest
from google.genai import types as gemini
from pydantic import TypeAdapter

from coatcheck.api import tools
from coatcheck.core.card.model import NextCall
from coatcheck.tools.dispatcher import FORMS
from coatcheck.usecases.reading.grep import DEFAULT_LIMIT, MAX_LIMIT
from coatcheck_client.contract.declare import FORMATS, STRICT, Format, declarations, input_schema
from coatcheck_client.contract.tools import DEFAULT_MATCHES, LIST, MAX_LINES, MAX_MATCHES, READ, TOOLS
from tools.agent import TOKENIZER, Agent

NAMES = [p.name for p in READ.parameters]
EVERY = [(name, strict) for name in FORMATS for strict in (False, True) if not strict or name in STRICT]


def schemas(format_: Format, *, strict: bool = False) -> list[dict[str, Any]]:
    """The argument schemas in a declaration."""
    out: list[dict[str, Any]] = []
    for tool in declarations(format_, strict=strict, listing=True):
        functions = tool.get("functionDeclarations") or [tool.get("function", tool)]
        keys = ("parameters", "parametersJsonSchema", "input_schema", "inputSchema")
        out += [next(f[key] for key in keys if key in f) for f in functions]
    return out


@pytest.mark.parametrize("strict", [False, True])
def test_openai_takes_the_declarations(strict: bool) -> None:
    chat = declarations("openai-chat", strict=strict, listing=True)
    for tool in chat:
        TypeAdapter(openai.types.chat.ChatCompletionFunctionToolParam).validate_python(tool)
        assert set(tool) <= set(openai.types.chat.ChatCompletionFunctionToolParam.__annotations__)
        assert set(tool["function"]) == {"name", "description", "parameters"} | ({"strict"} if strict else set())
    for tool in declarations("openai-responses", strict=strict, listing=True):
        assert openai.types.responses.FunctionTool.model_validate(tool, extra="forbid").strict is strict
        TypeAdapter(openai.types.responses.FunctionToolParam).validate_python(tool)


@pytest.mark.parametrize("strict", [False, True])
def test_anthropic_takes_the_declarations(strict: bool) -> None:
    for tool in declarations("anthropic", strict=strict, listing=True):
        TypeAdapter(anthropic.types.ToolParam).validate_python(tool)
        assert set(tool) <= set(anthropic.types.ToolParam.__annotations__)
        assert tool.get("strict", False) is strict


def test_gemini_takes_the_declarations() -> None:
    (declared,) = declarations("gemini", listing=True)
    tool = gemini.Tool.model_validate(declared)
    assert tool.function_declarations is not None
    assert [f.name for f in tool.function_declarations] == ["read_artifact", "list_artifacts"]
    assert all(f.parameters_json_schema for f in tool.function_declarations)


def test_mcp_takes_the_declarations() -> None:
    listed = mcp_types.ListToolsResult.model_validate({"tools": declarations("mcp")})
    assert [tool.name for tool in listed.tools] == ["read_artifact", "list_artifacts"]
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed.tools)
    assert all(tool.output_schema is None for tool in listed.tools)


@pytest.mark.parametrize(("format_", "strict"), EVERY)
def test_every_schema_is_one_that_a_validator_takes(format_: Format, strict: bool) -> None:
    for schema in schemas(format_, strict=strict):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["additionalProperties"] is False


def test_a_strict_schema_requires_everything_and_takes_null_for_what_may_be_left_out() -> None:
    for tool in TOOLS:
        schema = input_schema(tool, strict=True)
        assert schema["required"] == list(schema["properties"])
        nothing = {p.name: "art_1" if p.required else None for p in tool.parameters}
        jsonschema.validate(nothing, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**nothing, "more": 1}, schema)
        assert "minimum" not in json.dumps(schema)


def test_the_parameters_are_those_that_are_documented() -> None:
    assert NAMES == [
        "artifact_id",
        "outline",
        "section",
        "offset",
        "limit",
        "pattern",
        "query",
        "path",
        "context",
        "view",
    ]
    assert input_schema(READ, strict=False)["required"] == ["artifact_id"]
    assert input_schema(LIST, strict=False)["required"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"artifact_id": "art_482913077564201876", "offset": 201, "limit": 200},
        {"artifact_id": "art_482913077564201876", "pattern": "…"},
        {"artifact_id": "art_482913077564201876", "offset": "12+4000"},
        {"artifact_id": "art_482913077564201876", "query": "why", "context": 0},
    ],
    ids=["lines", "pattern", "inside", "query"],
)
def test_what_cards_and_answers_suggest_fits_the_declaration(arguments: dict[str, str | int]) -> None:
    call = NextCall("read_artifact", arguments)
    assert call.tool == READ.name
    jsonschema.validate(call.arguments, input_schema(READ, strict=False))


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in STRICT])
def test_a_format_without_strict_mode_says_so(name: Format) -> None:
    with pytest.raises(ValueError, match="has no strict mode"):
        declarations(name, strict=True)


def test_a_name_is_one_that_every_provider_takes() -> None:
    for tool in TOOLS:
        assert re.fullmatch(r"[a-z_]{1,64}", tool.name)


@pytest.mark.parametrize(("format_", "strict"), EVERY)
def test_a_declaration_holds_nothing_that_changes(format_: Format, strict: bool) -> None:
    text = json.dumps(declarations(format_, strict=strict, listing=True))
    assert re.search(r"art_[0-9]|20[0-9]{2}-", text) is None


@pytest.mark.parametrize(("format_", "strict"), EVERY)
def test_the_read_tool_costs_at_most_520_tokens(format_: Format, strict: bool) -> None:
    (first, *_) = declarations(format_, strict=strict)
    assert TOKENIZER.count(json.dumps(first, separators=(",", ":"), ensure_ascii=False)) <= 520


def test_the_declaration_tells_what_the_tool_can_do() -> None:
    said = json.dumps(declarations("json-schema"))
    for word in ("outline", "negative", "last 500 lines", "count of all matches", "JSON Pointer", "/items/0/id"):
        assert word in said
    assert f"at most {MAX_LINES}" in said
    assert f"at most {MAX_LIMIT}" in said
    assert (MAX_MATCHES, DEFAULT_MATCHES) == (MAX_LIMIT, DEFAULT_LIMIT)


@pytest.mark.parametrize(("format_", "strict"), EVERY)
async def test_the_route_answers_the_table_whatever_is_stored(agent: Agent, format_: Format, strict: bool) -> None:
    params = {"format": format_, "strict": str(strict).lower()}
    before = await agent.client.get("/v1/tools", params=params)
    await agent.put("x\n" * 5000)
    after = await agent.client.get("/v1/tools", params=params)
    assert before.content == after.content
    assert before.json() == {"tools": declarations(format_, strict=strict)}


async def test_the_listing_tool_is_declared_where_it_is_asked_for(agent: Agent) -> None:
    both = (await agent.client.get("/v1/tools", params={"format": "anthropic", "listing": "true"})).json()["tools"]
    assert [tool["name"] for tool in both] == ["read_artifact", "list_artifacts"]


async def test_a_format_that_there_is_not_is_refused(agent: Agent) -> None:
    response = await agent.client.get("/v1/tools", params={"format": "cohere"})
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    response = await agent.client.get("/v1/tools", params={"format": "gemini", "strict": "true"})
    assert response.json()["detail"] == "gemini has no strict mode. Ask without strict."


def test_the_face_names_the_formats_that_there_are() -> None:
    assert get_args(get_args(tools.ToolFormat)[0]) == FORMATS
    assert get_args(get_args(tools.ResultFormat)[0]) == FORMS
