"""What the OpenAPI document says of the tools for models. Values only; see `docs`."""

from typing import Final

from coatcheck.api import parameters as fields
from coatcheck.api.artifacts import wire as views
from coatcheck.api.route import BODY, CODED, JSON, Doc, DocumentedAnswer
from coatcheck.core.errors import Code

TOOLS: Final = Doc(
    operation_id="getTools",
    tag="Tools",
    summary="Declare the tools",
    description=(
        "The declared tool, `read_artifact`, as each provider wants it. The same for every request and session of a "
        "deployment: it can stand in a cached prompt. Every call on a card is a valid call of it. MCP clients find "
        "the tools at `/mcp` (streamable HTTP) themselves."
    ),
    query=fields.ToolsQuery,
    answers=(DocumentedAnswer(status=200, description="The declarations.", model=views.ToolsView),),
)
CALL_TOOL: Final = Doc(
    operation_id="callTool",
    tag="Tools",
    summary="Execute calls of the tools",
    description=(
        "Takes a name and arguments, or the call object of any provider as it came, alone or in a list (or the "
        "message that holds them), and answers text or that provider's result object, with the call's ID; `format` "
        "asks for another form. Arguments are taken as they were meant; what was ignored is said in the answer. "
        "Whatever a call asks for is answered with 200: a failure is a sentence for the model that names the next "
        "step, marked as an error where the form has a mark for it."
    ),
    query=fields.ToolCallQuery,
    headers=CODED,
    body=((JSON, "ToolCall"),),
    answers=(DocumentedAnswer(status=200, description="The results, in the order of the calls.", schema="ToolResult"),),
    problems=(*BODY, Code.INVALID_JSON, Code.INVALID_CONTENT),
)
