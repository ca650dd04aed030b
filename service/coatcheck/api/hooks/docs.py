"""What the OpenAPI document says of hooks. Values only; see `docs`."""

from typing import Final

from coatcheck.api.hooks.wire import HookAnswer, HookQuery
from coatcheck.api.route import BODY, CODED, JSON, Doc, DocumentedAnswer
from coatcheck.core.errors import Code

TAG: Final = "Hooks"

CLAUDE_CODE: Final = Doc(
    operation_id="answerClaudeCodeHook",
    tag=TAG,
    summary="Card a tool's output for Claude Code",
    description=(
        "The address of a PostToolUse hook of type `http`. Takes the event as the host sends it, stores what is bulky "
        "in `tool_response`, and answers `updatedToolOutput`: the same response, in the tool's own shape, with cards "
        "in place of texts. Texts of MCP tools and agents, `stdout` and `stderr` of shells, `content` of Grep and "
        "`result` of WebFetch are replaced. Left alone are files that were read or written, images, answers of "
        "`read_artifact`, and output that the host has cut and keeps in a file itself: of that, the hook sees only the "
        "beginning.\n\n"
        "Whatever goes wrong while storing, or takes over 5 seconds, is answered 200 with `{}`: nothing changes. So is "
        "every other event."
    ),
    query=HookQuery,
    headers=CODED,
    body=((JSON, "ClaudeCodeEvent"),),
    answers=(DocumentedAnswer(status=200, description="The hook's output.", model=HookAnswer),),
    problems=(*BODY, Code.INVALID_JSON),
)
