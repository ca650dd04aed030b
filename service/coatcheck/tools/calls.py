"""Reads tool calls in the form of any provider, writes their results, and executes `list_artifacts`.

A request may contain one call or a list of them. A call is a name with arguments, or a provider's own call object; its
shape says which. The result has the same form as the call and repeats its ID.

Arguments may be JSON in a string, JSON in a string twice, wrapped in another object, or invalid JSON; they are unpacked
as far as possible. Results are text only: a model would pay twice for a second, structured copy.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct

from coatcheck.core.artifact import Artifact, Caller, Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.count import plural
from coatcheck.core.tokens import Tokenizer
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.tools import values
from coatcheck.tools.answers import AnswerText, ToolAnswer, clip_notes, fit_answer, plain
from coatcheck.tools.arguments import ListArguments
from coatcheck.usecases.payloads.browse import Browse
from coatcheck_client.contract.inert import one_line
from coatcheck_client.contract.tools import DEFAULT_LISTED, MAX_LISTED, TOOLS

Form = Literal["text", "openai-chat", "openai-responses", "anthropic", "gemini", "mcp"]
MAX_CALLS: Final = 32
"""Maximum calls per request."""
_CALL_METHOD: Final = "tools/call"
"""The method of a JSON-RPC request that calls a tool."""
_REPEATED_CHARS: Final = 60
"""Maximum characters of a method's name that a refusal repeats."""
_MAX_UNWRAPPINGS: Final = 4
"""Maximum layers of wrapping that are removed from arguments."""
_WRAPPERS: Final = ("arguments", "input", "parameters", "params", "args", "kwargs")
"""Names of the member that contains the arguments; providers and hosts use different ones."""
_LISTS: Final = ("tool_calls", "calls", "output", "content", "parts")
"""Names of the member in which a provider's message lists its calls."""
_ANSWERS: Final = (("choices", "message"), ("candidates", "content"))
"""Where a provider's response has its message: a member that is a list, and the member of that list's first item."""


class Call(Struct, frozen=True, kw_only=True):
    """A tool call, and the form that its result must have."""

    name: str
    arguments: object
    """The arguments as the caller sent them, perhaps as JSON in a string."""
    form: Form = "text"
    id: str | None = None
    """The call's own ID, which its result must repeat; None: the call has none."""
    snake: bool = False
    """Gemini: whether the call is in snake_case, as Gemini's Python SDK writes it."""
    rpc: bool = False
    """MCP: whether the call came as a JSON-RPC request."""
    rpc_id: str | int | None = None
    """The ID of the JSON-RPC request; None: the request has none."""


def calls(body: object) -> tuple[list[Call], bool]:
    """Returns the calls of a request, and whether the request has a list of calls rather than a single one.

    Raises:
        CoatcheckError: `invalid_request` if the request contains no call, more than MAX_CALLS, or a JSON-RPC request
            with a method other than `tools/call`.
    """
    if isinstance(body, dict):
        node = _message(cast("dict[str, Any]", body))
        _check_method(node)
        # Try a single call first: a call, too, may have a member such as `output` or `content`.
        one = _call(node)
        if one is not None:
            return [one], False
        # Otherwise the object may list its calls, as the messages of providers do.
        for name in _LISTS:
            if isinstance(node.get(name), list):
                body = node[name]
                break
        else:
            raise _no_call()
    if not isinstance(body, list):
        raise _no_call()
    items = cast("list[object]", body)
    parsed_items = [_call(cast("dict[str, Any]", item)) if isinstance(item, dict) else None for item in items]
    several = [call for call in parsed_items if call is not None]
    if not several:
        # No item is a call. For a JSON-RPC request with another method, raise a better error than "no call".
        for item in items:
            if isinstance(item, dict):
                _check_method(cast("dict[str, Any]", item))
        raise _no_call()
    if len(several) > MAX_CALLS:
        raise CoatcheckError(Code.INVALID_REQUEST, f"At most {MAX_CALLS} calls are executed in one request.")
    return several, True


