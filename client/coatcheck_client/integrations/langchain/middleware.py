"""The middleware: bulky tool results become cards as they arrive, and requests to the model are compacted.

The agent's state contains what the tools returned, with cards in place of bulky results. Compaction changes a request
and not the state; only with `compact_state`, files that tools have written are removed from the state as well.
Summarisers and sub-agents get messages that are as small as those for the agent's model. The middleware never breaks an
agent: a failure here is logged, and the agent continues with the messages that it has.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

from langchain.agents.middleware.types import ModelRequest, ModelResponse, ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config

from coatcheck_client import Client
from coatcheck_client.contract.cards import is_own
from coatcheck_client.contract.identifiers import SESSION_CHARS, bound_identifier
from coatcheck_client.contract.searches import search_fields
from coatcheck_client.integrations.langchain import frameworks, history, results, state
from coatcheck_client.integrations.langchain.frameworks import SharedMiddleware
from coatcheck_client.integrations.langchain.reading import read_tool
from coatcheck_client.integrations.langchain.results import ResultPart
from coatcheck_client.options import OnUnreachable, Searches

log = logging.getLogger(__name__)

POLICY: Final[Mapping[str, Any]] = {"protect": "none"}
"""How requests are compacted by default: outputs are replaced at once, so that a later request begins with exactly what
was sent before. Prompt caches stay valid, and so do thinking blocks, which providers bind to what precedes them."""
EXEMPT: Final = ("$web_search",)
"""Tools that the service exempts by default; repeated here because a list of exempt tools replaces that default."""
_OF_REQUESTS: Final = frozenset({"max_tokens", "settle_percent", "batch_tokens"})
"""The fields of a policy that apply to a whole request."""
_MOST_TOOLS: Final = 256
"""Maximum names of tools in one rule of a policy."""
_SMALL: Final = 1_000
"""A result of up to this many bytes never becomes a card, whatever the limits."""


class CoatcheckMiddleware(SharedMiddleware):
    """Coatcheck for an agent made by `create_agent`, run with `invoke` or `ainvoke`."""

    def __init__(
        self,
        client: Client | None = None,
        *,
        session: str | None = None,
        exempt_tools: Sequence[str] = (),
        policy: Mapping[str, Any] | None = None,
        compact: bool = True,
        compact_state: bool = False,
        offer_read: bool = True,
        searches: Searches | None = None,
        search_tools: Sequence[str] = (),
        on_unreachable: OnUnreachable = "original",
        on_report: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        """Sends nothing yet.

        Args:
            client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
                Threads use it.
            session: the session that payloads belong to; None for the agent's thread, if the agent has a checkpointer.
            exempt_tools: tools whose results and arguments stay as they are.
            policy: how to compact, as in the OpenAPI document; added to the default, which protects nothing.
            compact: whether requests are compacted at all.
            compact_state: whether files that a tool has written are replaced by markers in the state too, and so in
                checkpoints. The content is then only in the artifact that the marker names, for as long as that
                artifact is kept.
            offer_read: whether the model is offered `read_artifact`; set it to false if the model has it from
                elsewhere, such as MCP.
            searches: what a web search's result becomes: the `passages` in its own turn and the summary from the next
                turn on, which is the default if requests are compacted; the `summary` at once, which is the default
                otherwise; or, with `off`, a card like any other.
            search_tools: names of tools that search the web. Tools whose name or result shows that they do need not be
                listed.
            on_unreachable: what a bulky result becomes if the service fails: the `original`, or only its two `ends`.
            on_report: called with the report of each compaction that changed something.
        """
        super().__init__()
        self.client = client or Client()
        self._session = session
        self._exempt = frozenset(exempt_tools)
        self._policy = {**POLICY, "exempt_tools": [*EXEMPT, *exempt_tools], **(policy or {})}
        self._compact = compact
        self._compact_state = compact_state
        self._on_unreachable: OnUnreachable = on_unreachable
        self._on_report = on_report
        self._searches: Searches = searches or ("passages" if compact else "summary")
        self._search_tools = frozenset(search_tools)
        self.tools: Sequence[BaseTool] = [read_tool(self.client)] if offer_read else []
        frameworks.install()

    # ------------------------------------------------------------------------------------------ tool results

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ResultPart]) -> ResultPart:
        """Returns the tool's result, with a card in place of a bulky text."""
        with frameworks.calling(self):
            result = handler(request)
        return self._replaced(result, request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ResultPart]]
    ) -> ResultPart:
        """Like `wrap_tool_call`. A thread calls the blocking client: an asynchronous one would need one event loop."""
        with frameworks.calling(self):
            result = await handler(request)
        return await asyncio.to_thread(self._replaced, result, request)

    def _replaced(self, result: ResultPart, request: ToolCallRequest) -> ResultPart:
        name = request.tool_call["name"]
        if name in self._exempt or is_own(name):
            return result
        session = self._session or _thread(cast("object", request.runtime))
        searched = search_fields(name, request.tool_call.get("args"), self._search_tools)
        result = results.each(
            result, lambda message: self._card_message(message, name, {**_session_fields(session), **searched})
        )
        caller = state.caller(request) if self._compact_state else None
        smaller = None if caller is None else self._without_files(caller, session)
        return result if smaller is None else state.with_message(result, smaller)

    def _without_files(self, message: AIMessage, session: str | None) -> AIMessage | None:
        """Returns the message whose calls are being answered, with markers in place of the files that they wrote.

        None if nothing changes, or if not everything could be stored.
        """
        policy = {name: value for name, value in self._policy.items() if name not in _OF_REQUESTS}
        try:
            if not history.is_worth_asking([message], policy):
                return None
            sent = history.raws(state.answered(message))
            done = self.client.compact(
                {"messages": sent}, format="langchain", policy=policy, **_session_fields(session)
            )
            if not done.report["changed"] or not all(payload["stored"] for payload in done.payloads):
                return None
            return cast("AIMessage", history.restored([message], sent[:1], done.body["messages"][:1])[0])
        except Exception as e:  # noqa: BLE001 - a failure must not stop the agent
            log.warning("the state keeps what %s wrote: %s", [call["name"] for call in message.tool_calls], e)
            return None

    def _card_message(self, message: ToolMessage, name: str, declared: Mapping[str, Any]) -> ToolMessage:
        receipt = None
        try:
            call = {"tool_name": message.name or name, "tool_call_id": message.tool_call_id}
            fields: dict[str, Any] = {**call, **declared}
            payload = results.payload(message, _SMALL)
            if payload is not None:
                receipt = self.client.put(
                    payload, on_unreachable=self._on_unreachable, searches=self._searches, **fields
                )
            pictures = [self.client.put([image], **fields) for image in results.images(message)]
            return results.replace_content(message, None if receipt is None or receipt.inline else receipt, pictures)
        except Exception as e:  # noqa: BLE001 - a failure must not stop the agent
            if receipt is None or receipt.inline:
                log.warning("the result of %s stays as it is: %s", name, e)
                return message
            # The result itself must not come back: it may have been refused for a secret in it.
            log.warning("of the result of %s only the card is shown: %s", name, e)
            return message.model_copy(update={"content": receipt.text})

    # ----------------------------------------------------------------------------- summarisers, model requests

    def before_agent(self, state: Any, runtime: Any) -> None:  # noqa: ANN401, ARG002 - the framework's types
        """Records that these messages belong to this agent, so that a summariser gets them with cards and markers."""
        frameworks.remember(self, cast("Mapping[str, list[BaseMessage]]", state).get("messages", []))

    def for_summary(self, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        """Returns messages for a summariser: with cards in place of outputs, and markers in place of long arguments."""
        calls = {call["name"] for one in messages if isinstance(one, AIMessage) for call in one.tool_calls}
        rule = {"tools": sorted(calls - self._exempt)[:_MOST_TOOLS], "fields": ["*"]}
        policy = {name: value for name, value in self._policy.items() if name not in _OF_REQUESTS}
        policy["arguments"] = [*policy.get("arguments", ()), rule]
        try:
            if not self._compact or not history.is_worth_asking(messages, policy):
                return messages
            return self._smaller(list(messages), self._session or _thread_of(get_config()), policy)
        except Exception as e:  # noqa: BLE001 - a failure must not stop the summary
            log.warning("a summariser is given the messages as they are: %s", e)
            return messages

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Returns the model's answer to the compacted request."""
        return handler(self._compacted(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Like `wrap_model_call`. Calls the service from a thread."""
        return await handler(await asyncio.to_thread(self._compacted, request))

    def _compacted(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        messages = cast("list[BaseMessage]", request.messages)
        frameworks.remember(self, messages)
        try:
            if not self._compact or not history.is_worth_asking(messages, self._policy):
                return request
            system = [] if request.system_message is None else [request.system_message]
            session = self._session or _thread(request.runtime)
            smaller = self._smaller([*system, *messages], session, self._policy)
            return request.override(messages=cast("list[AnyMessage]", smaller[len(system) :]))
        except Exception as e:  # noqa: BLE001 - a failure must not stop the agent
            log.warning("a request to the model is sent as it is: %s", e)
            return request

    def _smaller(
        self, messages: list[BaseMessage], session: str | None, policy: Mapping[str, Any]
    ) -> list[BaseMessage]:
        sent = history.raws(messages)
        done = self.client.compact({"messages": sent}, format="langchain", policy=policy, **_session_fields(session))
        if not done.report["changed"]:
            return messages
        if self._on_report is not None:
            self._on_report(done.report)
        return history.restored(messages, sent, done.body["messages"])


def _session_fields(session: str | None) -> dict[str, Any]:
    """Returns the field that declares a session; empty if the session is unknown, so that the client's own applies."""
    return {} if session is None else {"session": session}


def _thread(runtime: object) -> str | None:
    """Returns the thread that a run belongs to; None if the agent has no checkpointer."""
    known: object = getattr(getattr(runtime, "execution_info", None), "thread_id", None)
    if known is None:
        return _thread_of(getattr(runtime, "config", None) or {})
    return bound_identifier(str(known), SESSION_CHARS)


def _thread_of(config: object) -> str | None:
    known = cast("dict[str, dict[str, Any]]", config).get("configurable", {}).get("thread_id")
    return None if known is None else bound_identifier(str(known), SESSION_CHARS)
