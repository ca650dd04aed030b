"""An MCP server with what the protocol's conformance suite calls, on its standard streams.

Tools that ask do so in both of the protocol's ways: by requests of their own, and by results that say what they need.
"""

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from reference_data import ASKING, PROMPTS, RESOURCES, RESULTS, SCHEMAS, TEMPLATE, form, text

Context = Any
Arguments = dict[str, Any]
_KEY: Final = b"of this server"
_PAUSE: Final = 0.05
_ABLE: Final = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
"""The capability that a client needs for a request."""


# ------------------------------------------------------------------------------------------ tools that do something


async def _logs(context: Context, _arguments: Arguments) -> Arguments:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", said, related_request_id=context.request_id)
        await asyncio.sleep(_PAUSE)
    return text("Logged.")


async def _progresses(context: Context, _arguments: Arguments) -> Arguments:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100)
        await asyncio.sleep(_PAUSE)
    return text("Done.")


async def _samples(context: Context, arguments: Arguments) -> Arguments:
    asked = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=arguments["prompt"]))
    said = await context.session.create_message([asked], max_tokens=100, related_request_id=context.request_id)
    return text(f"LLM response: {said.content.text}")


def _asks(message: str, fields: Arguments) -> Callable[[Context, Arguments], Awaitable[Arguments]]:
    async def ask(context: Context, arguments: Arguments) -> Arguments:
        schema = form("", fields)["params"]["requestedSchema"]
        said = await context.session.elicit_form(arguments.get("message", message), schema, context.request_id)
        return text(f"{message} action={said.action}, content={json.dumps(said.content)}")

    return ask


_DOING: Final[dict[str, Callable[[Context, Arguments], Awaitable[Arguments]]]] = {
    "test_tool_with_logging": _logs,
    "test_tool_with_progress": _progresses,
    "test_sampling": _samples,
    "test_elicitation": _asks("User response:", SCHEMAS["test_elicitation"]),
    "test_elicitation_sep1034_defaults": _asks("Elicitation completed:", SCHEMAS["defaults"]),
    "test_elicitation_sep1330_enums": _asks("Elicitation completed:", SCHEMAS["enums"]),
}


# ------------------------------------------------------------------------------------------ results that ask


def _state(turn: int) -> str:
    return f"{turn}.{hmac.new(_KEY, str(turn).encode(), hashlib.sha256).hexdigest()}"


def _asked(context: Context, name: str, params: Any) -> types.InputRequiredResult | None:
    """What a call still needs of what the client can do; None where it has it all.

    Raises:
        MCPError: where its state is not this server's.
    """
    able = context.session.client_capabilities
    turns = [
        {key: one for key, one in turn.items() if getattr(able, _ABLE[one["method"]]) is not None}
        for turn in ASKING[name]
    ]
    turn = 0
    if params.request_state is not None:
        said, _, _ = params.request_state.partition(".")
        if not (said.isdecimal() and hmac.compare_digest(params.request_state, _state(int(said)))):
            raise MCPError(types.INVALID_PARAMS, "The state is not one of this server.")
        turn = int(said)
    given = params.input_responses or {}
    if turns[turn].keys() <= given.keys():
        turn += 1
    if turn == len(turns):
        return None
    return types.InputRequiredResult.model_validate({"inputRequests": turns[turn], "requestState": _state(turn)})


# ------------------------------------------------------------------------------------------ what the protocol asks


async def _list_tools(_context: Context, _params: Any) -> types.ListToolsResult:
    anything: Arguments = {"type": "object"}
    names = (*RESULTS, *_DOING, *(name for name in ASKING if name not in PROMPTS), "json_schema_2020_12_tool")
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=f"Tool {name}.", input_schema=SCHEMAS.get(f"input of {name}", anything))
            for name in names
        ]
    )


async def _call_tool(context: Context, params: Any) -> types.CallToolResult | types.InputRequiredResult:
    name, arguments = params.name, params.arguments or {}
    if name in ASKING:
        if (asked := _asked(context, name, params)) is not None:
            return asked
        told = {key: one.model_dump(mode="json") for key, one in (params.input_responses or {}).items()}
        return types.CallToolResult.model_validate(text(f"state-ok {json.dumps(told)}"))
    if name in RESULTS:
        return types.CallToolResult.model_validate(RESULTS[name])
    if name in _DOING:
        return types.CallToolResult.model_validate(await _DOING[name](context, arguments))
    raise MCPError(types.INVALID_PARAMS, f"There is no tool {name}.")


async def _list_resources(_context: Context, _params: Any) -> types.ListResourcesResult:
    resources = [
        types.Resource(uri=uri, name=uri, description="A resource.", mime_type=one["mimeType"])
        for uri, one in RESOURCES.items()
    ]
    return types.ListResourcesResult(resources=resources)


async def _list_templates(_context: Context, _params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template=f"{TEMPLATE}{{id}}/data", name="template", description="By ID.")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def _read(_context: Context, params: Any) -> types.ReadResourceResult:
    uri = str(params.uri)
    content = RESOURCES.get(uri)
    if content is None and uri.startswith(TEMPLATE):
        known = uri.removeprefix(TEMPLATE).removesuffix("/data")
        data = {"id": known, "templateTest": True, "data": f"Data for ID: {known}"}
        content = {"mimeType": "application/json", "text": json.dumps(data)}
    if content is None:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return types.ReadResourceResult.model_validate({"contents": [{"uri": uri, **content}]})


async def _list_prompts(_context: Context, _params: Any) -> types.ListPromptsResult:
    prompts = [
        types.Prompt.model_validate(
            {"name": name, "description": "A prompt.", "arguments": [{"name": one, "required": True} for one in needs]}
        )
        for name, needs in PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=prompts)


async def _get_prompt(context: Context, params: Any) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    said = {"type": "text", "text": "This is a simple prompt for testing."}
    blocks = [said]
    if params.name == "test_prompt_with_arguments":
        blocks = [{**said, "text": f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"}]
    elif params.name == "test_prompt_with_embedded_resource":
        embedded = {"uri": given["resourceUri"], "mimeType": "text/plain", "text": "Embedded resource content."}
        blocks = [{"type": "resource", "resource": embedded}, {**said, "text": "Please process the resource above."}]
    elif params.name == "test_prompt_with_image":
        blocks = [RESULTS["test_image_content"]["content"][0], {**said, "text": "Please analyze the image above."}]
    elif params.name in ASKING and (asked := _asked(context, params.name, params)) is not None:
        return asked
    return types.GetPromptResult.model_validate({"messages": [{"role": "user", "content": one} for one in blocks]})


async def _nothing(_context: Context, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


async def _complete(_context: Context, _params: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=["paris", "park"], total=2, has_more=False))


SERVER: Final = Server(
    "reference",
    version="1",
    on_list_tools=_list_tools,
    on_call_tool=_call_tool,
    on_list_resources=_list_resources,
    on_list_resource_templates=_list_templates,
    on_read_resource=_read,
    on_subscribe_resource=_nothing,
    on_unsubscribe_resource=_nothing,
    on_list_prompts=_list_prompts,
    on_get_prompt=_get_prompt,
    on_completion=_complete,
    on_set_logging_level=_nothing,
)


async def _serve() -> None:
    async with stdio_server() as (read, write):
        await SERVER.run(read, write, SERVER.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(_serve())