def _message(node: dict[str, Any]) -> dict[str, Any]:
    """Returns the first message of a provider's response; the node itself if it is not a response."""
    for several, inner in _ANSWERS:
        items = node.get(several)
        first = cast("list[Any]", items)[0] if isinstance(items, list) and items else None
        message = cast("dict[str, Any]", first).get(inner) if isinstance(first, dict) else None
        if isinstance(message, dict):
            return cast("dict[str, Any]", message)
    return node


def _call(node: dict[str, Any]) -> Call | None:
    """Returns the call that an object represents; None if it is not a call."""
    if _other_method(node) is not None:
        return None
    for key, parse_call in _HOLDERS.items():
        inner = node.get(key)
        if isinstance(inner, dict):
            return parse_call(node, cast("dict[str, Any]", inner))
    return _read_named_call(node)


def _other_method(node: dict[str, Any]) -> str | None:
    """Returns the method of a JSON-RPC message if it is not `tools/call`; None for anything else."""
    method = node.get("method")
    rpc = isinstance(node.get("jsonrpc"), str) and isinstance(method, str)
    return cast("str", method) if rpc and method != _CALL_METHOD else None


def _check_method(node: dict[str, Any]) -> None:
    """Refuses a JSON-RPC message with a method other than `tools/call`.

    Raises:
        CoatcheckError: `invalid_request`, whose message says where to send the request instead.
    """
    method = _other_method(node)
    if method is not None:
        printable_method = "".join(c if c.isprintable() else "\ufffd" for c in method[:_REPEATED_CHARS])
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f'This route executes tool calls ({_CALL_METHOD}), not "{printable_method}". GET /v1/tools lists the '
            f"tools; "
            "MCP is served at /mcp.",
        )


def _json_rpc(node: dict[str, Any], params: dict[str, Any]) -> Call:
    name, arguments = _text(params.get("name")), params.get("arguments")
    if not isinstance(node.get("jsonrpc"), str):
        return Call(name=name or _text(node.get("name")), arguments=arguments if name else params)
    rpc_id = node.get("id")
    rpc_id = rpc_id if isinstance(rpc_id, str | int) and not isinstance(rpc_id, bool) else None
    return Call(name=name, arguments=arguments, form="mcp", rpc=True, rpc_id=rpc_id)


def _chat(node: dict[str, Any], function: dict[str, Any]) -> Call:
    name, arguments = _text(function.get("name")), function.get("arguments")
    return Call(name=name, arguments=arguments, form="openai-chat", id=_id(node.get("id")))


def _read_named_call(node: dict[str, Any]) -> Call | None:
    """Returns the call that an object represents if the object itself has the call's name; otherwise None."""
    kind, name = node.get("type"), _text(node.get("name"))
    if kind == "function_call":
        call_id = _id(node.get("call_id")) or _id(node.get("id"))
        return Call(name=name, arguments=node.get("arguments"), form="openai-responses", id=call_id)
    if kind == "tool_use":
        return Call(name=name, arguments=node.get("input"), form="anthropic", id=_id(node.get("id")))
    if name:
        if "args" in node and "arguments" not in node and kind is None:
            return _gemini(node, snake=False)
        return Call(name=name, arguments=_unwrap_arguments(node), id=_id(node.get("id")))
    return None


def _gemini(inner: dict[str, Any], *, snake: bool) -> Call:
    name, arguments = _text(inner.get("name")), inner.get("args", inner.get("arguments"))
    return Call(name=name, arguments=arguments, form="gemini", id=_id(inner.get("id")), snake=snake)


_HOLDERS: Final[dict[str, Callable[[dict[str, Any], dict[str, Any]], Call]]] = {
    "params": _json_rpc,
    "functionCall": lambda _, inner: _gemini(inner, snake=False),
    "function_call": lambda _, inner: _gemini(inner, snake=True),
    "function": _chat,
}
"""By name of a member that contains a call, the function that reads the call."""


