"""Passes messages between a host and a server, with cards in place of bulky results. Independent of transports.

A message that needs no change is passed on as it is; so is one whose change fails, because a failure must not stop the
agent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, cast

import msgspec

from coatcheck_client import AsyncClient, declarations
from coatcheck_client.contract.cards import is_own
from coatcheck_client.contract.searches import search_fields
from coatcheck_client.contract.tools import READ
from coatcheck_client.fallback import is_withheld, sentence
from coatcheck_client.integrations.mcp_wrap.messages import Members, encoded, encoded_raw, line, members, number, value
from coatcheck_client.integrations.mcp_wrap.results import (
    MAX_TOKENS,
    declared_of,
    is_copy,
    payload_of,
    receipt_of,
    replace_texts,
    replaceable_texts,
    store_blobs,
    store_resource,
)
from coatcheck_client.options import Searches

log = logging.getLogger("coatcheck_client")

Send = Callable[[bytes], Awaitable[None]]
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_SERVER: Final = "io.modelcontextprotocol/serverInfo"
_AT_ONCE: Final = 8
"""Maximum results that are stored concurrently. Further results wait, which bounds memory."""


class WrapOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server's tools and their results are changed."""

    max_tokens: int = MAX_TOKENS
    """Maximum tokens of a result that stays as it is."""
    exempt: frozenset[str] = frozenset()
    """Names of tools that keep their output schemas, and whose results stay as they are."""
    searches: Searches = "summary"
    """What a web search's result becomes."""
    search_tools: frozenset[str] = frozenset()
    """Names of tools that search the web. Tools whose name or result shows that they do need not be listed."""
    session: str | None = None
    """The session that stored results belong to."""
    read_tool: bool = True
    """Whether `read_artifact` is added; false if the host already has it from another server."""
    output_schemas: bool = False
    """Whether tools keep their output schemas, and results the structured content that the schemas describe."""


class _Call(msgspec.Struct, frozen=True):
    """A tool call that the server has not answered yet."""

    tool: str
    arguments: object


class _Listing(msgspec.Struct, frozen=True):
    """A request for a list of tools."""

    first: bool
    """Whether the first page is requested. That page gets the added tool: not every host requests further pages."""


class _Hello(msgspec.Struct, frozen=True):
    """A request whose answer contains the server's name: `initialize`, or `server/discover`."""


