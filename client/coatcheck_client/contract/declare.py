"""Declarations of the tools in each provider's format. Pure; the same release gives the same declarations.

With a strict variant, the provider guarantees arguments that fit the schema exactly: every property is required,
optional properties may be null, and no other properties are allowed. For a provider without such a guarantee, there is
no strict variant.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar, get_args

from coatcheck_client.contract.tools import READ, TOOLS, Parameter, Tool

Format = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "mcp", "json-schema"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
STRICT: Final = frozenset({"openai-chat", "openai-responses", "anthropic", "json-schema"})
"""Formats that have a strict variant."""
_PERSIST_CHARS: Final = 60_000
"""Characters up to which hosts leave a result in the conversation, instead of moving it to a file. The results of these
tools are never as large."""

Node = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


def declarations(format_: Format, *, strict: bool = False, listing: bool = False) -> list[Node]:
    """Returns what to put into the `tools` of a request, or of the result of MCP's `tools/list`.

    Args:
        format_: the provider's format.
        strict: whether to return the variant for strict mode.
        listing: whether to include `list_artifacts`, which costs tokens in every request; MCP always includes it.

    Raises:
        ValueError: for a format without a strict variant.
    """
    if strict and format_ not in STRICT:
        raise ValueError(f"{format_} has no strict mode. Ask without strict.")
    tools = TOOLS if listing or format_ == "mcp" else (READ,)
    if format_ == "gemini":
        return [{"functionDeclarations": [_gemini(tool) for tool in tools]}]
    return [_declare(tool, format_, strict=strict) for tool in tools]


def described(tool: Tool) -> Callable[[F], F]:
    """Returns a decorator that gives a function a docstring: the description of a tool that models get."""
    arguments = "".join(f"    {one.name}: {one.description}\n" for one in tool.parameters)

    def give(function: F) -> F:
        function.__doc__ = f"{tool.description}\n\nArgs:\n{arguments}"
        return function

    return give


def _declare(tool: Tool, format_: Format, *, strict: bool) -> Node:
    declaration: Node = {"name": tool.name, "description": tool.description}
    schema = input_schema(tool, strict=strict)
    promise: Node = {"strict": True} if strict else {}
    match format_:
        case "openai-chat":
            return {"type": "function", "function": {**declaration, "parameters": schema, **promise}}
        case "openai-responses":
            return {"type": "function", **declaration, "parameters": schema, "strict": strict}
        case "anthropic":
            return {**declaration, "input_schema": schema, **promise}
        case "mcp":
            return _mcp(tool, schema)
        case _:
            return {**declaration, "parameters": schema}


def _mcp(tool: Tool, schema: Node) -> Node:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": schema,
        "annotations": {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
        "_meta": {"anthropic/maxResultSizeChars": _PERSIST_CHARS},
    }


def _gemini(tool: Tool) -> Node:
    return {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": input_schema(tool, strict=False),
    }


def input_schema(tool: Tool, *, strict: bool) -> Node:
    """Returns the JSON Schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {p.name: _property(p, strict=strict) for p in tool.parameters},
        "required": [p.name for p in tool.parameters if p.required or strict],
        "additionalProperties": False,
    }


def _property(parameter: Parameter, *, strict: bool) -> Node:
    """Returns the schema of one property. Several types are in `anyOf`: only some providers accept a list of types."""
    bounds: Node = {}
    if not strict:  # the grammars of some strict modes have no bounds; the service checks them anyway
        bounds = {"minimum": parameter.least, "maximum": parameter.most}
        bounds = {key: value for key, value in bounds.items() if value is not None}
    options: list[Node] = [{"type": name, **(bounds if name == "integer" else {})} for name in parameter.types]
    if strict and not parameter.required:
        options.append({"type": "null"})
    shape = options[0] if len(options) == 1 else {"anyOf": options}
    return {**shape, "description": parameter.description}
