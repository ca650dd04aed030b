"""The middleware: bulky tool results become cards as they arrive, and what is sent to the model is compacted.

What the agent keeps in its state is what the tools answered, with cards where that was bulky; compaction is of one
request and leaves the state alone, unless `compact_state` takes written files out of it too. It refuses to break an
agent: whatever fails here is logged, and the agent goes on with what it has.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse, ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool

from coatcheck_client import Client
from coatcheck_client.contract.cards import is_own
from coatcheck_client.integrations.langchain import history, results, state
from coatcheck_client.integrations.langchain.reading import read_tool
from coatcheck_client.integrations.langchain.results import ResultPart
from coatcheck_client.options import OnUnreachable

log = logging.getLogger(__name__)

POLICY: Final[Mapping[str, Any]] = {"protect": "none"}
"""How requests are compacted unless said otherwise: at once, so that no prefix that was sent is ever sent differently.
Prompt caches stay valid so, and thinking that providers bind to what stands before it."""
EXEMPT: Final = ("$web_search",)
"""The service's own exemption, which a list of exempt tools would replace."""
_OF_REQUESTS: Final = frozenset({"max_tokens", "settle_percent", "batch_tokens"})
"""What of a policy is about a whole request."""
_SMALL: Final = 1_000
"""Bytes up to which a result is not worth a card, whatever the limits are."""


class CoatcheckMiddleware(AgentMiddleware[Any, Any, Any]):
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
        on_unreachable: OnUnreachable = "original",
        on_report: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        """Nothing is sent yet.

        Args:
            client: how to reach the service; None for the default address without a key. Used from threads.
            session: what payloads belong to; None for the thread of the agent's checkpointer, if it has one.
            exempt_tools: tools whose results and arguments stay as they are.
            policy: how to compact, by the OpenAPI document; said beside the default, which protects nothing.
            compact: whether requests are compacted at all.
            compact_state: whether files that a tool has written are replaced by markers in the state as well, and so
                in checkpoints and in what summarisers and forked sub-agents are given. The content is then in the
                artifact alone, which the marker names, for as long as that is kept.
            offer_read: whether the model is offered `read_artifact`. Do so unless it has it from elsewhere, as by MCP.
            on_unreachable: what a bulky result is while the service is away: the `original`, or its `ends`.
            on_report: called with the report of each compaction that changed something.
        """
        super().__init__()
        self._client = client or Client()
        self._session = session
        self._exempt = frozenset(exempt_tools)
        self._policy = {**POLICY, "exempt_tools": [*EXEMPT, *exempt_tools], **(policy or {})}
        self._compact = compact
        self._compact_state = compact_state
        self._on_unreachable: OnUnreachable = on_unreachable
        self._on_report = on_report
        self.tools: Sequence[BaseTool] = [read_tool(self._client)] if offer_read else []

    # ------------------------------------------------------------------------------------------ tool results

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ResultPart]) -> ResultPart:
        """The tool's result, with a card in place of what is bulky."""
        return self._replaced(handler(request), request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ResultPart]]
    ) -> ResultPart:
        """As `wrap_tool_call`. Calls the service from a thread, because the client outlives event loops."""
        return await asyncio.to_thread(self._replaced, await handler(request), request)

    def _replaced(self, result: ResultPart, request: ToolCallRequest) -> ResultPart:
        name = request.tool_call["name"]
        if name in self._exempt or is_own(name):
            return result
        session = self._session or _thread(cast("object", request.runtime))
        result = results.each(result, lambda message: self._carded(message, name, session))
        caller = state.caller(request) if self._compact_state else None
        smaller = None if caller is None else self._without_files(caller, session)
        return result if smaller is None else state.with_message(result, smaller)

    def _without_files(self, message: AIMessage, session: str | None) -> AIMessage | None:
        """The message whose calls are being answered, with markers for what they wrote; None where nothing changes."""
        policy = {name: value for name, value in self._policy.items() if name not in _OF_REQUESTS}
        if not history.is_worth_asking([message], policy):
            return None
        try:
            sent = history.raws(state.answered(message))
            done = self._client.compact({"messages": sent}, format="langchain", policy=policy, **_said(session))
            if not done.report["changed"] or not all(payload["stored"] for payload in done.payloads):
                return None
            return cast("AIMessage", history.restored([message], sent[:1], done.body["messages"][:1])[0])
        except Exception as e:  # noqa: BLE001 - an agent is worth more than a smaller state
            log.warning("the state keeps what %s wrote: %s", [call["name"] for call in message.tool_calls], e)
            return None

    def _carded(self, message: ToolMessage, name: str, session: str | None) -> ToolMessage:
        try:
            call = {"tool_name": message.name or name, "tool_call_id": message.tool_call_id}
            said: dict[str, Any] = {**call, **_said(session)}
            payload = results.payload(message, _SMALL)
            receipt = None
            if payload is not None:
                receipt = self._client.put(payload, on_unreachable=self._on_unreachable, **said)
            pictures = [self._client.put([image], **said) for image in results.images(message)]
            return results.carded(message, None if receipt is None or receipt.inline else receipt, pictures)
        except Exception as e:  # noqa: BLE001 - an agent is worth more than a card
            log.warning("the result of %s stays as it is: %s", name, e)
            return message

    # ------------------------------------------------------------------------------------------ model requests

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """The model's answer to the compacted request."""
        return handler(self._compacted(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """As `wrap_model_call`. Calls the service from a thread."""
        return await handler(await asyncio.to_thread(self._compacted, request))

    def _compacted(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        messages = cast("list[BaseMessage]", request.messages)
        if not self._compact or not history.is_worth_asking(messages, self._policy):
            return request
        try:
            system = [] if request.system_message is None else [request.system_message]
            smaller = self._smaller([*system, *messages], self._session or _thread(request.runtime))
            return request.override(messages=cast("list[AnyMessage]", smaller[len(system) :]))
        except Exception as e:  # noqa: BLE001 - an agent is worth more than a smaller request
            log.warning("a request to the model is sent as it is: %s", e)
            return request

    def _smaller(self, messages: list[BaseMessage], session: str | None) -> list[BaseMessage]:
        sent = history.raws(messages)
        done = self._client.compact({"messages": sent}, format="langchain", policy=self._policy, **_said(session))
        if not done.report["changed"]:
            return messages
        if self._on_report is not None:
            self._on_report(done.report)
        return history.restored(messages, sent, done.body["messages"])


def _said(session: str | None) -> dict[str, Any]:
    """A session that is not known leaves the client's own."""
    return {} if session is None else {"session": session}


def _thread(runtime: object) -> str | None:
    """The conversation that a run belongs to, where the agent has a checkpointer."""
    known: object = getattr(getattr(runtime, "execution_info", None), "thread_id", None)
    if known is None:
        config = cast("dict[str, dict[str, Any]]", getattr(runtime, "config", None) or {})
        known = config.get("configurable", {}).get("thread_id")
    return None if known is None else str(known)
