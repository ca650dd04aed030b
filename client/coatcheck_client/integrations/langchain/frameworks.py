"""Gives summarisers and sub-agents messages that are as small as those for the agent's own model.

LangChain's summariser reads the agent's state, and a sub-agent of deepagents has middleware of its own. So neither
passes its messages through the agent's middleware, and neither framework lets a middleware change that. Therefore
functions of both frameworks are wrapped, once per process. For an agent without the middleware, the wrapped functions
do what they did before.
"""

import asyncio
import importlib
import importlib.util
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, cast

from langchain.agents.middleware.summarization import SummarizationMiddleware
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse, ToolCallRequest
from langchain_core.messages import BaseMessage

from coatcheck_client import Client
from coatcheck_client.contract.cards import is_own
from coatcheck_client.integrations.langchain.reading import read_tool
from coatcheck_client.integrations.langchain.results import ResultPart

log = logging.getLogger(__name__)

Messages = Sequence[BaseMessage]
_REMEMBERED: Final = 8_192
"""Maximum IDs of messages for which the agent is remembered; the oldest are forgotten first."""


class SharedMiddleware(AgentMiddleware[Any, Any, Any]):
    """The part of an agent's middleware that summarisers and sub-agents use."""

    client: Client

    def for_summary(self, messages: Messages) -> Messages:
        """Returns messages without raw files and outputs."""
        raise NotImplementedError


_owners: dict[str, "weakref.ref[SharedMiddleware]"] = {}
"""By a message's ID, the middleware of the agent whose state contains the message; oldest first."""
_lock: Final = threading.Lock()
_calling: "ContextVar[SharedMiddleware | None]" = ContextVar("coatcheck_calling", default=None)
"""The middleware of the agent whose tool is running, and so of the sub-agents that run inside the tool."""


def remember(owner: "SharedMiddleware", messages: Messages) -> None:
    """Records that these messages belong to an agent with this middleware."""
    with _lock:
        for message in messages:
            if message.id is not None:
                _owners.setdefault(message.id, weakref.ref(owner))
        for oldest in list(_owners)[: max(len(_owners) - _REMEMBERED, 0)]:
            del _owners[oldest]


@contextmanager
def calling(owner: SharedMiddleware) -> Generator[None]:
    """Lets sub-agents that run inside the `with` block inherit this middleware."""
    token = _calling.set(owner)
    try:
        yield
    finally:
        _calling.reset(token)


def install() -> None:
    """Wraps the frameworks' functions, unless they are wrapped already."""
    with _lock:
        summariser: Any = SummarizationMiddleware
        if not hasattr(summariser._create_summary, "_coatcheck"):  # noqa: SLF001
            _wrap_summaries(summariser)
        if importlib.util.find_spec("deepagents") is not None:
            subagents: Any = importlib.import_module("deepagents.middleware.subagents")
            if not hasattr(subagents.create_agent, "_coatcheck"):
                subagents.create_agent = _inheriting(subagents.create_agent)


def _wrap_summaries(summariser: Any) -> None:  # noqa: ANN401 - the framework's own names
    create: Callable[[Any, Messages], str] = summariser._create_summary  # noqa: SLF001
    create_async: Callable[[Any, Messages], Awaitable[str]] = summariser._acreate_summary  # noqa: SLF001

    def create_summary(self: Any, messages_to_summarize: Messages) -> str:  # noqa: ANN401
        return create(self, _bounded(messages_to_summarize))

    async def acreate_summary(self: Any, messages_to_summarize: Messages) -> str:  # noqa: ANN401
        return await create_async(self, await asyncio.to_thread(_bounded, messages_to_summarize))

    create_summary._coatcheck = True  # type: ignore[attr-defined] # noqa: SLF001
    summariser._create_summary, summariser._acreate_summary = create_summary, acreate_summary  # noqa: SLF001


def _bounded(messages: Messages) -> Messages:
    """Returns the messages for a summariser: unchanged, if none belongs to an agent with the middleware."""
    with _lock:
        refs = [ref for message in messages if (ref := _owners.get(message.id or "")) is not None]
    owner = next((owner for ref in refs if (owner := ref()) is not None), None)
    return messages if owner is None else owner.for_summary(messages)


def _inheriting(create_agent: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps deepagents' function that makes sub-agents, so that a sub-agent inherits its caller's middleware."""

    def create(*args: Any, middleware: Sequence[Any] = (), **options: Any) -> Any:  # noqa: ANN401
        if not any(isinstance(one, SharedMiddleware) for one in middleware):
            middleware = [*middleware, InheritedMiddleware(options.get("tools") or ())]
        return create_agent(*args, middleware=middleware, **options)

    create._coatcheck = True  # type: ignore[attr-defined] # noqa: SLF001
    return create


class _CallingClient:
    """The client of the agent whose tool is running."""

    def call(self, call: Any, **parameters: Any) -> Any:  # noqa: ANN401 - as the client's
        owner = _calling.get()
        if owner is None:
            raise RuntimeError("read_artifact was called outside of an agent with Coatcheck.")
        return owner.client.call(call, **parameters)


class InheritedMiddleware(AgentMiddleware[Any, Any, Any]):
    """Does in a sub-agent what the calling agent's middleware does; does nothing if the calling agent has none."""

    def __init__(self, tools: Sequence[Any]) -> None:
        """Adds `read_artifact`, unless `tools` already contain it."""
        super().__init__()
        has_own = any(is_own(str(getattr(tool, "name", ""))) for tool in tools)
        self.tools = [] if has_own else [read_tool(cast("Client", _CallingClient()))]

    def _offered(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Returns the request without our tool, because the agent has no cards to read."""
        return request.override(tools=[tool for tool in request.tools if tool not in self.tools])

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:  # noqa: ANN401 - the framework's types
        """Returns the model's answer to the compacted request."""
        owner = _calling.get()
        return handler(self._offered(request)) if owner is None else owner.wrap_model_call(request, handler)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:  # noqa: ANN401 - the framework's types
        """Like `wrap_model_call`, for agents run with `ainvoke`."""
        owner = _calling.get()
        return await (handler(self._offered(request)) if owner is None else owner.awrap_model_call(request, handler))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ResultPart]) -> ResultPart:
        """Returns the tool's result, with a card in place of a bulky text."""
        owner = _calling.get()
        return handler(request) if owner is None else owner.wrap_tool_call(request, handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ResultPart]]
    ) -> ResultPart:
        """Like `wrap_tool_call`, for agents run with `ainvoke`."""
        owner = _calling.get()
        return await (handler(request) if owner is None else owner.awrap_tool_call(request, handler))