def _unwrap_arguments(node: dict[str, Any]) -> object:
    for name in _WRAPPERS:
        if node.get(name) is not None:
            return cast("object", node[name])
    return {key: value for key, value in node.items() if key not in {"name", "type", "id", *_WRAPPERS}}


def tool_name(name: str) -> str | None:
    """Returns the name of the service's tool that a name ends with; None if there is none.

    Hosts and models put prefixes before a tool's name, and change its case and separators.
    """
    plain = "".join(c for c in name.lower() if c.isalnum())
    for tool in TOOLS:
        if plain.endswith(tool.name.replace("_", "")):
            return tool.name
    return None


def arguments_of(arguments: object, notes: list[str]) -> dict[str, object]:
    """Returns arguments as an object, without their wrappers. Adds a note for what was not understood."""
    for _ in range(_MAX_UNWRAPPINGS):
        if arguments is None:
            return {}
        if isinstance(arguments, dict):
            node = cast("dict[object, object]", arguments)
            # A member with a wrapper's name is a wrapper if it is the only one. Beside others, it may be an argument.
            if len(node) == 1 and (name := next(iter(node))) in _WRAPPERS and isinstance(node[name], dict | str):
                arguments = node[name]
                continue
            return {str(key): value for key, value in node.items()}
        if isinstance(arguments, list):
            items = cast("list[object]", arguments)
            if len(items) != 1:
                break
            arguments = items[0]
            continue
        if not isinstance(arguments, str) or not arguments.strip():
            break
        loaded = _load_json(arguments)
        if loaded is None or isinstance(loaded, int | float):
            break
        arguments = loaded
    return _recover_reference(cast("object", arguments), notes)


def _recover_reference(arguments: object, notes: list[str]) -> dict[str, object]:
    if arguments is None or arguments in ("", []):
        return {}
    reference = values.find_reference(arguments)
    if reference is None:
        notes.append("The arguments are not a JSON object, and were left out.")
        return {}
    if isinstance(arguments, str) and any(mark in arguments for mark in '{":'):
        notes.append("The arguments are not valid JSON; only the artifact's ID was understood.")
    section: dict[str, object] = {} if reference.section is None else {"section": reference.section}
    return {"artifact_id": reference.text, **section}