class Proxy:
    """The proxy between one host and one server."""

    def __init__(self, client: AsyncClient, options: WrapOptions, *, to_host: Send, to_server: Send) -> None:
        self._client = client
        self._options = options
        self._to_host = to_host
        self._to_server = to_server
        self._asked: dict[object, _Call | _Listing | _Hello] = {}
        self._reads: dict[object, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._semaphore = asyncio.Semaphore(_AT_ONCE)
        self._server: object = None
        self._aside = False
        """Whether the server has a `read_artifact` of its own. Then all tools and results stay as they are."""

    async def take_host_line(self, raw_line: bytes) -> None:
        """Handles a line from the host: answers a call of the added tool, and passes on any other line."""
        message = None
        try:
            message = members(raw_line)
            is_read = message is not None and self._is_read(message)
        except Exception as e:  # noqa: BLE001 - a failure must not end the session
            log.warning("a message of the host is passed on as it is: %s: %s", type(e).__name__, e)
            is_read = False
        if message is not None and is_read:
            self._reads[number(message.get("id"))] = self._start(self._read(message))
        else:
            await self._to_server(raw_line)

    async def take_server_line(self, raw_line: bytes) -> None:
        """Handles a line from the server: passes it on at once, or later if a card must replace its result."""
        message, asked, passed = None, None, raw_line
        try:
            message = members(raw_line)
            if message is not None and "method" not in message and self._asked:
                asked = self._asked.pop(number(message.get("id")), None)
            if message is None or "result" not in message or self._aside:
                asked = None
            elif not isinstance(asked, _Call):
                passed = self._changed(raw_line, message, asked)
        except Exception as e:  # noqa: BLE001 - as above
            log.warning("a message of the server is passed on as it is: %s: %s", type(e).__name__, e)
        if message is not None and isinstance(asked, _Call) and len(raw_line) > self._options.max_tokens:
            await self._semaphore.acquire()
            self._start(self._card(raw_line, message, asked))
        else:
            await self._to_host(passed)

    async def drained(self) -> None:
        """Waits until every line so far has been passed on or answered."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """Gives up all lines that have not been passed on or answered yet."""
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("the host could not be answered: %s", error)

    def _is_read(self, message: Members) -> bool:
        """Returns whether a message is a call of the added tool.

        Also remembers other requests whose answers will be changed or read, and cancels a read that the host cancels.
        """
        method, params = value(message.get("method")), members(message.get("params", msgspec.Raw(b"{}"))) or {}
        if method == "notifications/cancelled":
            cancelled = number(params.get("requestId"))
            self._asked.pop(cancelled, None)
            if (read := self._reads.get(cancelled)) is not None:
                read.cancel()
            return False
        if number(message.get("id")) is None:
            return False
        request: _Call | _Listing | _Hello | None = None
        if method == "tools/call":
            name = value(params.get("name"))
            if name == READ.name and self._options.read_tool and not self._aside:
                return True
            if isinstance(name, str) and name not in self._options.exempt and not is_own(name):
                request = _Call(name, value(params.get("arguments")))
        elif method == "tools/list":
            request = _Listing(first=value(params.get("cursor")) is None)
        elif method in {"initialize", "server/discover"}:
            request = _Hello()
        if request is not None:
            self._asked[number(message["id"])] = request
        return False

    def _changed(self, raw_line: bytes, message: Members, asked: object) -> bytes:
        """Returns the line to pass on for an answer to a listing or a hello. Only a list of tools is changed.

        Also remembers the server's name, if the answer contains it.
        """
        result = members(message["result"]) or {}
        if isinstance(asked, _Hello):
            meta = members(result.get("_meta", msgspec.Raw(b"{}"))) or {}
            info = value(result.get("serverInfo")) or value(meta.get(_SERVER))
            self._server = cast("dict[str, object]", info).get("name") if isinstance(info, dict) else None
        if not isinstance(asked, _Listing) or "tools" not in result:
            return raw_line
        tools = msgspec.json.decode(result["tools"], type=list[Members])
        names = [value(tool.get("name")) for tool in tools]
        if READ.name in names:
            self._aside = True
            log.warning(
                "the server has a tool %s of its own, so that its tools and results stay as they are", READ.name
            )
            return raw_line
        if not self._options.output_schemas:
            for name, tool in zip(names, tools, strict=True):
                if name not in self._options.exempt:
                    tool.pop("outputSchema", None)
        if asked.first and self._options.read_tool:
            tools.append({key: encoded(one) for key, one in declarations("mcp")[0].items()})
        return line({**message, "result": encoded_raw({**result, "tools": encoded_raw(tools)})})

    async def _card(self, raw_line: bytes, message: Members, call: _Call) -> None:
        try:
            try:
                answer = await self._card_answer(message, call)
            except Exception as e:  # noqa: BLE001 - a failure must not stop the agent
                log.warning("the result of %s stays as it is: %s: %s", call.tool, type(e).__name__, e)
                answer = None
            await self._to_host(answer or raw_line)
        finally:
            self._semaphore.release()

    async def _card_answer(self, message: Members, call: _Call) -> bytes | None:
        """Returns the answer with a card in it; None if the server's answer is to be passed on unchanged."""
        result = members(message["result"]) or {}
        blocks: list[dict[str, Any]] = value(result.get("content")) or []
        structured = None if self._options.output_schemas else value(result.get("structuredContent"))
        most = self._options.max_tokens
        fields = {"tool_name": call.tool, "session": self._options.session, **declared_of(call.arguments, self._server)}
        fields |= search_fields(call.tool, call.arguments, self._options.search_tools)
        cards: dict[int, dict[str, Any]] = {}
        for at, block in enumerate(blocks):
            if (text := await store_resource(self._client, block, most, **fields)) is not None:
                cards[at] = {"type": "text", "text": text}
        texts = list(replaceable_texts(blocks, cards))
        shown = [cards.get(at, block) for at, block in enumerate(blocks)]
        payload = payload_of(blocks, structured, most, but=cards)
        receipt, text = None, payload
        if payload is not None:
            text = await store_blobs(self._client, payload, **fields)
            if len(text.encode("utf-8", "replace")) > most:
                receipt = await receipt_of(self._client, text, most, searches=self._options.searches, **fields)
                text = text if receipt.inline else receipt.text
            if text != payload:
                shown = replace_texts(shown, texts, {"type": "text", "text": text})
        if text == payload and not cards:
            return None
        smaller = {**result, "content": encoded(shown)}
        if not self._options.output_schemas and (text != payload or is_copy(structured, blocks)):
            smaller.pop("structuredContent", None)  # a copy, which some hosts would show instead of the text
        elif receipt is not None and is_withheld(receipt) and smaller.pop("structuredContent", None) is not None:
            smaller["isError"] = encoded(True)  # an output schema does not apply to errors
        return line({**message, "result": encoded_raw(smaller)})

    async def _read(self, message: Members) -> None:
        """Answers a call of the added tool."""
        try:
            params = members(message.get("params", msgspec.Raw(b"{}"))) or {}
            result = await self._answer(params)
            if _VERSION in (members(params.get("_meta", msgspec.Raw(b"{}"))) or {}):
                result["resultType"] = "complete"
            answer = {"jsonrpc": encoded("2.0"), "id": message["id"], "result": encoded(result)}
            await self._to_host(line(answer))
        finally:
            self._reads.pop(number(message["id"]), None)

    async def _answer(self, params: Members) -> dict[str, Any]:
        try:
            arguments: object = value(params.get("arguments")) or {}
            answer = await self._client.call({"name": READ.name, "arguments": arguments}, form="mcp")
            # Another program may answer anything.
            return {**answer, "content": msgspec.convert(answer["content"], list[Any])}
        except Exception as e:  # noqa: BLE001 - the model gets a sentence about the failure
            return {"content": [{"type": "text", "text": sentence(e)}], "isError": True}
