"""Exchanges lines with an MCP server that has a URL: streamable HTTP by the official SDK's transport, in both its eras.

The transport sends messages, but does not know all the headers that they need. The SDK's sessions would know these
headers, but this module uses no session, and derives the headers from the messages that pass.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final, cast

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError
from typing_extensions import override

log = logging.getLogger("coatcheck")

_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
"""Member of a request's `_meta` that states the protocol version, in the later era of the protocol."""
_UNREACHABLE: Final = -32000
"""Error code of an unreachable server: the first that JSON-RPC leaves to implementations for server errors."""
_LAST_ANSWER_SECONDS: Final = 1.5
"""Seconds that answers may still take after the host has ended its input."""
_WRAPPED_TIMEOUT: Final = httpx2.Timeout(30, read=None)
"""30 seconds to connect or send. Answers have no limit: a tool may take long, and the host decides how long to wait."""

Object = dict[str, Any]


class _Answering(httpx2.AsyncHTTPTransport):
    """Sends HTTP requests; returns an error response if the server cannot be reached, so that the session goes on."""

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await super().handle_async_request(request)
        except httpx2.TransportError as error:
            why = f"{request.url} cannot be reached: {error or type(error).__name__}"
            log.warning("%s", why)
            body = {"jsonrpc": "2.0", "id": None, "error": {"code": _UNREACHABLE, "message": why}}
            return httpx2.Response(502, json=body, request=request)


class HttpServer:
    """A connected MCP server, which `mcp_wrap` can serve to a host."""

    def __init__(self, reading: Any, writing: Any) -> None:  # noqa: ANN401 - the SDK does not export the streams' types
        self._reading = reading
        self._writing = writing
        self._version: str | None = None
        """The protocol version that `initialize` agreed on. In the later era, every request states its own."""
        self._asked: dict[object, str] = {}
        """Methods of the host's requests that have no answer yet, by the request's ID."""
        self._params: dict[str, dict[tuple[str, ...], str]] = {}
        """For each listed tool, the arguments that are also sent in headers."""
        self._over = asyncio.Event()
        """Is set while every request has its answer."""

    async def lines(self) -> AsyncIterator[bytes]:
        """Yields the server's messages, until the server or `finish` ends them."""
        with contextlib.suppress(anyio.ClosedResourceError):  # `finish` has closed the stream
            async for received in self._reading:
                if isinstance(received, Exception):
                    log.warning("the server sent something that is not a message: %s", received)
                    continue
                message: JSONRPCMessage = received.message
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    self._note_answer(message)
                yield message.model_dump_json(by_alias=True, exclude_unset=True).encode()

    async def send(self, line: bytes) -> None:
        """Sends a message to the server."""
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError as error:
            log.warning("the host sent something that is not a message: %s", error)
            return
        if isinstance(message, JSONRPCRequest):
            self._asked[message.id] = message.method
            self._over.clear()
        await self._writing.send(SessionMessage(message, ClientMessageMetadata(headers=self._headers(message))))

    async def finish(self) -> None:
        """Ends `lines`, after a short wait for answers if there are requests without one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_ANSWER_SECONDS if self._asked else 0):
                await self._over.wait()
        await self._reading.aclose()

    async def end(self) -> int:
        """Returns 0 without doing anything: the transport ends the session."""
        return 0

    def _note_answer(self, message: JSONRPCResponse | JSONRPCError) -> None:
        method = self._asked.pop(message.id, None)
        if not self._asked:
            self._over.set()
        if not isinstance(message, JSONRPCResponse):
            return
        if method == "initialize":
            self._version = str(message.result.get("protocolVersion"))
        if method == "tools/list":
            for tool in cast("list[Object]", message.result.get("tools", [])):
                self._params[str(tool.get("name"))] = x_mcp_header_map(tool.get("inputSchema"))

    def _headers(self, message: JSONRPCMessage) -> dict[str, str]:
        """Returns the headers that the transport must send with a message."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            return {} if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}
        params = message.params or {}
        version = cast("Object", params.get("_meta") or {}).get(_VERSION)
        # In the earlier era of the protocol, a session has one version. The request `initialize` has no version yet,
        # because its answer determines the version.
        if version is None:
            negotiated = self._version if message.method != "initialize" else None
            return {} if negotiated is None else {MCP_PROTOCOL_VERSION_HEADER: negotiated}
        headers = {MCP_PROTOCOL_VERSION_HEADER: str(version), MCP_METHOD_HEADER: message.method}
        name = params.get(NAME_BEARING_METHODS.get(message.method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        if message.method == "tools/call":
            headers |= mcp_param_headers(self._params.get(str(name), {}), params.get("arguments") or {})
        return headers


@contextlib.asynccontextmanager
async def connect_server(url: str, headers: dict[str, str]) -> AsyncGenerator[HttpServer]:
    """Connects to the server at a URL, with these headers in every request; yields the connected server."""
    async with (
        httpx2.AsyncClient(transport=_Answering(), headers=headers, timeout=_WRAPPED_TIMEOUT) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=None) as (reading, writing),
    ):
        yield HttpServer(reading, writing)