def _load_json(text: str) -> object:
    try:
        return msgspec.json.decode(text.strip().encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _id(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _no_call() -> CoatcheckError:
    return CoatcheckError(
        Code.INVALID_REQUEST,
        "The body holds no tool call. Send {name, arguments}, a provider's call object, or a list of them.",
    )


Node = dict[str, Any]
"""A JSON object."""


def result(call: Call, got: ToolAnswer, form: Form) -> Node:
    """Returns the result object of a call in the given form, with the call's ID."""
    match form:
        case "openai-chat":
            return {"role": "tool", "tool_call_id": call.id or "", "content": got.text}
        case "openai-responses":
            return {"type": "function_call_output", "call_id": call.id or "", "output": got.text}
        case "anthropic":
            return {
                "type": "tool_result",
                "tool_use_id": call.id or "",
                "content": got.text,
                "is_error": got.is_error,
            }
        case "gemini":
            return _gemini_result(call, got)
        case "mcp":
            return _mcp(call, got)
        case "text":
            id_member: Node = {} if call.id is None else {"id": call.id}
            return {**id_member, "text": got.text, "tokens": got.tokens, "is_error": got.is_error}


def _gemini_result(call: Call, got: ToolAnswer) -> Node:
    """Returns the result in Gemini's form. Gemini's API defines the keys `output` and `error` of a response."""
    inner: Node = {} if call.id is None else {"id": call.id}
    inner |= {"name": call.name, "response": {"error" if got.is_error else "output": got.text}}
    return {"function_response" if call.snake else "functionResponse": inner}


def _mcp(call: Call, got: ToolAnswer) -> Node:
    plain: Node = {"content": [{"type": "text", "text": got.text}], "isError": got.is_error}
    return {"jsonrpc": "2.0", "id": call.rpc_id, "result": plain} if call.rpc else plain


_MAX_NAME_CHARS = 80
"""Maximum characters of a title, address, command or tool name in a line of the list."""


class ListArtifacts:
    """The tool `list_artifacts`."""

    def __init__(self, browse: Browse, tokenizer: Tokenizer, pool: Executor) -> None:
        self._browse = browse
        self._tokenizer = tokenizer
        self._pool = pool

    async def __call__(self, caller: Caller, arguments: ListArguments, tokens: int) -> ToolAnswer:
        """Returns a page of artifacts, newest first, in at most `tokens` tokens.

        Raises:
            CoatcheckError: any error of the use case; `invalid_request` for an unknown kind, or if not even one
                artifact fits.
        """
        where = ArtifactFilter(
            session=arguments.session,
            kind=_kind(arguments.kind),
            tool_name=arguments.tool_name,
            url=None,
            label=arguments.label,
        )
        limit = max(1, min(DEFAULT_LISTED if arguments.limit is None else arguments.limit, MAX_LISTED))

        async def attempt(budget: int) -> AnswerText:
            # A line of the list takes about 40 tokens; do not fetch more artifacts than can fit.
            size = max(1, min(limit, budget // 40))
            page = await self._browse(caller, where, arguments.cursor, size, query=arguments.query)
            lines = [_line(artifact) for artifact in page.items]
            count = f"{plural(len(lines), 'artifact')}, newest first."
            first = count if lines else _nothing(arguments, page.partial)
            on = f' There are more: cursor="{page.next}".' if page.next else ""
            if lines and page.partial:
                on += " Some may be missing, because artifacts are being indexed: retry the same call."
            last = f"({first}{on}{''.join(f' {note}' for note in clip_notes(arguments.notes))})"
            return plain("\n".join([*lines, last]))

        got = await fit_answer(attempt, tokens, self._tokenizer, self._pool, least=1)
        if got is None:
            raise CoatcheckError(Code.INVALID_REQUEST, "The list does not fit into an answer. Ask for fewer: limit=1.")
        return ToolAnswer(text=got[0], tokens=got[1])


def _nothing(arguments: ListArguments, partial: bool) -> str:
    if partial:
        return "Nothing found yet; the newest artifacts are being indexed: retry the same call."
    if arguments.query is not None:
        return "No matching artifact contains all words of the query; try fewer or other words."
    return "No stored artifact matches."


def _kind(word: str | None) -> Kind | None:
    if word is None:
        return None
    try:
        return Kind(word.strip().lower().replace(" ", "_").replace("-", "_"))
    except ValueError:
        kind_names = ", ".join(kind.value for kind in Kind)
        raise CoatcheckError(Code.INVALID_REQUEST, f"There is no such kind. The kinds are {kind_names}.") from None


def _line(artifact: Artifact) -> str:
    declared, facts, measure = artifact.declared, artifact.facts, artifact.measure
    fetch = facts.fetch_of(declared)
    status = f"HTTP {fetch.status}" if fetch.has_failed else ""
    name = one_line(
        (declared.title or facts.title or declared.url or facts.url or declared.command or "")[: _MAX_NAME_CHARS * 2]
    )
    name = name if len(name) <= _MAX_NAME_CHARS else f"{name[: _MAX_NAME_CHARS - 1]}…"
    lines = f"{plural(measure.lines, 'line')}, {plural(measure.size, 'byte')}"
    tool = one_line((declared.tool_name or "")[:_MAX_NAME_CHARS])
    when = artifact.created_at.strftime("%Y-%m-%d %H:%M UTC")
    return " · ".join(part for part in (artifact.id, facts.kind.value, status, name, lines, tool, when) if part)
