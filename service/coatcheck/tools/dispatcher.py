"""The tool dispatcher: takes tool calls in any form, executes them, and answers with text within the bounds.

A call that fails also gets an answer: a sentence that names the next step. An unexpected exception is logged in full,
and its answer says only that something went wrong.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar, get_args

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.tokens import Tokenizer
from coatcheck.tools.answers import (
    DEFAULT_TOKENS,
    INTERNAL,
    MAX_TOKENS,
    MIN_ANSWER_TOKENS,
    ToolAnswer,
    sentence,
    unknown_tool,
)
from coatcheck.tools.arguments import list_arguments, read_arguments
from coatcheck.tools.calls import Call, Form, ListArtifacts, arguments_of, calls, result, tool_name
from coatcheck.tools.read import ReadArtifact
from coatcheck_client.contract.declare import FORMATS, Format, declarations
from coatcheck_client.contract.tools import LIST, READ, TOOLS

_log = logging.getLogger("coatcheck.tools")
FORMS: Final[tuple[Form, ...]] = get_args(Form)
"""All forms in which a result can be requested."""
T = TypeVar("T")


class ToolDispatcher:
    """Declares and executes the tools, for every interface that offers them."""

    def __init__(self, read_artifact: ReadArtifact, listing: ListArtifacts, tokenizer: Tokenizer) -> None:
        self._read_artifact = read_artifact
        self._listing = listing
        self._tokenizer = tokenizer

    def declare(self, format_: str, *, strict: bool, listing: bool) -> list[dict[str, Any]]:
        """Returns the declarations of the tools in a provider's format. See `declare.declarations`.

        Raises:
            CoatcheckError: `invalid_request` for an unknown format, or one without a strict mode.
        """
        tool_format: Format = _one_of(FORMATS, format_)
        try:
            return declarations(tool_format, strict=strict, listing=listing)
        except ValueError as e:
            raise CoatcheckError(Code.INVALID_REQUEST, str(e), parameter="strict") from e

    async def answer(self, caller: Caller, body: object, form: str | None, max_tokens: int | None) -> object:
        """Executes the calls in a body. Returns one result for a single call, and a list of results for a list.

        `form` is the form of the results; None: each result has the form of its call. `max_tokens` limits each answer;
        None: the default.

        Raises:
            CoatcheckError: `invalid_request` if the body contains no call, or for an unknown form. A call that fails
                gets its error as an answer.
        """
        requested_form: Form | None = None if form is None else _one_of(FORMS, form)
        tool_calls, several = calls(body)
        results = [
            result(call, await self.execute(caller, call, max_tokens), requested_form or call.form)
            for call in tool_calls
        ]
        return results if several else results[0]

    async def execute(self, caller: Caller, call: Call, max_tokens: int | None = None) -> ToolAnswer:
        """Executes one call and returns its answer, which is the sentence for an error if the call fails.

        The answer has at most `max_tokens` tokens (800 to 8,000; None: 4,000) and 30,000 characters.
        """
        tokens = DEFAULT_TOKENS if max_tokens is None else max(MIN_ANSWER_TOKENS, min(max_tokens, MAX_TOKENS))
        try:
            return await self._execute(caller, call, tokens)
        except CoatcheckError as error:
            text = sentence(error, place="cursor" if tool_name(call.name) == LIST.name else "offset")
        except Exception:  # noqa: BLE001 - it is logged, and the model must get an answer in any case
            _log.exception("the tool %s failed", call.name[:60])
            text = INTERNAL
        return ToolAnswer(text=text, tokens=self._tokenizer.count(text), is_error=True)

    def mcp(self, who: Callable[[Any], Caller]) -> Any:  # noqa: ANN401 - see the import
        """Returns the tools as a new MCP server. `who` returns the caller, given the ASGI scope of a request."""
        from coatcheck.tools.mcp import server  # noqa: PLC0415 - the import takes a second, and many never need it

        async def execute(context: Any, name: str, arguments: dict[str, Any]) -> ToolAnswer:  # noqa: ANN401 - the SDK's
            return await self.execute(who(context.request.scope), Call(name=name, arguments=arguments))

        return server(execute)

    async def _execute(self, caller: Caller, call: Call, tokens: int) -> ToolAnswer:
        name = tool_name(call.name)
        if name is None:
            raise unknown_tool(call.name, tuple(tool.name for tool in TOOLS))
        notes: list[str] = []
        arguments = arguments_of(call.arguments, notes)
        if name == READ.name:
            return await self._read_artifact(caller, read_arguments(arguments, notes), tokens)
        return await self._listing(caller, list_arguments(arguments, notes), tokens)


def _one_of(names: tuple[T, ...], name: str) -> T:
    for candidate in names:
        if candidate == name:
            return candidate
    known_names = ", ".join(map(str, names))
    raise CoatcheckError(Code.INVALID_REQUEST, f"format is one of {known_names}.", parameter="format")
